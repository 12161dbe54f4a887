"""svrl: the program."""

from __future__ import annotations

from typing import Annotated

import typer

from svrl import __version__
from svrl.cli import bench, complete, evaluate, paper, plan, rank, runs, sweep, train, watch
from svrl.cli.answers import Program

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
