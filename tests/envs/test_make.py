from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from svrl.envs.make import describe_env, make_env
from svrl.envs.vector import step


@pytest.mark.parametrize(
    ("name", "settings", "sentence"),
    [
        ("CartPole-v11", {}, "Did you mean CartPole-v1?"),
        ("breakout", {}, "Did you mean atari/breakout?"),
        ("atari/brakeout", {}, "no game 'brakeout'.*Did you mean breakout"),
        ("atari/zzzzzz", {}, "Choose one of alien, amidar"),
        ("minatar/seequest", {}, "Did you mean seaquest"),
        ("control/mountan-car", {}, "Did you mean mountain-car"),
        ("control/three-motor-pendulum", {"actions": 100}, "Near it are 125 and 64"),
        ("control/two-input-cart-pole", {"actions": 27}, "Near it are 25 and 36"),
        ("control/cart-pole", {"actions": 1}, "at least 2"),
        ("zzzzqqqq", {}, "There is no environment 'zzzzqqqq'"),
        ("no_such_package:Thing-v0", {}, "could not be created: ModuleNotFoundError"),
        ("Pendulum-v1", {}, "continuous actions, one number in Box.*--bins 3"),
        ("CartPole-v1", {"sticky": 0.25}, "only Atari and MinAtar"),
        ("CartPole-v1", {"actions": 5}, "only be set for control/TASK"),
        ("minatar/breakout", {"sticky": 1.5}, r"probability in \[0, 1\]"),
        ("control/cart-pole", {"actions": -1}, "0 or more"),
        ("CartPole-v1", {"seed": -1}, "from 0, got -1"),
        ("CartPole-v1", {"count": 0}, "At least 1 environment"),
        (CartPoleEnv, {"sticky": 0.25}, "CartPoleEnv has no sticky actions"),
        (CartPoleEnv(), {}, "a function without arguments that creates one; got CartPoleEnv"),
    ],
)
def test_what_cannot_be_made_is_answered_in_a_sentence(name: Any, settings: dict, sentence: str) -> None:
    order = {"count": 1, "seed": 0, **settings}
    with pytest.raises(ValueError, match=sentence):
        make_env(name, order.pop("count"), **order)


MODULE = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Broken(CartPoleEnv):
    def __init__(self):
        raise KeyError("licence")

class Blind(CartPoleEnv):
    def __init__(self):
        super().__init__()

gymnasium.register("Broken-v0", entry_point=Broken)
gymnasium.register("Blind-v0", entry_point=Blind, max_episode_steps=5)
gymnasium.register("Pole-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
"""


def test_a_name_with_a_module_imports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy_games.py").write_text(MODULE)
    (tmp_path / "torn_games.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    for name, sentence in (
        ("toy_games:Nope-v0", "toy_games:Nope-v0 could not be created: NameNotFound"),
        ("toy_games:Broken-v0", r"toy_games:Broken-v0 could not be created: KeyError\('licence'\)"),
        ("torn_games:Nope-v0", "torn_games:Nope-v0 could not be created: ZeroDivisionError"),
    ):
        with pytest.raises(ValueError, match=sentence):
            describe_env(name)
    assert describe_env("toy_games:Pole-v0").n_actions == 2
    env = make_env("toy_games:Blind-v0", 2, seed=0)
    env.reset()
    assert [step(env, np.array([k % 2] * 2)).truncated.all() for k in range(5)] == [False] * 4 + [True]
    with pytest.raises(ValueError, match=r"could not be created: .*render_mode"):
        make_env("toy_games:Blind-v0", 1, seed=0, render=True)
