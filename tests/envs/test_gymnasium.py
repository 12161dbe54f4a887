from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import NormalizeObservation, TimeLimit

from svrl.envs.gymnasium import GymnasiumVectorEnv
from svrl.envs.make import make_env
from svrl.envs.vector import Step, step

from .playing import played

SEEN = np.zeros(2, np.float32)
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*WARN"),  # Gymnasium's checker also warns of what is refused here
    pytest.mark.filterwarnings("ignore::DeprecationWarning:gymnasium"),
]


class Walk(gymnasium.Env):
    """A random walk on 0 to 9 with actions 3, 4, 5: down, stay, up. It ends at 9, and is cut off after 12 steps."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 1}  # noqa: RUF012
    observation_space, action_space = spaces.Discrete(10, start=5), spaces.Discrete(3, start=3)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[int, dict]:
        super().reset(seed=seed)
        self.place, self.time = int(self.np_random.integers(5)), 0
        return self.place + 5, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.place = max(self.place + action - 4, 0)
        self.time += 1
        return self.place + 5, float(action), self.place == 9, self.time >= 12, {}

    def render(self) -> np.ndarray:
        return np.full((4, 5, 3), self.place, dtype=np.uint8)


def test_actions_and_states_are_counted_from_0() -> None:
    env = make_env(Walk, 1, seed=0)
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
    env = make_env(Walk, 1, seed=0)
    env.reset()
    flags = [step(env, np.array([1])) for _ in range(24)]
    assert [bool(got.truncated[0]) for got in flags] == ([False] * 11 + [True]) * 2
    assert not any(got.terminal[0] for got in flags)
    place = int(env.reset()[0].argmax())
    late = [1] * (12 - (9 - place)) + [2] * (9 - place)  # reaches 9 in the very step that is the last
    for action in late:
        got = step(env, np.array([action]))
    assert got.terminal[0]
    assert not got.truncated[0]


def test_an_environment_that_writes_all_observations_to_one_array_keeps_its_last() -> None:
    shown = np.zeros(2, np.float32)

    class Reusing(Given):
        def reset(self, **chosen: Any) -> Any:
            shown[:] = 0.0
            return shown, super().reset(**chosen)[1]

    def later(time: int) -> Any:
        shown[:] = time
        return shown, 1.0, False, time == 3, {}

    got = play(lambda: Reusing(later), steps=3)
    np.testing.assert_array_equal(got.final_observations, np.full((2, 2), 3.0))
    np.testing.assert_array_equal(got.observations, np.zeros((2, 2)))


def test_seeds_serve_the_first_reset_alone() -> None:
    env = make_env(Walk, 2, seed=0)
    env.reset()
    starts = {int(got.observations[0].argmax()) for got in played(env, 200) if got.ended[0]}
    assert len(starts) > 1, "every later reset goes on with the stream"


def test_games_are_cut_off_where_gymnasium_knows_no_limit() -> None:
    env = make_env(lambda: Given(usual), 2, seed=0)
    assert isinstance(env, GymnasiumVectorEnv)
    assert env.limit_games(4)
    env.reset()
    assert [step(env, np.zeros(2, int)).truncated.all() for _ in range(8)] == [False, False, False, True] * 2
    for limited in ("CartPole-v1", lambda: TimeLimit(Walk(), 5)):
        known = make_env(limited, 1, seed=0)
        assert isinstance(known, GymnasiumVectorEnv)
        assert not known.limit_games(4)


@pytest.mark.parametrize(
    "make",
    [
        Walk,
        lambda: NormalizeObservation(gymnasium.make("CartPole-v1")),  # its averages outlive a game
        type("Mine", (CartPoleEnv,), {}),
    ],
    ids=["own", "a wrapper that remembers", "a class made from Gymnasium's"],
)
def test_environments_of_your_own_are_not_captured(make: Callable[[], gymnasium.Env]) -> None:
    env = make_env(make, 1, seed=0)
    env.reset()
    assert env.capture() is None


def test_games_that_go_another_way_are_refused() -> None:
    env, other = (make_env("CartPole-v1", 1, seed=0) for _ in range(2))
    env.reset()
    state = env.capture()
    with pytest.raises(ValueError, match="turned out differently"):
        other.restore({**state, "observations": state["observations"] + 1.0})


def test_pictures() -> None:
    env = make_env(lambda: Walk(render_mode="rgb_array"), 2, seed=0)
    seen = env.reset()
    for index in range(2):
        np.testing.assert_array_equal(env.render(index), np.full((4, 5, 3), seen[index].argmax()))
    env = make_env("CartPole-v1", 1, seed=0)
    env.reset()
    with pytest.raises(ValueError, match="render=True"):
        env.render()


class Given(gymnasium.Env):
    """`first` comes from reset, and what `later` gives for the number of the step from step."""

    action_space = spaces.Discrete(3)

    def __init__(self, later: Callable[[int], Any], first: Any = None, space: spaces.Space | None = None) -> None:
        self.observation_space = space or spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.first, self.later, self.time = (SEEN, {}) if first is None else first, later, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return self.first

    def step(self, action: int) -> Any:
        self.time += 1
        return self.later(self.time)


def usual(time: int) -> Any:
    return SEEN, 1.0, False, False, {}


def play(make: Callable[[], Any], steps: int = 1, count: int = 2) -> Step:
    make.__name__ = "Room"
    env = make_env(make, count, seed=0)
    env.reset()
    for _ in range(steps):
        got = step(env, np.zeros(count, dtype=np.int64))
    return got


class Bare(gymnasium.Env):
    action_space = spaces.Discrete(2)


class Old(Given):
    def reset(self) -> Any:  # type: ignore[override]
        return self.first


IN_STEP = r"^Room failed in step\(action\) -> \(observation, reward, terminated, truncated, info\): .*"
IN_RESET = r"^Room failed in reset\(seed=..., options=...\) -> \(observation, info\): .*"
ONLY = Walk()
STEPS = [
    ((SEEN, 1.0, False, {}), IN_STEP + "got 4"),
    (None, IN_STEP + "NoneType"),
    ((np.zeros(3), 1.0, False, False, {}), IN_STEP + r"float32 of shape \(2,\).* got float64 of shape \(3,\)"),
    ((None, 1.0, True, False, {}), IN_STEP + "got None"),
    ((SEEN, None, False, False, {}), IN_STEP + "NoneType"),
    ((SEEN, np.zeros(2), False, False, {}), IN_STEP + "size 1"),
    ((SEEN, np.nan, True, False, {}), r"^Room returned a reward that is not finite \(nan\)"),
    ((SEEN + np.inf, 1.0, True, False, {}), r"^Room returned an observation that is not finite \(inf\)"),
    ((SEEN - np.inf, 1.0, False, False, {}), r"^Room returned an observation that is not finite \(-inf\)"),
    ((SEEN, 1.0, {}, False, False), IN_STEP + "must be a python dictionary"),
]
RESETS: list[tuple[Any, spaces.Space | None, str]] = [
    (SEEN, None, IN_RESET),
    ((SEEN, 0.0), None, IN_RESET + "not a dictionary"),
    ((np.zeros((2, 2, 2)), {}), None, IN_RESET + r"got float64 of shape \(2, 2, 2\)"),
    ((np.array([0.0, np.nan]), {}), None, r"^Room returned an observation that is not finite \(nan\)"),
    ((-1, {}), spaces.Discrete(4), IN_RESET),
    ((np.full((8, 8), 0.5), {}), spaces.Box(0, 255, (8, 8), np.uint8), IN_RESET),
    ((np.array([1, 7]), {}), spaces.MultiDiscrete([2, 3]), IN_RESET),
    (({"b": SEEN}, {}), spaces.Dict(a=spaces.Box(-1, 1, (2,))), IN_RESET),
]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        *((lambda given=given: Given(lambda time: given), sentence) for given, sentence in STEPS),
        *((lambda f=first, s=space: Given(usual, f, s), sentence) for first, space, sentence in RESETS),
        (lambda: Old(usual), IN_RESET + "unexpected keyword argument 'seed'"),
        (lambda: None, r"The function of Room must return a gymnasium\.Env, got None"),
        (lambda: Given, "must return .* got <class .*Given'>"),
        (lambda: ONLY, "The function of Room returned the same environment twice"),
        (Bare, "Room could not be created: .* must specify an observation space"),
        (lambda: 1 // 0, "^Room could not be created: ZeroDivisionError"),
        (lambda: gymnasium.make("Pendulum-v1"), "continuous actions, one number in Box.*--bins 3"),
        (lambda: Given(usual, space=spaces.Sequence(spaces.Discrete(2))), "Sequence, whose size is not fixed"),
    ],
)
def test_what_an_environment_does_wrong_is_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        play(make)


@pytest.mark.parametrize(("given", "sentence"), STEPS[:-1])  # Gymnasium looks at infos once
def test_later_steps_are_checked_like_the_first(given: Any, sentence: str) -> None:
    def later(time: int) -> Any:
        return given if time == 4 else usual(time)

    play(lambda: Given(later), steps=3)
    with pytest.raises(ValueError, match=r"^Room "):
        play(lambda: Given(later), steps=4)


def test_errors_of_the_environment_keep_their_cause() -> None:
    with pytest.raises(ValueError, match=IN_STEP + r"KeyError\('heat'\)$") as caught:
        play(lambda: Given(lambda time: {}["heat"]))
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("reward", [2, np.float32(2), np.array([[2]]), 1e308])
def test_numbers_and_arrays_of_one_number_are_rewards(reward: Any) -> None:
    large = np.full(2, 3e38, np.float32)  # finite, like everything else
    got = play(lambda: Given(lambda time: (large, reward, False, False, {})), steps=2)
    np.testing.assert_array_equal(got.rewards, np.full(2, float(np.asarray(reward).item())))
    np.testing.assert_array_equal(got.observations, [large, large])
