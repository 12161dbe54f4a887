from __future__ import annotations

import numpy as np
import pytest

from svrl.envs.atari_games import GAMES, find_game, human_normalised
from svrl.envs.make import make_env
from svrl.envs.vector import step


def test_there_are_57() -> None:
    assert len(GAMES) == 57
    assert list(GAMES) == sorted(GAMES)
    assert all(game.human_score > game.random_score for game in GAMES.values())
    assert {game.paper_dqn for game in GAMES.values()} <= {"better", "slightly better", "similar", "worse", ""}


def test_known_scores() -> None:
    # Wang et al. 2016, table of raw scores with no-op starts.
    breakout = GAMES["breakout"]
    assert (breakout.actions, breakout.random_score, breakout.human_score) == (4, 1.7, 30.5)
    assert human_normalised("breakout", 1.7) == 0.0
    assert human_normalised("atari/breakout", 30.5) == 1.0
    assert human_normalised("breakout", 16.1) == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["ms_pacman", "MsPacman", "ms-pacman", "atari/MsPacman", "mspacman"])
def test_names_may_be_written_in_several_ways(name: str) -> None:
    assert find_game(name).name == "ms_pacman"


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_all_57_games_start_and_step(game: str) -> None:
    env = make_env(f"atari/{game}", 1, seed=3)
    assert env.spec.n_actions == GAMES[game].actions
    rng = np.random.default_rng(0)
    env.reset()
    for _ in range(20):
        got = step(env, rng.integers(env.spec.n_actions, size=1))
    assert got.observations.shape == (1, 4, 84, 84)
    assert got.observations[0].any(axis=(1, 2)).all(), "all four frames show something"
    env.close()
