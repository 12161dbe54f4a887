from __future__ import annotations

import numpy as np
import pytest

from svrl.agents.agent import load_agent
from svrl.agents.study import rank_study

QUICK = ("--batches", 300, "--states", 500, "--batch-size", 16)
KEYS = {"energy", "batches", "batch_size", "mean", "histogram", "row_centred_mean"}


def test_json_is_the_study_of_the_library(svrl_json, trained, tmp_path):
    row = svrl_json("rank", trained, *QUICK, "--energy", 0.95, "--seed", 2, "--plot", tmp_path / "rank.svg")
    assert set(row) >= KEYS
    study = rank_study(load_agent(trained), batches=300, states=500, batch_size=16, energy=0.95, seed=2).as_json()
    rank = study.pop("feature_rank")  # its last digit is rounding
    assert row["feature_rank"] == pytest.approx(rank)
    assert {name: row[name] for name in study} == study
    assert sum(row["histogram"]) == 300
    assert len(row["histogram"]) == 5 + 1
    assert row["mean"] == pytest.approx(np.dot(row["histogram"], np.arange(6)) / 300)
    assert (tmp_path / "rank.svg").stat().st_size > 5000


def test_the_table_and_the_picture_in_the_run(svrl, trained_minatar):
    result = svrl("rank", trained_minatar, *QUICK)
    assert result.exit_code == 0, result.stderr
    for word in ("minatar/breakout", "sv-double", "300 batches of 16 states x 6 actions", "rows centred", "dormant"):
        assert word in result.stdout
    assert (trained_minatar / "rank.png").stat().st_size > 5000


def test_why_overestimation_is_not_known(svrl, svrl_json, trained, tmp_path):
    options = ("rank", trained, *QUICK, "--plot", tmp_path / "rank.svg")
    assert svrl_json(*options)["optimism"] is None
    assert "overestimation is not known: no state was followed long enough" in svrl(*options).stdout
