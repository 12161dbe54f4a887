from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from svrl.plots.learning import draw_learning, smoothed
from svrl.plots.style import save_figure


def rows_of(seed: int, length: int = 300, level: float = 10.0) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.integers(1, 40, length))
    scores = level + rng.standard_normal(length)
    return [{"steps": int(step), "score": float(score)} for step, score in zip(steps, scores, strict=True)]


@pytest.mark.parametrize("window", [1, 3, 100, 1000])
def test_a_smoothed_score_is_the_mean_of_the_last_games(window):
    scores = np.random.default_rng(0).standard_normal(250)
    slow = [scores[max(0, k + 1 - window) : k + 1].mean() for k in range(len(scores))]
    np.testing.assert_allclose(smoothed(scores, window), slow, atol=1e-12)


def test_the_line_of_one_run_is_its_smoothed_score():
    rows = rows_of(0)
    figure = draw_learning({"dqn": [rows]}, title="CartPole-v1", window=50)
    (panel,) = figure.axes
    line = next(one for one in panel.get_lines() if one.get_label() == "dqn")
    np.testing.assert_array_equal(line.get_xdata(), [row["steps"] for row in rows])
    np.testing.assert_allclose(line.get_ydata(), smoothed(np.array([row["score"] for row in rows]), 50))
    assert panel.get_title(loc="left") == "CartPole-v1"
    assert "50 games" in panel.get_ylabel()


def test_seeds_are_averaged_at_common_steps():
    runs = [rows_of(seed, level=level) for seed, level in ((1, 10.0), (2, 20.0))]
    figure = draw_learning({"dqn": runs, "sv-dqn": [rows_of(3)]}, window=10**6)
    (panel,) = figure.axes
    lines = {line.get_label(): line for line in panel.get_lines()}
    mean = lines["dqn (2 seeds)"]
    assert mean.get_xdata()[-1] == min(rows[-1]["steps"] for rows in runs)
    assert mean.get_ydata()[-1] == pytest.approx(15.0, abs=0.3)
    assert "sv-dqn" in lines


def test_evaluations_are_points():
    evaluations = {"dqn": [[{"steps": 100, "mean": 3.0}, {"steps": 200, "mean": None}, {"steps": 300, "mean": 5.0}]]}
    figure = draw_learning({"dqn": [rows_of(0)]}, evaluations=evaluations)
    points = next(line for line in figure.axes[0].get_lines() if line.get_label() == "evaluation")
    np.testing.assert_array_equal(points.get_xydata(), [[100, 3.0], [300, 5.0]])


@pytest.mark.parametrize(
    "curves", [{"dqn": [[]]}, {}, {"dqn": [[], rows_of(0)]}, {"dqn": [rows_of(0, 1), rows_of(1, 1)]}]
)
def test_unfinished_runs_are_drawn_as_far_as_they_are(tmp_path: Path, curves):
    path = tmp_path / "curve.png"
    save_figure(draw_learning(curves, title="nothing yet"), path)
    assert path.stat().st_size > 3000


def test_where_no_games_are_kept_evaluations_are_the_curves() -> None:
    rows = [[{"steps": k, "mean": float(k + seed)} for k in (100, 200)] for seed in (0, 2)]
    panel = draw_learning({"dqn": [[], []]}, evaluations={"dqn": rows}).axes[0]
    assert panel.get_ylabel() == "score in evaluations"
    line = next(line for line in panel.get_lines() if line.get_label() == "dqn (2 seeds)")
    assert (line.get_ydata()[0], line.get_ydata()[-1]) == (101.0, 201.0)
