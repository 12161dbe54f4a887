from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from svrl.envs.catalogue import describe_env, from_factory, make_env
from svrl.envs.vector import Step, step

EXAMPLE = Path(__file__).parents[2] / "examples" / "your_own_environment.py"
SEEN = np.zeros(2, np.float32)


class Given(gymnasium.Env):
    """It gives what it is told to: `first` from reset, and what `later` says of the step's number from step."""

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
    env = from_factory(make, count, seed=0, id="Room-v0")
    env.reset()
    for _ in range(steps):
        got = step(env, np.zeros(count, dtype=np.int64))
    return got


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ((SEEN, 1.0, False, {}), r"^Room-v0: step must return \(observation, .*, info\), got 4 values\.$"),
        (None, "step must return .* got None"),
        ((np.zeros(3), 1.0, False, False, {}), r"float32 of shape \(2,\).* got float64 of shape \(3,\)"),
        ((np.zeros(1), 1.0, False, False, {}), r"got float64 of shape \(1,\)"),
        ((None, 1.0, True, False, {}), "observation of step must be .* got None"),
        ((SEEN, None, False, False, {}), "the reward must be one number, got None"),
        ((SEEN, np.zeros(2), False, False, {}), r"the reward must be one number, got float64 of shape \(2,\)"),
        ((SEEN, 1.0, {}, False, False), "terminated must be True or False, got dict"),
        ((SEEN, 1.0, False, False, None), "a dictionary as info, got None"),
    ],
)
def test_a_step_that_breaks_a_rule(given: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        play(lambda: Given(lambda time: given))


@pytest.mark.parametrize(
    ("first", "sentence"),
    [
        (SEEN, r"^Room-v0: reset must return \(observation, info\), got float32 of shape \(2,\)\.$"),
        ((SEEN, 0.0), "a dictionary as info, got 0.0"),
        ((np.zeros((2, 2)), {}), r"observation of reset must be .* got float64 of shape \(2, 2\)"),
        ((np.array([0.0, np.nan]), {}), r"an observation that is not finite \(nan\) at the start of a game"),
    ],
)
def test_a_reset_that_breaks_a_rule(first: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        play(lambda: Given(usual, first=first))


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (spaces.Discrete(4), -1),
        (spaces.Discrete(4), 1.5),
        (spaces.Box(0, 255, (8, 8), np.uint8), np.full((8, 8), 0.5)),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 7])),
        (spaces.Dict(a=spaces.Box(-1, 1, (2,))), {"b": SEEN}),
    ],
)
def test_an_observation_of_another_space(space: spaces.Space, seen: Any) -> None:
    with pytest.raises(ValueError, match=r"Room-v0: the observation of reset must be .* as its observation_space says"):
        play(lambda: Given(usual, first=(seen, {}), space=space))


def test_a_rule_that_is_broken_late() -> None:
    def later(time: int) -> Any:
        return usual(time) if time < 3 else (None, 1.0, True, False, {})

    with pytest.raises(ValueError, match="Room-v0: the observation must be float32"):
        play(lambda: Given(later), steps=3)


def test_a_wrapper_that_cannot_unpack_names_the_rule() -> None:
    with pytest.raises(ValueError, match=r"Room-v0: step must return .* got 4 values"):
        play(lambda: TimeLimit(Given(lambda time: (SEEN, 1.0, False, {})), 5))


def test_a_reset_without_a_seed() -> None:
    class Old(Given):
        def reset(self) -> Any:  # type: ignore[override]
            return self.first

    for make in (lambda: Old(usual), lambda: TimeLimit(Old(usual), 5)):
        with pytest.raises(ValueError, match="Room-v0: reset must take seed and options"):
            play(make)


@pytest.mark.parametrize("thing", [None, 3, Given])
def test_what_is_no_environment(thing: Any) -> None:
    with pytest.raises(ValueError, match="The factory of Room-v0 must return"):
        play(lambda: thing)


def test_an_environment_without_a_space() -> None:
    class Bare(gymnasium.Env):
        action_space = spaces.Discrete(2)

    with pytest.raises(ValueError, match="Room-v0 has no observation_space"):
        play(Bare)


