"""Methods by name: every name builds what it says, and nothing that was asked for is lost on the way."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import torch

from svrl.matrix import FactorALS, HardImpute
from svrl.mdp.simulator import NoisyBackups
from svrl.planning.catalogue import IN_THE_LOOP, METHODS, make_method
from svrl.planning.method import Method
from svrl.planning.plan import DIVERGED, plan
from svrl.planning.svp import StructuredValueIteration, paper_svp

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
    assert make_method("svp") == StructuredValueIteration()
    assert make_method("paper-svp") == paper_svp()
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


@pytest.mark.parametrize("estimator", IN_THE_LOOP)
def test_every_estimator_plans(estimator: str):
    method = make_method("svp", estimator=estimator, p=0.7, iterations=2)
    result = plan(GRID, method)
    assert result.iterations == 2
    assert result.outcome != DIVERGED


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_is_a_plan_and_the_ledger_has_every_backup(name: str):
    entry = METHODS[name]
    method = make_method(name, iterations=4, **({"p": 0.7} if "p" in entry.takes else {}))
    watched, noisy = Watched(GRID), NoisyBackups(GRID, 0.2)
    one, same, other = (plan(noisy if entry.noisy else watched, method, seed=seed) for seed in (4, 4, 5))
    assert torch.equal(one.v, same.v)
    assert torch.equal(one.policy, same.policy)
    assert one.ledger.backups == same.ledger.backups
    drawn = entry.noisy or name not in ("policy-iteration", "modified-policy-iteration", "coarse")
    assert torch.equal(one.v, other.v) != drawn
    assert (one.name, one.method, one.seed, other.seed) == (name, repr(method), 4, 5)
    counted, seen = sum(found.ledger.backups for found in (one, same, other)), noisy.calls + watched.backups
    assert counted == seen or ("policy-iteration" in name and counted > seen)  # which also reads the chain of a policy
    assert {"task": "inverted-pendulum", "variant": "paper", "pairs": GRID.n_states * GRID.n_actions}.items() <= (
        one.problem.items()
    )
    json.dumps(one.problem)
    assert one.sweep_equivalents == one.ledger.backups / one.problem["pairs"]
    assert one.rank == one.trace[-1].rank
    assert one.policy.shape == one.v.shape == (GRID.n_states,)
    assert (one.policy.dtype, one.v.dtype) == (torch.int64, torch.float64)
    assert bool(((one.policy >= 0) & (one.policy < GRID.n_actions)).all())
    assert bool(torch.isfinite(one.v).all())


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
