"""svrl sweep: many runs from one file, on this machine or on a Ray cluster."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from svrl.cli.answers import BAD_INPUT, BadInputError, answering, nearest, print_json, say, sentences
from svrl.cli.sweep_request import SweepRequest, shipped_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from svrl.sweeps.engine import Summary
    from svrl.sweeps.states import State

STORE = "runs/sweeps"
ENGINES, RETRIES = ("local", "ray"), 2
ROWS = ("results", "episodes", "learning", "evaluations", "trace")
STOPPED = "Stopped at once; runs go on from their last checkpoints with the same command."

app = typer.Typer(
    name="sweep", help="Many runs from one file, on this machine or on a Ray cluster.", no_args_is_help=True
)

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A TOML file, or a sweep that comes with svrl: paper-57, paper-control, batch-size.",
        autocompletion=shipped_names,
    ),
]
Kept = Annotated[
    str, typer.Option("--store", metavar="DIR|URL", help="Folder, or address such as s3://bucket/prefix, of all runs.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="In place of what the file says, in every run; may be repeated."),
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="NAME=VALUE", help="Only runs with this setting, as in seed=0,1; may be repeated."),
]
Code = Annotated[str | None, typer.Option(metavar="VERSION", help="Runs of another code version, as status names it.")]
Cores = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="CPU cores of each run, in place of the file's resources.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]


@app.command("plan")
def plan(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes at a time.")] = None,
    cores: Cores = None,
    tries: Annotated[
        bool, typer.Option("--tries/--no-tries", help="Try a run of each sort for a moment, to estimate the time.")
    ] = True,
    as_json: Json = False,
) -> None:
    """What a sweep would do: its runs, their steps, and how long they take.

    Nothing is begun. Runs of which the store has a finished one of the same sort are timed by it.
    """
    from svrl.cli.sweep_plan import planned, print_plan

    with answering(), sentences():
        found = planned(SweepRequest.read(file, store, changes, where, cores=cores), jobs=jobs, tries=tries)
    if as_json:
        print_json(found)
    else:
        print_plan(found)


@app.command("run")
def run(
    file: File,
    store: Kept = STORE,
    on: Annotated[
        str, typer.Option(metavar="ENGINE", help="local or ray.", autocompletion=lambda: list(ENGINES))
    ] = "local",
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of a Ray cluster that runs (default: a new one, here).")
    ] = None,
    changes: Changes = None,
    where: Where = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Processes at a time (default: what cores, cards and memory allow)."),
    ] = None,
    cores: Cores = None,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Between two checkpoints of a training.")
    ] = 60.0,
    retries: Annotated[
        int, typer.Option(metavar="N", min=0, help="Times that a run whose process was killed is begun again.")
    ] = RETRIES,
    hours: Annotated[
        float | None, typer.Option(metavar="H", help="Save and stop after so many (default: the file's budget).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Do the runs of a sweep that are not done, and say what became of each.

    The same run is never done twice, whichever sweep asks for it. Ctrl-C saves, and the same command goes on; so it
    does after a crash. Runs that failed stay so until svrl sweep retry.
    """
    from svrl.cli.sweep_run import carry_out

    with answering(STOPPED), sentences():
        if on not in ENGINES:
            raise nearest("engine", on, ENGINES)
        if address is not None and on != "ray":
            raise BadInputError("--address is of a Ray cluster: add --on ray.")
        request = SweepRequest.read(file, store, changes, where, cores=cores)
        found = carry_out(
            request,
            on=on,
            address=address,
            effort={"jobs": jobs, "checkpoint_every": checkpoint_every, "retries": retries, "hours": hours},
            quiet=as_json,
        )
    asked = _options(store, changes, where)
    more: list[tuple[str, Any, Any]] = [
        ("--on", on, "local"),
        ("--address", address, None),
        ("--jobs", jobs, None),
        ("--cores", cores, None),
    ]
    more += [("--checkpoint-every", checkpoint_every, 60.0), ("--retries", retries, RETRIES), ("--hours", hours, None)]
    given = [word for flag, value, default in more if value != default for word in (flag, str(value))]
    again = shlex.join(["svrl", "sweep", "run", file, *asked, *given])
    _conclude(request, found, again, shlex.join(["svrl", "sweep", "retry", file, "--failed", *asked]), as_json)


