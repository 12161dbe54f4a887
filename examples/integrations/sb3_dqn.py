"""Stable-Baselines3: DQN becomes StructuredDQN, and the rest of a script stays.

Pendulum with 21 torques. One seed and few steps, to show the calls; it proves nothing about structure. About
15 seconds.
"""

import tempfile
from pathlib import Path

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

from svrl import StructuredTargets
from svrl.integrations.stable_baselines3 import StructuredDQN

TORQUES = np.linspace(-2.0, 2.0, 21, dtype=np.float32)[:, None]


class Torques(gymnasium.ActionWrapper):
    """Pendulum, pushed by one of 21 torques."""

    action_space = spaces.Discrete(len(TORQUES))

    def __init__(self) -> None:
        super().__init__(gymnasium.make("Pendulum-v1"))

    def action(self, action: int) -> np.ndarray:
        return TORQUES[action]


torch.set_num_threads(1)
games = Monitor(Torques())
games.reset(seed=100)
model = StructuredDQN(
    "MlpPolicy",
    Torques(),
    structure=StructuredTargets(p=0.9),  # <- or a number, or None for no structure
    double=True,
    dueling=True,
    learning_rate=1e-3,
    batch_size=64,
    gamma=0.98,
    train_freq=4,
    gradient_steps=2,
    target_update_interval=200,
    exploration_fraction=0.5,
    seed=0,
    device="cpu",
)
print(f"before: mean score {evaluate_policy(model, games, n_eval_episodes=3)[0]:7.0f}")
model.learn(3_000)
print(f" after: mean score {evaluate_policy(model, games, n_eval_episodes=3)[0]:7.0f}")
print(" ranks:", ", ".join(f"{name} {rank:.0f}" for name, rank in model.ranks().items()), "of a batch of 64 x 21")

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "pendulum")
    again = StructuredDQN.load(Path(folder) / "pendulum", structure=0.5)
print(f"loaded: double {again.double}, dueling {again.dueling}, now with p = {again.structure.p}")
