"""Wrong input: each error names what was wrong, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import svrl
from svrl.mdp.simulator import NoisyBackups
from svrl.planning.averaged import AveragedStructuredIteration, AveragedValueIteration
from svrl.planning.baselines import (
    AsyncValueIteration,
    CoarseActions,
    IncumbentIteration,
    RowMeanUpdate,
    SampledMax,
)
from svrl.planning.catalogue import METHODS, make_method
from svrl.planning.certificate import certify_on_sample, certify_plan
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.evaluation import evaluate_policy, policy_loss
from svrl.planning.method import Method
from svrl.planning.plan import plan
from svrl.planning.policy import GreedyPolicy, low_rank_policy
from svrl.planning.policy_iteration import ModifiedPolicyIteration, PolicyIteration, solve_exactly
from svrl.planning.rollout import rollout
from svrl.planning.svp import StructuredValueIteration
from svrl.planning.value_iteration import ValueIteration

from .oracles import small_grid

GRID = small_grid()
S, A = GRID.n_states, GRID.n_actions
POLICY = torch.zeros(S, dtype=torch.int64)
NAN, INF = math.nan, math.inf
Q = torch.zeros(S, A)
LEFT, RIGHT = torch.ones(S, 3), torch.ones(A, 3)
GREEDY = GreedyPolicy(task=GRID.task, q=Q)


def spoilt(array: torch.Tensor, bad: float) -> torch.Tensor:
    array = array.clone()
    array[3] = bad
    return array


def from_start(start: torch.Tensor) -> Callable[[], object]:
    return lambda: plan(GRID, SampledMax(), start=start)


def greedy(**parts: Any) -> Callable[[], object]:
    return lambda: GreedyPolicy(task=GRID.task, **parts)


def rolled_out(**options: Any) -> Callable[[], object]:
    return lambda: rollout(GRID.task, GREEDY, **{"generator": torch.Generator(), "starts": 2, **options})


ERRORS: dict[str, list[tuple[Callable[[], object], str]]] = {
    "problems": [
        *(
            (lambda ask=ask, problem=problem: ask(problem), rf"takes a model .* got {got}\. .*GridMDP\(task\)")
            for problem, got in ((GRID.task, "ControlTask"), (5, "5"), (None, "NoneType"))
            for ask in (
                lambda p: plan(p, ValueIteration()),
                lambda p: evaluate_policy(p, POLICY),
                lambda p: certify_plan(p, torch.zeros(S)),
            )
        ),
        *(
            (lambda kind=kind: plan(GRID, kind()), "NoisyBackups")
            for kind in (AveragedValueIteration, AveragedStructuredIteration)
        ),
        (
            lambda: plan(GRID, StructuredValueIteration(p=0.01)),
            r"svp would observe 0\.\d+ actions of a state, .* at least",
        ),
    ],
    "starts of a plan": [
        *(
            (from_start(torch.zeros(shape)), rf"A start is Q \({S}, {A}\) or V \({S},\), got shape")
            for shape in ((S - 1,), (A, S), (S, A, 1), (), (1, S))
        ),
        *(
            (from_start(spoilt(torch.zeros(shape), bad)), "not finite")
            for shape in ((S,), (S, A))
            for bad in (NAN, INF, -INF)
        ),
    ],
    "names": [
        (lambda: make_method("svpp"), r"There is no method 'svpp'\. Did you mean svp\?"),
        (lambda: make_method("zzzzzz"), "Choose one of async, "),
        (lambda: make_method("svp", estimator="soft-imput"), r"no estimator 'soft-imput'\. Did you mean soft-impute\?"),
        (lambda: make_method("svp", estimator="soft-impute", rank=3), "soft-impute finds its rank itself"),
    ],
    "values and policies": [
        (lambda: certify_plan(GRID, torch.zeros(3)), "finite values of 120 states"),
        (lambda: certify_plan(GRID, torch.full((S,), NAN)), "finite values of 120 states"),
        (lambda: certify_on_sample(GRID, torch.zeros(S), POLICY, POLICY[:0]), "at least one state"),
        *(
            (lambda p=p: evaluate_policy(GRID, p), f"one action for each of {S} states")
            for p in (POLICY[:3], Q[:, 0], Q)
        ),
        (lambda: evaluate_policy(GRID, POLICY, tolerance=1e-20), "Because of rounding, the values"),
        (lambda: solve_exactly(GRID, tolerance=1e-20), "Because of rounding, the values"),
        (lambda: policy_loss(Q[:, 0], Q[:2, 0]), "same states"),
        (lambda: low_rank_policy(torch.ones(50, 4), torch.Generator().manual_seed(0), p=0.1), "row"),
    ],
    "greedy policies": [
        *(
            (greedy(**bad), "either q, or left and right")
            for bad in ({}, {"q": Q, "left": LEFT, "right": RIGHT}, {"left": LEFT}, {"q": Q, "right": RIGHT})
        ),
        (greedy(left=LEFT, right=RIGHT.mT), rf"needs right of shape \({A}, 3\), got \(3, {A}\)"),
        (greedy(q=Q.mT), rf"needs q of shape \({S}, {A}\)"),
        (greedy(left=LEFT, right=RIGHT.double()), "one precision"),
        (greedy(q=Q / 0.0), "needs finite q"),
        (lambda: GREEDY.actions(torch.zeros(4, 3)), r"\(N, 2\); got shape \(4, 3\)"),
        (lambda: GREEDY.actions(torch.full((4, 2), NAN)), "States must be finite"),
    ],
    "rollouts": [
        (rolled_out(starts=0), "at least 1 start"),
        (rolled_out(starts=torch.zeros(3)), r"shape \(N, 2\)"),
        (rolled_out(starts=torch.zeros(3, 4)), r"shape \(N, 2\)"),
        (rolled_out(starts=torch.full((2, 2), NAN)), "finite"),
        (rolled_out(starts=torch.tensor([[0.0, 10.5]])), r"angular speed \(rad/s\) is in \[-10, 10\]"),
        (rolled_out(steps=0), "at least 1 step"),
    ],
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors(what: str):
    for call, message in ERRORS[what]:
        with pytest.raises(ValueError, match=message):
            call()


def test_a_rollout_needs_a_generator():
    with pytest.raises(TypeError, match="needs a generator"):
        rolled_out(generator=None)()


@pytest.mark.parametrize("name", [name for name, entry in METHODS.items() if not entry.noisy])
def test_methods_that_need_exact_backups_say_so(name: str):
    with pytest.raises(ValueError, match=r"needs exact backups.*averaged-svp"):
        plan(NoisyBackups(GRID, 0.05), make_method(name))


SHARED = [{"p": 0.0}, {"p": 1.1}, {"p": NAN}, {"max_iterations": 0}]
REFUSED: dict[Callable[..., Method], list[dict[str, Any]]] = {
    AsyncValueIteration: SHARED,
    SampledMax: SHARED,
    RowMeanUpdate: SHARED,
    IncumbentIteration: [*SHARED, {"challengers": 0}],
    StructuredValueIteration: [*SHARED, {"max_iterations": 2.5}],
    AveragedValueIteration: [*SHARED, {"samples": 0}],
    AveragedStructuredIteration: [*SHARED, {"samples": 0}, {"rank": 0}, {"least": 1.0}, {"memory": 1.0}],
    CoarseActions: [{"actions": 0}, {"tolerance": -1.0}, {"max_iterations": 0}],
    CrossValueIteration: [{"rank": 0}, {"tolerance": NAN}, {"max_iterations": 0}],
    ValueIteration: [{"stop": "soon"}, {"tolerance": 0.0}, {"max_iterations": 0}],
    ModifiedPolicyIteration: [{"sweeps": -1}, {"tolerance": NAN}, {"max_iterations": 0}],
    PolicyIteration: [{"solver": "magic"}, {"max_iterations": 0}],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_wrong_parameters_of_methods(kind: Any):
    for options in REFUSED[kind]:
        with pytest.raises(ValueError, match="svp" if kind is StructuredValueIteration else kind.__name__):
            kind(**options)


def test_a_method_is_a_record():
    for wrong in (ValueIteration, "svp"):
        with pytest.raises(ValueError, match="A method is a record such as"):
            svrl.plan(GRID, wrong)  # type: ignore[arg-type]
