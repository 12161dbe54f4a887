from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from svrl.envs import atari
from svrl.envs.atari import AtariVectorEnv
from svrl.envs.atari_games import find_game
from svrl.envs.make import make_env
from svrl.envs.vector import env_seeds, step

from .ale_by_hand import GameByHand


def games_of(game: str, count: int = 1) -> AtariVectorEnv:
    return AtariVectorEnv(find_game(game), seeds=env_seeds(0, count))


@pytest.fixture
def begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games begin with their first frame."""
    monkeypatch.setattr(atari, "NOOP_MAX", 0)


@pytest.mark.parametrize(
    ("game", "games_over"),
    [
        ("breakout", 1),
        ("ms_pacman", 0),
        ("qbert", 1),
        *(pytest.param(game, 0, marks=pytest.mark.slow) for game in ("space_invaders", "bank_heist")),
    ],
)
@pytest.mark.usefixtures("begun_at_once")
def test_every_step_is_that_of_a_single_emulator(game: str, games_over: int) -> None:
    env, hand = games_of(game), GameByHand(game)
    rng = np.random.default_rng(1)
    stack = np.zeros((4, 84, 84), dtype=np.uint8)
    stack[-1] = hand.begin()
    np.testing.assert_array_equal(env.reset()[0], stack)
    lives, ends, lost = hand.ale.lives(), 0, 0
    for _ in range(350):
        choice = int(rng.integers(env.spec.n_actions))
        got, expected = step(env, np.array([choice])), hand.step(choice)
        assert got.rewards[0] == expected.reward
        assert got.terminal[0] == expected.over
        assert not got.truncated[0]
        assert got.life_lost[0] == (expected.lives < lives and not expected.over)
        if expected.over:
            np.testing.assert_array_equal(got.final_observations[0, :3], stack[1:])
            stack = np.zeros_like(stack)
            stack[-1] = hand.begin()
        else:
            assert got.final_observations is got.observations
            stack = np.concatenate([stack[1:], expected.frame[None]])
        np.testing.assert_array_equal(got.observations[0], stack)
        lives, ends, lost = hand.ale.lives(), ends + expected.over, lost + bool(got.life_lost[0])
    assert lost >= 2
    assert ends >= games_over


def test_games_begin_after_up_to_29_frames() -> None:
    env, hand = games_of("breakout", 6), GameByHand("breakout")
    first = env.reset()
    starts = [hand.begin(), *(hand.idle() for _ in range(28))]
    matches = [{idle for idle, frame in enumerate(starts) if (frame == seen[-1]).all()} for seen in first]
    assert all(matches), "every start is that of some number of idle frames"
    assert len({min(found) for found in matches}) >= 3
    assert not first[:, :3].any(), "frames from before the game are zero"


@pytest.mark.usefixtures("begun_at_once")
def test_games_do_not_mix() -> None:
    env = games_of("breakout", 2)
    hands = [GameByHand("breakout") for _ in range(2)]
    env.reset()
    for hand in hands:
        hand.begin()
    rng = np.random.default_rng(2)
    one_ended = 0
    for _ in range(130):
        choices = np.array([rng.choice([0, 2, 3]), 1])  # only the second serves, and so loses
        got = step(env, choices)
        one_ended += int(got.ended.sum() == 1)
        for index, hand in enumerate(hands):
            expected = hand.step(int(choices[index]))
            assert got.rewards[index] == expected.reward
            assert got.terminal[index] == expected.over
            if expected.over:
                hand.begin()
            else:
                np.testing.assert_array_equal(got.observations[index, -1], expected.frame)
                np.testing.assert_array_equal(got.final_observations[index], got.observations[index])
    assert one_ended == 1


def test_a_limit_is_a_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atari, "FRAME_LIMIT", 50)
    env = games_of("breakout", 2)
    env.reset()
    for _ in range(12):
        got = step(env, np.array([0, 0]))
        assert not got.ended.any()
    before = got.observations
    env._lives = env._lives + 3  # as if some had been won: those of the next game are fewer, and none is lost
    got = step(env, np.array([0, 0]))
    assert got.truncated.all()
    assert not got.terminal.any()
    assert not got.life_lost.any()
    np.testing.assert_array_equal(got.final_observations[:, :3], before[:, 1:])
    assert not got.observations[:, :3].any()
    assert got.observations[:, 3].any()


@pytest.mark.usefixtures("begun_at_once")
def test_sticky_actions() -> None:
    def played(sticky: float, seeds: tuple[int, ...], actions: list[int]) -> np.ndarray:
        env = AtariVectorEnv(find_game("breakout"), seeds=seeds, sticky=sticky)
        env.reset()
        return np.stack([step(env, np.array(actions)).observations[:, -1] for _ in range(30)], axis=1)

    right, left = played(1.0, (7, 7), [2, 3])
    np.testing.assert_array_equal(right, left)  # nothing is ever listened to
    once, again, other = played(0.25, (7, 7, 8), [2, 2, 2])
    np.testing.assert_array_equal(once, again)
    assert (once != other).any()


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    native = atari._native

    def noted(*arguments: Any, **settings: Any) -> Any:
        asked.append(settings["num_threads"])
        return native(*arguments, **settings)

    def played(threads: int) -> np.ndarray:
        env = make_env("atari/seaquest", 2, seed=5, threads=threads)
        env.reset()
        rng = np.random.default_rng(0)
        return np.stack([step(env, rng.integers(18, size=2)).observations[:, -1] for _ in range(40)])

    monkeypatch.setattr(atari, "_native", noted)
    np.testing.assert_array_equal(played(1), played(2))
    assert asked == [1, 2]


def test_actions_have_the_names_of_the_emulator() -> None:
    env = make_env("atari/Breakout", 1, seed=0)
    assert env.spec.action_names == ("noop", "fire", "right", "left")
    assert env.spec.id == "atari/breakout"
    env.reset()
    assert env.render().shape == (420, 320, 3)
    env.close()


def test_closing_in_the_middle_of_a_step() -> None:
    env = games_of("pong", 2)
    env.reset()
    env.send(np.array([0, 0]))
    env.close()
    after = games_of("pong", 2)  # the threads that it left behind are no trouble to the next
    assert after.reset().shape == (2, 4, 84, 84)
    after.close()


def test_a_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ValueError, match=r'Atari needs ale-py: pip install "svrl\[atari\]"'):
        make_env("atari/pong", 1, seed=0)