@pytest.mark.parametrize("reward", [2, np.float32(2), np.array(2.0), np.array([2.0]), np.array([[2]])])
def test_arrays_of_one_number_are_rewards(reward: Any) -> None:
    got = play(lambda: Given(lambda time: (SEEN, reward, False, False, {})), steps=2)
    np.testing.assert_array_equal(got.rewards, [2.0, 2.0])


def test_errors_of_the_environment_keep_their_cause() -> None:
    def broken(time: int) -> Any:
        return {}["heat"]

    with pytest.raises(ValueError, match=r"^Room-v0 failed in step: KeyError\('heat'\)$") as caught:
        play(lambda: Given(broken))
    assert isinstance(caught.value.__cause__, KeyError)

    class Stuck(Given):
        def reset(self, **chosen: Any) -> Any:
            raise RuntimeError("stuck")

    with pytest.raises(ValueError, match=r"^Room-v0 failed in reset: RuntimeError\('stuck'\)$"):
        play(lambda: Stuck(usual))


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stops_at_its_step(wrong: float, ends: bool) -> None:
    def pays(time: int) -> Any:
        return SEEN, (wrong if time == 7 else 1.0), ends and time == 7, False, {}

    def shows(time: int) -> Any:
        return (SEEN + wrong if time == 7 else SEEN), 1.0, ends and time == 7, False, {}

    for later, what in ((pays, "a reward"), (shows, "an observation")):
        play(lambda later=later: Given(later), steps=6)
        with pytest.raises(
            ValueError, match=rf"^Room-v0 gave {what} that is not finite \({wrong}\) at step 7 of a game"
        ):
            play(lambda later=later: Given(later), steps=7)


def test_steps_are_counted_from_the_start_of_the_game() -> None:
    class Later(Given):
        games = 0

        def reset(self, **chosen: Any) -> Any:
            self.games += 1
            return super().reset(**chosen)

        def step(self, action: int) -> Any:
            self.time += 1
            reward = np.nan if self.games == 2 and self.time == 4 else 1.0
            return SEEN, reward, False, self.time == 5, {}

    env = from_factory(lambda: Later(usual), 1, seed=0, id="Room-v0")
    env.reset()
    for _ in range(7):
        step(env, np.zeros(1, dtype=np.int64))
    env.environments[0].later = None
    other = from_factory(lambda: Later(None), 1, seed=0, id="Room-v0")
    other.restore(env.capture())
    for lanes in (env, other):
        step(lanes, np.zeros(1, dtype=np.int64))
        with pytest.raises(ValueError, match="at step 4 of a game"):
            step(lanes, np.zeros(1, dtype=np.int64))


def test_large_numbers_are_finite() -> None:
    large = np.full(2, 3e38, np.float32)
    got = play(lambda: Given(lambda time: (large, 1e308, False, False, {})))
    np.testing.assert_array_equal(got.observations, [large, large])
    np.testing.assert_array_equal(got.rewards, [1e308, 1e308])


@pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
def test_the_example_registered_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [
        part
        for part in ast.parse(EXAMPLE.read_text()).body
        if isinstance(part, ast.ImportFrom | ast.Import)
        or (isinstance(part, ast.ClassDef) and part.name == "Room")
        or ast.unparse(part).startswith("LEVELS")
    ]
    register = "gymnasium.register('RoomOfTheExample-v0', Room, max_episode_steps=100)"
    module = "\n".join([ast.unparse(ast.Module(kept, [])), register])
    (tmp_path / "a_room_of_the_example.py").write_text(module)
    monkeypatch.syspath_prepend(str(tmp_path))
    name = "a_room_of_the_example:RoomOfTheExample-v0"
    try:
        assert describe_env(name).n_actions == 21
        env = make_env(name, 2, seed=0)
        env.reset()
        ends = [step(env, np.zeros(2, dtype=np.int64)).truncated.all() for _ in range(100)]
        assert ends == [False] * 99 + [True]
        with pytest.raises(ValueError, match="draws no pictures: its class does not take render_mode"):
            make_env(name, 1, seed=0, render=True)
    finally:
        gymnasium.registry.pop("RoomOfTheExample-v0", None)
