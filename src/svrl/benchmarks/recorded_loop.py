"""Training loops that are recorded, and the emulator without an agent at the very games that the agent played.

How fast an emulator steps depends on the games: one that ends makes the step wait for its reset. So the actions of a
training are recorded, and played again from the same seeds on the same environments with nobody else at work. The
rewards must come out the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.events import Stepped
from svrl.agents.training import Training
from svrl.benchmarks.rows import seconds
from svrl.envs.atari import AtariLanes
from svrl.envs.vector import Step, VectorEnv


class RecordingEnv:
    """Atari environments that remember what was done in them.

    Attributes:
        spec, count: As those of the environments.
        actions: (N,), uint8, of every step so far.
        rewards: (N,), float64, of every step so far.
        same: Whether everything that was played again had the same rewards.
    """

    def __init__(self, env: VectorEnv) -> None:
        """Before the first game.

        Raises:
            ValueError: If the environments are others than Atari's, or games have begun.
        """
        if not isinstance(env, AtariLanes) or env._seeds is None:
            raise ValueError(
                f"Games are recorded from the first on, and on Atari; got {env.spec.id}. Wrap new Atari environments."
            )
        self._env, self._seeds = env, env._seeds
        self.spec, self.count = env.spec, env.count
        self.actions: list[np.ndarray] = []
        self.rewards: list[np.ndarray] = []
        self.same = True
        self._script: list[np.ndarray] | None = None

    def follow(self, other: RecordingEnv) -> None:
        """Do what another does, or has done, whatever the agent says: so two agents have the same games."""
        self._script = other.actions

    def reset(self) -> np.ndarray:
        """As that of the environments."""
        return self._env.reset()

    def send(self, actions: np.ndarray) -> None:
        """As that of the environments; the actions are kept."""
        if self._script is not None:
            actions = self._script[len(self.actions)].astype(np.int64)
        self.actions.append(actions.astype(np.uint8))
        self._env.send(actions)

    def recv(self) -> Step:
        """As that of the environments; the rewards are kept."""
        step = self._env.recv()
        self.rewards.append(step.rewards)
        return step

    def capture(self) -> Mapping[str, Any] | None:
        """None: the emulators cannot be saved."""
        return None

    def restore(self, state: Mapping[str, Any]) -> np.ndarray:
        """Refused, as by the environments."""
        return self._env.restore(state)

    def render(self, lane: int = 0) -> np.ndarray:
        """As that of the environments."""
        return self._env.render(lane)

    def close(self) -> None:
        """As that of the environments."""
        self._env.close()

    def begin_again(self) -> None:
        """Begin the first games again; emulators that are seeded anew are as good as new ones, and at hand."""
        self._env._seeds = self._seeds
        self._env.reset()

    def play_again(self, first: int, last: int, stop: threading.Event | None = None) -> int:
        """Play steps first .. last - 1 of the record, or until `stop` is set; how many were played.

        `begin_again` comes before step 0, and step k after step k - 1.
        """
        for k in range(first, last):
            if stop is not None and stop.is_set():
                return k - first
            self._env.send(self.actions[k])
            self.same &= np.array_equal(self._env.recv().rewards, self.rewards[k])
        return last - first


class Loop(NamedTuple):
    """A training, and its environments as they record it."""

    training: Training
    env: RecordingEnv


class Stretch(NamedTuple):
    """A part of a loop that was timed: its steps of all environments [first, last), its updates, and the clock."""

    first: int
    last: int
    updates: int
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began


def begin_loop(game: str, config: AgentConfig, seed: int, device: torch.device, env_threads: int = 0) -> Loop:
    """A training whose environments record it from the first game on."""
    training = Training.begin(game, config, seed=seed, device=device, env_threads=env_threads)
    training._envs = env = RecordingEnv(training._envs)
    return Loop(training, env)


def warm_up(loop: Loop, steps: int) -> None:
    """Train until so many agent steps have been made since the beginning."""
    _run(loop.training, lambda: loop.training.steps >= steps)


def timed_stretch(loop: Loop, length: float, *, last: int | None = None) -> Stretch:
    """Train for so many seconds, or up to a given number of steps of all environments."""
    training, first, updates = loop.training, len(loop.env.actions), loop.training.updates
    began = time.perf_counter()
    if last is None:
        _run(training, lambda: time.perf_counter() - began >= length)
    else:
        _run(training, lambda: len(loop.env.actions) >= last)
    return Stretch(first, len(loop.env.actions), training.updates - updates, began, time.perf_counter())


def emulator_seconds(env: RecordingEnv, stretches: list[Stretch]) -> float:
    """Seconds of the emulator alone for the same stretches; what lies between them is played, and not timed."""
    env.begin_again()
    spent, at = 0.0, 0
    for one in stretches:
        env.play_again(at, one.first)
        spent += seconds(lambda one=one: env.play_again(one.first, one.last))  # type: ignore[misc]
        at = one.last
    return spent


def _run(training: Training, over: Callable[[], bool]) -> None:
    """Train until `over`, which is asked after every step of all environments; then wait for what is under way."""
    for event in training.events():
        if isinstance(event, Stepped) and over():
            break
    training.settle()