def _conclude(request: SweepRequest, found: Summary, again: str, retry: str, as_json: bool) -> None:
    """Say how a sweep stands, and end with the code that fits."""
    from svrl.cli.sweep_run import overview_of, print_overview

    overview = overview_of(request)
    if as_json:
        print_json(overview.as_json())
    else:
        print_overview(overview)
    if found.broken:
        say(f"Error: {found.broken} Nothing that was written is lost. When that is repaired, go on with: {again}")
        raise typer.Exit(BAD_INPUT)
    if found.stopped is not None:
        say(f"Stopped; what was done is in {request.store.address}. Go on with: {again}")
        raise typer.Exit(128 + found.stopped)
    if found.out_of_time:
        say(f"The hours are over; what was done is in {request.store.address}. Go on with: {again}")
    if found.count("failed"):
        say(f"{found.count('failed')} of {len(found.states)} runs failed. When that is repaired: {retry}")
    if found.count("done") < len(found.states):
        raise typer.Exit(1)


@app.command("status")
def status(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="A sweep (default: list all that the store has).", autocompletion=shipped_names
        ),
    ] = None,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    code: Code = None,
    as_json: Json = False,
) -> None:
    """How the runs of a sweep stand: done, running, failed, their scores, and when all will be done."""
    from svrl.cli.sweep_run import overview_of, print_overview, print_sweeps, sweeps_in

    with answering(), sentences():
        if file is None:
            listed = sweeps_in(store)
            print_json(listed) if as_json else print_sweeps(listed, store)
            return
        overview = overview_of(SweepRequest.read(file, store, changes, where, code))
    if "://" not in store and not Path(store).exists():
        say(f"Note: there is no store at {store} yet.")
    if as_json:
        print_json(overview.as_json())
    else:
        print_overview(overview)


@app.command("watch")
def watch(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    code: Code = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Between two looks.")] = 2.0,
) -> None:
    """Follow a sweep that runs, here or elsewhere, until all its runs have ended or Ctrl-C.

    It only reads the store, so you can start and leave it at any time. Where stdout is no terminal it prints once.
    """
    from svrl.cli.sweep_watch import show_table

    with answering("No longer watched; the sweep goes on."), sentences():
        request = SweepRequest.read(file, store, changes, where, code)
        show_table(request, every=every)


@app.command("retry")
def retry(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    failed: Annotated[bool, typer.Option("--failed", help="All runs that failed.")] = False,
    as_json: Json = False,
) -> None:
    """Let runs that failed be worked on again by the next svrl sweep run, from their last checkpoints."""
    from svrl.cli.sweep_run import retried

    with answering(), sentences():
        if not failed:
            raise BadInputError("Say which runs to try again: --failed, and perhaps some of them by --where.")
        labels = retried(SweepRequest.read(file, store, changes, where))
    if as_json:
        print_json({"retried": labels})
        return
    for label in labels:
        typer.echo(label)
    again = shlex.join(["svrl", "sweep", "run", file, *_options(store, changes, where)])
    say(f"{len(labels)} runs will be tried again by: {again}" if labels else "No run has failed.")


@app.command("export")
def export(
    file: File,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table to write, .csv or .parquet.")],
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    code: Code = None,
    rows: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(ROWS)}.", autocompletion=lambda: list(ROWS))
    ] = "results",
    as_json: Json = False,
) -> None:
    """All rows of a sweep as one tidy table: a line a finished run, or a line a game, a log row, an evaluation."""
    from svrl.cli.answers import check_folder
    from svrl.sweeps.export import export as write

    with answering(), sentences():
        if rows not in ROWS:
            raise nearest("table", rows, ROWS)
        check_folder("--out", out)
        request = SweepRequest.read(file, store, changes, where, code)
        done = write(request.store, [spec.id for spec in request.specs], out, rows=cast(Any, rows))
    if as_json:
        told = {"out": str(out), "table": rows, "rows": done.rows, "runs": done.runs, "columns": done.columns}
        print_json({**told, "left_out": done.left_out})
    else:
        typer.echo(f"written: {out} ({done.rows:,} rows of {done.runs} runs)")
    if done.left_out:
        say(_left_out(done.left_out, len(request.specs), rows))


def _left_out(states: Mapping[State, int], of: int, rows: str) -> str:
    """How many runs a table has nothing of, and why."""
    failed, done = states.get("failed", 0), states.get("done", 0)
    unfinished = sum(states.values()) - failed - done
    told = [(failed, "failed"), (unfinished, "unfinished"), (done, f"done without {rows}")]
    reasons = ", ".join(f"{count:,} {why}" for count, why in told if count)
    return f"Note: {sum(states.values()):,} of {of:,} runs are left out: {reasons}."


def _options(store: str, changes: list[str] | None, where: list[str] | None) -> list[str]:
    words: list[Any] = [] if store == STORE else ["--store", store]
    for flag, given in (("--set", changes), ("--where", where)):
        words += [word for text in given or [] for word in (flag, text)]
    return words
