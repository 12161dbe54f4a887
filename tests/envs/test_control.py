from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from svrl.envs.control import ControlVectorEnv, Features
from svrl.envs.make import CONTROL, make_env
from svrl.envs.vector import step
from svrl.mdp.tasks import SPEED_NOISE, make_task


def test_features_of_the_pendulum() -> None:
    task = make_task("inverted-pendulum")
    states = np.array([[0.0, 0.0], [math.pi / 2, 10.0], [-math.pi, -5.0], [math.pi, -5.0]])
    seen = Features(task)(states)
    assert seen.dtype == np.float32
    np.testing.assert_allclose(seen[:3], [[0, 1, 0], [1, 0, 1], [0, -1, -0.5]], atol=1e-6)
    np.testing.assert_allclose(seen[2], seen[3], atol=1e-6)


@pytest.mark.parametrize("name", CONTROL)
def test_features_of_the_whole_grid_are_as_large_as_one(name: str) -> None:
    task = make_task(name, states=(5,) * make_task(name).dimensions)
    seen = Features(task)(task.states().numpy())
    periodic = sum(axis.periodic for axis in task.axes)
    assert seen.shape == (task.n_states, task.dimensions + periodic)
    assert np.abs(seen).max() == pytest.approx(1.0)
    assert (seen.max(0) > 0.9).all()
    np.testing.assert_allclose(Features(task, "cpu")(task.states()).numpy(), seen, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("double-integrator", 7),
        ("mountain-car", 7),
        ("cart-pole", 7),
        ("planar-thrusters", 8),
        ("two-input-cart-pole", 9),
    ],
)
def test_every_step_is_the_step_of_the_task(name: str, count: int) -> None:
    env = make_env(f"control/{name}", 5, seed=1, actions=count)
    assert isinstance(env, ControlVectorEnv)
    env.reset()
    assert env.task.n_actions == env.spec.n_actions == count
    state = env.states.clone()
    for actions in np.random.default_rng(0).integers(count, size=(50, 5)):
        got = step(env, actions)
        inputs = env.task.actions[torch.from_numpy(actions)]
        np.testing.assert_array_equal(got.rewards, env.task.reward(state, inputs).numpy())
        state = env.task.move(state, inputs, torch.zeros(5, env.task.dimensions))
        np.testing.assert_array_equal(got.observations, Features(env.task)(state.numpy()))
        assert not got.ended.any()


def test_noise_is_that_of_the_task() -> None:
    env = ControlVectorEnv(make_task("inverted-pendulum", actions=3), 4000, seed=0)
    env.reset()
    before = env.states.clone()
    step(env, np.ones(4000, dtype=np.int64))
    still = env.task.step(before, torch.zeros(1), torch.zeros(1, 2))
    inner = before[:, 1].abs() < 9.0  # clear of the edges of the box
    off = (env.states - still)[inner]
    angle = torch.remainder(off[:, 0] + math.pi, 2 * math.pi) - math.pi
    assert float(angle.abs().max()) < 1e-9
    assert float(off[:, 1].mean()) == pytest.approx(0.0, abs=5 * SPEED_NOISE / math.sqrt(len(off)))
    assert float(off[:, 1].std()) == pytest.approx(SPEED_NOISE, rel=0.06)


def test_starts_fill_the_box() -> None:
    env = ControlVectorEnv(make_task("mountain-car"), 4000, seed=0)
    env.reset()
    for k, axis in enumerate(env.task.axes):
        place = (env.states[:, k] - axis.low) / (axis.high - axis.low)
        shares = torch.histc(place, 10, 0.0, 1.0) / 4000
        assert float((shares - 0.1).abs().max()) < 0.03


def test_200_steps_and_no_more() -> None:
    env = make_env("control/double-integrator", 3, seed=0, actions=3)
    env.reset()
    for t in range(1, 401):
        got = step(env, np.ones(3, dtype=np.int64))
        assert got.truncated.all() == got.truncated.any() == (t % 200 == 0)
        assert not got.terminal.any()
        if t % 200 == 0:
            assert (got.final_observations != got.observations).any(axis=1).all()


def test_numbers_of_actions() -> None:
    assert make_env("control/inverted-pendulum", 1, seed=0).spec.n_actions == 1000
    assert make_env("control/three-motor-pendulum", 1, seed=0, actions=27).spec.n_actions == 27
    assert make_env("control/planar-thrusters", 1, seed=0).spec.n_actions == 216
    assert make_env("control/two-input-cart-pole", 1, seed=0).spec.n_actions == 256


def test_the_levels_of_each_input_are_the_axes() -> None:
    assert make_env("control/three-motor-pendulum", 1, seed=0, actions=27).spec.axes == (3, 3, 3)
    assert make_env("control/two-input-cart-pole", 1, seed=0).spec.axes == (16, 16)
    assert make_env("control/cart-pole", 1, seed=0).spec.axes == ()


@pytest.mark.parametrize(("part", "what"), [("reward", "a reward"), ("step", "an observation")])
def test_what_is_not_finite_stops_a_task(part: str, what: str) -> None:
    task = make_task("double-integrator", actions=3)
    given = getattr(task, part)

    def broken(states: torch.Tensor, inputs: torch.Tensor, *noise: torch.Tensor) -> torch.Tensor:
        values = given(states, inputs, *noise).clone()
        values[1] = math.nan
        return values

    env = ControlVectorEnv(dataclasses.replace(task, **{part: broken}), 3, seed=0)
    env.reset()
    with pytest.raises(ValueError, match=rf"returned {what} that is not finite \(nan\)"):
        step(env, np.ones(3, dtype=np.int64))
