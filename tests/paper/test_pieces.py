"""A budget that grows piece by piece: whatever pieces are complete are its evidence."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from svrl.paper.claim import Verdict
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments.atari_batch_size import EXPERIMENT as BATCH_SIZE
from svrl.paper.experiments.atari_diagnosis import EXPERIMENT as DIAGNOSIS
from svrl.paper.experiments.atari_learning import EXPERIMENT as LEARNING
from svrl.paper.experiments.atari_rank import EXPERIMENT as RANK
from svrl.paper.experiments.minatar_learning import EXPERIMENT as MINATAR
from svrl.paper.experiments.trainings import piece_of, training_study
from svrl.paper.judging import Library
from svrl.runs.local import run_locally
from svrl.runs.store import Store

from . import small_experiment as small
from .small_experiment import Committed

# Pieces are named by the first letter of a run; those of a piece do not stand together.
RUNS = {name: small.run(x, name=name) for x, name in enumerate(("b1", "a1", "b2", "c1", "a2"), start=1)}


def experiment() -> Experiment:
    budgets = small.experiment().budgets
    short = Budget(runs=tuple(RUNS.values()), words="some squares", piece_of=lambda run: run.settings["name"][0])
    (claim,) = small.experiment().claims
    return small.experiment(budgets={**budgets, "short": short}, claims=(replace(claim, scales=("short", "full")),))


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Store, Store]:
    return Store(root=tmp_path / "here"), Committed(root=tmp_path / "committed")


@pytest.mark.parametrize(
    ("kept", "words", "found"),
    [
        ([], None, []),
        (["b1", "a1"], None, []),
        (["c1"], "c: some squares", ["c1"]),
        (["c1", "a2", "b1", "a1"], "a, c: some squares", ["a1", "c1", "a2"]),
        (["c1", "b2", "b1"], "b, c: some squares", ["b1", "b2", "c1"]),
        (list(RUNS), "b, a, c: some squares", list(RUNS)),
    ],
)
def test_complete_pieces_are_named_in_the_order_of_the_budget(
    stores: tuple[Store, Store], kept: list[str], words: str | None, found: list[str]
):
    for at, name in enumerate(kept):  # a piece may lie in two stores
        run_locally([RUNS[name]], stores[at % 2].address, here=True)
    evidence = experiment().evidence("short", stores)
    if words is None:
        assert evidence is None
    else:
        assert evidence is not None
        assert (evidence.scale, evidence.words) == ("short", words)
        assert [run.settings["name"] for run in evidence.runs] == found
    missing = [run.settings["name"] for run in experiment().missing("short", stores)]
    assert missing == [name for name in RUNS if name not in kept]


def test_a_claim_is_judged_from_the_pieces_that_are_there(stores: tuple[Store, Store]):
    def judged() -> tuple[Verdict, float | None, str]:
        (found,) = Library((experiment(),), stores).judge("short")
        return found.finding.verdict, found.finding.value, found.as_json()["budget"]

    run_locally([RUNS["b1"]], stores[0].address, here=True)
    assert judged() == (Verdict.NOT_RUN, None, "")
    (found,) = Library((experiment(),), stores).judge("short")
    assert "1 of 5 runs are kept; svrl paper run toy_rank --scale short resumes" in found.finding.note
    run_locally([RUNS["b2"]], stores[0].address, here=True)
    # The squares of b1 and b2 are 1 and 9, which is not above 10.
    assert judged() == (Verdict.NOT_REPRODUCED, 10.0, "b: some squares")
    run_locally([RUNS["c1"]], stores[0].address, here=True)
    assert judged() == (Verdict.REPRODUCED, 26.0, "b, c: some squares")


@pytest.mark.parametrize(
    ("env", "arm", "overrides", "words"),
    [
        ("atari/frostbite", "sv-dqn-network", {"n_envs": 64}, "Frostbite"),
        ("atari/ms_pacman", "sv-dueling", {}, "Ms Pacman with dueling DQN"),
        ("atari/seaquest", "double", {"batch_size": 64}, "Seaquest with double DQN with batches of 64"),
    ],
)
def test_a_piece_of_training_is_a_technique_on_a_game(env: str, arm: str, overrides: dict[str, int], words: str):
    one = training_study(env=env, arm=arm, seed=2, preset="short", steps=10, overrides=overrides, batches=1, states=32)
    assert piece_of(one) == words


@pytest.mark.parametrize(
    ("experiment", "pieces", "runs"),
    [
        (LEARNING, 57 + 2 * 16, 3 * 3),
        (DIAGNOSIS, 57, 3 * 3),
        (RANK, 4, 3),
        (BATCH_SIZE, 2 * 3, 3 * 3),
        (MINATAR, 5, 3 * 10),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_piece_has_all_arms_and_seeds(experiment: Experiment, pieces: int, runs: int):
    budget = experiment.budgets["short"]
    assert budget.piece_of is piece_of
    counts = Counter(map(piece_of, budget.runs))
    assert (len(counts), set(counts.values())) == (pieces, {runs})
    assert experiment.budgets["full"].piece_of is None
