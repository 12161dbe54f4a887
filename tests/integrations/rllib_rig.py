"""Small learners, batches and configurations for the tests of RLlib."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from torch import Tensor

from svrl.integrations.rllib import StructuredDQNConfig

MODULE, SEED, ACTIONS = "default_policy", 3, 6
SMALL = DefaultModelConfig(fcnet_hiddens=[16], head_fcnet_hiddens=[16])
logging.getLogger("ray").setLevel(logging.ERROR)


class Wheel(gymnasium.Env):
    """Six actions, four numbers: only its spaces are looked at."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(ACTIONS)


def settled(config: DQNConfig, **training: object) -> DQNConfig:
    return (
        config.environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .rl_module(model_config=SMALL)
        .debugging(seed=SEED, log_level="ERROR")
        .training(**training)
    )


def learner(config: DQNConfig | None = None, **training: object) -> DQNTorchLearner:
    """A learner of the agent with six actions; Ray need not run for it."""
    return settled(config or StructuredDQNConfig(), **training).build_learner(env=Wheel())


def batch(seed: int, size: int = 24, n_step: int = 1) -> MultiAgentBatch:
    rng = np.random.default_rng(seed)
    columns = {
        Columns.OBS: rng.normal(size=(size, 4)).astype(np.float32),
        Columns.NEXT_OBS: rng.normal(size=(size, 4)).astype(np.float32),
        Columns.ACTIONS: rng.integers(ACTIONS, size=size),
        Columns.REWARDS: rng.normal(size=size).astype(np.float32),
        Columns.TERMINATEDS: rng.random(size) < 0.2,
        "n_step": np.full(size, n_step, np.float32),
        "weights": rng.uniform(0.5, 1.0, size).astype(np.float32),
    }
    return MultiAgentBatch({MODULE: SampleBatch(columns)}, env_steps=size)


def update(one: DQNTorchLearner, number: int, **kwargs: int) -> dict[str, float]:
    """One update, on a batch of its own; the target network is copied at every fifth or so."""
    results = one.update(batch=batch(number, **kwargs), timesteps={"num_env_steps_sampled_lifetime": 110 * number})
    return {key: value.peek() for key, value in results[MODULE].items()}


def flat_weights(one: DQNTorchLearner) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in one.module[MODULE].parameters()])


# What test_contract.py asks for.

CASES: dict[str, dict[str, Any]] = {
    "double, dueling": {},
    "dueling": {"double_q": False},
    "single": {"dueling": False, "double_q": False},
    "atoms, double, dueling": {"num_atoms": 5},
    "atoms": {"num_atoms": 5, "double_q": False, "dueling": False},
    "another loss": {"td_error_loss_fn": "mse", "grad_clip": None},
}
FEW = ("double, dueling", "atoms")


def run(case: str, *, plain: bool = False, seed: int = SEED, **settings: Any) -> Any:
    one = learner(DQNConfig() if plain else StructuredDQNConfig(), **CASES[case], **settings)
    one.config.seed = seed
    # Ten: RLlib does not save when its target network is due, and after ten it is.
    one.logged = [update(one, number) for number in range(10)]
    return one


def weights(one: DQNTorchLearner) -> list[Tensor]:
    return [parameter.detach() for parameter in one.module[MODULE].parameters()]


def updates(one: Any) -> int:
    return one.updates[MODULE]


def ranks(one: Any) -> dict[str, float]:
    return {name: float(value) for name, value in one.logged[-1].items() if "rank" in name}


def resumed(one: Any, case: str, folder: Path) -> Any:
    loaded = learner(structure=one.structure, **CASES[case])
    loaded.restore_from_path(one.save_to_path(str(folder / "learner")))
    return loaded


def go_on(one: Any, case: str) -> None:
    for number in range(updates(one), updates(one) + 3):
        update(one, number)
