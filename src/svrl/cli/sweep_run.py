"""Running a sweep for a person who looks on, and what is shown of it afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from svrl.cli.answers import say
from svrl.cli.sweep_codes import AT, of_code
from svrl.cli.sweep_needs import check_environments, refuse_what_cannot_be_made, to_be_done, what_stands_against
from svrl.cli.sweep_request import SweepRequest

if TYPE_CHECKING:
    from svrl.sweeps.engine import Summary
    from svrl.sweeps.outcome import Ended
    from svrl.sweeps.run_spec import RunSpec
    from svrl.sweeps.status import Overview

REFRESH = 2.0
"""Seconds between two looks at the store for the table."""
WIDE = 110
"""Columns where there is no terminal."""


class Onlooker:
    """A table in a terminal, or a line for every run that begins or ends."""

    def __init__(self, look: Callable[[], Any], live: Live | None) -> None:
        self._look, self._live = look, live
        self._looked = 0.0

    def begins(self, spec: RunSpec) -> None:
        """A process works on a run now."""
        if self._live is None:
            say(f"begun    {spec.label}")

    def ends(self, spec: RunSpec, ended: Ended, reason: str) -> None:
        """It no longer does."""
        if self._live is None or ended in ("failed", "killed"):
            text = f"{ended:8} {spec.label}" + (f": {reason}" if reason else "")
            self.notes(text)

    def looks(self) -> None:
        """Look at the store now and then."""
        if self._live is not None and time.monotonic() - self._looked > REFRESH:
            self._live.update(self._look(), refresh=True)
            self._looked = time.monotonic()

    def notes(self, sentence: str) -> None:
        """Above the table, or as a line."""
        if self._live is None:
            say(sentence)
        else:
            self._live.console.print(sentence, markup=False, highlight=False)


def carry_out(
    request: SweepRequest, *, on: str, address: str | None, effort: Mapping[str, Any], quiet: bool
) -> Summary:
    """Do what is left of a sweep."""
    from svrl.sweeps.engine import Effort

    sweep, store = request.sweep, request.store
    hours = effort["hours"] if effort["hours"] is not None else sweep.budget.hours
    chosen = Effort(**{**effort, "hours": hours})
    # What is not there is found out before anything is written.
    check_environments(request)
    if on == "local":
        from svrl.sweeps.machine import Machine

        Machine.of(sweep.resources, chosen.jobs, {spec.device for spec in to_be_done(request, request.specs)})
        refuse_what_cannot_be_made(request)
    else:  # nodes may have what the machine of this command has not
        for sentence in what_stands_against(request):
            say(f"Note: {sentence} On a cluster its nodes need it, and this machine does not.")
    earlier = store.sweep(of_code(sweep.name, store.code)) or {"runs": []}
    record = {
        "name": sweep.name,
        "code": store.code,
        # Those of other calls too, with other --set and --where: what was done is not to look lost.
        "runs": list(dict.fromkeys([*earlier["runs"], *(spec.id for spec in request.specs)])),
        "resources": vars(sweep.resources),
        "file": sweep.text,
    }
    # The second is what --code finds: what this code calls a run, another one may call otherwise.
    for name in (sweep.name, of_code(sweep.name, store.code)):
        store.keep_sweep(name, record)
    console = Console(stderr=True)
    shown: AbstractContextManager[Live | None] = nullcontext(None)
    if console.is_terminal and not quiet:
        shown = Live(console=console, auto_refresh=False, transient=True)
    with shown as live:
        listener = Onlooker(_looking(request, console), live)
        if on == "local":
            from svrl.sweeps.local_engine import run_locally

            return run_locally(
                request.specs, store.address, resources=sweep.resources, effort=chosen, listener=listener
            )
        from svrl.sweeps.ray_engine import run_on_ray

        return run_on_ray(
            request.specs,
            store.address,
            cluster=address,
            resources=sweep.resources,
            effort=chosen,
            listener=listener,
        )


def _looking(request: SweepRequest, console: Console) -> Callable[[], Any]:
    """Looks that remember the one before, so that speeds can be told."""
    from svrl.reporting.sweep_table import sweep_view

    before: Overview | None = None

    def look() -> Any:
        nonlocal before
        before = overview_of(request, before)
        return sweep_view(before.as_json(), width=console.width)

    return look


def overview_of(request: SweepRequest, before: Overview | None = None) -> Overview:
    """How the runs stand."""
    from dataclasses import replace

    from svrl.sweeps.status import look

    found = look(request.store, request.specs, before=before)
    return replace(found, name=request.sweep.name)


def print_overview(overview: Overview) -> None:
    """The table of svrl sweep status."""
    from svrl.reporting.sweep_table import sweep_view

    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, WIDE))
    console.print(sweep_view(overview.as_json(), width=console.width))


def sweeps_in(address: str) -> list[dict[str, Any]]:
    """The sweeps of a store, with how their runs stand."""
    from svrl.sweeps.states import STATES, state_of
    from svrl.sweeps.store import open_store

    found = []
    store = open_store(address)
    for name in store.sweeps():
        if AT in name:  # of a code version; the sweep itself is listed
            continue
        record = store.sweep(name) or {}
        own = open_store(address, record.get("code"))
        states = [state_of(own, run) for run in record.get("runs", ())]
        counts: dict[str, Any] = {state: states.count(state) for state in STATES}
        found.append({"name": name, "code": record.get("code"), "runs": len(states), **counts})
    return found


def print_sweeps(listed: list[dict[str, Any]], address: str) -> None:
    """The table of svrl sweep status without a file."""
    if not listed:
        say(f"{address} has no sweep yet. Begin one with: svrl sweep run FILE")
        return
    table = Table(box=None, pad_edge=False)
    for name in listed[0]:
        table.add_column(name, justify="left" if name in ("name", "code") else "right")
    for row in listed:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


def retried(request: SweepRequest) -> list[str]:
    """Let failed runs be worked on again; their labels."""
    from datetime import UTC, datetime

    from svrl.sweeps.states import state_of

    labels = []
    for spec in request.specs:
        if state_of(request.store, spec.id) == "failed":
            request.store.note(spec.id, {"retry": datetime.now(UTC).isoformat(timespec="milliseconds")})
            labels.append(spec.label)
    return labels
