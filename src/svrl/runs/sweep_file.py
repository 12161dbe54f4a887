"""A sweep as a file, and its runs: from TOML (docs/sweeps.md shows one) to a list of runs, each of them once.

`fixed` are settings of every run. `axes` lists values, and every combination is a run. Each `include` is another grid,
whose axes take the place of those. Each `exclude` leaves out the runs in which all of it holds. `resources` are what a
run takes; `budget` has the steps of each run and the hours of all.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from svrl.runs.settings import in_one_form, settings_in, spec_of
from svrl.runs.spec import SUBJECT, Effort, RunSpec, shown
from svrl.runtime.names import near_names, nearest_name

PARTS: dict[str, type] = {
    "name": str,
    "kind": str,
    "fixed": dict,
    "axes": dict,
    "include": list,
    "exclude": list,
    "resources": dict,
    "budget": dict,
}
SHIPPED = "svrl.runs.files"
"""The package with the paper's grids."""
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


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What a file asks for; `runs_of` makes its runs.

    Attributes:
        name: What to call it; its record in a store has this name.
        kind: The command of every run.
        fixed: Settings of every run, its budget of steps among them.
        axes: Values of those that vary.
        include: Further grids; their axes take the place of `axes`.
        exclude: Combinations to leave out.
        effort: What one run takes, and the hours of all.
        text: The file.
    """

    name: str
    kind: Literal["train", "plan"] = "train"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, Any] = field(default_factory=dict)
    include: Sequence[Mapping[str, Any]] = ()
    exclude: Sequence[Mapping[str, Any]] = ()
    effort: Effort = field(default_factory=Effort)
    text: str = ""


def shipped() -> list[str]:
    """Names of the sweeps that come with the package."""
    names = (path.name for path in resources.files(SHIPPED).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_sweep(path: str | Path) -> Sweep:
    """Read a file, or a sweep that comes with the package by its name, as in "paper-57".

    Raises:
        ValueError: If there is none, or something in it is wrong; the sentence says where.
    """
    file, name = Path(path), str(path).removesuffix(".toml")
    if not file.is_file() and name not in shipped():
        hint = nearest_name(name, shipped(), otherwise="Give a file, or one of")
        raise ValueError(f"There is no sweep {str(path)!r}. {hint}")
    source = file if file.is_file() else resources.files(SHIPPED) / f"{name}.toml"
    try:
        return parse_sweep(source.read_text(encoding="utf-8"), file.stem if file.is_file() else name)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse_sweep(text: str, name: str) -> Sweep:
    """A sweep from the text of a file."""
    try:
        parts = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"this is no TOML: {error}.") from error
    except RecursionError:
        raise ValueError("its lists or tables are nested too deeply: a value is a number, a text or a list.") from None
    _refuse_others("a sweep", parts, PARTS)
    parts = {
        "name": name,
        "kind": "train",
        **{part: form() for part, form in PARTS.items() if form is not str},
        **parts,
    }
    for part, form in PARTS.items():
        if form is dict and not isinstance(parts[part], dict):
            raise ValueError(f"{part} is a table: write [{part}] above its lines.")
        if form is list and not (isinstance(parts[part], list) and all(isinstance(x, dict) and x for x in parts[part])):
            raise ValueError(f"{part} is a list of tables: write [[{part}]] above each.")
    if parts["kind"] not in SUBJECT:
        raise ValueError(f"kind is train or plan, got {parts['kind']!r}.")
    if not isinstance(parts["name"], str) or not re.fullmatch(r"\w[\w.+-]*", parts["name"]):
        said = "name consists of letters, digits, dots and dashes, and begins with a letter or a digit"
        raise ValueError(f"{said}; got {parts['name']!r}.")
    takes, budget = parts.pop("resources"), parts.pop("budget")
    _refuse_others("resources", takes, ("cores", "gpus", "memory_gb"))
    _refuse_others("budget", budget, ("steps", "hours"))
    if "steps" in budget:
        parts["fixed"] = {**parts["fixed"], ("steps" if parts["kind"] == "train" else "iterations"): budget["steps"]}
    return Sweep(**parts, effort=Effort(**takes, hours=budget.get("hours")), text=text)


def _refuse_others(what: str, got: Iterable[str], known: Iterable[str]) -> None:
    for name in got:
        if name not in known:
            raise ValueError(f"{what} has no {name!r}. {nearest_name(name, known, otherwise='It has')}")


# Its runs: all combinations of its axes, and of those of every further grid, each run once.


def runs_of(sweep: Sweep, changes: Mapping[str, Any] | None = None) -> list[RunSpec]:
    """All runs, in the order of the file.

    Args:
        sweep: What was asked for.
        changes: Settings that take the place of the file's, in every run.

    Raises:
        ValueError: If something in it is wrong, or if nothing is left.
    """
    every: dict[str, RunSpec] = {}
    for settings in _combinations(sweep):
        spec = spec_of(sweep.kind, _over(settings, changes or {}))
        if every.setdefault(spec.id, spec).device != spec.device:
            raise ValueError("device says where runs are computed, not what they are: give one, not a list of them.")
    found = list(every.values())
    for entry in sweep.exclude:
        wanted = {name: value if isinstance(value, list) else [value] for name, value in entry.items()}
        _refuse_unknown(wanted, list(every.values()))
        found = [spec for spec in found if not _matches(spec, wanted)]
    if not found:
        raise ValueError(f"The sweep {sweep.name} has no run.")
    return found


def _combinations(sweep: Sweep) -> Iterator[dict[str, Any]]:
    for grid in ({}, *sweep.include):
        axes = {name: _values(name, value, sweep.kind) for name, value in _over(sweep.axes, grid).items()}
        if "seeds" in axes and "seed" in axes:
            raise ValueError("seeds counts seeds from 0 on, so seed has no place beside it.")
        if "seeds" in axes:
            axes["seed"] = axes.pop("seeds")
        runs = math.prod(map(len, axes.values()))
        if runs > MOST:
            raise ValueError(f"a grid of it has {runs:,} runs, and {MOST:,} is the most. Write fewer values or seeds.")
        for values in itertools.product(*axes.values()):
            yield _over(sweep.fixed, dict(zip(axes, values, strict=True)))


def _over(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with changes; what a change stands for goes."""
    gone = {other for name in changes for other in _REPLACES.get(name, ())} - set(changes)
    return {**{name: value for name, value in settings.items() if name not in gone}, **changes}


