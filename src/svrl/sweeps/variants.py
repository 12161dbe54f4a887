"""What the runs of a sweep are, and in which settings they differ.

A variant is what is compared: the arm, and beside it the settings that vary within the sweep other than the subject
and the seed. The runs of one variant on one subject differ by their seeds only, so a mean over them means something.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from svrl.sweeps.run_spec import SUBJECT, RunSpec
from svrl.sweeps.settings import STRUCTURE
from svrl.sweeps.store import Store

_TOLD_OTHERWISE = (*SUBJECT.values(), "seed", "agent", "structured", "method")
"""Settings that are the subject, the seed or the arm."""
ONCE_MORE = 2
"""Times to read what another process may be writing."""


def ids_of(store: Store, sweep: str | Sequence[str]) -> list[str]:
    """Ids of the runs of a sweep, by its name, in its order; ids are given back as they are.

    Raises:
        ValueError: If the store has no sweep of that name.
    """
    if not isinstance(sweep, str):
        return list(sweep)
    record = store.sweep(sweep)
    if record is None:
        known = ", ".join(store.sweeps())
        raise ValueError(
            f"{store.address} has no sweep {sweep!r}. " + (f"It has {known}." if known else "It has none yet.")
        )
    return [str(run) for run in record.get("runs", ())]


def specs_of(
    store: Store, runs: Iterable[str], known: Mapping[str, RunSpec | None] | None = None
) -> dict[str, RunSpec | None]:
    """What each run is; None for one whose folder is not there yet.

    Args:
        store: Where they are.
        runs: Their ids.
        known: Those that were read before, which do not change.
    """
    known = known or {}
    return {run: known.get(run) or _spec_of(store, run) for run in runs}


def varied(specs: Iterable[RunSpec]) -> list[str]:
    """Names of the settings that differ between the runs, in the order in which the runs name them."""
    every = list(specs)
    names = dict.fromkeys(name for spec in every for name in spec.settings if name not in _TOLD_OTHERWISE)
    return [name for name in names if len({_key(value_of(spec, name)) for spec in every if _has(spec, name)}) > 1]


def value_of(spec: RunSpec, name: str) -> Any:
    """A setting of a run, written in its sweep or not; None if it has no use for it."""
    if not _has(spec, name):
        return None
    return spec.settings.get(name, spec.full.get(name))


def variant_of(spec: RunSpec, names: Sequence[str]) -> str:
    """As in "sv-dqn batch_size=64", of the settings in `names`."""
    more = [f"{name}={_shown(value_of(spec, name))}" for name in names if value_of(spec, name) is not None]
    return " ".join([spec.arm, *more])


def _spec_of(store: Store, run: str) -> RunSpec | None:
    for _ in range(ONCE_MORE):
        try:
            return store.spec(run)
        except (OSError, ValueError, KeyError, TypeError):  # being made, or not there yet
            continue
    return None


def _has(spec: RunSpec, name: str) -> bool:
    """A plain agent has fields of structure too, which decide nothing."""
    return name in spec.settings or not (spec.kind == "train" and name in STRUCTURE and not spec.full["structured"])


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
