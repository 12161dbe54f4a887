"""Bounds on the distance of values and policies from the optimum, from one or two exact sweeps.

Let T be the Bellman operator of a model, V any values, d = TV - V, and c = gamma / (1 - gamma). Then (MacQueen 1966;
Porteus 1971) the optimal values V* obey, in every state,

    TV + c min d  <=  V*  <=  TV + c max d

Proof: T is monotone and T(V + x) = TV + gamma * x for a number x, so V + min d <= TV gives TV + gamma * min d <= TTV,
and so on; the sum of the geometric series is c min d. The upper bound follows in the same way, and so do bounds for the
operator of one policy. The greedy policy of the sweep is above the lower bound too, so it loses at most
c (max d - min d). Any other policy has two bounds: from the given V, and from the policy's own values with a second
sweep. Neither is always tighter, so the larger lower bound and the smaller upper bound count.

Where episodes may end, rows of transitions sum to less than 1, and the bounds hold with min(min d, 0) and
max(max d, 0). Where rounding makes rows sum to a little more than 1, the discount is larger by the same factor. All of
this is in exact arithmetic; rounding adds about 1e-16 |V| / (1 - gamma).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from svrl.mdp.grid import GridMDP
from svrl.mdp.model import Model, Sampler, check_problem
from svrl.planning.evaluation import ROUNDING, chain_values

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class PlanCertificate:
    """Bounds from exact sweeps; they hold for certain.

    Attributes:
        lower, upper: Bounds on V* from below and above, (S,), float64.
        policy: The judged policy, (S,): the given one, or the greedy one of the sweep.
        certified_error: Largest possible distance of the midpoint of the bounds from V*.
        value_error: Largest possible distance of the given values from V*.
        loss_bound: V* - V_policy is at most this in every state.
        mean_loss_bound: V* - V_policy is at most this on average.
        backups: Backups that the certificate took.
    """

    lower: Tensor
    upper: Tensor
    policy: Tensor
    certified_error: float
    value_error: float
    loss_bound: float
    mean_loss_bound: float
    backups: int

    @property
    def midpoint(self) -> Tensor:
        """The estimate of V* with the smallest certain error, (S,)."""
        return 0.5 * (self.lower + self.upper)


@dataclass(frozen=True, kw_only=True)
class SampleCertificate:
    """An estimate for all states from a sample of them. It is statistical, not a certain bound.

    Attributes:
        states: Number of states in the sample.
        share: With 95% confidence, at most this share of all states has a residual above `max_residual`,
            if the states were drawn uniformly and independently.
        max_residual, mean_residual: Maximum and mean of |TV - V| in those states.
        max_gap, mean_gap: How much better the best action is than the policy's, by the given values.
    """

    states: int
    share: float
    max_residual: float
    mean_residual: float
    max_gap: float
    mean_gap: float

    @property
    def statement(self) -> str:
        """One sentence to print next to the numbers."""
        return (
            f"Estimated from {self.states} states: with {CONFIDENCE:.0%} confidence at most {self.share:.2%} of all "
            f"states have a Bellman residual above {self.max_residual:.3g}. This is statistics, not a bound."
        )


def never_ends(problem: Model | Sampler) -> bool:
    """Whether all transitions are known to sum to 1. Otherwise episodes may end, as in any sampler."""
    if isinstance(problem, GridMDP):
        return True
    about = problem.describe()
    known = about.get("episodic") is False and about.get("rows_sum_to_one", True) is True
    return known and not hasattr(problem, "sample")


def discount_of(problem: Model | Sampler) -> float:
    """The discount, times the largest sum of a row where probabilities were rounded to more than 1."""
    return problem.gamma * max(1.0, float(getattr(problem, "largest_row_sum", 1.0)))


def value_offsets(problem: Model | Sampler, change: Tensor) -> tuple[float, float]:
    """The numbers to add to TV for bounds on V*, from change = TV - V (S,)."""
    low, high = (float(end) for end in change.aminmax())
    if not never_ends(problem):
        low, high = min(low, 0.0), max(high, 0.0)
    gamma = discount_of(problem)
    factor = gamma / (1.0 - gamma)
    return factor * low, factor * high


def certify_plan(model: Model, v: Tensor, policy: Tensor | None = None) -> PlanCertificate:
    """Bound V*, and the loss of a policy (S,), from values v (S,): better values give tighter bounds.

    A policy costs a second sweep. Without one, the function judges the greedy policy of the first sweep.
    """
    v = _values(model, v)
    lower, upper, greedy = _bounds(model, v)
    floor, backups = lower, model.n_states * model.n_actions
    if policy is None:
        policy = greedy
    else:
        policy = torch.as_tensor(policy).to(model.device, torch.int64)
        own = model.backup_at(v, torch.arange(model.n_states, device=model.device), policy)
        floor = own + value_offsets(model, own - v)[0]
        target = ROUNDING * max(float(own.abs().max()), 1e-100)
        valued, left, reads = chain_values(model.policy_chain(policy), own, target)
        floor = torch.maximum(floor, valued - left / (1.0 - discount_of(model)))
        lower_too, upper_too, _ = _bounds(model, valued)
        lower, upper = torch.maximum(torch.maximum(lower, lower_too), floor), torch.minimum(upper, upper_too)
        backups += backups + (1 + reads) * model.n_states
    loss = upper - floor
    return PlanCertificate(
        lower=lower,
        upper=upper,
        policy=policy,
        certified_error=max(0.0, 0.5 * float((upper - lower).max())),
        value_error=float(torch.maximum(upper - v, v - lower).max()),
        loss_bound=float(loss.max()),
        mean_loss_bound=float(loss.mean()),
        backups=backups,
    )


def _bounds(model: Model, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Lower and upper bounds on V*, (S,), and the greedy policy (S,), by one sweep."""
    best, greedy = model.improve(v)
    low, high = value_offsets(model, best - v)
    return best + low, best + high, greedy


def certify_on_sample(model: Model, v: Tensor, policy: Tensor, states: Tensor) -> SampleCertificate:
    """Judge values v (S,) and a policy (S,) by some states (K,), when a sweep would take too long.

    Draw the states uniformly, and independently of v and policy.
    """
    v = _values(model, v)
    states = torch.as_tensor(states).to(model.device, torch.int64)
    if states.ndim != 1 or len(states) == 0:
        raise ValueError(f"A sample is a list of at least one state, got shape {tuple(states.shape)}.")
    backups = model.backup_rows(v, states)
    best = backups.max(1).values
    chosen = torch.as_tensor(policy).to(model.device, torch.int64)[states]
    gap = best - backups.gather(1, chosen[:, None])[:, 0]
    residual = (best - v[states]).abs()
    return SampleCertificate(
        states=len(states),
        share=1.0 - (1.0 - CONFIDENCE) ** (1.0 / len(states)),
        max_residual=float(residual.max()),
        mean_residual=float(residual.mean()),
        max_gap=float(gap.max()),
        mean_gap=float(gap.mean()),
    )


def _values(model: Model, v: Tensor) -> Tensor:
    check_problem("A certificate", model, Model)
    v = torch.as_tensor(v).to(model.device, torch.float64)
    if v.shape != (model.n_states,) or not bool(torch.isfinite(v).all()):
        raise ValueError(
            f"A certificate needs finite values of {model.n_states} states, got shape {tuple(v.shape)}. "
            "Pass the v of a plan."
        )
    return v
