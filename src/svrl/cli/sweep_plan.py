"""svrl sweep plan: the runs, their steps, and an estimate of the time."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from svrl.cli.sweep_needs import check_environments, what_stands_against
from svrl.cli.sweep_request import SweepRequest

SHOWN = 12
"""Runs of a table; the rest are counted."""


def planned(request: SweepRequest, *, jobs: int | None, tries: bool) -> dict[str, Any]:
    """What `svrl sweep plan --json` prints."""
    from svrl.sweeps.calibration import calibrate
    from svrl.sweeps.machine import Machine
    from svrl.sweeps.states import state_of

    check_environments(request)
    states = {spec.id: state_of(request.store, spec.id) for spec in request.specs}
    left = [spec for spec in request.specs if states[spec.id] != "done"]
    notes, at_a_time, threads = [], None, request.sweep.resources.cores
    try:
        machine = Machine.of(request.sweep.resources, jobs, {spec.device for spec in left})
        at_a_time, threads, notes = machine.runs_at_a_time, machine.cores_a_run, machine.notes
    except ValueError as error:  # no card here: the runs can still be listed
        notes.append(str(error))
    notes = [*notes, *(f"Note: {sentence}" for sentence in what_stands_against(request))]
    with _bar() as bar:
        task = bar.add_task("trying", total=None)

        def told(done: int, of: int, what: str) -> None:
            bar.update(task, completed=done, total=of, description=f"trying {what}")

        sorts = calibrate(
            left,
            request.store,
            finished=[spec for spec in request.specs if states[spec.id] == "done"],
            threads=threads,
            tries=tries and at_a_time is not None,
            told=told,
        )
    seconds = [sort.seconds for sort in sorts]
    known = bool(seconds) and None not in seconds and at_a_time is not None
    total = sum(one or 0.0 for one in seconds)
    longest = max((sort.seconds_of_longest or 0.0 for sort in sorts), default=0.0)
    return {
        "name": request.sweep.name,
        "code": request.store.code,
        "store": request.store.address,
        "runs": [{**spec.as_json(), "state": states[spec.id]} for spec in request.specs],
        "left": len(left),
        "steps": sum(spec.steps or 0 for spec in left) if request.sweep.kind == "train" else None,
        "at_a_time": at_a_time,
        "sorts": [
            {
                "example": sort.runs[0].label,
                "runs": len(sort.runs),
                "steps": sort.steps,
                "steps_per_second": None if not sort.seconds_a_step else 1 / sort.seconds_a_step,
                "seconds": sort.seconds,
                "source": sort.source,
            }
            for sort in sorts
        ],
        "seconds": max(total / at_a_time, longest) if known and at_a_time else None,
        "notes": notes,
    }


def print_plan(found: dict[str, Any]) -> None:
    """For people."""
    from svrl.reporting.sweep_table import duration

    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, 110))
    runs = Table("run", "state", "id", box=None, pad_edge=False, header_style="bold")
    for row in found["runs"][:SHOWN]:
        runs.add_row(row["label"], row["state"], row["id"])
    console.print(runs)
    if len(found["runs"]) > SHOWN:
        console.print(f"and {len(found['runs']) - SHOWN} more", highlight=False)
    sorts = Table(
        "like", "runs", "steps", "steps/s", "time, one by one", "from", box=None, pad_edge=False, header_style="bold"
    )
    for row in found["sorts"]:
        rate = row["steps_per_second"]
        sorts.add_row(
            row["example"],
            str(row["runs"]),
            "?" if row["steps"] is None else f"{row['steps']:,}",
            "?" if rate is None else f"{rate:,.3g}",
            "?" if row["seconds"] is None else duration(row["seconds"]),
            row["source"],
        )
    if found["sorts"]:
        console.print()
        console.print(sorts)
    console.print()
    for note in found["notes"]:
        console.print(note, markup=False, highlight=False)
    took = (
        "time not known"
        if found["seconds"] is None
        else f"about {duration(found['seconds'])} with {found['at_a_time']} at a time, and some seconds to start"
    )
    steps = "" if found["steps"] is None else f" {found['steps']:,} agent steps,"
    console.print(f"{len(found['runs'])} runs, {found['left']} to be done,{steps} {took}.", highlight=False)


def _bar() -> Progress:
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
