from __future__ import annotations

import pkgutil
import subprocess
import sys

import minatar.environments
import numpy as np
import pytest
from minatar import Environment

from svrl.envs.make import MINATAR, make_env
from svrl.envs.minatar import MinAtarVectorEnv
from svrl.envs.vector import env_seeds, step


@pytest.mark.parametrize("game", MINATAR)
def test_every_step_is_that_of_the_game_itself(game: str) -> None:
    env = MinAtarVectorEnv(game, seeds=(11,), sticky=0.1)
    hand = Environment(game, sticky_action_prob=0.1, difficulty_ramping=True)
    hand.seed(11)
    hand.reset()
    np.testing.assert_array_equal(env.reset()[0], np.moveaxis(hand.state(), 2, 0))
    ends = 0
    for action in np.random.default_rng(0).integers(6, size=2600):
        got = step(env, np.array([action]))
        reward, terminal = hand.act(int(action))
        assert (got.rewards[0], got.terminal[0], got.truncated[0]) == (reward, terminal, False)
        np.testing.assert_array_equal(got.final_observations[0], np.moveaxis(hand.state(), 2, 0))
        if terminal:
            ends += 1
            hand.reset()
            np.testing.assert_array_equal(got.observations[0], np.moveaxis(hand.state(), 2, 0))
    assert ends > 0


def test_who_stays_under_the_ball_plays_for_ever_and_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svrl.envs.minatar.FRAME_LIMIT", 1500)
    env = MinAtarVectorEnv("breakout", seeds=env_seeds(0, 1))
    seen = env.reset()
    for t in range(1, 3001):
        paddle, ball = (int(np.argwhere(seen[0, channel])[0, 1]) for channel in (0, 1))
        got = step(env, np.array([0 if ball == paddle else 1 if ball < paddle else 3]))
        assert not got.terminal[0]
        assert got.truncated[0] == (t % 1500 == 0)
        seen = got.observations
    assert got.final_observations is not got.observations


def test_a_missing_package_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(ValueError, match=r'MinAtar needs minatar: pip install "svrl\[minatar\]"'):
        make_env("minatar/seaquest", 1, seed=0)


def test_importing_it_warns_of_nothing_and_leaves_logging_alone() -> None:
    code = (
        "import logging, svrl; svrl.make_env('minatar/freeway', 1, seed=0); root = logging.getLogger(); "
        "print(root.handlers, root.filters)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), "seaborn" in done.stderr) == ("[] []", False)


def test_the_catalogue_knows_the_games() -> None:
    shipped = {module.name for module in pkgutil.iter_modules(minatar.environments.__path__)}
    assert set(MINATAR) == shipped
