"""Methods by name: every name builds what it says, and nothing that was asked for is lost on the way."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch

from svrl.matrix import FactorALS, HardImpute, SoftImpute
from svrl.mdp.simulator import NoisyBackups
from svrl.planning.catalogue import IN_THE_LOOP, METHODS, make_method
from svrl.planning.method import Method
from svrl.planning.plan import DIVERGED, plan
from svrl.planning.svp import StructuredValueIteration, paper_svp

from .oracles import small_grid

GRID = small_grid(states=(8, 7), actions=20)
SOME = {"observe": 0.7, "estimator": "row-mean", "rank": 6, "final_sweep": True}


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
    if option in ("observe", "final_sweep"):
        assert getattr(method, option) == SOME[option]


def test_options_reach_the_method():
    svp = make_method("svp", observe=0.4, rank=7, final_sweep=False, iterations=5)
    assert isinstance(svp, StructuredValueIteration)
    assert (svp.observe, svp.final_sweep, svp.max_iterations) == (0.4, False, 5)
    assert isinstance(svp.estimator, FactorALS)
    assert svp.estimator.rank == 7
    hard = make_method("svp", estimator="hard-impute", rank=3)
    assert isinstance(hard, StructuredValueIteration)
    assert isinstance(hard.estimator, HardImpute)
    assert hard.estimator.rank == 3
    paper = make_method("paper-svp", observe=0.5, final_sweep=True)
    assert paper == dataclasses.replace(paper_svp(observe=0.5), final_sweep=True)
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
    method = make_method("svp", estimator=estimator, observe=0.7, iterations=2)
    result = plan(GRID, method)
    assert result.iterations == 2
    assert result.outcome != DIVERGED


@pytest.mark.parametrize(
    ("name", "near"), [("svpp", "svp"), ("asynch", "async"), ("sampled-maxi", "sampled-max"), ("averagd", "averaged")]
)
def test_a_near_miss_is_named(name: str, near: str):
    with pytest.raises(ValueError, match=re.escape(f"There is no method '{name}'. Did you mean {near}?")):
        make_method(name)


def test_a_far_miss_gets_the_list():
    with pytest.raises(ValueError, match=r"Choose one of async, .*coarse"):
        make_method("zzzzzz")


def test_an_unknown_estimator_is_named():
    with pytest.raises(ValueError, match=r"There is no estimator 'soft-imput'. Did you mean soft-impute\?"):
        make_method("svp", estimator="soft-imput")


@pytest.mark.parametrize("name", METHODS)
def test_every_method_plans_where_it_says_it_can(name: str):
    takes = METHODS[name].takes
    method = make_method(name, iterations=3, **({"observe": 0.7} if "observe" in takes else {}))
    noisy = NoisyBackups(GRID, 0.05)
    if METHODS[name].noisy:
        result = plan(noisy, method)
        assert result.ledger.backups == noisy.calls > 0
    else:
        result = plan(GRID, method)
        with pytest.raises(ValueError, match="needs exact backups"):
            plan(noisy, method)
    assert result.name == name
    assert result.policy.shape == (GRID.n_states,)
    assert bool(((result.policy >= 0) & (result.policy < GRID.n_actions)).all())
    assert bool(torch.isfinite(result.v).all())
