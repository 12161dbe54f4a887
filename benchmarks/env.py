"""Whole training loops, ours and Stable-Baselines3's DQN, with the same settings and in the same run.

Both play the same environments with the same network, batch, buffer, update rate and target copies, on one
torch thread. Both losses are Huber and both optimisers Adam; Stable-Baselines3 clips the norm of the
gradient, we do not. Times are for the whole loop, building excluded: acting, remembering and learning.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from benchmarks.rows import Row, peer, seconds, torch_threads
from svrl.agents.config import AgentConfig
from svrl.agents.exploration import epsilon_at
from svrl.agents.training import Training
from svrl.envs.catalogue import make_env
from svrl.envs.vector import VectorEnv, step

GAME = "atari/frostbite"
ROUNDS = 3


def measure(quick: bool, device: torch.device) -> Iterator[Row]:
    """Microseconds of an agent step, on CartPole and on Atari."""
    cart = AgentConfig.of(
        "classic",
        envs=1,
        hidden=(128, 128),
        learning_rate_left=1.0,
        updates_per_step=0.25,
        learn_from=500,
        steps=800 if quick else 6_000,
    )
    game = AgentConfig.of("authors", learn_from=200, replay=5_000, steps=260 if quick else 1_200)
    for name, config in (("CartPole-v1", cart), (GAME, game)):
        runs = []
        for seed in range(1 if quick else ROUNDS):
            with torch_threads(1):
                runs.append((_ours(name, config, seed, device), _theirs(name, config, seed, device)))
        ours, theirs = (1e6 * statistics.median(times) / config.steps for times in zip(*runs, strict=True))
        yield Row(
            name=f"whole DQN loop, {name}",
            unit="us/step",
            ours=ours,
            peer=theirs,
            peer_name="Stable-Baselines3 DQN",
            note={"ours_steps_per_second": 1e6 / ours, "peer_steps_per_second": 1e6 / theirs},
        )


def _ours(name: str, config: AgentConfig, seed: int, device: torch.device) -> float:
    training = Training.begin(name, config, seed=seed, device=device)
    try:
        return seconds(lambda: deque(training.events(), maxlen=0)) + seconds(training.settle)
    finally:
        training.close()


def _theirs(name: str, config: AgentConfig, seed: int, device: torch.device) -> float:
    model = sb3_dqn(name, config, seed, device)
    try:
        return seconds(lambda: model.learn(config.steps))
    finally:
        model.env.close()


def sb3_dqn(name: str, config: AgentConfig, seed: int, device: torch.device) -> Any:
    """Stable-Baselines3's DQN with one environment and our settings."""
    pictures = name.startswith("atari/")
    env: Any = OneLane(make_env(name, 1, seed=seed)) if pictures else name
    model = peer("stable_baselines3").DQN(
        "CnnPolicy" if pictures else "MlpPolicy",
        env,
        learning_rate=config.learning_rate,
        buffer_size=config.replay,
        learning_starts=config.learn_from,
        batch_size=config.batch_size,
        gamma=config.discount,
        train_freq=round(1 / config.updates_per_step),
        gradient_steps=1,
        target_update_interval=round(config.target_every / config.updates_per_step),
        exploration_final_eps=config.epsilon_final,
        policy_kwargs={} if pictures else {"net_arch": list(config.hidden)},
        seed=seed,
        device=device,
    )
    # Otherwise the schedule of epsilon, and with it the share of steps that ask the network, would differ.
    model.exploration_schedule = lambda left: epsilon_at(config, model.num_timesteps)
    return model


class OneLane(gymnasium.Env[np.ndarray, np.int64]):
    """One environment of ours as the kind that Stable-Baselines3 takes; rewards are clipped to their signs."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self.observation_space = spaces.Box(0, 255, env.spec.observation_shape, np.uint8)
        self.action_space = spaces.Discrete(env.spec.n_actions)
        self._waiting: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """The first state of the game that is waiting."""
        first = self._env.reset() if self._waiting is None else self._waiting
        return first[0], {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step; the game after the last is begun at once."""
        done = step(self._env, np.array([action]))
        self._waiting = done.observations.copy()
        reward = float(np.sign(done.rewards[0]))
        return done.final_observations[0], reward, bool(done.terminal[0]), bool(done.truncated[0]), {}

    def close(self) -> None:
        """End the emulator."""
        self._env.close()
