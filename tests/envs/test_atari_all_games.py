from __future__ import annotations

import numpy as np
import pytest

from svrl.envs.atari_games import GAMES
from svrl.envs.catalogue import make_env
from svrl.envs.vector import step


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
