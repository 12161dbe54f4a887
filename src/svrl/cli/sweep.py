"""svrl sweep: many runs from one file, on this machine or on a Ray cluster."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer
from rich.console import Console
from rich.live import Live

from svrl.cli import run_list
from svrl.cli.answers import Program, answer, console, say, show, show_table, stopping, tell
from svrl.cli.flags import Json, again
from svrl.cli.run_list import STORE, Address, Jobs, Kept, On, Where

if TYPE_CHECKING:
    from svrl.runs.spec import Effort, RunSpec
    from svrl.runs.store import Store
    from svrl.runs.sweep_file import Sweep

SHOWN = 12
"""Runs that `svrl sweep plan` lists; the rest are counted."""
ROWS = ("results", "episodes", "learning", "evaluations", "trace")

app = typer.Typer(
    name="sweep",
    cls=Program,
    help="Many runs from one file, on this machine or on a Ray cluster.",
    no_args_is_help=True,
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

    def left(self) -> list[RunSpec]:
        """Runs that are to be done: what is done, or has failed, needs nothing more."""
        return [spec for spec in self.specs if self.store.state(spec.id) not in ("done", "failed")]


def asked_for(
    file: str, store: str, changes: Iterable[str] | None, where: Iterable[str] | None, cores: int | None = None
) -> Asked:
    """From the words of a command."""
    from svrl.runs.store import open_store
    from svrl.runs.sweep_file import read_sweep, runs_of

    sweep = read_sweep(file)
    if cores is not None:
        sweep = replace(sweep, effort=replace(sweep.effort, cores=cores))
    opened = open_store(store)
    given = {name: run_list.value_of(text) for name, text in run_list.pairs("--set", changes)}
    return Asked(sweep, run_list.only(f"The sweep {sweep.name} has", runs_of(sweep, changes=given), where), opened)


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
    answer(_planned(asked_for(file, store, changes, where, cores), jobs), as_json, _print_plan)


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
        "notes": [*notes, *(f"Note: {sentence}" for sentence in run_list.what_stands_against(asked.left()))],
    }


def _print_plan(found: dict[str, Any]) -> None:
    from svrl.runtime.names import duration

    names = ("label", "state", "id")
    show_table(names, ([row[name] for name in names] for row in found["runs"][:SHOWN]))
    if len(found["runs"]) > SHOWN:
        tell(f"and {len(found['runs']) - SHOWN} more")
    tell(*found["notes"])
    took = "time not known before a run is finished"
    if found["seconds"] is not None:
        took = f"about {duration(found['seconds'])} with {found['at_a_time']} at a time, like the finished ones"
    steps = "" if found["steps"] is None else f" {found['steps']:,} agent steps,"
    tell(f"{len(found['runs'])} runs, {found['left']} to be done,{steps} {took}.")


@app.command("run")
def run(
    context: typer.Context,
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
    ] = 60.0,
    retries: Annotated[
        int, typer.Option(metavar="N", min=0, help="Times that a run whose process was killed is begun again.")
    ] = 2,
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
    on = "ray" if address else on
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
    resume = again(context)
    found = run_list.carry_out(asked.specs, asked.store, again=resume, on=on, address=address, effort=effort)
    answer(asked.overview(), as_json, _print)
    run_list.refuse_to_continue(found, asked.store, resume)
    if found.out_of_time:
        say(f"The hours are over; what was done is in {asked.store.address}. Resume with: {resume}")
    if failed := found.count("failed"):
        retry = again(context, "retry", failed=True)
        say(f"{failed} of {len(found.states)} runs failed. When that is repaired: {retry}")
    if found.count("done") < len(found.states):
        raise typer.Exit(1)


def _refuse_impossible(asked: Asked, effort: Effort, on: str) -> None:
    """Find out what is not there before anything is written."""
    from svrl.runs.local import Room

    against = run_list.what_stands_against(asked.left())
    if on == "local":
        Room.of(effort, {spec.device for spec in asked.left()})
        if against:
            raise ValueError(f"{' '.join(against)} Or leave them out by --where. Nothing was begun.")
    for sentence in against:  # nodes may have what this machine has not
        say(f"Note: {sentence} On a cluster its nodes need it, and this machine does not.")


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
    if file is None:
        answer(_sweeps_in(store), as_json, lambda listed: _print_sweeps(listed, store))
        return
    overview = asked_for(file, store, changes, where).overview()
    if not Path(store).exists():
        say(f"Note: there is no store at {store} yet.")
    answer(overview, as_json, _print)


def _print(overview: dict[str, Any]) -> None:
    from svrl.cli.tables import sweep_view

    show(sweep_view(overview, width=console().width))
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


def _print_sweeps(listed: list[dict[str, Any]], address: str) -> None:
    if not listed:
        say(f"{address} has no sweep yet. Begin one with: svrl sweep run FILE")
        return
    show_table(listed[0], (map(str, row.values()) for row in listed))


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
    from svrl.cli.tables import sweep_view

    asked = asked_for(file, store, changes, where)
    overview, out = asked.overview(), Console()
    if not out.is_terminal:
        _print(overview)
        return
    with stopping("No longer watched; the sweep goes on."), Live(console=out, auto_refresh=False) as live:
        while True:
            live.update(sweep_view(overview, width=out.width), refresh=True)
            if all(run["state"] in ("done", "failed") for run in overview["runs"]):
                return
            time.sleep(every)
            overview = asked.overview(overview)


@app.command("retry")
def retry(
    context: typer.Context,
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    failed: Annotated[bool, typer.Option("--failed", help="All runs that failed.")] = False,
    as_json: Json = False,
) -> None:
    """Let the next svrl sweep run retry failed runs, from their last checkpoints."""
    if not failed:
        raise ValueError("Say which runs to try again: --failed, and perhaps some of them by --where.")
    asked, labels = asked_for(file, store, changes, where), []
    for spec in asked.specs:
        if asked.store.state(spec.id) == "failed":
            asked.store.retry(spec.id)
            labels.append(spec.label)
    answer({"retried": labels}, as_json, lambda _: tell(*labels))
    if not as_json:
        told = f"{len(labels)} runs will be tried again by: {again(context, 'run')}"
        say(told if labels else "No run has failed.")


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
    from svrl.runs.export import export as write

    asked = asked_for(file, store, changes, where)
    done = write(asked.store, asked.specs, out, rows=cast(Any, rows))
    told = f"written: {out} ({done['rows']:,} rows of {done['runs']} runs)"
    answer({"out": str(out), "table": rows, **done}, as_json, lambda _: tell(told))
    for note in asked.store.notes_on_versions(spec.id for spec in asked.specs):
        say(note)
    if left_out := done["left_out"]:
        reasons = ", ".join(f"{count:,} {state}" for state, count in left_out.items())
        say(f"Note: {sum(left_out.values()):,} of {len(asked.specs):,} runs are left out: {reasons}.")
