"""What every structured agent promises, whatever the library: each rig runs the library's own agent and ours alike.

A rig has CASES, by name, FEW of them for what need not be tried in all, and

    run(case, structure=..., seed=...)   an agent after some updates; with plain=True the library's own
    weights(agent)                       what it learned
    updates(agent)                       how often it was structured
    ranks(agent)                         what it logged last
    resumed(agent, case, folder)         the same, saved and loaded
    go_on(agent, case)                   a few updates more
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

from svrl import StructuredTargets

RIGS = {
    "sb3_contrib": "sb3_rig",
    "tianshou": "tianshou_rig",
    "torchrl": "torchrl_rig",
    "ray": "rllib_rig",
}
"""By the library that it needs."""


def each(*, all_cases: bool) -> list[Any]:
    params = []
    for library, name in RIGS.items():
        try:
            importlib.import_module(library)
        except ImportError:
            skip = pytest.mark.skip(reason=f"{library} is missing; make test-integrations installs it")
            params.append(pytest.param(None, "", id=library, marks=skip))
            continue
        rig = importlib.import_module(f"tests.integrations.{name}")
        cases = rig.CASES if all_cases else rig.FEW
        params += [pytest.param(rig, case, id=f"{library}: {case}") for case in cases]
    return params


every_case = pytest.mark.parametrize(("rig", "case"), each(all_cases=True))
few_cases = pytest.mark.parametrize(("rig", "case"), each(all_cases=False))


def same(rig: Any, one: Any, other: Any) -> bool:
    pairs = zip(rig.weights(one), rig.weights(other), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@every_case
def test_with_nothing_hidden_or_no_structure_it_is_the_library(rig: Any, case: str) -> None:
    plain = rig.run(case, plain=True)
    for rule in (StructuredTargets(p=1.0), StructuredTargets(p=1.0, next_value_from="completed"), None):
        assert same(rig, plain, rig.run(case, structure=rule)), rule
    half = rig.run(case, structure=0.5)
    assert rig.updates(half) > 0
    assert not same(rig, plain, half)


@few_cases
def test_a_seed_draws_its_masks(rig: Any, case: str) -> None:
    first, again, other = (rig.run(case, structure=0.5, seed=seed) for seed in (0, 0, 1))
    assert same(rig, first, again)
    assert not same(rig, first, other)


@few_cases
def test_what_was_saved_resumes_as_if_never_interrupted(rig: Any, case: str, tmp_path: Path) -> None:
    straight = rig.run(case, structure=StructuredTargets(p=0.6, rise=500, output="estimate"))
    before = rig.updates(straight)
    resumed = rig.resumed(straight, case, tmp_path)
    assert resumed is not straight
    for agent in (straight, resumed):
        rig.go_on(agent, case)
        assert rig.updates(agent) > before
    assert same(rig, straight, resumed)


@few_cases
@pytest.mark.parametrize("structure", [0.5, None])
def test_ranks_are_logged(rig: Any, case: str, structure: float | None) -> None:
    ranks = rig.ranks(rig.run(case, structure=structure))
    assert set(ranks) == {"rank_99", "rank_9999", "row_centred_rank_99"}
    assert 1 <= ranks["rank_99"] <= ranks["rank_9999"] <= rig.ACTIONS


@few_cases
@pytest.mark.parametrize(
    ("structure", "sentence"),
    [
        ("0.5", "a probability or None for the plain agent, got '0.5'"),
        (True, "got True"),
        (0.0, r"a probability.* in \(0, 1\], got 0.0"),
    ],
)
def test_what_is_no_structure_is_one_sentence(rig: Any, case: str, structure: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rig.run(case, structure=structure)
