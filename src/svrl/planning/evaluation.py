"""Exact answers to measure plans by: the values of a policy, the optimum, and what a policy loses."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from svrl.mdp.model import Model, Sampler, check_problem
from svrl.planning.chain import chain_values
from svrl.planning.meter import Meter
from svrl.planning.policy_iteration import ModifiedPolicyIteration, rounding_of_bounds

PATIENCE = 10
"""Sweeps with bounds as close as rounding, after which no closer ones are waited for."""


@dataclass(frozen=True, kw_only=True)
class PolicyLoss:
    """What following a policy loses, V* - V_policy.

    Attributes:
        mean: Over all states.
        relative: The mean over the range of V*, max V* - min V*.
        worst: In the worst state.
    """

    mean: float
    relative: float
    worst: float


def evaluate_policy(model: Model, policy: Tensor, tolerance: float = 1e-9) -> Tensor:
    """The values of a policy (S,), float64, each within `tolerance`, which its residual proves.

    Args:
        model: What to follow it on.
        policy: Actions (S,).
        tolerance: On the largest error; max |T_policy V - V| / (1 - discount) is made as small.

    Raises:
        ValueError: If rounding does not let the residual become that small.
    """
    check_problem("evaluate_policy", model, Model, Sampler)
    if not isinstance(model, Model):
        raise ValueError(
            "A policy is evaluated on a model, and the problem can only be sampled. Use rollouts, or a model."
        )
    policy = torch.as_tensor(policy).to(model.device)
    if policy.shape != (model.n_states,) or policy.is_floating_point():
        raise ValueError(f"A policy is one action for each of {model.n_states} states, got {tuple(policy.shape)}.")
    chain = model.under(policy.to(torch.int64))
    target = tolerance * (1.0 - model.discount)
    v, left, _ = chain_values(chain, torch.zeros_like(chain.reward), target)
    factor = 1.0 / (1.0 - model.discount)
    _check_reached(tolerance, factor * left, v, factor)
    return v


def solve_exactly(model: Model, tolerance: float = 1e-9) -> tuple[Tensor, Tensor]:
    """V* (S,), float64, each within `tolerance`, and its greedy policy (S,), by modified policy iteration.

    Raises:
        ValueError: If rounding does not let the bounds become that close.
    """
    factor = model.discount / (1.0 - model.discount)
    # As many sweeps as reduce the error of an evaluation by e^5, whatever the discount.
    method = ModifiedPolicyIteration(tolerance=tolerance, sweeps=max(100, math.ceil(5.0 * factor)))
    meter, generator = Meter(model), torch.Generator(model.device)
    state = method.begin(meter, None)
    at_rounding = 0
    while not (state.residual <= tolerance or at_rounding >= PATIENCE or math.isnan(state.residual)):
        state = method.step(meter, state, generator)
        at_rounding += state.residual <= rounding_of_bounds(state.v, model.discount)
    _check_reached(tolerance, state.residual, state.v, factor)
    found = method.finish(meter, state, generator)
    return found.v, found.policy


def _check_reached(tolerance: float, error: float, v: Tensor, factor: float) -> None:
    """A bound on the error is itself only known up to rounding, times the factor between residual and error."""
    reached = max(error, factor * torch.finfo(torch.float64).eps * float(v.abs().max()))
    if not reached <= tolerance:
        raise ValueError(
            f"Rounding keeps the values from being certainly within {tolerance:g}; {reached:.2g} was reached. "
            "Ask for more than that."
        )


def policy_loss(v_star: Tensor, v_policy: Tensor) -> PolicyLoss:
    """Compare the values of a policy (S,) with the best (S,)."""
    v_star, v_policy = torch.as_tensor(v_star), torch.as_tensor(v_policy)
    if v_star.shape != v_policy.shape or v_star.ndim != 1:
        raise ValueError(
            f"A loss compares two lists of values of the same states, got shapes {tuple(v_star.shape)} "
            f"and {tuple(v_policy.shape)}."
        )
    loss = v_star.to(torch.float64) - v_policy.to(v_star.device, torch.float64)
    mean = float(loss.mean())
    width = float(v_star.max() - v_star.min())
    relative = mean / width if width > 0.0 else float("inf") * mean if mean else 0.0
    return PolicyLoss(mean=mean, relative=relative, worst=float(loss.max()))
