"""svrl sweep: many runs from one file, on this machine or on a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from svrl.cli import run_list
from svrl.cli.answers import (
    BAD_INPUT,
    BadInputError,
    answering,
    console,
    nearest,
    print_json,
    print_table,
    say,
    sentences,
)
from svrl.cli.flags import Json, command_line
from svrl.cli.run_list import STORE, Address, Jobs, Kept, On, Where, to_be_done

if TYPE_CHECKING:
    from svrl.runs.driver import Summary
    from svrl.runs.spec import Effort, RunSpec
    from svrl.runs.store import Store
    from svrl.runs.sweep_file import Sweep

SHOWN = 12
"""Runs that `svrl sweep plan` lists; the rest are counted."""
WIDE = 110
"""Columns where there is no terminal."""
RETRIES, CHECKPOINT_EVERY = 2, 60.0
ROWS = ("results", "episodes", "learning", "evaluations", "trace")
STOPPED = "Stopped at once; the same command resumes runs from their last checkpoints."

app = typer.Typer(
    name="sweep", help="Many runs from one file, on this machine or on a Ray cluster.", no_args_is_help=True
)


def shipped_names() -> list[str]:
    """For completion."""
    from svrl.runs.sweep_file import shipped

    return shipped()


File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A TOML file, or a sweep that comes with svrl: paper-57, paper-control, batch-size.",
        autocompletion=shipped_names,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="In place of what the file says, in every run; may be repeated."),
]
Cores = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="CPU cores of each run, in place of the file's resources.")
]


class Asked(NamedTuple):
    """A sweep, its runs after --set and --where, and the folder of all runs."""

    sweep: Sweep
    specs: list[RunSpec]
    store: Store

    def overview(self, before: dict[str, Any] | None = None) -> dict[str, Any]:
        """How its runs stand; `before` is an earlier answer."""
        from svrl.runs.status import look

        return look(self.store, self.specs, name=self.sweep.name, before=before)

    def what_stands_against(self) -> list[str]:
        """A sentence for every reason why runs that are to be done cannot be carried out here."""
        counts = {
            sentence: len(to_be_done(self.store, specs))
            for sentence, specs in run_list.what_stands_against(self.specs).items()
        }
        return [
            f"{count:,} run{'s' * (count != 1)} cannot be made here: {sentence}"
            for sentence, count in counts.items()
            if count
        ]


def asked_for(
    file: str, store: str, changes: Iterable[str] | None, where: Iterable[str] | None, cores: int | None = None
) -> Asked:
    """From the words of a command; BadInputError or ValueError if one is wrong."""
    from svrl.runs.store import open_store
    from svrl.runs.sweep_file import read_sweep, runs_of

    sweep = read_sweep(file)
    if cores is not None:
        sweep = replace(sweep, effort=replace(sweep.effort, cores=cores))
    opened = open_store(store)
    given = {name: run_list.value_of(text) for name, text in run_list.pairs("--set", changes)}
    return Asked(sweep, run_list.only(f"The sweep {sweep.name} has", runs_of(sweep, changes=given), where), opened)


def _command(word: str, file: str, store: str, changes: list[str] | None, where: list[str] | None, **more: Any) -> str:
    """The command with these options; None is the default."""
    options = {"store": None if store == STORE else store, "set": changes, "where": where, **more}
    return command_line(("svrl", "sweep", word, file), options)


@app.command("plan")
def plan(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    jobs: Jobs = None,
    cores: Cores = None,
    as_json: Json = False,
) -> None:
    """List the runs of a sweep, their steps, and how long they take if some are finished. Nothing is begun."""
    with answering(), sentences():
        found = _planned(asked_for(file, store, changes, where, cores), jobs)
    if as_json:
        print_json(found)
    else:
        _print_plan(found)


def _planned(asked: Asked, jobs: int | None) -> dict[str, Any]:
    from svrl.runs.local import Room

    runs = asked.overview()["runs"]
    left = [spec for spec, run in zip(asked.specs, runs, strict=True) if run["state"] != "done"]
    notes, at_a_time = list[str](), None
    try:
        at_a_time = Room.of(
            replace(asked.sweep.effort, jobs=jobs), {spec.device for spec in left}, notes.append
        ).at_a_time
    except ValueError as error:  # no GPU here: the runs can still be listed
        notes.append(str(error))
    taken = [run["seconds"] for run in runs if run["seconds"]]
    return {
        "name": asked.sweep.name,
        "store": asked.store.address,
        "runs": [{**spec.as_json(), "state": run["state"]} for spec, run in zip(asked.specs, runs, strict=True)],
        "left": len(left),
        "steps": sum(spec.steps or 0 for spec in left) if asked.sweep.kind == "train" else None,
        "at_a_time": at_a_time,
        "seconds": fmean(taken) * max(1, len(left) / at_a_time) if taken and left and at_a_time else None,
        "notes": [*notes, *(f"Note: {sentence}" for sentence in asked.what_stands_against())],
    }


def _print_plan(found: dict[str, Any]) -> None:
    from svrl.reporting.tables import duration

    runs = Table("run", "state", "id", box=None, pad_edge=False, header_style="bold")
    for row in found["runs"][:SHOWN]:
        runs.add_row(row["label"], row["state"], row["id"])
    out = console(WIDE)
    out.print(runs)
    if len(found["runs"]) > SHOWN:
        out.print(f"and {len(found['runs']) - SHOWN} more")
    for note in found["notes"]:
        out.print(note, markup=False)
    took = "time not known before a run is finished"
    if found["seconds"] is not None:
        took = f"about {duration(found['seconds'])} with {found['at_a_time']} at a time, like the finished ones"
    steps = "" if found["steps"] is None else f" {found['steps']:,} agent steps,"
    out.print(f"{len(found['runs'])} runs, {found['left']} to be done,{steps} {took}.")


@app.command("run")
def run(
    file: File,
    store: Kept = STORE,
    on: On = "local",
    address: Address = None,
    changes: Changes = None,
    where: Where = None,
    jobs: Jobs = None,
    cores: Cores = None,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Between two checkpoints of a training.")
    ] = CHECKPOINT_EVERY,
    retries: Annotated[
        int, typer.Option(metavar="N", min=0, help="Times that a run whose process was killed is begun again.")
    ] = RETRIES,
    hours: Annotated[
        float | None, typer.Option(metavar="H", help="Save and stop after so many (default: the file's budget).")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write scalars of trainings for TensorBoard.")] = (
        False
    ),
    as_json: Json = False,
) -> None:
    """Do the runs of a sweep that are not done, and say what became of each.

    No run is done twice, whichever sweep asks for it. After Ctrl-C, or a crash, the same command resumes. Runs that
    failed stay so until svrl sweep retry.
    """
    with answering(STOPPED), sentences():
        run_list.check_engine(on, address)
        asked = asked_for(file, store, changes, where, cores)
        effort = replace(
            asked.sweep.effort,
            jobs=jobs,
            checkpoint_every=checkpoint_every,
            retries=retries,
            hours=asked.sweep.effort.hours if hours is None else hours,
            tensorboard=tensorboard,
        )
        _refuse_impossible(asked, effort, on)
        earlier = asked.store.sweep(asked.sweep.name) or {"runs": []}
        # Those of other calls too, with other --set and --where: what was done is not to look lost.
        runs = list(dict.fromkeys([*earlier["runs"], *(spec.id for spec in asked.specs)]))
        asked.store.keep_sweep(asked.sweep.name, {"name": asked.sweep.name, "runs": runs, "file": asked.sweep.text})
        found = run_list.carry_out(asked.specs, asked.store, on=on, address=address, effort=effort)
    more = {
        "on": None if on == "local" else on,
        "address": address,
        "jobs": jobs,
        "cores": cores,
        "checkpoint_every": None if checkpoint_every == CHECKPOINT_EVERY else checkpoint_every,
        "retries": None if retries == RETRIES else retries,
        "hours": hours,
        "tensorboard": tensorboard,
    }
    again = _command("run", file, store, changes, where, **more)
    _conclude(asked, found, again, _command("retry", file, store, changes, where, failed=True), as_json)


def _refuse_impossible(asked: Asked, effort: Effort, on: str) -> None:
    """Find out what is not there before anything is written."""
    from svrl.runs.local import Room

    against = asked.what_stands_against()
    if on == "local":
        Room.of(effort, {spec.device for spec in to_be_done(asked.store, asked.specs)})
        if against:
            raise BadInputError(f"{' '.join(against)} Or leave them out by --where. Nothing was begun.")
    for sentence in against:  # nodes may have what this machine has not
        say(f"Note: {sentence} On a cluster its nodes need it, and this machine does not.")


def _conclude(asked: Asked, found: Summary, again: str, retry: str, as_json: bool) -> None:
    """Say how a sweep stands, and end with the code that fits."""
    _print(asked.overview(), as_json)
    if found.broken:
        say(f"Error: {found.broken} Nothing that was written is lost. When that is repaired, resume with: {again}")
        raise typer.Exit(BAD_INPUT)
    if found.stopped is not None:
        say(f"Stopped; what was done is in {asked.store.address}. Resume with: {again}")
        raise typer.Exit(128 + found.stopped)
    if found.out_of_time:
        say(f"The hours are over; what was done is in {asked.store.address}. Resume with: {again}")
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
    as_json: Json = False,
) -> None:
    """How the runs of a sweep stand: done, running, failed, their scores, and when all will be done."""
    with answering(), sentences():
        if file is None:
            _print_sweeps(_sweeps_in(store), store, as_json)
            return
        overview = asked_for(file, store, changes, where).overview()
    if not Path(store).exists():
        say(f"Note: there is no store at {store} yet.")
    _print(overview, as_json)


def _print(overview: dict[str, Any], as_json: bool = False) -> None:
    if as_json:
        print_json(overview)
        return
    from svrl.reporting.tables import sweep_view

    out = console(WIDE)
    out.print(sweep_view(overview, width=out.width))
    for note in overview["notes"]:
        say(note)


def _sweeps_in(address: str) -> list[dict[str, Any]]:
    """The sweeps of a store, with how their runs stand."""
    from svrl.runs.store import STATES, open_store

    store, found = open_store(address), []
    for name in store.sweeps():
        states = [store.state(run) for run in (store.sweep(name) or {}).get("runs", ())]
        counts: dict[str, Any] = {state: states.count(state) for state in STATES}
        found.append({"name": name, "runs": len(states), **counts})
    return found


def _print_sweeps(listed: list[dict[str, Any]], address: str, as_json: bool) -> None:
    if as_json:
        print_json(listed)
        return
    if not listed:
        say(f"{address} has no sweep yet. Begin one with: svrl sweep run FILE")
        return
    table = Table(*listed[0], box=None, pad_edge=False)
    for row in listed:
        table.add_row(*map(str, row.values()))
    print_table(table)


@app.command("watch")
def watch(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Between two looks.")] = 2.0,
) -> None:
    """Follow a sweep that runs, here or elsewhere, until all its runs have ended or Ctrl-C.

    It only reads the store, so you can start and leave it at any time. Where stdout is no terminal it prints once.
    """
    from svrl.reporting.tables import sweep_view

    with answering("No longer watched; the sweep goes on."), sentences():
        asked = asked_for(file, store, changes, where)
        overview, out = asked.overview(), Console()
        if not out.is_terminal:
            _print(overview)
            return
        with Live(console=out, auto_refresh=False) as live:
            while True:
                live.update(sweep_view(overview, width=out.width), refresh=True)
                if all(run["state"] in ("done", "failed") for run in overview["runs"]):
                    return
                time.sleep(every)
                overview = asked.overview(overview)


@app.command("retry")
def retry(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    failed: Annotated[bool, typer.Option("--failed", help="All runs that failed.")] = False,
    as_json: Json = False,
) -> None:
    """Let the next svrl sweep run retry failed runs, from their last checkpoints."""
    with answering(), sentences():
        if not failed:
            raise BadInputError("Say which runs to try again: --failed, and perhaps some of them by --where.")
        asked, labels = asked_for(file, store, changes, where), []
        for spec in asked.specs:
            if asked.store.state(spec.id) == "failed":
                asked.store.retry(spec.id)
                labels.append(spec.label)
    if as_json:
        print_json({"retried": labels})
        return
    for label in labels:
        typer.echo(label)
    again = _command("run", file, store, changes, where)
    say(f"{len(labels)} runs will be tried again by: {again}" if labels else "No run has failed.")


@app.command("export")
def export(
    file: File,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table to write, .csv, .json or .parquet.")],
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    rows: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(ROWS)}.", autocompletion=lambda: list(ROWS))
    ] = "results",
    as_json: Json = False,
) -> None:
    """All rows of a sweep as one tidy table: a line a finished run, or a line a game, a log row, an evaluation."""
    from svrl.cli.answers import check_folder
    from svrl.runs.export import export as write

    with answering(), sentences():
        if rows not in ROWS:
            raise nearest("table", rows, ROWS)
        check_folder("--out", out)
        asked = asked_for(file, store, changes, where)
        done = write(asked.store, asked.specs, out, rows=cast(Any, rows))
    if as_json:
        print_json({"out": str(out), "table": rows, **done})
    else:
        typer.echo(f"written: {out} ({done['rows']:,} rows of {done['runs']} runs)")
    for note in asked.store.notes_on_versions(spec.id for spec in asked.specs):
        say(note)
    if done["left_out"]:
        say(_left_out(done["left_out"], len(asked.specs)))


def _left_out(states: Mapping[str, int], of: int) -> str:
    """How many runs a table has nothing of, and how they stand."""
    reasons = ", ".join(f"{count:,} {state}" for state, count in states.items())
    return f"Note: {sum(states.values()):,} of {of:,} runs are left out: {reasons}."
