from __future__ import annotations

import json

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
    assert {name: row[name] for name in study} == json.loads(json.dumps(study))
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


def test_where_q_star_is_known_its_error_is_told_by_directions(svrl, svrl_json, tmp_path):
    run = tmp_path / "run"
    svrl_json("train", "control/inverted-pendulum", "--actions", 9, "--preset", "smoke", "--out", run)
    options = ("rank", run, *QUICK, "--plot", tmp_path / "rank.png")
    row = svrl_json(*options)
    found = row["q_star_directions"]
    assert found["counts"] == row["directions"]["counts"] == [1, 2, 4]
    assert found["independent"] == [1 / 8, 2 / 8, 4 / 8]
    assert found["values"] == sorted(found["values"])
    assert (len(found["errors"]), row["directions"]["errors"]) == (3, None)
    said = svrl(*options).stdout
    assert all(word in said for word in ("first 4", "of the error against Q*", "of independent errors", "50.0%"))


def test_elsewhere_the_directions_are_those_of_the_values_alone(svrl, svrl_json, trained_minatar):
    row = svrl_json("rank", trained_minatar, *QUICK)
    assert row["q_star_directions"] is None
    assert row["q_star_directions_reason"].startswith("Q* is known only for control/TASK")
    assert "against Q*" not in svrl("rank", trained_minatar, *QUICK).stdout
