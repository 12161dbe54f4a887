"""Sweeps of other code versions: what this code calls a run, another one may have called otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.cli.answers import BadInputError

if TYPE_CHECKING:
    from svrl.sweeps.run_spec import RunSpec
    from svrl.sweeps.store import Store

AT = "@"
"""Between the name of a sweep and a code version; no sweep has it in its name."""


def of_code(name: str, code: str) -> str:
    """The record of a sweep as a code version ran it last."""
    return f"{name}{AT}{code}"


def recorded_runs(store: Store, name: str) -> list[RunSpec]:
    """The runs that a sweep had when the code version of a store ran it last."""
    record = store.sweep(of_code(name, store.code))
    if record is None:
        known = sorted(other.partition(AT)[2] for other in store.sweeps() if other.startswith(f"{name}{AT}"))
        hint = f"It has those of {', '.join(known)}." if known else "It has none."
        raise BadInputError(f"{store.address} has no runs of {name} by the code {store.code}. {hint}")
    return [store.spec(run) for run in record["runs"]]
