"""What svrl sweep and svrl paper share: which runs, where they are kept, and who carries them out."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from svrl.cli.answers import end, say, stopped, stopping
from svrl.cli.flags import one_of
from svrl.cli.progress import Bars
from svrl.runtime.names import printable

if TYPE_CHECKING:
    from svrl.runs.driver import Summary
    from svrl.runs.spec import Effort, RunSpec
    from svrl.runs.store import Store

STORE = "runs/store"
ENGINES = ("local", "ray")
REFRESH = 2.0
"""Seconds between two looks at the rows of trainings under way."""
_LISTS = ("hidden", "bins", "states")
"""Settings whose values may be lists, as in [50, 50]: that is one value."""

Kept = Annotated[
    str,
    typer.Option(
        "--store", metavar="DIR", help="Folder of all runs, of sweeps and of the paper; several machines may share it."
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=VALUE",
        help="Only runs with this setting, as in seed=0,1 or env=atari/fr*; may be repeated, and all must hold.",
    ),
]
On = Annotated[str, typer.Option(metavar="ENGINE", help="local or ray.", **one_of("engine", ENGINES))]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Of a Ray cluster that runs; means --on ray (default: a new one, here)."),
]
Jobs = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Runs at a time (default: what cores, GPUs and memory allow).")
]


def pairs(flag: str, texts: Iterable[str] | None) -> list[tuple[str, str]]:
    """Names and values of options such as --where NAME=VALUE."""
    found = []
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ValueError(f"{flag} is NAME=VALUE, as in {flag} seed=0; got {text!r}.")
        found.append((name.strip().replace("-", "_"), value.strip()))
    return found


def value_of(text: str) -> Any:
    """A number, true, false or a list as TOML has them; anything else is a word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def only(what: str, specs: Sequence[RunSpec], where: Iterable[str] | None) -> list[RunSpec]:
    """Runs that --where asks for.

    Args:
        what: Whose runs, for sentences: "The sweep paper-57 has".
        specs: The runs.
        where: The options.
    """
    from svrl.runs.sweep_file import chosen

    wanted: dict[str, list[Any]] = {}
    for name, text in pairs("--where", where):
        wanted.setdefault(name, []).extend(_values(name, text))
    if not wanted:
        return list(specs)
    found, notes = chosen(what, specs, wanted)
    for note in notes:
        say(note)
    return found


def what_stands_against(specs: Iterable[RunSpec]) -> dict[str, list[RunSpec]]:
    """Runs that cannot be carried out on this machine, by the sentence that says why, as a missing package."""
    from svrl.runs.settings import why_not_here

    by_env: dict[tuple[str, tuple[int, ...]], list[RunSpec]] = {}
    for spec in specs:
        by_env.setdefault((spec.settings.get("env", ""), tuple(spec.settings.get("bins", ()))), []).append(spec)
    found: dict[str, list[RunSpec]] = {}
    for (env, bins), some in by_env.items():
        if env and (sentence := why_not_here(env, bins)) is not None:
            found.setdefault(sentence, []).extend(some)
    return {
        f"{len(some):,} run{'s' * (len(some) != 1)} cannot be made here: {sentence}": some
        for sentence, some in found.items()
    }


def carry_out(
    specs: Sequence[RunSpec],
    store: Store,
    *,
    again: str,
    on: str,
    address: str | None,
    effort: Effort,
    here: bool = False,
) -> Summary:
    """Have runs carried out, by processes of this machine, in this process, or by Ray, and show how they go.

    `again` is the command that resumes them. What stopped them is in the summary, for `refuse_to_continue`.
    """
    from svrl.runs.local import run_locally
    from svrl.runs.ray_pool import run_on_ray

    with stopping(stopped(store.address, again)), Bars() as bars:
        listener = cast(Any, Follower(specs, store, bars))
        if on == "ray":
            return run_on_ray(specs, store.address, cluster=address, effort=effort, listener=listener)
        return run_locally(specs, store.address, effort=effort, listener=listener, here=here)


def refuse_to_continue(found: Summary, store: Store, again: str) -> None:
    """End the command if a signal stopped the runs, or if the store could not be written to."""
    if found.broken:
        raise ValueError(
            f"{found.broken} Nothing that was written is lost. When that is repaired, resume with: {again}"
        )
    if found.stopped is not None:
        end(stopped(store.address, again), 128 + found.stopped)


class Follower:
    """Shows how runs go: one bar for all, by the time that they are expected to take, and a line for each that ends.

    Args:
        specs: The runs.
        store: Where they are.
        bars: Shows them.
    """

    def __init__(self, specs: Sequence[RunSpec], store: Store, bars: Bars) -> None:
        self._store, self._bars = store, bars
        self._minutes = {spec.id: spec.minutes for spec in specs}
        self._over = {spec.id for spec in specs if store.result(spec.id) is not None}
        self._at_work: dict[str, RunSpec] = {}
        self._looked = self._inside = 0.0
        self._bar = bars.add_task("", total=sum(self._minutes.values()), detail="")
        self._show()

    def begins(self, spec: RunSpec) -> None:
        """A process works on a run now."""
        self._at_work[spec.id] = spec
        self._show()

    def ends(self, spec: RunSpec, ended: str, reason: str) -> None:
        """It no longer does."""
        self._at_work.pop(spec.id, None)
        if ended in ("done", "failed"):
            self._over.add(spec.id)
        if self._bars.disable or ended in ("failed", "killed") or (ended == "stopped" and reason):
            self.notes(f"{ended:8} {spec.label}" + (f": {reason}" if reason else ""))
        self._show()

    def looks(self) -> None:
        """Move the bar inside trainings, now and then."""
        if time.monotonic() - self._looked > REFRESH:
            self._looked = time.monotonic()
            self._inside = sum(map(self._made, self._at_work.values()))
            self._show()

    def notes(self, sentence: str) -> None:
        """Something that a person should know."""
        self._bars.say(sentence)

    def _made(self, spec: RunSpec) -> float:
        """Minutes of a training that are done."""
        trains = spec.kind.name == "train" and spec.steps
        return spec.minutes * min(1.0, self._store.steps(spec.id) / spec.steps) if trains and spec.steps else 0.0

    def _show(self) -> None:
        done = sum(self._minutes[run] for run in self._over) + self._inside
        counts = f"{len(self._over)} of {len(self._minutes)} runs over"
        labels = ", ".join(spec.label for spec in self._at_work.values())
        self._bars.update(self._bar, completed=done, description=counts, detail=printable(labels))


def _values(name: str, text: str) -> list[Any]:
    """Values of --where: 0,1 and [0, 1] are two; what is a list itself, as hidden, is one."""
    value = value_of(text)
    if value != text:
        return value if isinstance(value, list) and name not in _LISTS else [value]
    parts = [] if name == "hidden" else [part.strip() for part in text.split(",") if part.strip()]  # 128,128
    return [value_of(part) for part in parts] or [text]
