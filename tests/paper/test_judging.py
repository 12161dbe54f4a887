from __future__ import annotations

import dataclasses
import json

import pytest

from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.judging import Library
from svrl.runs.local import run_locally
from svrl.runs.store import Store

from . import small_experiment as small
from .small_experiment import Committed


@pytest.fixture
def stores(tmp_path):
    return Store(root=tmp_path / "here"), Committed(root=tmp_path / "committed")


def computed(experiment, store, scale):
    run_locally(experiment.budgets[scale].runs, store.address, here=True)


def judged(experiment, stores, scale):
    return Library((experiment,), stores).judge(scale)[0]


def test_nothing_kept_is_not_run(stores):
    found = judged(small.experiment(), stores, "laptop")
    assert found.finding.verdict is Verdict.NOT_RUN
    row = found.as_json()
    assert row["verdict"] == "not run at this scale"
    assert row["interval"] is None
    assert row["interval_reason"] == "not run"
    json.dumps(row, allow_nan=False)


def test_half_finished_is_not_run(stores):
    experiment = small.experiment()
    run_locally(experiment.budgets["laptop"].runs[:2], stores[0].address, here=True)
    found = judged(experiment, stores, "laptop").finding
    assert found.verdict is Verdict.NOT_RUN
    assert "2 of 3 runs are kept; svrl paper run toy_rank --scale laptop resumes" in found.note


def test_the_asked_scale_comes_first(stores):
    experiment = small.experiment()
    for scale in ("laptop", "full"):
        computed(experiment, stores[0], scale)
    assert judged(experiment, stores, "laptop").as_json()["ours"] == "14"
    assert judged(experiment, stores, "full").as_json()["ours"] == "901"


def test_smoke_is_judged_from_the_largest_budget_that_is_kept(stores):
    experiment = small.experiment()
    computed(experiment, stores[0], "smoke")
    assert judged(experiment, stores, "smoke").finding.verdict is Verdict.NOT_RUN
    assert "smoke is too small" in judged(experiment, stores, "smoke").finding.note
    computed(experiment, stores[1], "laptop")
    found = judged(experiment, stores, "smoke")
    assert (found.scale, found.evidence.source, found.finding.verdict) == ("laptop", "here and committed", "reproduced")
    computed(experiment, stores[1], "full")
    assert judged(experiment, stores, "smoke").scale == "full"


@pytest.mark.parametrize("settled", [Verdict.NOT_REPRODUCED, Verdict.UNDECIDED])
def test_what_settles_nothing_gives_way_to_the_largest_budget_that_is_kept(stores, settled):
    def judge(evidence: Evidence) -> Finding:
        small_one = Finding(verdict=Verdict.SUPPORTED, ours="1", value=1.0, interval=(0.0, 2.0))
        return small_one if evidence.scale == "laptop" else Finding(verdict=settled, ours="2")

    experiment = small.experiment(claims=(claim(judge=judge),))
    computed(experiment, stores[0], "laptop")
    assert judged(experiment, stores, "laptop").finding.verdict is Verdict.SUPPORTED
    computed(experiment, stores[1], "full")
    found = judged(experiment, stores, "laptop")
    assert (found.scale, found.finding.verdict) == ("full", settled)


def claim(**changes):
    return dataclasses.replace(small.experiment().claims[0], **changes)


def evidence(scale="laptop"):
    return Evidence(scale=scale, words="nothing", runs=())


@pytest.mark.parametrize("verdict", [Verdict.REPRODUCED, Verdict.SUPPORTED])
def test_no_reproduction_and_no_support_without_an_interval(verdict):
    bare = Finding(verdict=verdict, ours="3")
    with pytest.raises(RuntimeError, match="without an interval"):
        claim(judge=lambda _: bare).judged(evidence())
    assert claim(judge=lambda _: bare, seeded=False).judged(evidence()) is bare
    for negative in (Verdict.NOT_REPRODUCED, Verdict.CONTRADICTED, Verdict.UNDECIDED, Verdict.NOT_RUN):
        other = dataclasses.replace(bare, verdict=negative)
        assert claim(judge=lambda _, other=other: other).judged(evidence()) is other


def test_another_definition_is_named():
    bare = Finding(verdict=Verdict.OTHERWISE, ours="3", interval=(1.0, 2.0))
    with pytest.raises(RuntimeError, match="no note says which"):
        claim(judge=lambda _: bare).judged(evidence())


def test_what_the_paper_prints_needs_no_run():
    counted = Finding(verdict=Verdict.NOT_REPRODUCED, ours="41")
    printed: Claim = claim(judge=lambda _: counted, printed=True, seeded=False)
    assert printed.judged(None) is counted
    assert claim(judge=lambda _: counted).judged(None).verdict is Verdict.NOT_RUN


def test_rows_come_with_the_settings_of_their_run(stores):
    experiment = small.experiment()
    computed(experiment, stores[0], "laptop")
    found = experiment.evidence("laptop", stores)
    assert list(found.rows(x=2)) == [{"x": 2, "value": 4}]
    assert found.only(x=3).arrays["ramp"].tolist() == [0, 1, 2]
    with pytest.raises(LookupError, match="0 runs"):
        found.only(x=9)


def test_scales_of_the_same_runs_are_shown_once(stores):
    budgets = small.experiment().budgets
    experiment = small.experiment(budgets={**budgets, "laptop": budgets["full"]})
    computed(experiment, stores[0], "full")
    library = Library((experiment,), stores)
    for asked in ("laptop", "full"):
        assert [found.scale for found in library.exhibits(experiment, asked)] == ["full"]
        assert judged(experiment, stores, asked).scale == "full"
