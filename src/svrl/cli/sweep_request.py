"""What the commands of svrl sweep are asked about: a file, changed and filtered, and a store."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from svrl.cli.answers import BadInputError, say

if TYPE_CHECKING:
    from svrl.runs.spec import RunSpec
    from svrl.runs.store import Store
    from svrl.runs.sweep_file import Sweep

LISTS = ("hidden", "states")
"""Settings whose values may be lists, as in [50, 50]: that is one value."""


@dataclass(frozen=True, kw_only=True)
class SweepRequest:
    """A sweep and where it is kept.

    Attributes:
        sweep: The file.
        specs: Its runs, after --set and --where.
        store: The folder of all runs.
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
        *,
        cores: int | None = None,
    ) -> SweepRequest:
        """From the words of a command; BadInputError or ValueError if one is wrong."""
        from svrl.runs.grid import chosen, runs_of
        from svrl.runs.store import open_store
        from svrl.runs.sweep_file import read_sweep

        sweep = read_sweep(file)
        if cores is not None:
            sweep = replace(sweep, resources=replace(sweep.resources, cores=cores))
        wanted: dict[str, list[Any]] = {}
        for name, text in _pairs("--where", where):
            wanted.setdefault(name, []).extend(_values(name, text))
        opened = open_store(store)
        specs = runs_of(sweep, changes={name: _value(text) for name, text in _pairs("--set", changes)})
        if wanted:
            specs, notes = chosen(f"The sweep {sweep.name} has", specs, wanted)
            for note in notes:
                say(note)
        return cls(sweep=sweep, specs=tuple(specs), store=opened)

    def to_be_done(self, specs: Iterable[RunSpec] | None = None) -> list[RunSpec]:
        """Runs that a sweep would work on: what is done, or has failed, needs nothing more."""
        return [spec for spec in specs or self.specs if self.store.state(spec.id) not in ("done", "failed")]

    def check_environments(self) -> None:
        """Raise BadInputError for environments of runs to be done that Gymnasium does not know; none is made."""
        from svrl.runs.settings import check_registered

        wrong = []
        for env, specs in self._by_environment().items():
            try:
                check_registered(env)
            except ValueError as error:
                wrong += [str(error)] if self.to_be_done(specs) else []
        if wrong:
            raise BadInputError(" ".join(wrong))

    def what_stands_against(self) -> list[str]:
        """A sentence for every reason why runs that are to be done cannot be made here, as a missing package."""
        from svrl.runs.settings import why_not_here

        needing: dict[str, list[RunSpec]] = {}
        for env, specs in self._by_environment().items():
            sentence = why_not_here(env)
            if sentence is not None:
                needing.setdefault(sentence, []).extend(specs)
        counts = {sentence: len(self.to_be_done(specs)) for sentence, specs in needing.items()}
        return [
            f"{count:,} run{'s' * (count != 1)} cannot be made here: {sentence}"
            for sentence, count in counts.items()
            if count
        ]

    def _by_environment(self) -> dict[str, list[RunSpec]]:
        found: dict[str, list[RunSpec]] = {}
        for spec in self.specs:
            if spec.kind.name == "train":
                found.setdefault(spec.subject, []).append(spec)
        return found


def shipped_names() -> list[str]:
    """For completion."""
    from svrl.runs.sweep_file import shipped

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
