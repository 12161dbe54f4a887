"""Whole training loops on a GPU, against the emulator alone and against the authors' program, in the same process.

One agent, plain and structured, with many environments: one update for four agent steps, act_lag 1, timed once epsilon
has fallen. It is held against

    the emulator alone      How fast it steps depends on the games: one that ends makes the step wait for its reset. So
                            the actions of the training are recorded and played again from the same seeds with nobody
                            else at work; rewards must come out the same. The ratio is the share of the emulator's speed
                            that is left with an agent, at most 1.
    the authors' program    as Stable-Baselines3's DQN stands for it: one environment, eager updates, the buffer in host
                            memory; structure by fancyimpute on the host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.authors import complete_targets
from benchmarks.env import GAME, sb3_dqn
from benchmarks.rows import Row, device_name, seconds, torch_threads
from svrl.agents.config import AUTHORS_STRUCTURE, AgentConfig
from svrl.agents.events import Stepped
from svrl.agents.seeds import derived_seed
from svrl.agents.training import Training
from svrl.envs.catalogue import make_env
from svrl.envs.vector import Step, VectorEnv

LIMIT = 0.45
"""The share of the emulator's speed that an agent shall reach."""


def measure(quick: bool, device: torch.device) -> Iterator[Row]:
    """Rows for a plain and a structured agent."""
    if device.type == "cpu" and not quick:
        raise ValueError(
            "The full size of train is too much for the CPU; got --device cpu. "
            "Use --device cuda where there is a GPU, or --quick to see that it runs."
        )
    small = {"n_envs": 16, "start": 400, "warm": 600, "seconds_each": 2.0, "peer_steps": 100}
    yield from measure_loops(device, **(small if quick else {}))  # type: ignore[arg-type]


def measure_loops(
    device: torch.device,
    n_envs: int = 128,
    start: int = 5_000,
    warm: int = 22_000,
    seconds_each: float = 15.0,
    peer_steps: int = 1_500,
) -> Iterator[Row]:
    """Two rows for each agent.

    Args:
        device: Of the networks.
        n_envs: Environments of our agent.
        start, warm: Agent steps before ours learns, and before the clock starts.
        seconds_each: Of our loop on the clock.
        peer_steps: Agent steps of the authors' program on the clock.
    """
    for structured in (False, True):
        with torch_threads(1):
            config = loop_config(structured, n_envs, start)
            ours, emulator, note = loop_seconds(config, warm, seconds_each, device)
            theirs = authors_seconds(structured, peer_steps, device)
        name = f"whole loop of {config.arm}, {GAME}, {n_envs} environments, {device_name(device)}"
        sb3 = "Stable-Baselines3 DQN, 1 environment" + (", fancyimpute" if structured else "")
        for peer, peer_name in ((emulator, "the emulator alone at the same games"), (theirs, sb3)):
            yield Row(name=name, unit="us/step", ours=1e6 * ours, peer=1e6 * peer, peer_name=peer_name, note=note)


def loop_config(structured: bool, n_envs: int, start: int) -> AgentConfig:
    """The preset `short` with the authors' structure; epsilon is at its final value once learning begins."""
    return AgentConfig.of(
        "short",
        **AUTHORS_STRUCTURE,
        structured=structured,
        envs=n_envs,
        act_lag=1,
        learn_from=start,
        epsilon_steps=start,
        replay=max(20 * start, 1_000),
        eval_every=0,
        steps=1_000_000_000,  # more than are made
    )


class RecordingEnv:
    """Environments that remember every action and reward, (N,) a step."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self.actions: list[np.ndarray] = []
        self.rewards: list[np.ndarray] = []

    def __getattr__(self, name: str) -> Any:
        """All else is theirs."""
        return getattr(self._env, name)

    def send(self, actions: np.ndarray) -> None:
        """Keep the actions."""
        self.actions.append(actions.copy())
        self._env.send(actions)

    def recv(self) -> Step:
        """Keep the rewards."""
        step = self._env.recv()
        self.rewards.append(step.rewards)
        return step

    def play_again(self, env: VectorEnv, first: int, last: int) -> bool:
        """Steps first .. last - 1 on other environments; whether rewards are the same."""
        same = True
        for k in range(first, last):
            env.send(self.actions[k])
            same &= np.array_equal(env.recv().rewards, self.rewards[k])
        return same


def loop_seconds(
    config: AgentConfig, warm: int, seconds_each: float, device: torch.device
) -> tuple[float, float, dict[str, Any]]:
    """Seconds of an agent step, of our loop and of the emulator alone; and what a reader needs to believe it."""
    training = Training.begin(GAME, config, device=device)
    training._envs = record = RecordingEnv(training._envs)
    try:
        _train(training, lambda: training.steps >= warm)
        first, updates, began = len(record.actions), training.updates, time.perf_counter()
        _train(training, lambda: time.perf_counter() - began >= seconds_each)
        ours, last = time.perf_counter() - began, len(record.actions)
        updates = training.updates - updates
    finally:
        training.close()
    alone = make_env(GAME, config.envs, seed=derived_seed(training.seed, "environments"))
    try:
        alone.reset()
        same = [record.play_again(alone, 0, first)]
        emulator = seconds(lambda: same.append(record.play_again(alone, first, last)))
    finally:
        alone.close()
    steps = config.envs * (last - first)
    note = {"limit": LIMIT, "steps_per_second": steps / ours, "updates_per_second": updates / ours}
    return ours / steps, emulator / steps, {**note, "same_games": all(same)}


def _train(training: Training, over: Callable[[], bool]) -> None:
    """Train until `over`, which is asked after every step of all environments; then wait for what is under way."""
    for event in training.events():
        if isinstance(event, Stepped) and over():
            break
    training.settle()


def authors_seconds(structured: bool, steps: int, device: torch.device) -> float:
    """Seconds of an agent step of the authors' program, once it learns and epsilon has fallen."""
    start = 40
    model = sb3_dqn(GAME, loop_config(structured, 1, start), 0, device)
    if structured:
        complete_targets(model.q_net_target)
    try:
        model.learn(2 * start)
        return seconds(lambda: model.learn(steps, reset_num_timesteps=False)) / steps
    finally:
        model.env.close()
