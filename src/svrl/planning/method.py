"""A planning method is a frozen record that can begin, take one step, and finish.

Between two steps it keeps everything in a `State`, or in a dataclass that extends it. The fields are tensors,
estimates and plain values, which can be written to disk, so that an interrupted run resumes to exactly the same
result. A method sees the problem only through a `Meter`, which counts and times every backup.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import torch
from torch import Tensor

from svrl.mdp.model import Model, Sampler, check_problem

Answer = TypeVar("Answer")


@dataclass(kw_only=True)
class State:
    """The memory of a method between two steps; methods add their own fields."""

    v: Tensor  # values of the states, (S,)
    iteration: int = 0  # steps taken
    residual: float = float("inf")  # how far v moved in the last step, in the measure of the method's stop rule
    rank: int | None = None  # of the last estimate
    finished: bool = False  # whether the method's own stop rule has fired
    outcome: str = ""  # a sentence on what went wrong; empty on success


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """The result of a method; for its fields see `Plan`."""

    policy: Tensor
    v: Tensor
    q: Tensor | None = None
    factors: tuple[Tensor, Tensor] | None = None


@runtime_checkable
class Method(Protocol):
    """A planning method. Its repr is its name in logs and run directories."""

    @property
    def name(self) -> str:
        """Short name, as on the command line."""

    @property
    def max_iterations(self) -> int:
        """Most steps. Running out of them is an outcome, not an error."""

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Return the state before the first step, from the values v (S,) if given."""

    def step(self, meter: Meter, state: Any, generator: torch.Generator) -> State:
        """Take one iteration. It may change the state in place, and sets `finished` when its stop rule fires."""

    def finish(self, meter: Meter, state: Any, generator: torch.Generator) -> MethodResult:
        """Return the final policy and values, after a last sweep if the method runs one."""


@dataclass(kw_only=True)
class Ledger:
    """The cost of a plan so far."""

    backups: int = 0  # pairs backed up, including verification and final sweeps; with a sampler, samples drawn
    seconds_backup: float = 0.0
    seconds_estimate: float = 0.0


class Meter:
    """A model or a sampler with a ledger. It has either `model`, with exact backups, or `sampler`, with noisy ones."""

    def __init__(self, problem: Model | Sampler, ledger: Ledger | None = None) -> None:
        check_problem("A plan", problem, Model, Sampler)
        self.problem = problem
        self.ledger = Ledger() if ledger is None else ledger
        self.n_states, self.n_actions = problem.n_states, problem.n_actions
        self.gamma, self.device = problem.gamma, problem.device
        # Checking against a protocol takes as long as a small backup, so check once.
        self._exact = problem if isinstance(problem, Model) else None

    @property
    def noisy(self) -> bool:
        """Whether backups are samples."""
        return self._exact is None

    @property
    def value_range(self) -> tuple[float, float]:
        """Bounds on the values of every policy."""
        low, high = self.problem.reward_range
        return low / (1.0 - self.gamma), high / (1.0 - self.gamma)

    @property
    def model(self) -> Model:
        """The exact model; raises ValueError for a sampler and names the methods that plan without a model."""
        if self._exact is None:
            raise ValueError(
                "This method needs exact backups, and the problem can only be sampled. "
                "Use averaged-svp, averaged, incumbent or value-iteration for noisy backups."
            )
        return self._exact

    @property
    def sampler(self) -> Sampler:
        """The sampler; raises ValueError for a model and names the ways to create a sampler."""
        if self._exact is not None:
            raise ValueError(
                "This method plans from samples, and the problem is an exact model. "
                "Pass a Simulator, or NoisyBackups(model, sigma)."
            )
        return cast(Sampler, self.problem)

    def backup(self, v: Tensor) -> Tensor:
        """Back up all pairs, (S, A)."""
        return self._counted(self.n_states * self.n_actions, self.model.backup, v)

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Run a full sweep: the maximum over actions (S,), and its first action (S,)."""
        return self._counted(self.n_states * self.n_actions, self.model.improve, v)

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Back up listed pairs, (K,)."""
        return self._counted(len(states), self.model.backup_at, v, states, actions)

    def backup_policy(self, v: Tensor, policy: Tensor) -> Tensor:
        """Back up one action per state, (S,)."""
        return self.backup_at(v, torch.arange(self.n_states, device=self.device), policy)

    def backup_rows(self, v: Tensor, states: Tensor) -> Tensor:
        """Back up all actions of some states, (K, A)."""
        return self._counted(len(states) * self.n_actions, self.model.backup_rows, v, states)

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        """Back up some actions of all states, (S, K)."""
        return self._counted(self.n_states * len(actions), self.model.backup_columns, v, actions)

    def sample(self, v: Tensor, generator: torch.Generator, count: int = 1) -> Tensor:
        """Noisy backups of all pairs, (S, A), each the mean of `count` samples."""
        return self._counted(self.n_states * self.n_actions * count, self.sampler.sample, v, generator, count)

    def sample_at(
        self, v: Tensor, states: Tensor, actions: Tensor, generator: torch.Generator, count: int = 1
    ) -> Tensor:
        """Noisy backups of listed pairs, (K,)."""
        return self._counted(len(states) * count, self.sampler.sample_at, v, states, actions, generator, count)

    @contextmanager
    def estimating(self) -> Iterator[None]:
        """Time a block as estimation."""
        began = self._now()
        yield
        self.ledger.seconds_estimate += self._now() - began

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Time backups under one policy, which bypass the meter; the method adds their number to the ledger."""
        began = self._now()
        yield
        self.ledger.seconds_backup += self._now() - began

    def _counted(self, pairs: int, ask: Callable[..., Answer], *arguments: Any) -> Answer:
        with self.evaluating():
            answer = ask(*arguments)
        self.ledger.backups += pairs
        return answer

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
