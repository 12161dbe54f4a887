"""What docs/environments.md says can be trained on is trained on, for a few hundred steps."""

import importlib.util

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from tests.envs.test_action_masks import AsMethod, Countdown

import svrl

SMALL = {"steps": 300, "learning_starts": 64, "eval_every": 0, "eval_episodes": 1, "hidden": (16,), "log_every": 100}


class Any(gymnasium.Env):
    """Random observations of any space; the episode is cut off after 20 steps."""

    def __init__(self, seen: spaces.Space, action: spaces.Space) -> None:
        self.observation_space, self.action_space = seen, action

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        return self.observation_space.sample(), 1.0, False, self.time == 20, {}


FEW = spaces.Discrete(4)
VECTOR = spaces.Box(-1, 1, (3,), np.float32)
OBSERVATIONS = {
    "vector": VECTOR,
    "whole numbers": spaces.Box(-5, 5, (2, 2), np.int64),
    "Discrete": spaces.Discrete(7, start=2),
    "MultiDiscrete": spaces.MultiDiscrete([3, 4]),
    "MultiBinary": spaces.MultiBinary(5),
    "picture, HWC": spaces.Box(0, 255, (40, 48, 3), np.uint8),
    "picture, CHW": spaces.Box(0, 255, (3, 36, 36), np.uint8),
    "picture, grey": spaces.Box(0, 255, (64, 64), np.uint8),
    "picture of floats": spaces.Box(0, 1, (36, 36, 3), np.float32),
    "small picture": spaces.Box(0, 255, (7, 7, 3), np.uint8),
    "Dict with a picture": spaces.Dict({"seen": spaces.Box(0, 255, (36, 36, 3), np.uint8), "speed": VECTOR}),
    "Tuple": spaces.Tuple([spaces.Discrete(3), VECTOR]),
}
ACTIONS = {
    "Discrete": (spaces.Discrete(5, start=-2), ()),
    "MultiDiscrete": (spaces.MultiDiscrete([3, 4]), ()),
    "MultiBinary": (spaces.MultiBinary(3), ()),
    "Box": (spaces.Box(-2, 2, (2,), np.float32), (3,)),
    "Box, bins of each axis": (spaces.Box(-2, 2, (2,), np.float32), (3, 5)),
}
BY_NAME = {
    "CartPole-v1": {},
    "Pendulum-v1": {"bins": (11,)},
    "MountainCarContinuous-v0": {"bins": (5,)},
    "FrozenLake-v1": {},
    "HalfCheetah-v5": {"bins": (3,)},
    "minatar/breakout": {},
    "control/three-motor-pendulum": {"actions": 27},
    "control/planar-thrusters": {"actions": 8},
    "control/two-input-cart-pole": {"actions": 9},
}


def trained(env, **changes):
    agent = svrl.train(env, svrl.AgentConfig.for_env(env, "smoke", agent="sv-dqn", **{**SMALL, **changes}), seed=1)
    assert agent.updates > 10
    return agent


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("space", OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_observations(space):
    agent = trained(lambda: Any(space, FEW))
    assert FEW.contains(agent.act(space.sample()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("space", "bins"), ACTIONS.values(), ids=ACTIONS)
def test_actions(space, bins):
    agent = trained(lambda: Any(VECTOR, space), bins=bins)
    assert space.contains(agent.act(VECTOR.sample()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [Countdown, AsMethod])
def test_masks(make):
    assert trained(make).evaluate(episodes=2).mean >= -10  # an illegal move raises


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("env", "changes"), BY_NAME.items(), ids=BY_NAME)
def test_names(env, changes):
    if env == "HalfCheetah-v5" and importlib.util.find_spec("mujoco") is None:
        pytest.skip("needs the extra mujoco")
    agent = trained(env, **changes)
    assert agent.spec.n_actions == {"HalfCheetah-v5": 729, "Pendulum-v1": 11}.get(env, agent.spec.n_actions)
