"""What the commands of svrl sweep are asked about: a file, changed and filtered, and a store."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from svrl.cli.answers import BadInputError, say
from svrl.cli.sweep_codes import recorded_runs

if TYPE_CHECKING:
    from svrl.sweeps.run_spec import RunSpec
    from svrl.sweeps.store import Store
    from svrl.sweeps.sweep_file import Sweep

LISTS = ("hidden", "states")
"""Settings whose values may be lists, as in [50, 50]: that is one value."""


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """A sweep and where it is kept.

    Attributes:
        sweep: The file.
        specs: Its runs, after --set and --where.
        store: Of the code version that is meant.
    """

    sweep: Sweep
    specs: tuple[RunSpec, ...]
    store: Store

    @classmethod
    def read(
        cls,
        file: str,
        store: str,
        changes: Iterable[str] | None = None,
        where: Iterable[str] | None = None,
        code: str | None = None,
        *,
        cores: int | None = None,
    ) -> SweepRequest:
        """From the words of a command; BadInputError or ValueError if one is wrong."""
        from svrl.sweeps.grid import chosen, runs_of
        from svrl.sweeps.store import open_store
        from svrl.sweeps.sweep_file import read_sweep

        sweep = read_sweep(file)
        if cores is not None:
            sweep = replace(sweep, resources=replace(sweep.resources, cores=cores))
        wanted: dict[str, list[Any]] = {}
        for name, text in _pairs("--where", where):
            wanted.setdefault(name, []).extend(_values(name, text))
        opened = open_store(store, code)
        if code is None:
            specs = runs_of(sweep, changes={name: _value(text) for name, text in _pairs("--set", changes)})
        elif changes:
            raise BadInputError("--set has no place beside --code: runs of another code are what they are.")
        else:
            specs = recorded_runs(opened, sweep.name)
        if wanted:
            specs, notes = chosen(sweep.name, specs, wanted)
            for note in notes:
                say(note)
        if sweep.kind == "plan" and code is None:
            _check_plans(specs)
        return cls(sweep=sweep, specs=tuple(specs), store=opened)


def shipped_names() -> list[str]:
    """For completion."""
    from svrl.sweeps.sweep_file import shipped

    return shipped()


def _pairs(flag: str, texts: Iterable[str] | None) -> list[tuple[str, str]]:
    pairs = []
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise BadInputError(f"{flag} is NAME=VALUE, as in {flag} seed=0; got {text!r}.")
        pairs.append((name.strip().replace("-", "_"), value.strip()))
    return pairs


def _values(name: str, text: str) -> list[Any]:
    """Values of --where: 0,1 and [0, 1] are two; what is a list itself, as hidden, is one."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        parts = [] if name == "hidden" else [part.strip() for part in text.split(",") if part.strip()]  # 128,128
        return [_value(part) for part in parts] or [text]
    return value if isinstance(value, list) and name not in LISTS else [value]


def _value(text: str) -> Any:
    """A number, true, false or a list as TOML has them; anything else is a word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def _check_plans(specs: Iterable[RunSpec]) -> None:
    """Options that contradict each other are found before the first run begins."""
    from svrl.cli.plan_request import PlanRequest

    for spec in specs:
        try:
            PlanRequest(**spec.settings)
        except BadInputError as error:
            raise BadInputError(f"{spec.label}: {error}") from error
