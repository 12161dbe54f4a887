"""Value iteration: repeat v = max_a Q, Q = r + gamma * P v.

There are three stop rules:

span     gamma / (1 - gamma) * (max d - min d) <= tolerance for the change d of the last sweep. The values then
         move to the midpoint of their bounds (see `svrl.planning.certificate`): they are within tolerance / 2 of V*,
         and the policy loses no more than tolerance in any state.
sup      max |d| <= tolerance.
authors  mean d^2 < 1e-6 over all pairs of Q, from Q = 0, or 200 iterations, as in the program of "Harnessing Structures
         for Value-Based Planning and Reinforcement Learning" (ICLR 2020).

With noisy backups every iteration samples all pairs once, and the rules use noisy changes. An equal change of all
states then means nothing, so "span" requires small changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from svrl.matrix.arrays import check_positive, check_whole
from svrl.planning.certificate import value_offsets
from svrl.planning.method import Meter, MethodResult, State

AUTHORS_RESIDUAL = 1e-6
AUTHORS_ITERATIONS = 200
Stop = Literal["span", "sup", "authors"]


@dataclass(kw_only=True)
class SweepState(State):
    """State of value iteration."""

    policy: Tensor | None = None  # of the last sweep, (S,)
    offsets: tuple[float, float] = (0.0, 0.0)  # bound V* around the last sweep's values
    q: Tensor | None = None  # of the last sweep, (S, A); kept for the authors' rule only


@dataclass(frozen=True, kw_only=True)
class ValueIteration:
    """Plain value iteration; plans on models and on samplers.

    Attributes:
        tolerance: Tolerance of the stop rules "span" and "sup".
        stop: Stop rule: "span", "sup" or "authors"; the module explains them.
        max_iterations: Most sweeps.
    """

    tolerance: float = 1e-6
    stop: Stop = "span"
    max_iterations: int = 10_000
    name = "value-iteration"

    def __post_init__(self) -> None:
        if self.stop not in get_args(Stop):
            raise ValueError(
                f"ValueIteration has no stop rule {self.stop!r}: choose one of {', '.join(get_args(Stop))}."
            )
        check_positive("ValueIteration", tolerance=self.tolerance)
        check_whole("ValueIteration", max_iterations=self.max_iterations)

    def begin(self, meter: Meter, v: Tensor | None) -> SweepState:
        """Start from the given values, or 0. For the authors' rule every entry of Q is the value of its row."""
        v = torch.zeros(meter.n_states, dtype=torch.float64, device=meter.device) if v is None else v.clone()
        return SweepState(v=v, q=v[:, None].expand(-1, meter.n_actions).clone() if self.stop == "authors" else None)

    def step(self, meter: Meter, state: SweepState, generator: torch.Generator) -> SweepState:
        """Run one sweep."""
        q, best, state.policy = self._sweep(meter, state.v, generator)
        state.offsets = value_offsets(meter.problem, best - state.v)
        if self.stop == "authors":
            assert state.q is not None
            assert q is not None, "the authors' rule forms Q"
            state.residual = float(state.q.sub_(q).square_().mean())
            state.finished = state.residual <= AUTHORS_RESIDUAL or state.iteration + 1 >= AUTHORS_ITERATIONS
            state.q = q
        else:
            low, high = state.offsets
            state.residual = high - low if self.stop == "span" else float((best - state.v).abs().max())
            state.finished = state.residual <= self.tolerance
        state.v = best
        return state

    def finish(self, meter: Meter, state: SweepState, generator: torch.Generator) -> MethodResult:
        """Return the last sweep's policy and values; for "span" the values move to the midpoint of their bounds."""
        assert state.policy is not None, "finish comes after a step"
        midpoint = self.stop == "span" and not meter.noisy
        v = state.v + 0.5 * sum(state.offsets) if midpoint else state.v
        return MethodResult(policy=state.policy, v=v, q=state.q)

    def _sweep(self, meter: Meter, v: Tensor, generator: torch.Generator) -> tuple[Tensor | None, Tensor, Tensor]:
        if self.stop != "authors" and not meter.noisy:
            return None, *meter.improve(v)
        q = meter.sample(v, generator) if meter.noisy else meter.backup(v)
        best = q.max(1)
        return q, best.values, best.indices
