"""How commands answer: tables for people, JSON for machines, one sentence for bad input."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from svrl.agents.config import FIELD_ALIASES
from svrl.runtime.names import nearest_name, printable
from svrl.runtime.stop_signals import Stopped

BAD_INPUT = 2
INTERRUPTED = 130
MOST_THREADS = 1024
PICTURES = (".png", ".pdf", ".svg", ".jpg")
WIDEST = 1000
"""Columns of a table where there is no terminal."""


class BadInputError(Exception):
    """Input that the user can repair; the message is one sentence that says what, got, and what to do."""


@contextmanager
def answering(stopped: str = "Stopped; nothing was written.") -> Iterator[None]:
    """Turn bad input into one sentence on stderr and exit code 2, and a stop into 128 and its signal: Ctrl-C is 130.

    Args:
        stopped: What to say if a signal came.
    """
    try:
        yield
    except BadInputError as error:
        _stop(f"Error: {error}", BAD_INPUT)
    except OSError as error:
        _stop(f"Error: {of_the_system(error, 'A file')}", BAD_INPUT)
    except KeyboardInterrupt:
        _stop(stopped, INTERRUPTED)
    except Stopped as signal:
        _stop(stopped, 128 + signal.number)


class Stopping(NamedTuple):
    """Says where interrupted runs are, and the command that resumes them.

    Attributes:
        place: Folder of the run, or around several.
        again: The command.
    """

    place: Path
    again: str

    @property
    def sentence(self) -> str:
        """What to say if a signal came."""
        return f"Stopped; what was done is in {self.place}. Resume with: {self.again}"

    @contextmanager
    def said(self) -> Iterator[None]:
        """End with the sentence if a signal stops the block, or with what the system refuses, as on a full disk."""
        with answering(self.sentence):
            try:
                yield
            except OSError as error:
                what = of_the_system(error, self.place)
                if (self.place / "config.json").exists():
                    what += f" The last checkpoint is in {self.place}."
                    what += f" When that is repaired, resume with: {self.again}"
                raise BadInputError(what) from error


def of_the_system(error: OSError, place: Path | str) -> str:
    """What the system refuses, with the file; `place` if it does not say which."""
    return f"{error.filename or place}: {error.strerror or error}."


@contextmanager
def sentences() -> Iterator[None]:
    """What the library says about agents and bad input, as the command's one sentence."""
    try:
        yield
    except ValueError as error:
        raise BadInputError(str(error)) from error
    except ImportError as error:
        if "pip install" not in str(error):
            raise
        raise BadInputError(str(error)) from error
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate" in str(error) or "out of memory" in str(error):
            raise BadInputError(
                "The agent does not fit into memory: lower --replay, --envs or --batch-size."
            ) from error
        raise


def check_device(name: str) -> None:
    """Refuse a device that is not there."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise BadInputError(f"There is no device {name!r}. Use cpu, cuda or cuda:N.")
    if name != "cpu":
        from svrl.runtime.device import check_device

        with sentences():
            check_device(name)


def check_threads(count: int | None) -> None:
    """Refuse a number of CPU threads that no machine has."""
    if count is not None and not 1 <= count <= MOST_THREADS:
        raise BadInputError(f"--threads must be between 1 and {MOST_THREADS}, got {count}.")


def check_folder(flag: str, path: Path) -> None:
    """Refuse a file that shall be written to a folder that is not there, before any work."""
    folder = path.parent
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise BadInputError(f"{flag} {path}: the folder {folder} {what}. Make it, or give another.")
    if path.is_dir():
        raise BadInputError(f"{flag} {path} is a folder. Give a file.")


def check_picture(path: Path) -> None:
    """Refuse a picture in a format that we do not draw."""
    if path.suffix.lower() not in PICTURES:
        raise BadInputError(f"--plot must end in {', '.join(PICTURES)}, got {path.name!r}.")


@contextmanager
def writing_to(flag: str, path: Path) -> Iterator[Path]:
    """A temporary path for a file that appears at the end; a place that cannot be written to is found out now."""
    from svrl.runtime.files import writing

    check_folder(flag, path)
    with ExitStack() as held:
        try:
            temporary = held.enter_context(writing(path))
        except OSError as error:
            raise BadInputError(f"{path}: {error.strerror}. Give another place: {flag} FILE.") from error
        yield temporary


def usage_sentence(error: Any) -> str:
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


def console(width: int) -> Console:
    """On stdout; a pipe has no width, and gets `width` columns."""
    own = Console(highlight=False)
    return own if own.is_terminal else Console(highlight=False, width=max(own.width, width))


def print_table(table: Table) -> None:
    """A table as wide as it needs to be where stdout is no terminal: a pipe has no width, and no number is cut."""
    console(Console(width=WIDEST).measure(table).maximum).print(table)


def say(sentence: str) -> None:
    """One line on stderr, if anybody is left to read it: a terminal that was closed takes nothing."""
    with suppress(OSError):
        Console(stderr=True, highlight=False, soft_wrap=True).print(printable(sentence), markup=False)


def tell(line: str) -> None:
    """One line on stdout."""
    Console(highlight=False, soft_wrap=True).print(printable(line), markup=False)


def _stop(sentence: str, code: int) -> NoReturn:
    say(sentence)
    raise typer.Exit(code)


def nearest(what: str, got: str, known: Iterable[str]) -> BadInputError:
    """A wrong name is answered with the nearest right one."""
    return BadInputError(f"There is no {what} {got!r}. {nearest_name(got, known)}")


def print_json(value: object) -> None:
    """Print one JSON value on stdout; numbers that JSON cannot hold are refused, not printed."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")