def _values(name: str, value: Any, kind: str) -> Sequence[Any]:
    """The values of an axis; names with * stand for environments or tasks."""
    if name == "seeds":
        if type(value) is not int or value < 1:
            raise ValueError(f"seeds is one number, of seeds from 0 on; got {value}. For a list, write seed = [...].")
        if value > MOST:
            raise ValueError(f"seeds is at most {MOST:,}, got {value:,}.")
        return range(value)
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError(f"the axis {name} has no value.")
    if name != SUBJECT[kind] or not any(isinstance(one, str) and "*" in one for one in values):
        return values
    from svrl.envs.make import known_environments
    from svrl.mdp.tasks import TASKS

    known = known_environments() if name == "env" else ["toy", *TASKS]
    found = []
    for one in values:
        like = [known_one for known_one in known if fnmatchcase(known_one, one)] if "*" in str(one) else [one]
        if not like:
            raise ValueError(f"no {name} is called like {one!r}.")
        found += like
    return found


# Some of its runs.


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
    wanted = {name: list(values) for name, values in where.items()}
    _refuse_unknown(wanted, specs)
    found = [spec for spec in specs if _matches(spec, wanted)]
    if found:
        return found, [
            f"Note: none of these runs has {name}={shown(value)}. {_there(specs, name, [value])}"
            for name, values in wanted.items()
            for value in values
            if not any(_matches(spec, {name: [value]}) for spec in found)
        ]
    asked = ", ".join(f"{name}={' or '.join(map(shown, values))}" for name, values in wanted.items())
    there = [
        _there(specs, name, values)
        for name, values in wanted.items()
        if not any(_matches(spec, {name: values}) for spec in specs)
    ]
    there = there or ["Some have each, and none has all of them."]
    raise ValueError(f"{what} no run with {asked}. {' '.join(there)}")


def _refuse_unknown(names: Iterable[str], specs: Sequence[RunSpec]) -> None:
    """Raise ValueError if no run has a setting of that name."""
    known = list(dict.fromkeys(name for spec in specs for name in settings_in(spec)))
    for name in names:
        if name not in known:
            near = near_names(name, known)
            hint = f"Did you mean {near[0]}? " if near else ""
            raise ValueError(f"these runs have no setting {name!r}. {hint}They have {', '.join(known)}.")


def _there(specs: Iterable[RunSpec], name: str, wanted: Sequence[Any]) -> str:
    """Which values of a setting there are, as in "seed is 0 or 1.", after the one that may have been meant."""
    every = [settings_in(spec) for spec in specs]
    values = list(dict.fromkeys(shown(settings[name]) for settings in every if name in settings))
    meant = [near for one in wanted if isinstance(one, str) and "*" not in one for near in near_names(one, values)]
    hint = f"Did you mean {meant[0]}? " if meant else ""
    if len(values) > LISTED:
        values = [*values[:LISTED], f"one of {len(values) - LISTED} more"]
    return f"{hint}{name} is {' or '.join(values)}."


def _matches(spec: RunSpec, wanted: Mapping[str, Iterable[Any]]) -> bool:
    """Whether a run has one of the values wanted, for every setting named."""
    settings = settings_in(spec)
    return all(
        name in settings and any(_is_like(settings[name], in_one_form(spec, name, one)) for one in values)
        for name, values in wanted.items()
    )


def _is_like(value: Any, wanted: Any) -> bool:
    """Equal, of one kind (true is not 1), or like a pattern with *; numbers are equal however they are written."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, str) and isinstance(wanted, str):
        return fnmatchcase(value, wanted)
    try:
        return bool(value == (float(wanted) if isinstance(wanted, str) else wanted))
    except ValueError:
        return False
