"""Methods by name: every name builds what it says, and nothing that was asked for is lost on the way."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from svrl.matrix import FactorALS, HardImpute, SoftImpute
from svrl.mdp.simulator import NoisyBackups
from svrl.planning.averaged import AveragedStructuredIteration, AveragedValueIteration
from svrl.planning.baselines import (
    AsyncValueIteration,
    CoarseActions,
    IncumbentIteration,
    RowMeanUpdate,
    SampledMax,
)
from svrl.planning.catalogue import IN_THE_LOOP, METHODS, make_method
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.method import Method
from svrl.planning.plan import DIVERGED, plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration, PolicyIteration
from svrl.planning.svp import StructuredValueIteration, paper_svp
from svrl.planning.value_iteration import ValueIteration

from .oracles import Dense, Watched, small_grid

GRID = small_grid(states=(8, 7), actions=20)
DENSE = Dense.of(GRID)
BEST = DENSE.optimum()
SOME = {"p": 0.7, "estimator": "row-mean", "rank": 6, "final_sweep": True}


@pytest.mark.parametrize("name", METHODS)
def test_every_name_builds(name: str):
    method = make_method(name)
    assert isinstance(method, Method)
    assert method.name == name
    assert method.max_iterations >= 1
    assert make_method(name, iterations=17).max_iterations == 17
    assert name in repr(method) or type(method).__name__ in repr(method)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("option", SOME)
def test_options_are_taken_or_refused(name: str, option: str):
    if option not in METHODS[name].takes:
        with pytest.raises(ValueError, match=f"{name} has no option {option.replace('_', '-')}: it takes"):
            make_method(name, **{option: SOME[option]})
        return
    method = make_method(name, **{option: SOME[option]})
    assert isinstance(method, Method)
    assert method != make_method(name) or getattr(method, option) == SOME[option]
    if option in ("p", "final_sweep"):
        assert getattr(method, option) == SOME[option]


def test_options_reach_the_method():
    svp = make_method("svp", p=0.4, rank=7, final_sweep=False, iterations=5)
    assert isinstance(svp, StructuredValueIteration)
    assert (svp.p, svp.final_sweep, svp.max_iterations) == (0.4, False, 5)
    assert isinstance(svp.estimator, FactorALS)
    assert svp.estimator.rank == 7
    hard = make_method("svp", estimator="hard-impute", rank=3)
    assert isinstance(hard, StructuredValueIteration)
    assert isinstance(hard.estimator, HardImpute)
    assert hard.estimator.rank == 3
    paper = make_method("paper-svp", p=0.5, final_sweep=True)
    assert paper == dataclasses.replace(paper_svp(p=0.5), final_sweep=True)
    other = make_method("paper-svp", estimator="factor-als")
    assert isinstance(other, StructuredValueIteration)
    assert isinstance(other.estimator, FactorALS)
    assert not other.centre
    assert make_method("cross", rank=9).rank == 9  # type: ignore[attr-defined]
    assert make_method("averaged-svp", rank=9).rank == 9  # type: ignore[attr-defined]


def test_the_defaults_are_the_records_own():
    assert make_method("svp") == StructuredValueIteration()
    assert make_method("paper-svp") == paper_svp()
    assert isinstance(IN_THE_LOOP["soft-impute"](None), SoftImpute)


@pytest.mark.parametrize("estimator", IN_THE_LOOP)
def test_every_estimator_plans(estimator: str):
    method = make_method("svp", estimator=estimator, p=0.7, iterations=2)
    result = plan(GRID, method)
    assert result.iterations == 2
    assert result.outcome != DIVERGED


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"name": "svpp"}, "There is no method 'svpp'. Did you mean svp?"),
        ({"name": "sampled-maxi"}, "There is no method 'sampled-maxi'. Did you mean sampled-max?"),
        ({"name": "zzzzzz"}, "Choose one of async, "),
        ({"name": "svp", "estimator": "soft-imput"}, "There is no estimator 'soft-imput'. Did you mean soft-impute?"),
    ],
)
def test_a_wrong_name_is_answered_with_the_near_miss(asked: dict[str, str], answer: str):
    with pytest.raises(ValueError, match=re.escape(answer)):
        make_method(**asked)


SHARED = [{"p": 0.0}, {"p": 1.1}, {"p": float("nan")}, {"max_iterations": 0}]
REFUSED: dict[Callable[..., Method], list[dict[str, Any]]] = {
    AsyncValueIteration: SHARED,
    SampledMax: SHARED,
    RowMeanUpdate: SHARED,
    IncumbentIteration: [*SHARED, {"challengers": 0}],
    StructuredValueIteration: [*SHARED, {"max_iterations": 2.5}],
    AveragedValueIteration: [*SHARED, {"samples": 0}],
    AveragedStructuredIteration: [
        *SHARED,
        *({"samples": 0}, {"rank": 0}, {"least": 1.0}, {"least": -0.1}, {"memory": 1.0}),
    ],
    CoarseActions: [{"actions": 0}, {"tolerance": -1.0}, {"max_iterations": 0}],
    CrossValueIteration: [{"rank": 0}, {"tolerance": float("nan")}, {"max_iterations": 0}],
    ValueIteration: [{"stop": "soon"}, {"tolerance": 0.0}, {"max_iterations": 0}],
    ModifiedPolicyIteration: [{"sweeps": -1}, {"tolerance": float("nan")}, {"max_iterations": 0}],
    PolicyIteration: [{"solver": "magic"}, {"max_iterations": 0}],
}


@pytest.mark.parametrize(
    ("kind", "options"), [(kind, options) for kind, each in REFUSED.items() for options in each], ids=str
)
def test_wrong_parameters_are_refused_by_name(kind: type, options: dict[str, Any]):
    name = "svp" if kind is StructuredValueIteration else kind.__name__
    with pytest.raises(ValueError, match=name):
        kind(**options)


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_is_a_plan(name: str):
    problem = NoisyBackups(GRID, 0.2) if METHODS[name].noisy else GRID
    method = make_method(name, iterations=4, **({"p": 0.7} if "p" in METHODS[name].takes else {}))
    one, same, other = (plan(problem, method, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(one.v, same.v)
    assert torch.equal(one.policy, same.policy)
    assert one.ledger.backups == same.ledger.backups
    drawn = METHODS[name].noisy or name not in ("policy-iteration", "modified-policy-iteration", "coarse")
    assert torch.equal(one.v, other.v) != drawn
    assert (one.seed, other.seed) == (4, 5)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_plans_where_it_says_it_can(name: str):
    takes = METHODS[name].takes
    method = make_method(name, iterations=3, **({"p": 0.7} if "p" in takes else {}))
    noisy = NoisyBackups(GRID, 0.05)
    if METHODS[name].noisy:
        result = plan(noisy, method)
        assert result.ledger.backups == noisy.calls > 0
    else:
        result = plan(GRID, method)
        with pytest.raises(ValueError, match=r"needs exact backups.*averaged-svp"):
            plan(noisy, method)
    assert result.name == name
    assert result.policy.shape == (GRID.n_states,)
    assert bool(((result.policy >= 0) & (result.policy < GRID.n_actions)).all())
    assert bool(torch.isfinite(result.v).all())


@pytest.mark.parametrize("name", METHODS)
def test_from_the_optimum_a_method_stays_there(name: str):
    method = make_method(name, iterations=6, **({"p": 1.0} if "p" in METHODS[name].takes else {}))
    problem = NoisyBackups(GRID, 0.0) if name.startswith("averaged") else GRID
    for start in (BEST, DENSE.backup(BEST)):
        given = torch.from_numpy(start.copy())
        result = plan(problem, method, start=given)
        assert np.array_equal(given, start), "the caller's start is not written to"
        # The paper's method shrinks what it finds.
        assert np.abs(result.v.numpy() - BEST).max() < (0.5 if name == "paper-svp" else 2e-3)
        assert DENSE.loss(result.policy) < (0.5 if name == "paper-svp" else 2e-2)


@pytest.mark.parametrize("name", [name for name in METHODS if not name.startswith("averaged")])
def test_the_ledger_has_every_backup(name: str):
    watched = Watched(GRID)
    result = plan(watched, make_method(name, iterations=5, **({"p": 0.4} if "p" in METHODS[name].takes else {})))
    assert result.ledger.backups >= watched.backups
    if "policy-iteration" not in name:  # which also reads the chain of a policy
        assert result.ledger.backups == watched.backups
