"""A network of your own: a function from the environment's description to an nn.Module, given to svrl.train.

The agent is recorded with the function's name. What loads it needs the function again.
"""

import math
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import svrl
from svrl.envs import EnvSpec


class Residual(nn.Module):
    """x + layers(x), normalised first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


def residual(spec: EnvSpec) -> nn.Module:
    """Observations (N, *spec.observation_shape), float32, to values (N, spec.n_actions)."""
    inputs = math.prod(spec.observation_shape)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 64), Residual(64), Residual(64), nn.ReLU(), nn.Linear(64, spec.n_actions)
    )


torch.set_num_threads(1)
env = "control/inverted-pendulum"
config = svrl.AgentConfig.for_env(env, agent="double", structured=True, actions=21, steps=10_000, eval_every=0)
agent = svrl.train(env, config, seed=0, network=residual)
with tempfile.TemporaryDirectory() as folder:
    agent.save(Path(folder) / "agent.npz")
    loaded = svrl.Agent.load(Path(folder) / "agent.npz", network=residual)
for label, found in (("trained", agent), ("loaded", loaded)):
    games = found.evaluate(episodes=20, seed=1)
    low, high = games.interval()
    print(f"{label:>7}, network {found.config.network}: mean score {games.mean:.0f}, 95% from {low:.0f} to {high:.0f}")
