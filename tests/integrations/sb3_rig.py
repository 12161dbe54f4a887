"""Small environments, settings and comparisons for the tests of Stable-Baselines3 and sb3-contrib."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import Env, ObservationWrapper, spaces
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, HerReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv, FakeImageEnv
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize
from torch import Tensor

from svrl.integrations.sb3_contrib import StructuredQRDQN
from svrl.integrations.stable_baselines3 import DoubleDQN, DuelingDQN, StructuredDQN

ACTIONS = 6
SMALL = {
    "learning_rate": 1e-3,
    "buffer_size": 1_000,
    "learning_starts": 50,
    "batch_size": 16,
    "target_update_interval": 40,
    "seed": 3,
    "device": "cpu",
}


class Drift(Env[np.ndarray, np.int64]):
    """A point in three dimensions that each action pushes elsewhere; 20 steps, then cut off."""

    observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)
    action_space = spaces.Discrete(ACTIONS)
    pushes = np.random.default_rng(0).normal(0.0, 0.5, (ACTIONS, 3))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.place = self.np_random.normal(0.0, 1.0, 3)
        return self.place.astype(np.float32), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        self.place = np.clip(self.place + self.pushes[action] + self.np_random.normal(0.0, 0.1, 3), -10, 10)
        lost = bool(np.abs(self.place).max() > 5.0)
        reward = -0.03 * float(np.abs(self.place).sum())  # errors within 1, where a Huber gradient tells them apart
        return self.place.astype(np.float32), reward, lost, self.steps >= 20, {}


class Described(ObservationWrapper):
    """The same as numbers and as a picture."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        shade = spaces.Box(0, 255, (1, 36, 36), np.uint8)
        self.observation_space = spaces.Dict({"place": Drift.observation_space, "shade": shade})

    def observation(self, place: np.ndarray) -> dict[str, np.ndarray]:
        return {"place": place, "shade": np.full((1, 36, 36), 12.0 * (place[0] + 10.0)).astype(np.uint8)}


def picture() -> Env:
    env = FakeImageEnv(screen_height=36, screen_width=36, discrete=True)
    env.observation_space.seed(0)  # it draws pictures from there, and no reset seeds that
    return env


SETUPS: dict[str, tuple[str, Callable[[], Any], dict[str, Any]]] = {
    "one environment": ("MlpPolicy", Drift, {}),
    "n-step": ("MlpPolicy", Drift, {"n_steps": 3}),
    "four environments": ("MlpPolicy", lambda: DummyVecEnv([Drift] * 4), {"gradient_steps": -1}),
    "two processes": ("MlpPolicy", lambda: SubprocVecEnv([Drift] * 2, start_method="fork"), {}),
    "whole episodes": ("MlpPolicy", Drift, {"train_freq": (1, "episode"), "gradient_steps": -1}),
    "soft target updates": ("MlpPolicy", Drift, {"tau": 0.1, "target_update_interval": 1}),
    "less memory": (
        "MlpPolicy",
        Drift,
        {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}},
    ),
    "normalised": ("MlpPolicy", lambda: VecNormalize(DummyVecEnv([Drift])), {}),
    "pictures": ("CnnPolicy", picture, {"buffer_size": 200}),
    "several inputs": ("MultiInputPolicy", lambda: Described(Drift()), {}),
    "hindsight": (
        "MultiInputPolicy",
        lambda: BitFlippingEnv(n_bits=4, max_steps=4),
        {"replay_buffer_class": HerReplayBuffer},
    ),
}


def trained(kind: type[OffPolicyAlgorithm], setup: str = "one environment", steps: int = 100, **settings: Any) -> Any:
    policy, env, own = SETUPS[setup]
    model = kind(policy, env(), **{**SMALL, **own, **settings}).learn(steps)
    if isinstance(model.env, SubprocVecEnv):
        model.env.close()  # its processes would stay until the model is thrown away, and that may be never
    return model


def weights(model: OffPolicyAlgorithm) -> list[Tensor]:
    """Parameters and the optimiser's moments."""
    moments = model.policy.optimizer.state_dict()["state"].values()
    return [*model.policy.state_dict().values(), *(moment["exp_avg_sq"] for moment in moments)]


# What test_contract.py asks for.

QUANTILES = {"policy_kwargs": {"n_quantiles": 10}}
CASES: dict[str, tuple[Any, Any, str, dict[str, Any]]] = {
    **{setup: (DQN, StructuredDQN, setup, {}) for setup in SETUPS},
    **{
        f"{kind.__name__}, {setup}": (partial(kind, structure=None), kind, setup, {})
        for kind in (DoubleDQN, DuelingDQN)
        for setup in ("one environment", "pictures")
    },
    **{
        f"QRDQN, {setup}": (QRDQN, StructuredQRDQN, setup, QUANTILES)
        for setup in ("one environment", "n-step", "pictures")
    },
}
FEW = ("one environment", "DoubleDQN, one environment", "DuelingDQN, one environment", "QRDQN, one environment")


def run(case: str, *, plain: bool = False, seed: int = 3, **settings: Any) -> Any:
    library, ours, setup, own = CASES[case]
    return trained(library if plain else ours, setup, seed=seed, **own, **settings)


def updates(model: Any) -> int:
    return int(model._n_updates)


def ranks(model: Any) -> dict[str, float]:
    return model.ranks()


def resumed(model: Any, case: str, folder: Path) -> Any:
    model.save(folder / "model")
    model.save_replay_buffer(folder / "memory")
    loaded = type(model).load(folder / "model", env=Drift(), device="cpu")
    loaded.load_replay_buffer(folder / "memory")
    about = [getattr(one, name, None) for one in (model, loaded) for name in ("structure", "double", "dueling")]
    assert about[:3] == about[3:]
    return loaded


def go_on(model: Any, case: str) -> None:
    model.set_env(model._wrap_env(Drift()))  # with a new episode, as the library does after loading
    set_random_seed(9)
    model.env.seed(9)
    model.action_space.seed(9)
    model.learn(100, reset_num_timesteps=False)
