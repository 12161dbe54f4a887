"""svrl: the program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
import typer.core

from svrl import __version__
from svrl.cli import bench, complete, evaluate, paper, plan, rank, runs, sweep, train, watch
from svrl.cli.answers import BAD_INPUT, say, usage_sentence

UsageError: Any = typer.BadParameter.__mro__[1]
"""Of the parser: typer has one of its own, or click's."""


class Program(typer.core.TyperGroup):
    """Answers what the parser cannot read with one sentence, for all commands, where typer draws a box."""

    def invoke(self, ctx: Any) -> Any:
        """typer's; the errors of subcommands come from here."""
        with _in_one_sentence():
            return super().invoke(ctx)

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
        say(usage_sentence(error))
        raise typer.Exit(BAD_INPUT) from error


app = typer.Typer(
    name="svrl",
    cls=Program,
    help="Structured (low-rank) value-based planning and deep reinforcement learning.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("complete")(complete.complete)
app.command("plan")(plan.plan)
app.command("train")(train.train)
app.command("eval")(evaluate.evaluate_run)
app.command("watch")(watch.watch)
app.command("rank")(rank.rank)
app.command("runs")(runs.runs)
app.add_typer(paper.app, name="paper")
app.command("bench", context_settings=bench.ANYTHING)(bench.bench)
app.add_typer(sweep.app, name="sweep")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"svrl {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Structured (low-rank) value-based planning and deep reinforcement learning."""
