"""A run: its kind and its settings, which are its identity, and what it is carried out with.

Kinds are trainings, plans, and the computations that the paper's figures are drawn from. Settings are plain data. A run
with the same kind and settings is the same run: what one list of runs has computed, another one finds.
Everything random is seeded by the settings. The device is not part of them: on another one the same seed may draw other
numbers, which is another sample of the same thing, and the provenance says where it was computed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svrl.agents.config import arm_of
from svrl.runtime.stop_signals import Signals

if TYPE_CHECKING:
    import numpy as np

SUBJECT: dict[str, str] = {"train": "env", "plan": "task"}
"""The setting of trainings and plans that is the argument of their command."""
_NOT_IN_LABEL = ("env", "task", "agent", "structured", "method", "seed", "preset", "device", "precision", "threads")


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How runs are carried out; nothing here changes what is computed.

    Attributes:
        cores: CPU cores of a run, and the threads of one that begins; one that is resumed keeps its own.
        gpus: The share of a GPU that a run on one takes, at most 1; 0 is all of it.
        memory_gb: Most memory of a run in 10^9 bytes; None is not watched.
        jobs: Runs at a time on CPUs, or processes on GPUs; None takes as many as cores, GPUs and memory allow.
        checkpoint_every: Seconds between two checkpoints of a training: what a killed process costs at most.
        retries: Times that a run whose process was killed is begun again: by the system for lack of memory, or with its
            machine.
        hours: After which no run is begun and those at work are saved; None is no limit.
        tensorboard: Write scalars for TensorBoard.
        command: That asked for the runs, for their provenance.
    """

    cores: int = 1
    gpus: float = 0.0
    memory_gb: float | None = None
    jobs: int | None = None
    checkpoint_every: float = 60.0
    retries: int = 2
    hours: float | None = None
    tensorboard: bool = False
    command: str = ""

    def __post_init__(self) -> None:
        for name in ("cores", "jobs"):
            got = getattr(self, name)
            if got is not None and (type(got) is not int or got < 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {got!r}.")
        for name in ("memory_gb", "checkpoint_every", "hours"):
            got = getattr(self, name)
            if got is not None and not (type(got) in (int, float) and 0 < got < math.inf):
                raise ValueError(f"{name} must be a number above 0, got {got!r}.")
        if not (type(self.gpus) in (int, float) and 0 <= self.gpus <= 1):
            raise ValueError(f"gpus must be a share of one GPU, from 0 to 1, got {self.gpus!r}.")


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a run is carried out with, beside its settings.

    Attributes:
        folder: The run directory. It need not exist; what is in it stays after an interruption.
        device: "cpu", "cuda" or "cuda:1".
        env_threads: Native threads of a training's environments.
        effort: How runs are carried out.
        signals: Held back. When one came, the run saves what it can, and stops.
        after: The run directories of the runs that this one comes after.
    """

    folder: Path
    device: str = "cpu"
    env_threads: int = 1
    effort: Effort = field(default_factory=Effort)
    signals: Signals = field(default_factory=Signals)
    after: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a run that writes no run directory itself.

    Attributes:
        rows: JSON objects; numbers are numbers.
        arrays: What is too long for rows, policies and trajectories say.
        trained: Machine, versions and commit of a training that the rows are about; empty if there is none.
    """

    rows: list[dict[str, Any]]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    trained: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How runs of one kind are carried out.

    Attributes:
        name: Of the kind.
        version: To be raised when the same settings lead to another result: the runs are then others.
        compute: A function of a module, so that other processes find it. What it returns is written to the run
            directory; it returns None if it has written its result there itself.
        resumes: Whether it saves itself when a signal comes, and resumes; others stop at once and begin again.
    """

    name: str
    version: int = 1
    compute: Callable[[Mapping[str, Any], Work], Result | None]
    resumes: bool = False


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run.

    Attributes:
        kind: How it is carried out.
        settings: All that its result depends on: strings, numbers, booleans, None, and lists and objects of them.
        given: What a sweep says about it, for its label and for comparisons: the same settings without defaults.
        device: cpu, cuda or cuda:N.
        steps: Agent steps of a training, most iterations of a plan; None if not known in advance.
        minutes: About how long it takes on one core, for estimates only.
        after: Runs that have to be done before.
    """

    kind: Kind
    settings: Mapping[str, Any]
    given: Mapping[str, Any] = field(default_factory=dict, compare=False)
    device: str = field(default="cpu", compare=False)
    steps: int | None = field(default=None, compare=False)
    minutes: float = field(default=0.1, compare=False)
    after: tuple[RunSpec, ...] = field(default=(), compare=False)

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits that stand for kind, version and settings."""
        text = json.dumps([self.kind.name, self.kind.version, self.settings], sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def subject(self) -> str:
        """The environment or the task; empty if it has none."""
        return str(self.settings.get("env", self.settings.get("task", "")))

    @property
    def arm(self) -> str:
        """What is compared: dqn, sv-dqn, ..., or the method of a plan."""
        settings = self.settings
        if "structured" in settings:
            return arm_of(settings)
        return str(settings.get("arm", settings.get("method", "")))

    @property
    def minutes_in_all(self) -> float:
        """With the runs that it comes after."""
        return self.minutes + sum(run.minutes_in_all for run in self.after)

    @property
    def seed(self) -> int:
        """Of everything random."""
        return int(self.settings.get("seed", 0))

    @property
    def label(self) -> str:
        """What to call it, as in "atari/pong sv-dqn batch_size=64 seed 0"."""
        if self.kind.name not in SUBJECT:
            return f"{self.kind.name}: " + ", ".join(f"{name} {shown(value)}" for name, value in self.settings.items())
        more = [f"{name}={shown(value)}" for name, value in self.given.items() if name not in _NOT_IN_LABEL]
        return " ".join([self.subject, self.arm, *more, f"seed {self.seed}"])

    def as_json(self) -> dict[str, Any]:
        """For spec.json."""
        return {
            "id": self.id,
            "kind": self.kind.name,
            "version": self.kind.version,
            "label": self.label,
            "arm": self.arm,
            "settings": dict(self.given or self.settings),
            "full": dict(self.settings),
            "device": self.device,
            "steps": self.steps,
        }


def with_forerunners(specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Runs once each, every one behind those that it comes after."""
    found: dict[str, RunSpec] = {}
    for spec in specs:
        found |= {run.id: run for run in (*with_forerunners(spec.after), spec) if run.id not in found}
    return list(found.values())


def shown(value: Any) -> str:
    """A setting for a person: a grid or the widths of layers as 50x50."""
    if value is None:
        return "not set"
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
