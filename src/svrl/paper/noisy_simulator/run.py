"""Planning from noisy backups on the three-motor pendulum: one method, one level of noise, one seed.

Every backup carries N(0, sigma) noise, and every method draws S x A samples an iteration, or the share of them that
it says. averaged-svp draws a few more, so it makes fewer iterations: all draw equally many in all. The loss is exact:
mean over grid states of V* - V of the policy, over max V* - min V*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from torch import Tensor

from svrl.mdp.catalogue import make_task
from svrl.mdp.grid import GridMDP
from svrl.mdp.simulator import NoisyBackups
from svrl.paper.cell import CellResult, Kind, Work
from svrl.planning.averaged import AveragedStructuredIteration, AveragedValueIteration
from svrl.planning.evaluation import evaluate_policy, policy_loss, solve_exactly
from svrl.planning.method import Method
from svrl.planning.plan import plan
from svrl.planning.sampled_iteration import IncumbentIteration
from svrl.planning.value_iteration import ValueIteration


def compute(settings: Mapping[str, Any], work: Work) -> CellResult:
    """One plan, judged on the exact model."""
    model, best = _solved(work.device, tuple(settings["states"]), settings["levels"])
    method = at_equal_samples(method_of(settings), model.n_actions)
    problem = NoisyBackups(model, settings["sigma"])
    found = plan(
        problem, method, seed=settings["seed"], watch=lambda row: work.progress(row.iteration / method.max_iterations)
    )
    loss = policy_loss(best, evaluate_policy(model, found.policy))
    row = {"loss": loss.relative, "rank_found": found.rank, "sweep_equivalents": found.sweep_equivalents}
    row |= {"seconds_backup": found.ledger.seconds_backup, "seconds_estimate": found.ledger.seconds_estimate}
    return CellResult(rows=[row])


KIND = Kind(name="noisy-plan", version=1, compute=compute)


@lru_cache(maxsize=1)
def _solved(device: str, states: tuple[int, int], levels: int) -> tuple[GridMDP, Tensor]:
    """The exact model, and V* (S,)."""
    model = GridMDP(make_task("three-motor-pendulum", states=states, levels=levels), device=device)
    return model, solve_exactly(model)[0]


def at_equal_samples(method: Method, n_actions: int) -> Method:
    """The method with as many iterations as S x A samples each would pay for."""
    if not isinstance(method, AveragedStructuredIteration):
        return method
    drawn = method.samples * method.observe * n_actions
    return replace(
        method, max_iterations=max(1, int(method.max_iterations * drawn / (drawn + method.checks(n_actions))))
    )


def method_of(settings: Mapping[str, Any]) -> Method:
    """The method that settings name; what it does not take is None there.

    Raises:
        ValueError: If there is no such method.
    """
    name, limit = settings["method"], settings["iterations"]
    if name == "value-iteration":
        return ValueIteration(stop="sup", max_iterations=limit)
    if name == "averaged":
        return AveragedValueIteration(samples=settings["samples"], observe=settings["observe"], max_iterations=limit)
    if name == "incumbent":
        return IncumbentIteration(challengers=settings["challengers"], max_iterations=limit)
    if name == "averaged-svp":
        common = {"samples": settings["samples"], "observe": settings["observe"], "max_iterations": limit}
        fixed = settings["rank"]
        return AveragedStructuredIteration(**common, **({} if fixed is None else {"rank": fixed, "choose": False}))
    raise ValueError(f"There is no noisy method {name!r}: value-iteration, averaged, incumbent or averaged-svp.")
