"""A sweep as a file: which runs, with what each, and for how long.

```toml
kind = "train"                      # or "plan"

[fixed]                             # of every run: any option of svrl train or svrl plan
preset = "short"

[axes]                              # every combination is a run
env = ["atari/frostbite", "minatar/*"]
arm = ["dqn", "sv-dqn"]             # or agent and structured, each for itself
observe = [0.7, 0.9]                # or p
seeds = 3                           # or seed = [0, 1, 2]

[[include]]                         # another grid: its axes take the place of those above
arm = ["double", "sv-double"]
observe = 0.9

[[exclude]]                         # no run in which all of these hold
env = "minatar/freeway"
seed = [1, 2]

[resources]                         # of each run
cores = 1
gpus = 0.25                         # share of a GPU
memory_gb = 4

[budget]
steps = 1_000_000                   # of each training; iterations of a plan
hours = 12                          # no run is begun later; those that run are saved and stopped
```
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from svrl.runs.spec import SUBJECT
from svrl.runtime.names import nearest_name

PARTS = ("name", "kind", "fixed", "axes", "include", "exclude", "resources", "budget")
SHIPPED = "svrl.runs.files"
"""The package with the paper's grids."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one run takes.

    Attributes:
        cores: CPU cores, at least 1.
        gpus: The share of a GPU that a run on one takes, at most 1; 0 is all of it.
        memory_gb: Most memory in 10^9 bytes; None is not watched.
    """

    cores: int = 1
    gpus: float = 0.0
    memory_gb: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.cores, bool) or not isinstance(self.cores, int) or self.cores < 1:
            raise ValueError(f"resources.cores is a whole number of at least 1, got {self.cores!r}.")
        for name in ("gpus", "memory_gb"):
            got = getattr(self, name)
            if got is not None and not (_is_number(got) and 0 <= got < math.inf):
                raise ValueError(f"resources.{name} is a number of at least 0, got {got!r}.")
        if self.memory_gb == 0:
            raise ValueError("resources.memory_gb is more than 0; leave it out for no limit.")
        if self.gpus > 1:
            raise ValueError(f"A run trains on one GPU; [resources] gpus must be at most 1, got {self.gpus}.")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long.

    Attributes:
        steps: Agent steps of each training, iterations of each plan; None leaves it to the settings.
        hours: Wall-clock hours after which no run is begun and those that run are saved; None is no limit.
    """

    steps: int | None = None
    hours: float | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and (
            isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1
        ):
            raise ValueError(f"budget.steps is a whole number of at least 1, got {self.steps!r}.")
        if self.hours is not None and not (_is_number(self.hours) and self.hours > 0):
            raise ValueError(f"budget.hours is a number above 0, got {self.hours!r}.")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What a file asks for; `svrl.runs.grid.runs_of` makes its runs.

    Attributes:
        name: What to call it; its record in a store has this name.
        kind: The command of every run.
        fixed: Settings of every run.
        axes: Values of those that vary.
        include: Further grids; their axes take the place of `axes`.
        exclude: Combinations to leave out.
        resources: What one run takes.
        budget: How long.
        text: The file.
    """

    name: str
    kind: Literal["train", "plan"] = "train"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    axes: Mapping[str, Any] = field(default_factory=dict)
    include: tuple[Mapping[str, Any], ...] = ()
    exclude: tuple[Mapping[str, Any], ...] = ()
    resources: Resources = field(default_factory=Resources)
    budget: Budget = field(default_factory=Budget)
    text: str = ""


def shipped() -> list[str]:
    """Names of the sweeps that come with the package."""
    return sorted(path.name.removesuffix(".toml") for path in resources.files(SHIPPED).iterdir() if _is_toml(path.name))


def read_sweep(path: str | Path) -> Sweep:
    """Read a file, or a sweep that comes with the package by its name, as in "paper-57".

    Raises:
        ValueError: If there is none, or something in it is wrong; the sentence says where.
    """
    given = Path(path)
    if given.is_file():
        text, name = _read(given), given.stem
    elif str(path).removesuffix(".toml") in shipped():
        name = str(path).removesuffix(".toml")
        text = (resources.files(SHIPPED) / f"{name}.toml").read_text(encoding="utf-8")
    else:
        hint = nearest_name(str(path).removesuffix(".toml"), shipped(), otherwise="Give a file, or one of")
        raise ValueError(f"There is no sweep {str(path)!r}. {hint}")
    try:
        return parse_sweep(text, name)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse_sweep(text: str, name: str) -> Sweep:
    """A sweep from the text of a file."""
    try:
        parts = tomllib.loads(text)
        repr(parts)  # names with dots nest without end, and a later sentence may show a value
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"this is no TOML: {error}.") from error
    except RecursionError:
        raise ValueError("lists or tables are nested too deeply: a value is a number, a text or a list.") from None
    _refuse_others("a sweep", parts, PARTS)
    kind = parts.get("kind", "train")
    if kind not in SUBJECT:
        raise ValueError(f"kind is train or plan, got {kind!r}.")
    for part in ("fixed", "axes", "resources", "budget"):
        if not isinstance(parts.get(part, {}), dict):
            raise ValueError(f"{part} is a table: write [{part}] above its lines.")
    for part in ("include", "exclude"):
        entries = parts.get(part, [])
        if not isinstance(entries, list) or not all(isinstance(entry, dict) and entry for entry in entries):
            raise ValueError(f"{part} is a list of tables: write [[{part}]] above each.")
    _refuse_others("resources", parts.get("resources", {}), ("cores", "gpus", "memory_gb"))
    _refuse_others("budget", parts.get("budget", {}), ("steps", "hours"))
    name = parts.get("name", name)
    if not isinstance(name, str) or not re.fullmatch(r"\w[\w.+-]*", name):
        raise ValueError(
            f"name consists of letters, digits, dots and dashes, and begins with a letter or a digit; got {name!r}."
        )
    return Sweep(
        name=name,
        kind=kind,
        fixed=parts.get("fixed", {}),
        axes=parts.get("axes", {}),
        include=tuple(parts.get("include", ())),
        exclude=tuple(parts.get("exclude", ())),
        resources=Resources(**parts.get("resources", {})),
        budget=Budget(**parts.get("budget", {})),
        text=text,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: {error.reason} at byte {error.start}.") from error


def _refuse_others(what: str, got: Mapping[str, Any], known: Iterable[str]) -> None:
    names = tuple(known)
    for name in got:
        if name not in names:
            raise ValueError(f"{what} has no {name!r}. {nearest_name(name, names, otherwise='It has')}")


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
