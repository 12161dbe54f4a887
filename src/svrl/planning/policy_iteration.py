"""Policy iteration, and modified policy iteration, which evaluates a policy with only a few sweeps.

Both alternate a full sweep, which finds the greedy policy, and an evaluation of that policy. The chain of one policy
has S rows instead of S * A, so an evaluation costs little compared to the sweep. Modified policy iteration ends with
the midpoint of the bounds on V* of its last full sweep (see `svrl.planning.certificate`).
Reference: M. L. Puterman and M. C. Shin, "Modified policy iteration algorithms for discounted Markov
decision problems", Management Science 24 (1978).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from svrl.matrix.arrays import check_positive, check_whole
from svrl.mdp.model import Model
from svrl.planning.certificate import value_offsets
from svrl.planning.evaluation import ROUNDING, Solver, chain_values, check_reached, sweeps
from svrl.planning.method import Meter, MethodResult, State

AT_ROUNDING = 10
"""Give up on tighter bounds after this many sweeps with bounds as tight as rounding."""


@dataclass(kw_only=True)
class PolicyState(State):
    """State of policy iteration."""

    policy: Tensor | None = None  # of the last full sweep, (S,)
    midpoint: Tensor | None = None  # of the bounds on V* of the last full sweep, (S,)
    tie: float = 0.0  # another action must be better by more than this


class _FromValues:
    """Begin with values alone; the first policy is greedy for them."""

    def begin(self, meter: Meter, v: Tensor | None) -> PolicyState:
        """Start from the given values, or from 0."""
        model = meter.model  # raises for a sampler
        zeros = torch.zeros(model.n_states, dtype=torch.float64, device=model.device)
        return PolicyState(v=zeros if v is None else v.to(zeros))


@dataclass(frozen=True, kw_only=True)
class ModifiedPolicyIteration(_FromValues):
    """Alternate a full sweep and `sweeps` backups under its greedy policy, until the values are certified.

    Attributes:
        sweeps: Backups of the policy between two full sweeps; 0 is value iteration.
        tolerance: Guaranteed distance of the values from V*, or as near as rounding allows.
        max_iterations: Most full sweeps.
    """

    sweeps: int = 100
    tolerance: float = 1e-8
    max_iterations: int = 1000
    name = "modified-policy-iteration"

    def __post_init__(self) -> None:
        check_whole("ModifiedPolicyIteration", max_iterations=self.max_iterations)
        check_positive("ModifiedPolicyIteration", tolerance=self.tolerance)
        if self.sweeps < 0:
            raise ValueError(f"ModifiedPolicyIteration needs 0 sweeps or more, got {self.sweeps}.")

    def step(self, meter: Meter, state: PolicyState, generator: torch.Generator) -> PolicyState:
        """Run one full sweep, and the evaluation unless it was the last."""
        best, policy = meter.improve(state.v)
        low, high = value_offsets(meter.problem, best - state.v)
        state.residual = 0.5 * (high - low)
        state.finished = state.residual <= max(self.tolerance, rounding_of_bounds(best, meter.gamma))
        state.policy, state.midpoint = policy, best + 0.5 * (low + high)
        state.v = best
        if not state.finished and self.sweeps:
            with meter.evaluating():
                state.v = sweeps(meter.model.policy_chain(policy), best, self.sweeps)
            meter.ledger.backups += self.sweeps * meter.n_states
        return state

    def finish(self, meter: Meter, state: PolicyState, generator: torch.Generator) -> MethodResult:
        """The greedy policy of the last full sweep, and the midpoint of its bounds on V*."""
        assert state.policy is not None, "finish comes after a step"
        assert state.midpoint is not None
        return MethodResult(policy=state.policy, v=state.midpoint)


@dataclass(frozen=True, kw_only=True)
class PolicyIteration(_FromValues):
    """Alternate a full sweep and the exact values of its greedy policy, until the policy stays the same.

    A state keeps its action unless another is better by more than rounding and the error of the evaluation. So every
    change raises the true values, and no policy comes back.

    Attributes:
        solver: Solver of the evaluation: "direct" factorises, "krylov" iterates (BiCGSTAB), with sweeps if that fails.
        max_iterations: Most full sweeps.
    """

    solver: Solver = "direct"
    max_iterations: int = 1000
    name = "policy-iteration"

    def __post_init__(self) -> None:
        check_whole("PolicyIteration", max_iterations=self.max_iterations)
        if self.solver not in ("direct", "krylov"):
            raise ValueError(f"PolicyIteration has no solver {self.solver!r}: choose direct or krylov.")

    def step(self, meter: Meter, state: PolicyState, generator: torch.Generator) -> PolicyState:
        """Run one full sweep, and the evaluation unless the policy stays the same."""
        best, policy = meter.improve(state.v)
        state.residual = float((best - state.v).abs().max())
        mine = state.policy
        if mine is not None:
            better = best - meter.backup_policy(state.v, mine) > state.tie
            if not bool(better.any()):
                state.finished = True
                return state
            policy = torch.where(better, policy, mine)
        target = ROUNDING * max(float(best.abs().max()), 1e-100)
        with meter.evaluating():
            v, left, reads = chain_values(meter.model.policy_chain(policy), best, target, self.solver)
        meter.ledger.backups += reads * meter.n_states
        state.v, state.policy = v, policy
        state.tie = 2.0 * max(left, target) / (1.0 - meter.gamma) + target
        return state

    def finish(self, meter: Meter, state: PolicyState, generator: torch.Generator) -> MethodResult:
        """The last policy and its values."""
        assert state.policy is not None, "finish comes after a step"
        return MethodResult(policy=state.policy, v=state.v)


def solve_exactly(model: Model, tolerance: float = 1e-9) -> tuple[Tensor, Tensor]:
    """Compute V* (S,), float64, within `tolerance`, and its greedy policy (S,), by modified policy iteration.

    Raises:
        ValueError: If rounding keeps the bounds from becoming that tight.
    """
    factor = model.gamma / (1.0 - model.gamma)
    # This many sweeps reduce the error of an evaluation by e^5, whatever the discount.
    method = ModifiedPolicyIteration(tolerance=tolerance, sweeps=max(100, math.ceil(5.0 * factor)))
    meter, generator = Meter(model), torch.Generator(model.device)
    state = method.begin(meter, None)
    at_rounding = 0
    while not (state.residual <= tolerance or at_rounding >= AT_ROUNDING or math.isnan(state.residual)):
        state = method.step(meter, state, generator)
        at_rounding += state.residual <= rounding_of_bounds(state.v, model.gamma)
    check_reached(tolerance, state.residual, state.v, factor)
    found = method.finish(meter, state, generator)
    return found.v, found.policy


def rounding_of_bounds(v: Tensor, gamma: float) -> float:
    """Half the distance between two bounds on V* (S,) that rounding alone may cause."""
    return gamma / (1.0 - gamma) * ROUNDING * float(v.abs().max())
