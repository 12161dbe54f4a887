"""The runs of a sweep: all combinations of its axes, and of those of every further grid, each run once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from svrl.sweeps.run_spec import SUBJECT, RunSpec
from svrl.sweeps.settings import OTHER_NAMES, in_one_form, renamed, spec_of
from svrl.sweeps.sweep_file import Sweep

_REPLACES = {
    "arm": ("agent", "structured"),
    "agent": ("arm",),
    "structured": ("arm",),
    "seeds": ("seed",),
    "seed": ("seeds",),
}
"""Names that stand for others: where one is set, those that were set before go."""


def runs_of(
    sweep: Sweep, *, changes: Mapping[str, Any] | None = None, where: Mapping[str, Iterable[Any]] | None = None
) -> list[RunSpec]:
    """All runs, in the order of the file.

    Args:
        sweep: What was asked for.
        changes: Settings that take the place of the file's, in every run.
        where: Only runs that have one of these values, for every setting named.

    Raises:
        ValueError: If something in it is wrong, or if nothing is left.
    """
    found: dict[str, RunSpec] = {}
    excluded = [_as_lists(renamed(entry)) for entry in sweep.exclude]
    for settings in _combinations(sweep):
        spec = spec_of(sweep.kind, _over(settings, changes or {}))
        if any(matches(spec, entry) for entry in excluded):
            continue
        if where is None or matches(spec, where):
            found.setdefault(spec.id, spec)
    if not found:
        asked = "" if not where else " with " + ", ".join(f"{name}={_listed(got)}" for name, got in where.items())
        raise ValueError(f"The sweep {sweep.name} has no run{asked}.")
    return list(found.values())


def _combinations(sweep: Sweep) -> Iterator[dict[str, Any]]:
    subject = SUBJECT[sweep.kind]
    for grid in ({}, *sweep.include):
        axes = {name: _values(name, value, subject) for name, value in _over(sweep.axes, grid).items()}
        if "seeds" in axes and "seed" in axes:
            raise ValueError("seeds counts seeds from 0 on, so seed has no place beside it.")
        if "seeds" in axes:
            axes["seed"] = _seeds(axes.pop("seeds"))
        budget: dict[str, Any] = {}
        if sweep.budget.steps is not None:
            budget = {"steps" if sweep.kind == "train" else "iterations": sweep.budget.steps}
        for values in itertools.product(*axes.values()):
            yield _over({**sweep.fixed, **budget}, dict(zip(axes, values, strict=True)))


def _over(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with changes; what a change stands for goes."""
    changes = renamed(changes)
    gone = {other for name in changes for other in _REPLACES.get(name, ())} - set(changes)
    kept = renamed(settings)
    return {**{name: value for name, value in kept.items() if name not in gone}, **changes}


def _values(name: str, value: Any, subject: str) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError(f"the axis {name} has no value.")
    if any(isinstance(one, dict) for one in values):
        raise ValueError(f"the axis {name} is a list of values, got a table.")
    return list(itertools.chain.from_iterable(_named(one, name) for one in values)) if name == subject else values


def _named(pattern: Any, name: str) -> list[Any]:
    """The environments, or tasks, that a name with * stands for."""
    if not isinstance(pattern, str) or "*" not in pattern:
        return [pattern]
    from svrl.envs.catalogue import known_environments
    from svrl.mdp.catalogue import TASKS

    known = known_environments() if name == "env" else ["toy", *TASKS]
    found = [one for one in known if fnmatchcase(one, pattern)]
    if not found:
        raise ValueError(f"no {name} is called like {pattern!r}.")
    return found


def _seeds(values: list[Any]) -> list[int]:
    count = values[0]
    if len(values) > 1 or isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"seeds is one number, of seeds from 0 on; got {values}. For a list, write seed = [...].")
    return list(range(count))


def _as_lists(entry: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: value if isinstance(value, list) else [value] for name, value in entry.items()}


def matches(spec: RunSpec, wanted: Mapping[str, Iterable[Any]]) -> bool:
    """Whether a run has one of the values wanted, for every setting named."""
    for given, values in wanted.items():
        name = OTHER_NAMES.get(given, given)
        value = in_one_form(spec, name, _value(spec, name))
        if not _is_among(value, [in_one_form(spec, name, one) for one in values]):
            return False
    return True


def _value(spec: RunSpec, name: str) -> Any:
    if name == "arm":
        return spec.arm
    for place in (spec.full, spec.settings):
        if name in place:
            return place[name]
    raise ValueError(f"runs of svrl {spec.kind} have no setting {name!r}.")


def _is_among(value: Any, wanted: Iterable[Any]) -> bool:
    """Equal, of one kind (true is not 1), or like a pattern with *."""
    return any(
        (value == one and isinstance(value, bool) == isinstance(one, bool))
        or (isinstance(value, str) and isinstance(one, str) and "*" in one and fnmatchcase(value, one))
        for one in wanted
    )


def _listed(values: Iterable[Any]) -> str:
    return " or ".join(str(value) for value in values)
