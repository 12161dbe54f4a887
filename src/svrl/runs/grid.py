"""The runs of a sweep: all combinations of its axes, and of those of every further grid, each run once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from svrl.runs.settings import OTHER_NAMES, in_one_form, names_in, renamed, spec_of, value_in
from svrl.runs.spec import SUBJECT, RunSpec, shown
from svrl.runs.sweep_file import Sweep
from svrl.runtime.names import near_names

_REPLACES = {
    "arm": ("agent", "structured"),
    "agent": ("arm",),
    "structured": ("arm",),
    "seeds": ("seed",),
    "seed": ("seeds",),
}
"""Names that stand for others: where one is set, those that were set before go."""
MOST = 100_000
"""Runs of a grid; more are a slip of the pen, and would take minutes to write down."""
LISTED = 20
"""Values that a sentence lists; the rest are counted."""


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
    every: dict[str, RunSpec] = {}
    for settings in _combinations(sweep):
        spec = spec_of(sweep.kind, _over(settings, changes or {}))
        if every.setdefault(spec.id, spec).device != spec.device:
            raise ValueError("device says where runs are computed, not what they are: give one, not a list of them.")
    excluded = [_as_lists(renamed(entry)) for entry in sweep.exclude]
    for name in (name for entry in excluded for name in entry):
        if not any(_has(spec, name) for spec in every.values()):
            _refuse_setting(name, list(every.values()))
    found = [spec for spec in every.values() if not any(matches(spec, entry) for entry in excluded)]
    if not found:
        raise ValueError(f"The sweep {sweep.name} has no run.")
    return found if not where else chosen(f"The sweep {sweep.name} has", found, where)[0]


def chosen(what: str, specs: Sequence[RunSpec], where: Mapping[str, Iterable[Any]]) -> tuple[list[RunSpec], list[str]]:
    """Runs that have one of the values wanted, for every setting named.

    Args:
        what: Whose runs, for sentences: "The sweep paper-57 has".
        specs: The runs.
        where: The values wanted, by the names of settings; texts may have * in them.

    Returns:
        The runs, and a sentence for every value that none of them has.

    Raises:
        ValueError: If no run has such a setting, or no run is left, with what there is instead.
    """
    wanted = {setting: list(values) for setting, values in where.items()}
    for name in wanted:
        if not any(_has(spec, name) for spec in specs):
            _refuse_setting(name, specs)
    found = [spec for spec in specs if matches(spec, wanted)]
    if found:
        return found, [
            f"Note: none of these runs has {setting}={shown(value)}. {_there(specs, setting, [value])}"
            for setting, values in wanted.items()
            for value in values
            if not _any(found, {setting: [value]})
        ]
    asked = ", ".join(f"{setting}={' or '.join(map(shown, values))}" for setting, values in wanted.items())
    alone = {setting: values for setting, values in wanted.items() if not _any(specs, {setting: values})}
    there = " ".join(_there(specs, setting, values) for setting, values in alone.items())
    raise ValueError(f"{what} no run with {asked}. " + (there or "Some have each, and none has all of them."))


def _refuse_setting(given: str, specs: Sequence[RunSpec]) -> None:
    known = list(dict.fromkeys(name for spec in specs for name in names_in(spec)))
    near = near_names(given, known)
    hint = f"Did you mean {near[0]}? " if near else ""
    kinds = "svrl " + specs[0].kind.name if specs[0].kind.name in SUBJECT else "these figures"
    raise ValueError(f"runs of {kinds} have no setting {given!r}. {hint}They have {', '.join(known)}.")


def _any(specs: Iterable[RunSpec], wanted: Mapping[str, Iterable[Any]]) -> bool:
    return any(matches(spec, wanted) for spec in specs)


def _there(specs: Iterable[RunSpec], setting: str, wanted: Sequence[Any]) -> str:
    """Which values of a setting there are, as in "seed is 0, 1 or 2.", after the one that may have been meant."""
    name = OTHER_NAMES.get(setting, setting)
    values = list(
        dict.fromkeys(shown(in_one_form(spec, name, value_in(spec, name))) for spec in specs if _has(spec, setting))
    )
    meant = [near for one in wanted if isinstance(one, str) and "*" not in one for near in near_names(one, values)]
    hint = f"Did you mean {meant[0]}? " if meant else ""
    if len(values) > LISTED:
        return f"{hint}{setting} is {', '.join(values[:LISTED])} or one of {len(values) - LISTED} more."
    return f"{hint}{setting} is {_joined(values)}."


def _combinations(sweep: Sweep) -> Iterator[dict[str, Any]]:
    subject = SUBJECT[sweep.kind]
    for grid in ({}, *sweep.include):
        axes = {name: _values(name, value, subject) for name, value in _over(sweep.axes, grid).items()}
        if "seeds" in axes and "seed" in axes:
            raise ValueError("seeds counts seeds from 0 on, so seed has no place beside it.")
        if "seeds" in axes:
            axes["seed"] = _seeds(axes.pop("seeds"))
        _refuse_too_many(math.prod(map(len, axes.values())))
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
    from svrl.envs.make import known_environments
    from svrl.mdp.catalogue import TASKS

    known = known_environments() if name == "env" else ["toy", *TASKS]
    found = [one for one in known if fnmatchcase(one, pattern)]
    if not found:
        raise ValueError(f"no {name} is called like {pattern!r}.")
    return found


def _refuse_too_many(runs: int) -> None:
    if runs > MOST:
        raise ValueError(
            f"a grid of it has {runs:,} runs or more, and {MOST:,} is the most. Write fewer values or seeds."
        )


def _seeds(values: list[Any]) -> list[int]:
    count = values[0]
    if len(values) > 1 or isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"seeds is one number, of seeds from 0 on; got {values}. For a list, write seed = [...].")
    _refuse_too_many(count)
    return list(range(count))


def _as_lists(entry: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: value if isinstance(value, list) else [value] for name, value in entry.items()}


def matches(spec: RunSpec, wanted: Mapping[str, Iterable[Any]]) -> bool:
    """Whether a run has one of the values wanted, for every setting named."""
    return all(_matches(spec, name, values) for name, values in wanted.items())


def _has(spec: RunSpec, given: str) -> bool:
    return OTHER_NAMES.get(given, given) in names_in(spec)


def _matches(spec: RunSpec, given: str, values: Iterable[Any]) -> bool:
    if not _has(spec, given):
        return False
    name = OTHER_NAMES.get(given, given)
    value = in_one_form(spec, name, value_in(spec, name))
    return any(_is_like(value, in_one_form(spec, name, one)) for one in values)


def _is_like(value: Any, wanted: Any) -> bool:
    """Equal, of one kind (true is not 1), or like a pattern with *; numbers are equal however they are written."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return isinstance(value, bool) and isinstance(wanted, bool) and value == wanted
    if isinstance(value, int | float):
        return value == _number(wanted)
    if isinstance(value, str) and isinstance(wanted, str) and "*" in wanted:
        return fnmatchcase(value, wanted)
    return bool(value == wanted)


def _number(value: Any) -> Any:
    """Of a text such as ".50" that is one."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _joined(values: Sequence[str]) -> str:
    """As in "0, 1 or 2"."""
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} or {values[-1]}"
