from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from svrl.envs.catalogue import from_factory, make_env
from svrl.envs.observations import seen_through
from svrl.envs.vector import VectorEnv, step

from .playing import assert_equal, played, through_a_file

TAXI = next(name for name in gymnasium.registry if name.startswith("Taxi-v"))


class Walk(gymnasium.Env):
    """A random walk on 0 to 9 with actions 3, 4, 5: down, stay, up. It ends at 9, and is cut off after 12 steps."""

    def __init__(self, **extra: object) -> None:
        self.observation_space = spaces.Discrete(10, start=5)
        self.action_space = spaces.Discrete(3, start=3)
        self.place, self.time = 0, 0
        vars(self).update(extra)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.place, self.time = int(self.np_random.integers(5)), 0
        return self.place + 5, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.place = max(self.place + action - 4, 0)
        self.time += 1
        return self.place + 5, float(action), self.place == 9, self.time >= 12, {}


def walks(count: int = 1, **extra: object) -> VectorEnv:
    return from_factory(lambda: Walk(**extra), count, seed=0, id="walk")


def test_actions_and_states_are_counted_from_0() -> None:
    env = walks()
    place = int(env.reset()[0].argmax())
    assert env.spec.n_actions == 3
    assert env.spec.action_names == ("3", "4", "5")
    for _ in range(9 - place):
        got = step(env, np.array([2]))
        assert got.rewards[0] == 5.0
        place += 1
        np.testing.assert_array_equal(got.final_observations[0], np.eye(10)[place])
    assert got.terminal[0]
    assert got.observations[0].argmax() < 5


def test_a_limit_is_a_truncation_and_an_end_is_an_end() -> None:
    env = walks()
    env.reset()
    flags = [step(env, np.array([1])) for _ in range(24)]
    assert [bool(got.truncated[0]) for got in flags] == ([False] * 11 + [True]) * 2
    assert not any(got.terminal[0] for got in flags)
    env = walks(place=0)
    place = int(env.reset()[0].argmax())
    late = [1] * (12 - (9 - place)) + [2] * (9 - place)  # reaches 9 in the very step that is the last
    for action in late:
        got = step(env, np.array([action]))
    assert got.terminal[0]
    assert not got.truncated[0]


@pytest.mark.parametrize(
    ("space", "shape", "dtype", "high"),
    [
        (spaces.Box(-1, 1, (3,), np.float64), (3,), "float32", 1.0),
        (spaces.Box(-1, 1, (2, 5), np.float32), (2, 5), "float32", 1.0),
        (spaces.Box(-1, 1, (), np.float32), (1,), "float32", 1.0),
        (spaces.Box(0, 255, (128,), np.uint8), (128,), "float32", 255.0),
        (spaces.Box(0, 255, (20, 30, 3), np.uint8), (3, 20, 30), "uint8", 255.0),
        (spaces.Box(0, 255, (4, 20, 30), np.uint8), (4, 20, 30), "uint8", 255.0),
        (spaces.Box(0, 255, (20, 30), np.uint8), (1, 20, 30), "uint8", 255.0),
        (spaces.Discrete(4, start=-2), (4,), "float32", 1.0),
        (spaces.MultiDiscrete([2, 3]), (5,), "float32", 1.0),
        (spaces.MultiBinary(6), (6,), "float32", 1.0),
        (spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (3,))]), (5,), "float32", 1.0),
        (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2, 2))}), (6,), "float32", 1.0),
    ],
    ids=str,
)
def test_what_an_agent_sees(space: spaces.Space, shape: tuple[int, ...], dtype: str, high: float) -> None:
    seen = seen_through(space, "it")
    assert (seen.shape, seen.dtype, seen.high) == (shape, dtype, high)
    row = np.zeros(shape, dtype=dtype)
    space.seed(1)
    sample = space.sample()
    row[...] = seen.view(sample)
    if isinstance(space, spaces.Discrete):
        assert row.argmax() == sample - space.start
        assert row.sum() == 1
    elif shape == (3, 20, 30):
        np.testing.assert_array_equal(row[1], sample[:, :, 1])
    elif isinstance(space, spaces.Box):
        np.testing.assert_array_equal(row.ravel(), sample.astype(dtype).ravel())
    else:
        np.testing.assert_array_equal(row, spaces.flatten(space, sample).astype(dtype))


def test_observations_without_a_size_are_refused() -> None:
    with pytest.raises(ValueError, match="whose size is not fixed"):
        seen_through(spaces.Sequence(spaces.Discrete(2)), "it")


def test_one_environment_for_two_lanes_is_refused() -> None:
    only = Walk()
    with pytest.raises(ValueError, match="same environment twice"):
        from_factory(lambda: only, 2, seed=0, id="walk")


