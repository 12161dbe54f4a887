"""Whole loops against the emulator: it must have seen the same games. Nothing here is about speed."""

from __future__ import annotations

import math
import sys
import threading

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.benchmarks.recorded_loop import RecordingEnv, begin_loop, emulator_seconds, timed_stretch, warm_up
from svrl.benchmarks.rows import Row
from svrl.benchmarks.train_device import TrainSizes, measure_train_device
from svrl.benchmarks.update import GAME
from svrl.envs.catalogue import make_env
from svrl.envs.vector import step

pytest.importorskip("ale_py")

CPU = torch.device("cpu")
TINY = TrainSizes(
    envs=2,
    envs_together=1,
    learn_from=40,
    epsilon_steps=40,
    replay=500,
    batch_size=8,
    warm_steps=48,
    rounds=2,
    stretch=0.15,
    others=(("dueling", 4),),
    together=0.3,
    seeds=(0,),
    authors_steps=8,
    authors_learn_from=40,
    eager_warm=1,
    eager=2,
)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(measure_train_device(quick=True, device="cpu", sizes=TINY))


def test_every_row_is_there_and_finite(rows: list[Row]) -> None:
    where = "atari/frostbite, 2 environments"
    alone, authors = "the emulator alone at the same games", "the authors' way, 1 environment, eager"
    assert [(row.name, row.peer_name) for row in rows] == [
        (f"whole loop of dqn, {where}, CPU", alone),
        (f"whole loop of sv-dqn, {where}, CPU", alone),
        (f"structure's share of the loop of dqn, batch 8, {where}, CPU", "limit"),
        (f"whole loop of dqn, {where}, CPU", authors),
        (f"whole loop of sv-dqn, {where}, CPU", authors),
        ("structure's share of the loop of dueling, batch 4, atari/frostbite, 1 environments, CPU", "limit"),
        (
            "2 agents in one process, atari/frostbite, 1 environments each, CPU",
            "the emulators alone at the same games, 2 threads",
        ),
    ]
    assert all(math.isfinite(row.ours) and row.peer > 0 for row in rows)


def test_rows_against_the_emulator_are_shares_of_the_same_games(rows: list[Row]) -> None:
    for row in (*rows[:2], rows[-1]):
        assert row.note["same_games"]
        assert row.ratio == pytest.approx(row.note["steps_per_second"] / row.note["emulator_steps_per_second"])
        assert row.note["updates_per_second"] == pytest.approx(row.note["steps_per_second"] / 4, rel=0.5)


def test_the_share_of_structure_is_that_of_the_rates(rows: list[Row]) -> None:
    plain, structured, share = rows[:3]
    rates = [row.note["steps_per_second"] for row in (plain, structured)]
    assert share.note["pooled"] == pytest.approx(100 * (1 - rates[1] / rates[0]))
    assert share.ours == pytest.approx(sum(share.note["rounds"]) / 2), "of two stretches the median is the mean"
    assert len(share.note["rounds"]) == 2
    assert share.note["emulator_us"] == plain.peer == structured.peer, "both play the same games"


def test_bars_are_those_of_the_arm(rows: list[Row]) -> None:
    assert [row.note.get("bar") for row in rows] == [0.45, 0.45, None, 6, 12, None, 0.60]


def test_the_switch_interval_and_threads_are_given_back(rows: list[Row]) -> None:
    assert sys.getswitchinterval() > 5e-4
    assert not any(one.name.startswith("agent") for one in threading.enumerate())


def test_games_played_again_are_the_same_beyond_their_ends() -> None:
    actions = np.random.default_rng(0).integers(18, size=(400, 2))
    env = RecordingEnv(make_env(GAME, 2, seed=3))
    env.reset()
    assert sum(step(env, row).ended.sum() for row in actions) > 0
    env.begin_again()
    assert env.play_again(0, 400) == 400
    assert env.same
    assert len(env.actions) == 400, "what is played again is not recorded"


def test_other_games_are_noticed() -> None:
    env = RecordingEnv(make_env(GAME, 2, seed=0))
    env.reset()
    for row in np.random.default_rng(0).integers(18, size=(40, 2)):
        step(env, row)
    env.rewards[7] = env.rewards[7] + 1
    env.begin_again()
    env.play_again(0, 40)
    assert not env.same


def test_playing_again_stops_when_it_is_told_to() -> None:
    env = RecordingEnv(make_env(GAME, 1, seed=0))
    env.reset()
    for _ in range(5):
        step(env, np.array([1]))
    env.begin_again()
    stop = threading.Event()
    assert env.play_again(0, 3, stop) == 3
    stop.set()
    assert env.play_again(3, 5, stop) == 0


def test_a_training_is_recorded_action_by_action() -> None:
    config = AgentConfig.of(
        "short", envs=2, act_lag=1, learn_from=40, replay=500, batch_size=8, epsilon_steps=20, steps=10_000
    )
    loop = begin_loop(GAME, config, 0, CPU)
    warm_up(loop, 60)
    assert loop.training.steps == 60 == 2 * len(loop.env.actions)
    one = timed_stretch(loop, 0.1)
    assert (one.first, one.last) == (30, len(loop.env.actions))
    assert one.updates == loop.training.updates - 4, "58 steps count: acting lags"
    assert one.seconds >= 0.1
    for lane in range(2):
        kept = [int(row[lane]) for row in loop.env.actions]
        memory = loop.training.replay
        slots = memory.order[lane, : memory.made] % memory.layout.slots + lane * memory.layout.slots
        assert memory.actions[torch.from_numpy(slots)].tolist() == kept
    assert emulator_seconds(loop.env, [one]) > 0
    assert loop.env.same
    loop.training.close()


def test_games_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="on Atari; got CartPole-v1"):
        RecordingEnv(make_env("CartPole-v1", 1, seed=0))


def test_games_that_have_begun_are_refused() -> None:
    env = make_env(GAME, 1, seed=0)
    env.reset()
    with pytest.raises(ValueError, match="from the first on"):
        RecordingEnv(env)


def test_a_failure_in_one_thread_is_told_and_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from svrl.benchmarks import train_device

    begin = train_device.begin_loop

    def fails_at_structure(game: str, config: AgentConfig, *rest: object) -> object:
        if config.structured:
            raise RuntimeError("no room")
        return begin(game, config, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(train_device, "begin_loop", fails_at_structure)
    with pytest.raises(RuntimeError, match="no room"):
        train_device._together_row(GAME, TINY, CPU)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_card_is_named() -> None:
    with pytest.raises(ValueError, match="Training on cuda needs a CUDA device"):
        next(measure_train_device(quick=True, device="cuda"))
