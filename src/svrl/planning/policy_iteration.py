"""Policy iteration, and modified policy iteration, which evaluates a policy by a few sweeps only.

Both alternate a full sweep, which finds the greedy policy, and an evaluation of that policy. The chain
of one policy has S rows instead of S * A, so that an evaluation costs little beside the sweep.
Modified policy iteration ends with the midpoint of the bounds on V* that its last full sweep gives (see
`svrl.planning.certificate`).
Reference: M. L. Puterman and M. C. Shin, "Modified policy iteration algorithms for discounted Markov
decision problems", Management Science 24 (1978).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from svrl.planning.certificate import discount_of, never_ends, value_offsets
from svrl.planning.chain import ROUNDING, Solver, chain_values, sweeps
from svrl.planning.meter import Meter
from svrl.planning.method import Found, State


@dataclass(frozen=True, kw_only=True)
class ModifiedPolicyIteration:
    """A full sweep, then `sweeps` backups under its greedy policy, until the values are certified.

    Attributes:
        sweeps: Backups of the policy between two full sweeps; 0 is value iteration.
        tolerance: The values found are certainly within this of V*, or as near as rounding lets.
        max_iterations: Most full sweeps.
    """

    sweeps: int = 100
    tolerance: float = 1e-8
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        _check("ModifiedPolicyIteration", self.max_iterations)
        if self.sweeps < 0:
            raise ValueError(f"ModifiedPolicyIteration needs 0 sweeps or more, got {self.sweeps}.")
        if not self.tolerance > 0.0:
            raise ValueError(f"ModifiedPolicyIteration needs a tolerance above 0, got {self.tolerance}.")

    @property
    def name(self) -> str:
        """Short name."""
        return "modified-policy-iteration"

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Values 0, or those given."""
        return _begin(meter, v)

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """One full sweep, and the evaluation unless it was the last."""
        best, policy = meter.improve(state.v)
        low, high = value_offsets(best - state.v, discount_of(meter.problem), never_ends(meter.problem))
        state.residual = 0.5 * (high - low)
        state.finished = state.residual <= max(self.tolerance, rounding_of_bounds(best, meter.discount))
        state.memory |= {"policy": policy, "midpoint": best + 0.5 * (low + high)}
        state.v = best
        if not state.finished and self.sweeps:
            with _evaluating(meter):
                state.v = sweeps(meter.model.under(policy), best, self.sweeps)
            meter.ledger.backups += self.sweeps * meter.n_states
        return state

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """The greedy policy of the last full sweep, and the midpoint of its bounds on V*."""
        if "midpoint" not in state.memory:
            state = self.step(meter, state, generator)
        return Found(policy=state.memory["policy"], v=state.memory["midpoint"])


@dataclass(frozen=True, kw_only=True)
class PolicyIteration:
    """A full sweep, then the exact values of its greedy policy, until the policy stays.

    A state keeps its action unless another is better by more than rounding and the error of the evaluation,
    so that every change raises the true values, and no policy comes back.

    Attributes:
        solver: Of the evaluation: "direct" factorises, "krylov" iterates (BiCGSTAB), and takes sweeps if it fails.
        max_iterations: Most full sweeps.
    """

    solver: Solver = "direct"
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        _check("PolicyIteration", self.max_iterations)
        if self.solver not in ("direct", "krylov"):
            raise ValueError(f"PolicyIteration has no solver {self.solver!r}: choose direct or krylov.")

    @property
    def name(self) -> str:
        """Short name."""
        return "policy-iteration"

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Values 0, or those given: the first policy is greedy on them."""
        return _begin(meter, v)

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """One full sweep, and the evaluation unless the policy stays."""
        best, policy = meter.improve(state.v)
        state.residual = float((best - state.v).abs().max())
        if "policy" in state.memory:
            every = torch.arange(meter.n_states, device=meter.device)
            mine = state.memory["policy"]
            better = best - meter.backup_at(state.v, every, mine) > float(state.memory["tie"])
            if not bool(better.any()):
                state.finished = True
                return state
            policy = torch.where(better, policy, mine)
        target = ROUNDING * max(float(best.abs().max()), 1e-100)
        with _evaluating(meter):
            v, left, reads = chain_values(meter.model.under(policy), best, target, self.solver)
        meter.ledger.backups += reads * meter.n_states
        error = max(left, target) / (1.0 - meter.discount)
        state.v = v
        state.memory |= {"policy": policy, "tie": torch.tensor(2.0 * error + target, dtype=torch.float64)}
        return state

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """The last policy and its values."""
        if "policy" not in state.memory:
            state.v, state.memory["policy"] = meter.improve(state.v)
        return Found(policy=state.memory["policy"], v=state.v)


def _check(method: str, iterations: int) -> None:
    if iterations < 1:
        raise ValueError(f"{method} needs at least 1 iteration, got {iterations}.")


def _begin(meter: Meter, v: Tensor | None) -> State:
    model = meter.model  # refuses a sampler, before anything is paid for
    zeros = torch.zeros(model.n_states, dtype=torch.float64, device=model.device)
    return State(v=zeros if v is None else v.to(zeros))


def rounding_of_bounds(v: Tensor, discount: float) -> float:
    """Half the distance of two bounds on V* (S,) that rounding alone may cause."""
    return discount / (1.0 - discount) * ROUNDING * float(v.abs().max())


@contextmanager
def _evaluating(meter: Meter) -> Iterator[None]:
    """Time an evaluation as backups."""
    began = time.perf_counter()
    yield
    if meter.device.type == "cuda":
        torch.cuda.synchronize(meter.device)
    meter.ledger.seconds_backup += time.perf_counter() - began
