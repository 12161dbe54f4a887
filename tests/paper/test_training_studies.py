"""The run of a training on CartPole, and what is read from hand-made ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from svrl.paper.catalogue import load_all, load_experiment
from svrl.paper.experiments.gains import Panels, labels_of, relative_gains
from svrl.paper.experiments.study import CURVE_POINTS, TRACE_POINTS, against_q_star, thinned
from svrl.paper.experiments.trainings import (
    FULL,
    SMOKE,
    config_of,
    curves,
    score_of,
    score_over_time,
    share_at_most,
    training_study,
)
from svrl.runs.local import run_locally
from svrl.runs.settings import extra_of
from svrl.runs.spec import RunSpec
from svrl.runs.store import Kept, Store
from svrl.runs.sweep_file import read_sweep, runs_of

from .hand_made_trainings import evidence, histogram, seeds, training

RUN = training_study(
    env="CartPole-v1",
    arm="sv-dqn",
    seed=3,
    preset="smoke",
    steps=300,
    overrides={"hidden": [16]},
    batches=20,
    states=40,
)


def computed(root: Path) -> Kept:
    store = Store(root)
    run_locally([RUN], store.address, here=True)
    kept = store.read(RUN)
    assert kept is not None
    return kept


def told_alike(result: Kept) -> list[dict]:
    """All rows but the one that says how fast it was."""
    return [row for row in result.rows if row["what"] != "speed"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return computed(tmp_path_factory.mktemp("straight"))


def test_rows_are_as_documented(straight: Kept):
    kinds = [row["what"] for row in straight.rows]
    assert kinds == ["curve", "score", "learning", "speed", *["rank"] * 4, "features", "estimation", "estimation"]
    by_kind = {row["what"]: row for row in straight.rows}
    curve, score = by_kind["curve"], by_kind["score"]
    assert len(curve["steps"]) == len(curve["score"]) <= CURVE_POINTS
    assert curve["steps"][-1] == 300
    assert curve["score"][-1] == score["last_100"]  # fewer than 100 games: their mean, at the end and in the curve
    assert by_kind["learning"]["steps"] == [100, 200, 300]
    assert {(row["energy"], row["centred"]) for row in straight.rows if row["what"] == "rank"} == {
        (0.99, False),
        (0.9999, False),
        (0.99, True),
        (0.9999, True),
    }
    assert all(sum(row["histogram"]) == 20 for row in straight.rows if row["what"] == "rank")
    assert len(json.dumps(straight.rows, allow_nan=False)) < 40_000


def test_a_long_comparison_with_the_best_q_is_thinned_and_keeps_its_end(tmp_path: Path):
    path = tmp_path / "q_star.jsonl"
    assert against_q_star(path) == []
    errors = {"mean_error": 1.0, "max_error": 3.0, "value_error": 0.5, "advantage_error": 0.25}
    rows = [{"steps": 10 * k, "greedy_loss": 1 / k, **errors} for k in range(1, 202)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (found,) = against_q_star(path)
    assert found["what"] == "q_star"
    assert found["steps"] == [row["steps"] for row in rows if row["steps"] % 30 == 0]
    assert len(found["steps"]) <= TRACE_POINTS
    assert found["greedy_loss"][-1] == pytest.approx(1 / 201, rel=1e-4)
    assert found["value_error"] == [0.5] * len(found["steps"])


def test_same_settings_same_rows(straight: Kept, tmp_path: Path):
    assert told_alike(computed(tmp_path)) == told_alike(straight)


def test_families_have_their_extras():
    runs = [
        training_study(env=env, arm="dqn", seed=0, preset="smoke", steps=1, overrides={}, batches=1, states=32)
        for env in ("atari/pong", "minatar/breakout", "CartPole-v1")
    ]
    assert [extra_of(run) for run in runs] == ["atari", "minatar", ""]
    assert [run.kind.name for run in runs] == ["training-atari", "training-minatar", "training-classic"]


def test_the_full_budget_is_the_sweep_of_the_paper():
    """So what `svrl sweep run paper-57` trains, `svrl paper run --scale full` finds in the same store."""
    trained = {run.id for run in load_experiment("atari_learning").budgets["full"].runs for run in run.after}
    assert trained == {spec.id for spec in runs_of(read_sweep("paper-57"))}
    assert len(trained) == 534


def test_arms_and_overrides_reach_the_agent():
    (run,) = SMOKE.runs(("minatar/breakout",), ("sv-dqn-network",), batch_size=48)
    config = config_of(run.settings)
    assert (config.arm, config.scale, config.next_value_from, config.batch_size) == (
        "sv-dqn-network",
        "row",
        "network",
        48,
    )
    assert config.steps == SMOKE.steps
    plain = config_of(FULL.runs(("atari/pong",), ("double",))[0].settings)
    assert (plain.arm, plain.preset, plain.steps, plain.batch_size) == ("double", "authors", 15_000_000, 32)


def test_an_unknown_arm_is_refused():
    with pytest.raises(ValueError, match="no arm 'sarsa'"):
        SMOKE.runs(("CartPole-v1",), ("sarsa",))


def test_thinning_keeps_the_end_and_may_be_empty():
    steps = np.arange(1, 10_001)
    at, found = thinned(steps, steps.astype(float), 10_000, 200)
    assert (len(at), found[-1]) == (200, 10_000)
    assert [len(part) for part in thinned(np.array([], dtype=int), np.array([]), 50, 5)] == [0, 0]


def test_scores_curves_and_ranks_are_read():
    kept = training("atari/krull", "dqn", 0, 30.0, ranks=(2.5, 3.0, 9.0, 15.0))
    assert score_of(kept) == 30.0
    assert score_over_time(kept) == pytest.approx(3 * 5.5)
    assert share_at_most(kept, 2) == 0.5
    assert sum(k * count for k, count in enumerate(histogram(2.5))) / 100 == 2.5
    steps, scores = curves([kept, training("atari/krull", "dqn", 1, 60.0)])
    assert (steps.shape, scores.shape) == ((10,), (2, 10))
    assert scores[1].tolist() == (2 * scores[0]).tolist()


def test_relative_gains_are_measured_from_a_random_player():
    # Frostbite's random player scores 65.2.
    plain, structured = [np.array([165.2])], [np.array([265.2])]
    assert relative_gains(plain, structured, ["atari/frostbite"]) == pytest.approx([0.5])
    assert relative_gains(structured, plain, ["atari/frostbite"]) == pytest.approx([-0.5])
    lost = [np.array([10.0])]
    assert relative_gains(lost, [np.array([20.0])], ["atari/frostbite"]) == [0.0]
    assert labels_of(np.array([0.2, 0.05, -0.2])).tolist() == [1, 0, -1]


def test_games_are_put_together_by_their_interquartile_mean():
    # Of 8 runs the middle 4 count: 2 and 3 of both games for plain DQN, and the outlier of 1000 for none.
    plain = [seeds(env, "dqn", [1.0, 2.0, 3.0, 4.0]) for env in ("one", "two")]
    structured = seeds("one", "sv-dqn", [2.0, 3.0, 4.0, 5.0]), seeds("two", "sv-dqn", [2.0, 3.0, 4.0, 1000.0])
    together = Panels.of(evidence(*plain, *structured), "dqn", "sv-dqn", ("one", "two"))
    assert together.difference[0] == pytest.approx(1.0 / 2.5), "in units of plain DQN's mean"
    assert together.difference[1] is not None
    assert "relative IQM difference +0.4 (" in together.words
    larger = [
        seeds("two", arm, [100.0 * x for x in scores])
        for arm, scores in (("dqn", [1, 2, 3, 4]), ("sv-dqn", [2, 3, 4, 1000]))
    ]
    rescaled = Panels.of(evidence(plain[0], structured[0], *larger), "dqn", "sv-dqn", ("one", "two"))
    assert rescaled.difference[0] == pytest.approx(together.difference[0]), "however large the scores of a game are"
    alone = Panels.of(evidence(plain[1], structured[1]), "dqn", "sv-dqn", ("two",))
    assert alone.difference == (pytest.approx(1009 / 4 - 2.5), None)


# What the agents of all runs are, for each experiment and budget. If this fails, a preset or an arm has changed what
# the same settings lead to: raise VERSION in experiments/trainings.py, and compute the committed runs again. Only a
# budget whose runs were changed on purpose, or a new one, gets a new line without that.
AGENTS = {
    "atari_batch_size smoke": "3aab25411d74cda6",
    "atari_batch_size laptop": "d386d92a0776f084",
    "atari_batch_size short": "45e50d068070a2a9",
    "atari_batch_size full": "4f66d78dea884b4d",
    "atari_diagnosis smoke": "6800cc43c7fc4edc",
    "atari_diagnosis laptop": "d386d92a0776f084",
    "atari_diagnosis short": "55ca5395dc9d82a2",
    "atari_diagnosis full": "3730c36dabc41334",
    "atari_learning smoke": "219e50a5377906d5",
    "atari_learning laptop": "d386d92a0776f084",
    "atari_learning short": "16e92e514f5da316",
    "atari_learning full": "b8b10b3e3c318be1",
    "atari_rank smoke": "2ce5a9d6167f99d4",
    "atari_rank laptop": "b140575cb284b2ea",
    "atari_rank short": "eccf026572abe609",
    "atari_rank full": "3e710358d3c14459",
    "cartpole_learning smoke": "9908406bd92d60c8",
    "cartpole_learning laptop": "93c804d79f7c0b18",
    "cartpole_learning full": "0808e8de72fa671c",
    "control_learning smoke": "5add03f34c471f6b",
    "control_learning laptop": "0c74970765b134a3",
    "control_learning short": "b47d4962450d4227",
    "control_learning full": "09e3ce73154036eb",
    "control_ways smoke": "bbb4360cdd5cf28f",
    "control_ways laptop": "76fe7219be13cbf5",
    "control_ways short": "a28242e9565718d4",
    "control_ways full": "91f26f4ac2a96f24",
    "minatar_learning smoke": "64c1a8872d2e2eb9",
    "minatar_learning laptop": "8cba357c48ef7b16",
    "minatar_learning short": "a8656c628f7ae375",
    "minatar_learning full": "5ddf7752d2128790",
}


def test_the_agents_of_committed_cells_are_what_they_were():
    found = {
        f"{experiment.name} {scale}": agents_digest(budget.runs)
        for experiment in load_all()
        for scale, budget in experiment.budgets.items()
        if scale != "screen"  # nothing of it is committed yet
        if all(run.kind.name.startswith("training-") for run in budget.runs) and budget.runs
    }
    assert found == AGENTS


def agents_digest(runs: Sequence[RunSpec]) -> str:
    """Of the settings of all runs, with the resolved agent of each; their order does not matter."""
    told = sorted(json.dumps([run.settings, config_of(run.settings).as_json()], sort_keys=True) for run in runs)
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]
