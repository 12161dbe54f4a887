"""The ledger of a plan: every backup that a method asks for is counted and timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from svrl.mdp.model import Model, Sampler, check_problem


@dataclass(kw_only=True)
class Ledger:
    """What a plan has cost so far.

    Attributes:
        backups: Pairs backed up, verification and final sweeps among them; with a sampler, samples drawn.
        seconds_backup: Time in backups.
        seconds_estimate: Time in matrix estimation.
    """

    backups: int = 0
    seconds_backup: float = 0.0
    seconds_estimate: float = 0.0


class Meter:
    """A model, or a sampler, that keeps a ledger; methods plan through it and see nothing else.

    `model` answers the exact backups of `Model`; `sampler` the noisy ones. Only one of them is there.
    """

    def __init__(self, problem: Model | Sampler, ledger: Ledger | None = None) -> None:
        check_problem("A plan", problem, Model, Sampler)
        self.problem = problem
        self.ledger = Ledger() if ledger is None else ledger
        self.n_states = problem.n_states
        self.n_actions = problem.n_actions
        self.gamma = problem.gamma
        self.device = problem.device
        # A check against a protocol takes as long as a small backup, so it is made once.
        self._exact = problem if isinstance(problem, Model) else None

    @property
    def noisy(self) -> bool:
        """Whether backups are samples."""
        return self._exact is None

    @property
    def value_range(self) -> tuple[float, float]:
        """Bounds that every value of every policy keeps."""
        low, high = self.problem.reward_range
        return low / (1.0 - self.gamma), high / (1.0 - self.gamma)

    @property
    def model(self) -> Model:
        """The exact model, or an error that says which methods plan without one."""
        if self._exact is None:
            raise ValueError(
                "This method needs exact backups, and the problem can only be sampled. "
                "Use averaged-svp, averaged, incumbent or value-iteration for noisy backups."
            )
        return self._exact

    def backup(self, v: Tensor) -> Tensor:
        """All pairs, (S, A)."""
        with self._backing_up(self.n_states * self.n_actions):
            return self.model.backup(v)

    def improve(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Maximum over actions (S,), and its first action (S,)."""
        with self._backing_up(self.n_states * self.n_actions):
            return self.model.improve(v)

    def backup_at(self, v: Tensor, states: Tensor, actions: Tensor) -> Tensor:
        """Listed pairs, (K,)."""
        with self._backing_up(len(states)):
            return self.model.backup_at(v, states, actions)

    def backup_rows(self, v: Tensor, states: Tensor) -> Tensor:
        """All actions of some states, (K, A)."""
        with self._backing_up(len(states) * self.n_actions):
            return self.model.backup_rows(v, states)

    def backup_columns(self, v: Tensor, actions: Tensor) -> Tensor:
        """Some actions of all states, (S, K)."""
        with self._backing_up(self.n_states * len(actions)):
            return self.model.backup_columns(v, actions)

    def sample(self, v: Tensor, generator: torch.Generator, count: int = 1) -> Tensor:
        """Noisy backups of all pairs, (S, A)."""
        with self._backing_up(self.n_states * self.n_actions * count):
            return self._sampler.sample(v, generator, count)

    def sample_at(
        self, v: Tensor, states: Tensor, actions: Tensor, generator: torch.Generator, count: int = 1
    ) -> Tensor:
        """Noisy backups of listed pairs, (K,)."""
        with self._backing_up(len(states) * count):
            return self._sampler.sample_at(v, states, actions, generator, count)

    @property
    def _sampler(self) -> Sampler:
        if self._exact is not None:
            raise ValueError(
                "This method plans from samples, and the problem is an exact model. "
                "Give it a Simulator, or NoisyBackups(model, sigma)."
            )
        return cast(Sampler, self.problem)

    @contextmanager
    def estimating(self) -> Iterator[None]:
        """Time what happens inside as estimation."""
        began = self._now()
        yield
        self.ledger.seconds_estimate += self._now() - began

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Time backups under one policy, which go past the meter; the method adds their number to the ledger."""
        began = self._now()
        yield
        self.ledger.seconds_backup += self._now() - began

    @contextmanager
    def _backing_up(self, pairs: int) -> Iterator[None]:
        with self.evaluating():
            yield
        self.ledger.backups += pairs

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()
