"""How commands answer: tables for people, JSON for machines, one sentence for bad input."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import typer
import typer.core
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from svrl.agents.config import FIELD_ALIASES
from svrl.runtime.names import nearest_name, printable
from svrl.runtime.run_directory import CONFIG
from svrl.runtime.stop_signals import Stopped

BAD_INPUT = 2
INTERRUPTED = 130
NOTHING_WRITTEN = "Stopped; nothing was written."
PICTURES = (".png", ".pdf", ".svg", ".jpg")
WIDEST = 1000
"""Columns where there is no terminal: a pipe has no width, and no number is cut."""

_AGENTS = {"ddqn": "double", "sv-ddqn": "sv-double"}
Answer = TypeVar("Answer")
UsageError: Any = typer.BadParameter.__mro__[1]
"""Of the parser: typer has one of its own, or click's."""

# What went wrong.


def sentence_of(error: BaseException, place: Path | None = None) -> str | None:
    """What an error says to a person; None for a mistake of the program.

    Args:
        error: That was raised.
        place: Where files were written, for a refusal of the system that names none.
    """
    said = str(error)
    if isinstance(error, OSError):
        named = error.filename or place
        return f"{named}: {error.strerror or error}." if named is not None else None
    if isinstance(error, ImportError):
        return said if "pip install" in said else None
    full = isinstance(error, RuntimeError) and ("allocate" in said or "out of memory" in said)
    if full or isinstance(error, MemoryError):
        return (
            "This does not fit into memory. "
            "An agent takes less with a lower --buffer-size, --n-envs, --batch-size or --hidden."
        )
    return said if isinstance(error, ValueError) else None


@contextmanager
def stopping(sentence: str = "Stopped.") -> Iterator[None]:
    """End with a sentence if a signal stops the block, and with 128 and its number: Ctrl-C is 130."""
    try:
        yield
    except KeyboardInterrupt:
        end(sentence, INTERRUPTED)
    except Stopped as signal:
        end(sentence, 128 + signal.number)


@contextmanager
def resumable(place: Path, again: str, sentence: str = "") -> Iterator[None]:
    """Say where an interrupted run is, and how to resume it, if a signal or the system, as by a full disk, stops it.

    Args:
        place: Folder of the run, or around several.
        again: The command that resumes.
        sentence: What to say if a signal stops it; by default that of `stopped`.
    """
    with stopping(sentence or stopped(place, again)):
        try:
            yield
        except OSError as error:
            said = str(sentence_of(error, place))
            if (place / CONFIG).exists():
                said += f" The last checkpoint is in {place}. When that is repaired, resume with: {again}"
            raise ValueError(said) from error


def stopped(place: Path | str, again: str) -> str:
    """What to say if a signal stopped runs that can be resumed."""
    return f"Stopped; what was done is in {place}. Resume with: {again}"


def end(sentence: str, code: int) -> NoReturn:
    """End the command with a sentence."""
    say(sentence)
    raise typer.Exit(code)


def nearest(what: str, got: str, known: Iterable[str]) -> ValueError:
    """A wrong name is answered with the nearest right one."""
    return ValueError(f"There is no {what} {got!r}. {nearest_name(got, known, synonyms=_AGENTS)}")


class Program(typer.core.TyperGroup):
    """Answers what goes wrong with one sentence, for all commands, where typer draws a box or Python a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """typer's; the errors of subcommands come from here."""
        with stopping(), _in_one_sentence():
            try:
                return super().invoke(ctx)
            except Exception as error:
                sentence = sentence_of(error)
                if sentence is None:
                    raise
                end(f"Error: {_with_flag(sentence, self.commands.get(ctx.invoked_subcommand, self))}", BAD_INPUT)

    def make_context(self, *args: Any, **more: Any) -> Any:
        """typer's; the errors of the program's own options come from here."""
        with _in_one_sentence():
            return super().make_context(*args, **more)


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # shows its help
            raise
        end(_usage_sentence(error), BAD_INPUT)


def _with_flag(sentence: str, command: Any) -> str:
    """A sentence that begins with the name of a field, or asks for name=True, names its flag instead."""
    flags = {one.name: one.opts[0] for one in command.params if one.param_type_name == "option"}
    first, _, rest = sentence.partition(" ")
    switch = re.search(r"(\w+)=True", rest)
    if switch is not None and switch[1] in flags:
        rest = rest.replace(switch[0], flags[switch[1]])
    return f"{flags.get(first, first)} {rest}"


def _usage_sentence(error: Any) -> str:
    """What the parser has against a command line, in one sentence, and where its options are listed.

    A flag of another library is answered with ours.
    """
    command = error.ctx.command_path if error.ctx is not None else "svrl"
    got = getattr(error, "option_name", None) or ""
    name = got.removeprefix("--").replace("-", "_")
    meant = FIELD_ALIASES.get(name)
    if meant is not None and any(one.name == meant for one in error.ctx.command.params):
        ours = f"agent {name}" if meant == "agent" else meant.replace("_", "-")
        return f"Error: {command} has no {got}. Did you mean --{ours}?"
    said = " ".join(error.format_message().split())
    said = said if said.endswith((".", "?")) else f"{said}."
    return f"Error: {said} {command} --help shows all options."


# Files.


def check_ending(path: Path, endings: Sequence[str]) -> None:
    """Refuse a file in a format that is not one of these."""
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path} must end in {', '.join(endings)}.")


@contextmanager
def writing_to(path: Path, endings: Sequence[str]) -> Iterator[Path]:
    """A temporary path for a file that appears at the end; a place that cannot be written to is found out now."""
    from svrl.runtime.files import writing

    check_ending(path, endings)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with writing(path) as temporary:
        yield temporary


# What is printed.


def answer(found: Answer, as_json: bool, show: Callable[[Answer], object]) -> None:
    """Print JSON and nothing else, or show it to a person; numbers that JSON cannot hold are refused, not printed."""
    if as_json:
        typer.echo(json.dumps(found, indent=2, allow_nan=False))
    else:
        show(found)


def console() -> Console:
    """On stdout."""
    own = Console(highlight=False)
    return own if own.is_terminal else Console(highlight=False, width=WIDEST)


def show(shown: RenderableType) -> None:
    """A table or a text on stdout."""
    console().print(shown)


def show_table(
    names: Iterable[str], rows: Iterable[Iterable[str | Text]], *, folded: Sequence[str] = (), title: str | None = None
) -> None:
    """A table without lines; the columns in `folded` may take several lines of a terminal."""
    made = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for name in names:
        made.add_column(name, no_wrap=name not in folded, overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    show(made)


def tell(*lines: str) -> None:
    """Lines on stdout."""
    for line in lines:
        typer.echo(printable(line))


def say(sentence: str) -> None:
    """One line on stderr, if anybody is left to read it: a terminal that was closed takes nothing."""
    with suppress(OSError):
        typer.echo(printable(sentence), err=True)
