"""Masks of valid actions, as environments give them."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from svrl import make_env
from svrl.envs.vector import step


class Countdown(gymnasium.Env):
    """Take 1, 2 or 3 of what is left, never more than there is: an illegal move raises."""

    observation_space = spaces.Discrete(11)
    action_space = spaces.Discrete(3, start=1)

    def __init__(self, start: int = 10) -> None:
        self.start = start

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.left = self.start
        return self.left, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        if action > self.left:
            raise RuntimeError("illegal move")
        self.left -= int(action)
        return self.left, -1.0, self.left == 0, False, self._info()

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([self.left >= k for k in (1, 2, 3)], np.int8)}


class AsMethod(Countdown):
    """The same mask by the method that sb3-contrib asks for."""

    def action_masks(self) -> list[bool]:
        return [self.left >= k for k in (1, 2, 3)]

    def _info(self) -> dict[str, Any]:
        return {}


class Late(Countdown):
    """A mask in step and none in reset."""

    def reset(self, **options: Any) -> tuple[int, dict]:
        return super().reset(**options)[0], {}


class Stuck(Countdown):
    """A state without a valid action that is not the end."""

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.zeros(3, np.int8)}


@pytest.mark.parametrize("make", [Countdown, AsMethod])
def test_masks_belong_to_the_observations_beside_them(make):
    env = make_env(make, 2, seed=0)
    env.reset()
    assert env.action_masks.all()
    for chosen, left in (((2, 0), (7, 9)), ((2, 0), (4, 8)), ((1, 0), (2, 7))):
        done = step(env, np.array(chosen))
        expected = [[amount >= k for k in (1, 2, 3)] for amount in left]
        assert done.action_masks.tolist() == done.final_masks.tolist() == env.action_masks.tolist() == expected
    before = done.action_masks
    done = step(env, np.array([1, 0]))  # the first game is over: its new one begins with all three
    assert done.terminal.tolist() == [True, False]
    assert done.final_masks.tolist() == [[False] * 3, [True] * 3]
    assert done.action_masks.tolist() == [[True] * 3] * 2
    assert before.tolist() == [[True, True, False], [True] * 3]


def test_without_masks_there_are_none():
    env = make_env("CartPole-v1", 1, seed=0)
    env.reset()
    assert env.action_masks is None
    assert step(env, np.array([0])).action_masks is None


def test_masks_that_come_late_or_allow_nothing_are_answered():
    env = make_env(Late, 1, seed=0)
    env.reset()
    with pytest.raises(ValueError, match="Return it in both"):
        step(env, np.array([0]))
    with pytest.raises(ValueError, match="without a valid action"):
        make_env(Stuck, 1, seed=0).reset()


class Reach(gymnasium.Env):
    """Reach the corner by two switches and a lever."""

    observation_space = spaces.Box(-1, 1, (2,))

    def __init__(self, action_space: spaces.Space) -> None:
        self.action_space = action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        return np.zeros(2, np.float32), float(np.sum(action)), False, False, {}


@pytest.mark.parametrize(
    ("space", "bins", "axes", "rewards"),
    [
        (spaces.MultiDiscrete([2, 3]), (), (2, 3), [0, 1, 2, 1, 2, 3]),
        (spaces.MultiBinary(2), (), (2, 2), [0, 1, 1, 2]),
        (spaces.Box(-1, 1, (2,), np.float32), 3, (3, 3), [-2, -1, 0, -1, 0, 1, 0, 1, 2]),
    ],
)
def test_an_environment_receives_actions_of_its_space(space, bins, axes, rewards):
    env = make_env(lambda: Reach(space), 1, seed=0, bins=bins)
    env.reset()
    assert env.spec.axes == axes
    got = [float(step(env, np.array([number])).rewards[0]) for number in range(env.spec.n_actions)]
    assert got == rewards
