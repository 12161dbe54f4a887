"""The interface between problems and planning methods.

A model has S states and A actions. Every method takes the values `v` (S,) of the states and returns Bellman backups

    Q(s, a) = r(s, a) + gamma * E[v(next state)]

in the dtype and on the device of `v`. Planning methods see transitions only through `policy_chain`, the Markov chain of
one fixed policy.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

LARGEST_VALUE = 1e30
"""Methods keep values in float32, whose largest number is 3.4e38, and add them up."""


@dataclass(frozen=True, kw_only=True)
class MarkovRewardProcess:
    """The Markov chain and the reward of one fixed policy: v = reward + gamma * P v.

    Attributes:
        reward: (S,), float64.
        transitions: P as a sparse CSR tensor (S, S), float64. Rows may sum to less than 1 where episodes end.
        gamma: Discount factor in (0, 1).
    """

    reward: Tensor
    transitions: Tensor
    gamma: float

    def backup(self, v: Tensor) -> Tensor:
        """Back up v (S,) once under the policy, (S,)."""
        return self.reward + self.gamma * (self.transitions @ v)


def sparse_rows(rows: Tensor, columns: Tensor, weights: Tensor, size: tuple[int, int]) -> Tensor:
    """A sparse CSR tensor from row bounds (n + 1,), columns and weights, without a copy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that its CSR tensors are in beta state
        return torch.sparse_csr_tensor(rows, columns, weights, size, check_invariants=False)


def check_discount(name: str, gamma: float) -> float:
    """Return the discount as a float; raise ValueError unless it is between 0 and 1."""
    if not 0.0 < gamma < 1.0:
        raise ValueError(f"{name} needs a discount between 0 and 1, both excluded, got {gamma!r}.")
    return float(gamma)


def check_rewards(name: str, rewards: tuple[float, float], gamma: float) -> None:
    """Raise ValueError for rewards (low, high) whose values would not fit into float32."""
    largest = max(abs(end) for end in rewards) / (1.0 - gamma)
    if not largest <= LARGEST_VALUE:
        raise ValueError(
            f"{name} has rewards from {rewards[0]:g} to {rewards[1]:g} and the discount {gamma:g}, so values reach "
            f"{largest:.3g}, and the limit is {LARGEST_VALUE:g}. Rescale the reward."
        )


class Problem(Protocol):
    """What models and samplers have in common."""

    @property
    def n_states(self) -> int:
        """S, the number of states."""

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""

    @property
    def gamma(self) -> float:
        """Discount factor in (0, 1)."""

    @property
    def device(self) -> torch.device:
        """The device of the arrays and of `v`."""

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest expected reward of a pair. With the discount they bound every value."""

    def describe(self) -> dict[str, Any]:
        """Name, variant, sizes and switches, for results. JSON types only."""


@runtime_checkable
class Model(Problem, Protocol):
    """A known model: tabular, or a grid over a control task."""

    def backup(self, v: Tensor) -> Tensor:
        """Back up all pairs, (S, A)."""

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Run a full sweep without forming Q: the maximum over actions (S,), and its first action (S,) int64."""

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Back up listed pairs: states (K,) and actions (K,), int64, give (K,)."""

    def backup_rows(self, v: Tensor, states: Tensor) -> Tensor:
        """Back up all actions of some states, (K, A)."""

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        """Back up some actions of all states, (S, K)."""

    def policy_chain(self, policy: Tensor) -> MarkovRewardProcess:
        """The chain of a deterministic policy (S,), int64."""


@runtime_checkable
class Sampler(Problem, Protocol):
    """A problem that can only be sampled: backups are noisy, and every sample counts."""

    def sample(self, v: Tensor, generator: torch.Generator, count: int = 1) -> Tensor:
        """Noisy backups of all pairs (S, A), each the mean of `count` samples."""

    def sample_at(
        self, v: Tensor, states: Tensor, actions: Tensor, generator: torch.Generator, count: int = 1
    ) -> Tensor:
        """Noisy backups of listed pairs (K,), each the mean of `count` samples."""


def check_problem(name: str, problem: object, *kinds: Any) -> None:
    """Raise ValueError that names the caller for anything but `kinds` (Model, Sampler), which is often a task."""
    if isinstance(problem, type) or not isinstance(problem, kinds):
        got = repr(problem) if isinstance(problem, type | int | float | str) else type(problem).__name__
        or_sampler = ", or a sampler" if Sampler in kinds else ""
        hint = "A ControlTask becomes a model on its grid: GridMDP(task)."
        if isinstance(problem, Sampler) and not isinstance(problem, type):
            hint = "It needs exact backups, and this problem can only be sampled."
        raise ValueError(f"{name} takes a model such as TabularMDP or GridMDP{or_sampler}; got {got}. {hint}")


# Kernels do not check indices, so models check their arguments.


def checked_values(model: Model, v: Tensor) -> Tensor:
    """The values v (S,) for a backup, contiguous and without a gradient."""
    v = torch.as_tensor(v).detach()
    fits = v.shape == (model.n_states,) and v.dtype in (torch.float32, torch.float64)
    if not fits or v.device.type != model.device.type:
        raise ValueError(
            f"v must hold {model.n_states} values in float32 or float64 on {model.device}, "
            f"got {tuple(v.shape)}, {v.dtype} on {v.device}."
        )
    return v.contiguous()


def checked_numbers(what: str, numbers: Tensor, count: int) -> Tensor:
    """Return numbers (K,) of states or actions as contiguous int64; raise unless all are in 0..count-1."""
    if numbers.ndim != 1 or numbers.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"A list of {what}s has one axis and whole numbers, got {tuple(numbers.shape)}, {numbers.dtype}."
        )
    if len(numbers):
        low, high = (int(end) for end in numbers.aminmax())
        if low < 0 or high >= count:
            raise ValueError(f"There is no {what} {low if low < 0 else high}: they go from 0 to {count - 1}.")
    return numbers.to(torch.int64).contiguous()


def check_pairs(states: Tensor, actions: Tensor) -> None:
    """Raise ValueError unless there is one action for each state."""
    if states.shape != actions.shape:
        raise ValueError(
            f"backup_at needs one action for each state, got {tuple(states.shape)} and {tuple(actions.shape)}."
        )


def check_policy(model: Model, policy: Tensor) -> None:
    """Raise ValueError unless a policy has one action, a whole number, for each state (S,)."""
    if policy.shape != (model.n_states,) or policy.is_floating_point():
        raise ValueError(f"A policy is one action for each of {model.n_states} states, got {tuple(policy.shape)}.")


def summary(model: Model | Sampler, name: str, *more: str) -> str:
    """The repr of a model: GridMDP('mountain-car', 2,500 states, 1,000 actions, discount 0.95, table, on cpu)."""
    sizes = (f"{model.n_states:,} states", f"{model.n_actions:,} actions", f"discount {model.gamma:g}")
    return f"{type(model).__name__}({', '.join((repr(name), *sizes, *more, f'on {model.device}'))})"
