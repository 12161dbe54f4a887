"""Small problems to plan on, and the plainest ways to solve them: dense NumPy, from the definitions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.model import MarkovRewardProcess, Model
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.tasks import inverted_pendulum


@dataclass(frozen=True, kw_only=True)
class Dense:
    """A model written out: reward (S, A), transitions (S, A, S)."""

    reward: np.ndarray
    transitions: np.ndarray
    gamma: float

    @classmethod
    def of(cls, model: Model) -> Dense:
        """Read off a model by backing up the unit vectors."""
        zero = torch.zeros(model.n_states, dtype=torch.float64)
        reward = model.backup(zero).numpy().copy()
        columns = []
        for state in range(model.n_states):
            unit = zero.clone()
            unit[state] = 1.0
            columns.append((model.backup(unit).numpy() - reward) / model.gamma)
        return cls(reward=reward, transitions=np.stack(columns, -1), gamma=model.gamma)

    def backup(self, v: np.ndarray) -> np.ndarray:
        """Q (S, A)."""
        return self.reward + self.gamma * (self.transitions @ v)

    def optimum(self, accuracy: float = 1e-10) -> np.ndarray:
        """V* (S,) by value iteration, no value off by more than `accuracy`."""
        v = np.zeros(len(self.reward))
        while True:
            new = self.backup(v).max(1)
            gap = np.abs(new - v).max() * self.gamma / (1.0 - self.gamma)
            v = new
            if gap < accuracy:
                return v

    def worth(self, policy: Tensor | np.ndarray) -> np.ndarray:
        """The values (S,) of a policy (S,), from its linear equations."""
        rows = np.arange(len(self.reward)), np.asarray(policy)
        chain = np.eye(len(self.reward)) - self.gamma * self.transitions[rows]
        return np.linalg.solve(chain, self.reward[rows])

    def loss(self, policy: Tensor | np.ndarray) -> float:
        """How much worse than the best a policy is, in the worst state."""
        return float((self.optimum() - self.worth(policy)).max())


class Watched:
    """A model that counts backups by the size of what it returns, and remembers which pairs were backed up."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.n_states, self.n_actions = model.n_states, model.n_actions
        self.gamma, self.device, self.reward_range = model.gamma, model.device, model.reward_range
        self.backups = 0
        self.seen = torch.zeros(model.n_states, model.n_actions, dtype=torch.bool)

    def describe(self) -> dict[str, Any]:
        return self.model.describe()

    def backup(self, v: Tensor) -> Tensor:
        self.seen[:] = True
        return self._counted(self.model.backup(v))

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        self.seen[:] = True
        self.backups += self.n_states * self.n_actions
        return self.model.improve(v)

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        self.seen[states, actions] = True
        return self._counted(self.model.backup_at(v, states, actions))

    def backup_rows(self, v: Tensor, states: Tensor) -> Tensor:
        self.seen[states] = True
        return self._counted(self.model.backup_rows(v, states))

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        self.seen[:, actions] = True
        return self._counted(self.model.backup_columns(v, actions))

    def policy_chain(self, policy: Tensor) -> MarkovRewardProcess:
        return self.model.policy_chain(policy)

    def _counted(self, values: Tensor) -> Tensor:
        self.backups += values.numel()
        return values


def pendulum(
    *, states: tuple[int, int] = (12, 10), actions: int = 25, gamma: float = 0.8, reward_offset: float | None = None
) -> ControlTask:
    """A small pendulum; the small discount lets value iteration settle in tens of sweeps."""
    task = inverted_pendulum(states=states, actions=actions, reward_offset=reward_offset)
    return dataclasses.replace(task, gamma=gamma)


def small_grid(**options: Any) -> GridMDP:
    return GridMDP(pendulum(**options))


def flat_grid(reward: float = -0.3, actions: int = 25) -> GridMDP:
    """The pendulum with one and the same reward for every pair: each is the worst, and the best."""
    task = pendulum(actions=actions)

    def always(states: Tensor, inputs: Tensor) -> Tensor:
        return 0.0 * (states[..., 0] + inputs[..., 0]) + reward

    return GridMDP(dataclasses.replace(task, reward=always, reward_range=None))


def low_rank_model(seed: int = 0, n_states: int = 60, n_actions: int = 40, gamma: float = 0.8) -> TabularMDP:
    """A problem whose every Q has rank 3: all rows are quadratics in the action x, each with its own peak.

    With two fixed chains p0 and p1, action x in [0, 1] leads along x p1 + (1 - x) p0 and pays
    -4 (x - t(s))^2 + g(s).
    """
    rng = np.random.default_rng(seed)
    x = np.linspace(0.0, 1.0, n_actions)
    chains = rng.random((2, n_states, n_states)) ** 8
    chains /= chains.sum(2, keepdims=True)
    peak, gain = rng.random((2, n_states, 1))
    transitions = x[None, :, None] * chains[1][:, None] + (1.0 - x)[None, :, None] * chains[0][:, None]
    reward = gain - 4.0 * (x - peak) ** 2
    return TabularMDP(transitions=transitions, rewards=reward, gamma=gamma)
