"""How long a sweep will take: a short try of one run of each sort, or what finished ones took.

Runs are of one sort if their speed should be about the same: the family of environments, the network and the size of
its updates, the agent, structure and device; of plans the task, its grid and the method. A training is tried for a
thousand steps with learning in most of them, a plan for three iterations; evaluations and start-up are left out. It
is an estimate, good to a factor of two: one game of Atari stands for all, and a plan may need fewer iterations than
its method allows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svrl.agents.config import family_of
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.store import Store

TRIED_STEPS, TRIED_ITERATIONS = 1_000, 3
_OF_TRAINING = (
    "network",
    "hidden",
    "agent",
    "structured",
    "estimator",
    "batch_size",
    "updates_per_step",
    "envs",
    "device",
)
_OF_PLANS = ("task", "method", "states", "actions", "device")


@dataclass(frozen=True, kw_only=True)
class Sort:
    """Runs of about one speed.

    Attributes:
        runs: They.
        seconds_a_step: Of one of them by itself; None if it could not be found out.
        source: Where that comes from: "finished runs", "a short try", or why there is none.
    """

    runs: tuple[RunSpec, ...]
    seconds_a_step: float | None
    source: str

    @property
    def steps(self) -> int | None:
        """Agent steps of all trainings, most iterations of all plans; None if only methods know."""
        each = [steps_of(spec) for spec in self.runs]
        return None if None in each else sum(steps or 0 for steps in each)

    @property
    def seconds(self) -> float | None:
        """Of all runs, one after another."""
        return None if self.seconds_a_step is None or self.steps is None else self.seconds_a_step * self.steps

    @property
    def seconds_of_longest(self) -> float | None:
        """Of the longest run by itself."""
        if self.seconds_a_step is None or self.steps is None:
            return None
        return self.seconds_a_step * max(steps_of(spec) or 0 for spec in self.runs)


def steps_of(spec: RunSpec) -> int | None:
    """Agent steps of a training, most iterations of a plan."""
    return spec.steps if spec.kind == "train" else int(spec.full["iterations"])


def sorts_of(specs: Sequence[RunSpec]) -> list[tuple[RunSpec, ...]]:
    """Runs of one sort together, in the order in which they first come."""
    found: dict[str, list[RunSpec]] = {}
    for spec in specs:
        found.setdefault(_sort(spec), []).append(spec)
    return [tuple(runs) for runs in found.values()]


def calibrate(
    specs: Sequence[RunSpec],
    store: Store,
    *,
    finished: Sequence[RunSpec] = (),
    threads: int = 1,
    tries: bool = True,
    told: Callable[[int, int, str], None] = lambda done, of, what: None,
) -> list[Sort]:
    """Find out how fast runs are.

    Args:
        specs: The runs.
        store: Where finished ones are looked for first.
        finished: Runs that may be there, beside those.
        threads: CPU threads of a run.
        tries: Try a run of a sort of which none is finished.
        told: Is told how many sorts are done, of how many, and which is next.
    """
    groups, sorts = sorts_of(specs), []
    done: dict[str, list[RunSpec]] = {}
    for spec in finished:
        done.setdefault(_sort(spec), []).append(spec)
    for number, runs in enumerate(groups):
        told(number, len(groups), runs[0].label)
        seconds, source = _of_finished([*done.get(_sort(runs[0]), ()), *runs], store), "finished runs"
        if seconds is None:
            seconds, source = _tried(runs[0], threads) if tries else (None, "not tried")
        sorts.append(Sort(runs=runs, seconds_a_step=seconds, source=source))
    return sorts


def _sort(spec: RunSpec) -> str:
    names = _OF_TRAINING if spec.kind == "train" else _OF_PLANS
    family = family_of(spec.subject) if spec.kind == "train" else ""
    if family == "gymnasium":
        family = spec.subject
    return json.dumps([spec.kind, family, *(spec.full.get(name) for name in names)])


def _of_finished(runs: Sequence[RunSpec], store: Store) -> float | None:
    for spec in runs:
        result = store.result(spec.id)
        speed = None if result is None else _seconds_a_step(spec, result)
        if speed is not None:
            return speed
    return None


def _seconds_a_step(spec: RunSpec, result: dict[str, Any]) -> float | None:
    if spec.kind == "train":
        rate = result.get("steps_per_second")
        return 1 / rate if rate else None
    if not result.get("iterations"):
        return None
    return (result["seconds_backup"] + result["seconds_estimate"]) / result["iterations"]


def _tried(spec: RunSpec, threads: int) -> tuple[float | None, str]:
    """Seconds a step of a run that is made short, in a folder that goes again."""
    with tempfile.TemporaryDirectory(prefix="svrl-try-") as folder:
        short = RunSpec(kind=spec.kind, settings={**spec.settings, **_shorter(spec)}, full=spec.full)
        argv = short.argv(Path(folder) / "run", resume=False, threads=threads)
        done = subprocess.run(
            [sys.executable, "-m", "svrl", *argv, "--json"], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
            return None, said[-1].removeprefix("Error: ")
        return _seconds_a_step(spec, json.loads(done.stdout)), "a short try"


def _shorter(spec: RunSpec) -> dict[str, Any]:
    if spec.kind == "plan":
        return {"iterations": TRIED_ITERATIONS, "starts": 1}
    begin = max(spec.full["batch_size"], spec.full["envs"])
    steps = max(TRIED_STEPS, 4 * begin)
    return {
        "steps": steps,
        "learn_from": begin,
        "replay": max(2 * steps, begin),
        "log_every": steps,
        "eval_every": 0,
        "eval_episodes": 1,
        "eval_epsilon": 1.0,  # a random player's games are short
    }
