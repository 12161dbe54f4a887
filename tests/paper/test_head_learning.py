"""Heads for many actions: every arm can be trained, and claims are judged as they say."""

from __future__ import annotations

import numpy as np
import pytest

from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiments.head_learning import ARMS, CLAIMS, KIND, SIZES, WITH_AXES, compute, head_for
from svrl.runs.spec import Work
from svrl.runs.store import HERE, Kept

(FIRST, *_) = SIZES["smoke"].runs()
TINY = {**FIRST.settings, "steps": 160, "eval_every": 80, "games": 2, "ridge": 0.1, "hidden": [8, 8]}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return compute(TINY | {"arm": "dqn"}, Work(folder=tmp_path_factory.mktemp("plain"))).rows


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm not in ("dqn", "dueling", "double")])
def test_every_arm_is_another_algorithm(arm, plain, tmp_path):
    rows = compute(TINY | {"arm": arm}, Work(folder=tmp_path)).rows
    assert [row["steps"] for row in rows] == [80, 160]
    assert all(len(row[name]) == 2 for row in rows for name in ("returns", "scores", "overestimation"))
    assert rows[-1]["overestimation"] != plain[-1]["overestimation"]


def test_additive_arms_need_axes():
    runs = SIZES["full"].runs()
    assert len({run.id for run in runs}) == len(runs) == 13 * 10 + 11 * 2
    assert not any(run.settings["arm"] in WITH_AXES for run in runs if run.settings["task"] == "inverted-pendulum")
    assert {head_for(task) for task in SIZES["full"].tasks} == {"lowrank", "additive-lowrank"}


def evidence(better_on: int, scale: str = "full") -> Evidence:
    """Structured heads are better than the others on some tasks, and equal to them on the rest."""
    runs = []
    places = list(
        dict.fromkeys(
            (run.settings["task"], run.settings["actions"], run.settings["reward_noise"])
            for run in SIZES["full"].runs()
        )
    )
    for run in SIZES["full"].runs():
        at = places.index((run.settings["task"], run.settings["actions"], run.settings["reward_noise"]))
        ahead = run.settings["arm"] in ("lowrank", "additive-lowrank") and at < better_on
        returns = (np.random.default_rng(0).permutation(32) / 32 + 2.0 * ahead).tolist()
        rows = [{"steps": 20_000, "returns": returns}]
        runs.append(
            Kept(kind=KIND.name, id=run.id, settings=run.settings, rows=rows, provenance={}, source=HERE, load=dict)
        )
    return Evidence(scale=scale, words="made by hand", runs=tuple(runs))


@pytest.mark.parametrize(("claim", "least"), [(CLAIMS[0], 6), (CLAIMS[1], 5)])
def test_a_claim_needs_its_number_of_tasks(claim, least):
    found = claim.judged(evidence(least))
    assert (found.verdict, f"passed on {least} of 12 tasks" in found.ours) == (Verdict.REPRODUCED, True)
    assert found.value == pytest.approx((least + 0.5 * (12 - least)) / 12)
    assert claim.judged(evidence(least - 1)).verdict is Verdict.NOT_REPRODUCED
    assert claim.judged(evidence(12, "laptop")).verdict is Verdict.SUPPORTED
    assert claim.judged(Evidence(scale="full", words="nothing", runs=())).verdict is Verdict.NOT_RUN