def test_lanes_are_seeded_once() -> None:
    env = walks(2)
    env.reset()
    starts = {int(got.observations[0].argmax()) for got in played(env, 200) if got.ended[0]}
    assert len(starts) > 1, "every later reset goes on with the stream"


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "FrozenLake-v1", TAXI])
def test_restored_in_the_middle_of_an_episode(name: str) -> None:
    env = make_env(name, 2, seed=0)
    env.reset()
    steps = played(env, 33)
    assert not steps[-1].ended.all()
    state = through_a_file(env.capture())
    ahead = played(env, 200, seed=1)
    other = make_env(name, 2, seed=3)
    np.testing.assert_array_equal(other.restore(state), steps[-1].observations)
    assert_equal(ahead, played(other, 200, seed=1))
    assert any(got.ended.any() for got in ahead) or name == "Acrobot-v1"


def test_the_time_limit_is_restored() -> None:
    env = make_env("MountainCar-v0", 1, seed=0)
    env.reset()
    played(env, 150)
    other = make_env("MountainCar-v0", 1, seed=0)
    other.restore(env.capture())
    ends = [bool(got.truncated[0]) for got in played(other, 60)]
    assert ends.index(True) == 49


def test_a_captured_state_does_not_move_with_the_environment() -> None:
    env = make_env("CartPole-v1", 1, seed=0)
    env.reset()
    played(env, 5)
    state = env.capture()
    ahead = played(env, 30, seed=1)
    played(env, 30, seed=2)
    env.restore(state)
    assert_equal(ahead, played(env, 30, seed=1))


def test_a_random_map_is_part_of_the_state() -> None:
    def lake() -> gymnasium.Env:
        return gymnasium.make("FrozenLake-v1", desc=None, map_name=None)

    env = from_factory(lake, 1, seed=0, id="lake")
    env.reset()
    state = env.capture()
    ahead = played(env, 200, seed=1)
    other = from_factory(lake, 1, seed=0, id="lake")
    other.restore(state)
    assert_equal(ahead, played(other, 200, seed=1))


class Simulator:
    """Somebody's own; what it holds nobody knows."""

    place = 0


@pytest.mark.parametrize(
    "name", ["engine", "env", "spec", "metadata", "render_mode", "simulator", "screen", "_cached_spec"]
)
def test_what_is_not_understood_is_not_captured(name: str) -> None:
    env = walks(**{name: Simulator()})
    env.reset()
    assert env.capture() is None


def test_pygame_holds_state_in_environments_of_ones_own() -> None:
    pygame = pytest.importorskip("pygame")
    for held in (pygame.Rect(0, 0, 1, 1), pygame.Surface((2, 2)), [pygame.Surface((2, 2))]):
        env = walks(held=held)
        env.reset()
        assert env.capture() is None


def test_a_space_that_the_environment_draws_from_is_not_captured() -> None:
    class Noisy(Walk):
        def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
            return super().step(int(self.action_space.sample()))

    env = from_factory(Noisy, 1, seed=0, id="noisy")
    env.reset()
    played(env, 3)
    assert env.capture() is None


def upwards(place: int) -> int:
    return place


def test_functions_are_rules_until_they_are_exchanged() -> None:
    env = walks(reward=upwards)
    env.reset()
    state = through_a_file(env.capture())
    ahead = played(env, 30, seed=1)
    other = walks(reward=upwards)
    other.restore(state)
    assert_equal(ahead, played(other, 30, seed=1))
    env.environments[0].reward = max
    assert env.capture() is None


def test_wrappers_of_ones_own_and_plain_simulators_are_restored() -> None:
    class Doubled(gymnasium.Wrapper):
        def __init__(self, env: gymnasium.Env) -> None:
            super().__init__(env)
            self.total = 0.0

        def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
            seen, reward, *rest = super().step(action)
            self.total += reward
            return seen, self.total, *rest

    def make() -> gymnasium.Env:
        return Doubled(Walk(env={"a simulator that is": ["a dictionary"]}))

    env = from_factory(make, 2, seed=0, id="doubled")
    env.reset()
    played(env, 7)
    state = through_a_file(env.capture())
    ahead = played(env, 40, seed=1)
    other = from_factory(make, 2, seed=5, id="doubled")
    other.restore(state)
    assert_equal(ahead, played(other, 40, seed=1))


def test_the_state_of_another_environment_is_refused() -> None:
    env = make_env("CartPole-v1", 1, seed=0)
    env.reset()
    with pytest.raises(ValueError, match="other environments"):
        make_env("Acrobot-v1", 1, seed=0).restore(env.capture())


def test_without_pictures_there_is_a_sentence() -> None:
    env = make_env("CartPole-v1", 1, seed=0)
    env.reset()
    with pytest.raises(ValueError, match="render=True"):
        env.render()


def test_an_environment_that_draws_is_shown() -> None:
    class Drawn(Walk):
        def render(self) -> np.ndarray:
            return np.full((4, 5, 3), self.place, dtype=np.uint8)

    env = from_factory(lambda: Drawn(render_mode="rgb_array"), 2, seed=0, id="drawn")
    seen = env.reset()
    for lane in range(2):
        np.testing.assert_array_equal(env.render(lane), np.full((4, 5, 3), seen[lane].argmax()))
