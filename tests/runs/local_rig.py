"""Small sweeps on this machine, drivers that can be killed, and what two equal runs have in common.

As a program it is a driver: python local_rig.py FILE STORE [SECONDS], with SECONDS between two checkpoints. It prints a
line for everything that it is told, and how the runs stand at the end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from svrl.runs.driver import Listener
from svrl.runs.local import run_locally
from svrl.runs.settings import spec_of
from svrl.runs.spec import Effort, RunSpec
from svrl.runs.store import Store
from svrl.runs.sweep_file import parse_sweep, runs_of
from svrl.runtime.rows import read_rows

OF_TIME = ("seconds", "per_second", "break_even_cost")
OF_PLACE = ("run", "out", "folder")
ROWS = ("episodes.jsonl", "learning.jsonl", "evaluations.jsonl", "rows.jsonl")


def runs(text: str) -> list[RunSpec]:
    return runs_of(parse_sweep(text, "small"))


def trainings(steps: int = 300, seeds: int = 1, arms: Sequence[str] = ("dqn",), **more: Any) -> list[RunSpec]:
    fixed = "\n".join(f"{name} = {json.dumps(value)}" for name, value in more.items())
    return runs(
        f'[fixed]\npreset = "smoke"\neval_episodes = 1\n{fixed}\n'
        f'[axes]\nenv = "CartPole-v1"\narm = {json.dumps(list(arms))}\nseeds = {seeds}\n[budget]\nsteps = {steps}\n'
    )


def plans(seeds: int = 1, **more: Any) -> list[RunSpec]:
    fixed = {"states": "20", "actions": 5, "starts": 10, "iterations": 3, **more}
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in fixed.items())
    return runs(f'kind = "plan"\n[fixed]\ntask = "toy"\n{lines}\n[axes]\nseeds = {seeds}\n')


class Told(Listener):
    """Keeps what it is told, and does something whenever an engine looks up.

    Args:
        then: Called with this listener at every look.
    """

    def __init__(self, then: Callable[[Told], None] | None = None) -> None:
        self.begun: list[str] = []
        self.ended: list[tuple[str, str, str]] = []
        self.said: list[str] = []
        self._then = then

    def begins(self, spec: RunSpec) -> None:
        self.begun.append(spec.id)

    def ends(self, spec: RunSpec, ended: str, reason: str) -> None:
        self.ended.append((spec.id, ended, reason))

    def notes(self, sentence: str) -> None:
        self.said.append(sentence)

    def looks(self) -> None:
        if self._then is not None:
            self._then(self)


def at_first(wanted: Callable[[], bool], act: Callable[[], object]) -> Callable[[Told], None]:
    """Acts once, at the first look at which something holds."""
    done = []

    def look(told: Told) -> None:
        if not done and wanted():
            done.append(True)
            act()

    return look


def has_checkpoint(address: Path, spec: RunSpec) -> bool:
    return any((Store(address).folder(spec.id) / "run" / "checkpoints").glob("[0-9]*.npz"))


def process_of(address: Path, spec: RunSpec) -> int:
    """Of the attempt that was begun last."""
    return int([row for row in Store(address).attempts(spec.id) if "pid" in row][-1]["pid"])


def at_work(address: Path, specs: Sequence[RunSpec]) -> list[int]:
    """Processes that hold runs of a store at this moment."""
    store = Store(address)
    return [process_of(address, spec) for spec in specs if store.is_running(spec.id) and store.attempts(spec.id)]


def is_there(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] not in ("Z", "X")


def children_of(process: int) -> list[int]:
    """All that came from a process, and from what came from it."""
    try:
        own = [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []
    return [*own, *(later for one in own for later in children_of(one))]


def what_became_of(folder: Path) -> dict[str, Any]:
    """Everything about a finished run but time and place: rows, result, arrays."""
    found: dict[str, Any] = {name: [_timeless(row) for row in read_rows(folder / name)] for name in ROWS}
    found["result"] = _timeless(json.loads((folder / "result.json").read_text()))
    for path in sorted([*folder.glob("*.npz"), *folder.glob("*.npy")]):
        arrays = np.load(path)
        named = arrays if isinstance(arrays, np.lib.npyio.NpzFile) else {"": arrays}
        found[path.name] = {name: named[name].tolist() for name in named}
    return found


def all_of(address: Path, specs: Sequence[RunSpec]) -> dict[str, Any]:
    return {spec.label: what_became_of(Store(address).folder(spec.id) / "run") for spec in specs}


def leftovers(address: Path) -> list[str]:
    """Files of a store that no finished sweep has: temporary ones, and what runs go on from."""
    state = ("checkpoints", "replay", "checkpoint.pt")
    paths = [path.relative_to(address) for path in address.rglob("*")]
    return [str(path) for path in paths if path.name.startswith(".") or set(path.parts) & set(state)]


def written(tmp_path: Path, specs: Sequence[RunSpec], name: str = "small") -> Path:
    """Runs as a file that the driver reads."""
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps([spec.as_json() for spec in specs]))
    return path


def driver(file: Path, store: Path, every: float = 60.0, **options: Any) -> subprocess.Popen[str]:
    """A driver in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, __file__, str(file), str(store), str(every)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        **options,
    )


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not holds():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def _timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _timeless(value) if isinstance(value, dict) else value
        for name, value in row.items()
        if name not in OF_PLACE and not any(word in name for word in OF_TIME)
    }


class _Printing(Listener):
    def begins(self, spec: RunSpec) -> None:
        _print("begins", spec.id)

    def ends(self, spec: RunSpec, ended: str, reason: str) -> None:
        _print("ends", spec.id, ended, reason)

    def notes(self, sentence: str) -> None:
        _print("notes", sentence)


def _print(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def _main(file: str, store: str, every: str) -> int:
    specs = [spec_of(fields["kind"], fields["settings"]) for fields in json.loads(Path(file).read_text())]
    try:
        found = run_locally(specs, store, effort=Effort(checkpoint_every=float(every)), listener=_Printing())
    except KeyboardInterrupt:
        return 130
    _print("summary", json.dumps({"states": found.states, "failures": found.failures, "broken": found.broken}))
    return 0 if found.stopped is None else 128 + found.stopped


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
