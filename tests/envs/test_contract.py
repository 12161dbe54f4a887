"""What every environment promises, on one of each family."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from svrl.envs.make import CLASSIC, MINATAR, describe_env, make_env
from svrl.envs.vector import Step, VectorEnv, step

from .playing import assert_equal, played, through_a_file

IDS = ["atari/pong", "minatar/breakout", "control/inverted-pendulum", "CartPole-v1", "FrozenLake-v1"]
TAXI = next(name for name in gymnasium.registry if name.startswith("Taxi-v"))
GYMNASIUM = [*CLASSIC, "Blackjack-v1", TAXI]
RESTORABLE = [*(f"minatar/{game}" for game in MINATAR), "control/inverted-pendulum", *GYMNASIUM]
LONG = ("minatar/freeway", "Acrobot-v1", "CliffWalking-v1")
COUNT = 2


def made(name: str, seed: int = 0) -> VectorEnv:
    return make_env(name, COUNT, seed=seed, sticky=0.1 if "atar" in name else 0.0)


@pytest.mark.parametrize("name", IDS)
def test_shapes_types_and_flags(name: str) -> None:
    env = made(name)
    shape = (COUNT, *env.spec.observation_shape)
    first = env.reset()
    assert (first.shape, first.dtype) == (shape, np.dtype(env.spec.dtype))
    for got in played(env, 230 if name.startswith("control") else 60):
        for observations in (got.observations, got.final_observations):
            assert (observations.shape, observations.dtype) == (shape, np.dtype(env.spec.dtype))
            assert observations.max() <= env.spec.high or env.spec.dtype == "float32"
        assert (got.rewards.shape, got.rewards.dtype) == ((COUNT,), np.float64)
        for flag in (got.terminal, got.truncated, got.life_lost):
            assert (flag.shape, flag.dtype) == ((COUNT,), np.bool_)
        assert not (got.terminal & got.truncated).any()
        assert not (got.life_lost & got.ended).any()
        if not got.ended.any():
            assert got.final_observations is got.observations
        on = ~got.ended
        np.testing.assert_array_equal(got.final_observations[on], got.observations[on])
    assert len(env.spec.action_names) == env.spec.n_actions
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_a_seed_is_a_stream(name: str) -> None:
    def start(seed: int) -> tuple[np.ndarray, list[Step]]:
        env = made(name, seed)
        observations = env.reset()
        return observations, played(env, 60)

    (first, steps), (again, repeated), (_, others) = start(0), start(0), start(1)
    np.testing.assert_array_equal(first, again)
    assert_equal(steps, repeated)
    differs = [(mine.observations != other.observations).any() for mine, other in zip(steps, others, strict=True)]
    assert any(differs)


@pytest.mark.parametrize("name", IDS)
def test_two_environments_are_two_streams(name: str) -> None:
    env = made(name)
    env.reset()
    rng = np.random.default_rng(0)
    together = rng.integers(env.spec.n_actions, size=60)
    steps = [step(env, np.full(COUNT, action)) for action in together]
    assert any((got.observations[0] != got.observations[1]).any() for got in steps)


@pytest.mark.parametrize("name", ["atari/pong", "minatar/breakout", "CartPole-v1"])
def test_an_environment_is_the_same_in_any_company(name: str) -> None:
    alone, together = (make_env(name, count, seed=4) for count in (1, 3))
    np.testing.assert_array_equal(alone.reset()[0], together.reset()[0])
    for action in np.random.default_rng(0).integers(2, size=40):
        one, three = step(alone, np.array([action])), step(together, np.full(3, action))
        np.testing.assert_array_equal(one.observations[0], three.observations[0])
        assert one.ended[0] == three.ended[0]


@pytest.mark.parametrize("name", RESTORABLE)
@pytest.mark.parametrize("before", [0, 77])
def test_restored_goes_on_as_if_nothing_had_happened(name: str, before: int) -> None:
    env, other = made(name), made(name, seed=9)
    newest = env.reset()
    for got in played(env, before):
        newest = got.observations
    for going, restored in ((env, other), (other, env)):  # the second time into an environment that was played
        state = through_a_file(going.capture())
        ahead = played(going, 250, seed=1)
        shown = restored.restore(state)
        if going is env:
            np.testing.assert_array_equal(shown, newest)
            assert any(got.ended.any() for got in ahead) or name in LONG
        assert_equal(ahead, played(restored, 250, seed=1))
        if name == "MountainCar-v0" and going is env:  # the time limit is restored, too
            assert [got.truncated[0] for got in ahead].index(True) == 200 - before - 1


@pytest.mark.parametrize(
    ("name", "of", "sentence"),
    [
        ("minatar/breakout", "minatar/freeway", "other environments"),
        ("Acrobot-v1", "CartPole-v1", "other environments"),
        ("control/cart-pole", "control/mountain-car", "other environments"),
        ("atari/pong", "atari/pong", "cannot be restored"),
    ],
)
def test_a_state_of_something_else_is_refused(name: str, of: str, sentence: str) -> None:
    other = made(of)
    other.reset()
    with pytest.raises(ValueError, match=sentence):
        made(name).restore(other.capture() or {})
    if name != of:
        with pytest.raises(ValueError, match=sentence):
            make_env(of, COUNT + 1, seed=0).restore(other.capture())


@pytest.mark.parametrize("name", IDS)
def test_reset_begins_anew(name: str) -> None:
    env = made(name)
    env.reset()
    steps = played(env, 10)
    assert env.reset().shape == steps[-1].observations.shape
    for got in played(env, 5):  # no game ends so soon after it began, whatever came before
        assert not got.truncated.any()


@pytest.mark.parametrize("name", IDS)
def test_wrong_actions_are_refused(name: str) -> None:
    env = made(name)
    env.reset()
    for actions in ([0], [0, env.spec.n_actions], [-1, 0], [0.5, 0.0]):
        with pytest.raises(ValueError, match=r"actions"):
            env.send(np.array(actions))


@pytest.mark.parametrize("name", IDS)
def test_there_is_a_picture(name: str) -> None:
    env = make_env(name, COUNT, seed=0, render=True)
    env.reset()
    played(env, 3)
    picture = env.render(1)
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    assert picture.std() > 0
    env.close()


def test_a_description_needs_no_seed() -> None:
    spec = describe_env("control/inverted-pendulum", actions=10)
    assert (spec.family, spec.n_actions, spec.observation_shape) == ("control", 10, (3,))
    assert describe_env("minatar/space-invaders").observation_shape == (6, 10, 10)
