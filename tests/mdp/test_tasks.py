"""Each control task against single steps worked out by hand, physics, and Gymnasium's tasks."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import jacrev

from svrl.mdp.control_task import ControlTask, TimeToGoal, UprightNorm
from svrl.mdp.grid import GridMDP
from svrl.mdp.tasks import TASKS, make_task
from svrl.planning import solve_exactly

classic_control = pytest.importorskip("gymnasium.envs.classic_control")

SMALL = {name: {"states": (5, 4), "actions": 7} for name in TASKS}
SMALL["cart-pole"]["states"] = (3, 4, 5, 2)
SMALL["three-motor-pendulum"] = {"states": (5, 4), "levels": 3}
SMALL["planar-thrusters"] = SMALL["two-input-cart-pole"] = {"states": (3, 4, 5, 2), "levels": 3}
COMBINED = {
    "three-motor-pendulum": [(1.0, 10)] * 3,
    "planar-thrusters": [(1.0, 6)] * 3,
    "two-input-cart-pole": [(10.0, 16), (0.25, 16)],
}
"""Reach and levels of each input of the tasks of several."""
EVERY = [(name, variant) for name in TASKS for variant in ("paper", "authors")]


def small(name: str, **switches: Any) -> ControlTask:
    return make_task(name, **{**SMALL[name], **switches})


def row(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(task: ControlTask, count: int, seed: int = 0) -> torch.Tensor:
    """States uniform in the box."""
    low, high = (row(*edge) for edge in zip(*[(axis.low, axis.high) for axis in task.axes], strict=True))
    return low + (high - low) * torch.rand(count, task.dimensions, generator=seeded(seed), dtype=torch.float64)


def one_step(task: ControlTask, state: tuple[float, ...], inputs: tuple[float, ...]) -> list[float]:
    return task.move(row(*state), row(*inputs), torch.zeros(task.dimensions, dtype=torch.float64)).tolist()


def paid(task: ControlTask, state: tuple[float, ...], inputs: tuple[float, ...]) -> float:
    return float(task.reward(row(*state), row(*inputs)))


# Sizes and boxes: 2500 or 10000 states by 1000 actions, as the paper has them.


@pytest.mark.parametrize(
    ("name", "boxes"),
    [
        ("inverted-pendulum", [(-math.pi, math.pi), (-10, 10)]),
        ("three-motor-pendulum", [(-math.pi, math.pi), (-10, 10)]),
        ("mountain-car", [(-1.2, 0.6), (-0.07, 0.07)]),
        ("double-integrator", [(-3, 3), (-3, 3)]),
        ("cart-pole", [(-math.pi / 2, math.pi / 2), (-3, 3), (-2.4, 2.4), (-3.5, 3.5)]),
    ],
)
def test_sizes_and_boxes_are_the_papers(name: str, boxes: list[tuple[float, float]]):
    for variant in ("paper", "authors"):
        task = make_task(name, variant=variant)
        assert (task.name, task.gamma) == (name, 0.95)
        assert task.n_states == (10000 if name == "cart-pole" else 2500)
        assert tuple(task.actions.shape) == (1000, 3 if name == "three-motor-pendulum" else 1)
        ends = [(-1.2, 0.5), *boxes[1:]] if (name, variant) == ("mountain-car", "authors") else boxes
        assert [(axis.low, axis.high) for axis in task.axes] == ends
        assert [axis.periodic for axis in task.axes] == [name.endswith("pendulum")] + [False] * (len(boxes) - 1)


@pytest.mark.parametrize(
    ("name", "boxes"),
    [
        ("planar-thrusters", [(-3, 3)] * 4),
        ("two-input-cart-pole", [(-math.pi / 2, math.pi / 2), (-3, 3), (-2.4, 2.4), (-3.5, 3.5)]),
    ],
)
def test_sizes_and_boxes_of_ours(name: str, boxes: list[tuple[float, float]]):
    task = make_task(name)
    assert (task.name, task.gamma, task.shape) == (name, 0.95, (15, 15, 15, 15))
    assert [(axis.low, axis.high) for axis in task.axes] == boxes
    assert not any(axis.periodic for axis in task.axes)
    assert GridMDP(task, mode="on-the-fly").table_bytes < 400e6
    corner = [box[k % 2] for k, box in enumerate(boxes)]
    assert task.inside(2.0 * row(*corner)).tolist() == corner


@pytest.mark.parametrize("name", [name for name in TASKS if name not in COMBINED])
def test_actions_are_even_and_reach_both_ends(name: str):
    values = make_task(name).actions[:, 0]
    reach = 10.0 if name == "cart-pole" else 1.0
    assert float(values[0]) == -reach
    assert float(values[-1]) == reach
    torch.testing.assert_close(values.diff(), torch.full((999,), 2 * reach / 999, dtype=torch.float64))


@pytest.mark.parametrize("name", COMBINED)
def test_several_inputs_have_every_combination_and_the_last_runs_fastest(name: str):
    task = make_task(name)
    assert task.action_axes == tuple(levels for _, levels in COMBINED[name])
    values = [np.linspace(-reach, reach, levels) for reach, levels in COMBINED[name]]
    np.testing.assert_allclose(task.actions, list(itertools.product(*values)), atol=1e-15)


@pytest.mark.parametrize("name", TASKS)
def test_a_number_of_actions_is_a_power_of_the_levels(name: str):
    assert make_task(name, actions=64).action_axes == {3: (4, 4, 4), 2: (8, 8)}.get(len(COMBINED.get(name, ())), ())


# Single steps by hand.


@pytest.mark.parametrize(("variant", "tau"), [("paper", 0.3), ("authors", math.pi / 10)])
def test_a_step_of_the_pendulum(variant: str, tau: float):
    task = small("inverted-pendulum", variant=variant)
    assert one_step(task, (0.5, -2.0), (0.25,)) == pytest.approx(
        [0.5 - 2.0 * tau, -2.0 + (math.sin(0.5) + 2.0 + 0.25) * tau], abs=1e-14
    )
    # Over the top of the range: 3 + 10 tau, less a turn.
    assert one_step(task, (3.0, 10.0), (0.0,))[0] == pytest.approx(3.0 + 10.0 * tau - 2 * math.pi, abs=1e-14)


@pytest.mark.parametrize(("variant", "offset"), [("paper", 0.0), ("authors", -1.0)])
def test_the_reward_of_the_pendulum(variant: str, offset: float):
    task = small("inverted-pendulum", variant=variant)
    assert paid(task, (0.0, 3.0), (0.0,)) == pytest.approx(1.0 + offset)
    assert paid(task, (math.pi, 0.0), (1.0,)) == pytest.approx(math.exp(-2.0) - 0.1 + offset)
    assert paid(task, (math.pi / 2, 0.0), (-0.5,)) == pytest.approx(math.exp(-1.0) - 0.025 + offset)


def test_the_noise_of_the_pendulum_is_half_a_degree_on_the_speed():
    for variant in ("paper", "authors"):
        task = small("inverted-pendulum", variant=variant)
        assert task.noise == (0.0, math.pi / 360)
        calm, shaken = (task.move(row(0.1, 0.2), row(0.3), row(0.0, level)) for level in (0.0, 0.01))
        torch.testing.assert_close(shaken - calm, row(0.0, 0.01))


def test_a_step_of_the_mountain_car():
    slope = 0.0025 * math.cos(3 * -0.4)
    paper, authors = (small("mountain-car", variant=variant) for variant in ("paper", "authors"))
    speed = 0.02 - slope + 0.0005
    assert one_step(paper, (-0.4, 0.02), (0.5,)) == pytest.approx([-0.38, speed], abs=1e-15)
    assert one_step(authors, (-0.4, 0.02), (0.5,)) == pytest.approx([-0.4 + speed, speed], abs=1e-15)


def test_the_mountain_car_of_the_authors_moves_by_the_clipped_speed():
    # At x = -1 the slope pulls by -0.0025 cos(-3) > 0, so 0.0695 becomes more than the limit 0.07.
    paper, authors = (small("mountain-car", variant=variant) for variant in ("paper", "authors"))
    assert one_step(authors, (-1.0, 0.0695), (1.0,)) == pytest.approx([-0.93, 0.07], abs=1e-15)
    assert one_step(paper, (-1.0, 0.0695), (1.0,)) == pytest.approx([-0.9305, 0.07], abs=1e-15)


@pytest.mark.parametrize(("variant", "end"), [("paper", 0.6), ("authors", 0.5)])
def test_the_mountain_car_stops_at_the_end_and_the_goal_pays(variant: str, end: float):
    task = small("mountain-car", variant=variant)
    assert one_step(task, (end - 0.001, 0.07), (1.0,))[0] == end
    assert one_step(task, (-1.19, -0.07), (0.0,))[0] == -1.2
    assert [paid(task, (x, 0.0), (1.0,)) for x in (end, 0.5, 0.5 - 1e-12, 0.499)] == [10, 10, 10, -1]


def test_a_step_of_the_double_integrator():
    task = small("double-integrator")
    assert one_step(task, (1.0, -0.5), (0.3,)) == pytest.approx([0.95, -0.47], abs=1e-15)
    assert one_step(task, (2.9, 3.0), (1.0,)) == [3.0, 3.0]
    assert paid(task, (1.0, -2.0), (0.7,)) == -2.5


def test_the_reward_of_the_cart_pole_has_a_maximum_every_twelve_degrees():
    task = small("cart-pole")
    degrees = [0, 12, 24, 6, 3]
    got = [paid(task, (math.radians(angle), 1.0, 1.0, 1.0), (5.0,)) for angle in degrees]
    assert got == pytest.approx([1, 1, 1, 0, 0.25], abs=1e-12)


def test_a_step_of_the_three_motor_pendulum():
    task = small("three-motor-pendulum")
    # At theta = 0 the motors pull by 1, -1/2, -1/2.
    assert one_step(task, (0.0, 1.0), (1.0, -1.0, 0.5)) == pytest.approx([0.3, 1.0 + (1.25 - 1.0) * 0.3], abs=1e-14)
    assert paid(task, (0.0, 0.0), (1.0, -1.0, 0.5)) == pytest.approx(1 - 0.05 * 2.25)
    # All alike they cancel, whatever the angle.
    plain = small("inverted-pendulum")
    for angle in (-2.0, 0.3, 1.7):
        assert one_step(task, (angle, 0.5), (0.8, 0.8, 0.8)) == pytest.approx(one_step(plain, (angle, 0.5), (0.0,)))


def test_a_step_of_the_planar_thrusters():
    task = small("planar-thrusters")
    # The first thruster pushes along x; the others pull back by a half each, and along y against each other.
    state = (1.0, -0.5, -2.0, 0.25)
    wanted = [0.9, -0.5 + 0.2 * (1.0 - 0.25), -1.95, 0.25 + 0.2 * math.sqrt(3) / 2 * 1.5]
    assert one_step(task, state, (1.0, 1.0, -0.5)) == pytest.approx(wanted, abs=1e-15)
    assert one_step(task, (3.0, 3.0, -3.0, -3.0), (1.0, -1.0, 1.0)) == [3.0, 3.0, -3.0, -3.0]
    assert paid(task, state, (1.0, 1.0, -0.5)) == pytest.approx(-0.05 * (1 + 0.25 + 4 + 0.0625) - 0.02 * 2.25)
    # All alike they cancel.
    assert one_step(task, (0.0, 0.0, 0.0, 0.0), (0.8, 0.8, 0.8)) == [0.0, 0.0, 0.0, 0.0]


def test_a_pole_that_leans_pays_for_the_torque_that_holds_it():
    task = small("two-input-cart-pole")
    leaning = (math.radians(12), 0.0, 0.5, 0.0)
    holds = -0.1 * 9.8 * 0.5 * math.sin(leaning[0])
    assert one_step(task, leaning, (0.0, holds))[1] == pytest.approx(0.0, abs=1e-15)
    assert paid(task, leaning, (0.0, holds)) == pytest.approx(1.0 - 0.8 * holds**2)
    assert paid(task, (0.0, 1.0, 1.0, 1.0), (0.0, 0.0)) == 1.0
    assert paid(task, (math.radians(6), 0.0, 0.0, 0.0), (10.0, -0.25)) == pytest.approx(-0.1)


@pytest.mark.parametrize("name", ["planar-thrusters", "two-input-cart-pole"])
def test_the_reward_range_is_reached_at_both_ends(name: str):
    task = make_task(name, states=(15, 3, 3, 3), levels=3)
    rewards = task.reward(task.states()[:, None], task.actions)
    assert (float(rewards.min()), float(rewards.max())) == pytest.approx(task.reward_range, abs=1e-12)


def test_a_grid_of_15_angles_shows_one_maximum():
    angles = make_task("two-input-cart-pole").axes[0].values
    torch.testing.assert_close(torch.cos(15.0 * angles) ** 4, torch.cos(angles) ** 4)


# Physics.


def energy_of_cart_pole(s: torch.Tensor) -> torch.Tensor:
    # A uniform rod of half-length l: its inertia about the joint is (4/3) m l^2.
    moving = 0.5 * 1.1 * s[:, 3] ** 2 + 0.05 * s[:, 3] * s[:, 1] * torch.cos(s[:, 0]) + 0.025 / 1.5 * s[:, 1] ** 2
    return moving + 0.1 * 9.8 * 0.5 * torch.cos(s[:, 0])


def power_of_thrusters(s: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    angles = [math.radians(120 * i) for i in range(3)]
    return sum(u * (math.cos(a) * s[:, 1] + math.sin(a) * s[:, 3]) for u, a in zip(inputs, angles, strict=True))


# Energy, and the power that flows in: force times speed, less friction.
ENERGIES = {
    "cart-pole": (energy_of_cart_pole, lambda s, u: u * s[:, 3]),
    "inverted-pendulum": (
        lambda s: 0.5 * s[:, 1] ** 2 + torch.cos(s[:, 0]),
        lambda s, u: (u - s[:, 1]) * s[:, 1],
    ),
    "mountain-car": (
        lambda s: 0.5 * s[:, 1] ** 2 + 0.0025 / 3 * torch.sin(3 * s[:, 0]),
        lambda s, u: 0.001 * u * s[:, 1],
    ),
    "double-integrator": (lambda s: 0.5 * s[:, 1] ** 2, lambda s, u: u * s[:, 1]),
    "two-input-cart-pole": (energy_of_cart_pole, lambda s, u, torque: u * s[:, 3] + torque * s[:, 1]),
    "planar-thrusters": (lambda s: 0.5 * (s[:, 1] ** 2 + s[:, 3] ** 2), power_of_thrusters),
}


@pytest.mark.parametrize(("name", "variant"), [(name, variant) for name, variant in EVERY if name in ENERGIES])
def test_energy_changes_by_the_power_of_the_input(name: str, variant: str):
    tau = 1e-6
    task = small(name, time_step=tau, variant=variant)
    states = 0.9 * drawn(task, 100, 1)
    inputs = task.actions[torch.randint(task.n_actions, (100,), generator=seeded(2))]
    after = task.step(states, inputs, torch.zeros(task.dimensions, dtype=torch.float64))
    energy, power = ENERGIES[name]
    flow = (energy(after) - energy(states)) / tau
    wanted = power(states, *inputs.T)
    assert float((flow - wanted).abs().max()) < 1e-3 * float(wanted.abs().max()) + 1e-9


def test_constant_force_gives_a_sum_in_closed_form():
    task, state = small("double-integrator"), (-1.0, 0.2)
    for _ in range(20):
        state = tuple(one_step(task, state, (0.4,)))
    assert state == pytest.approx((-1.0 + 20 * 0.1 * 0.2 + 0.4 * 0.01 * 20 * 19 / 2, 0.2 + 20 * 0.04), abs=1e-12)


def lagrangian(place: torch.Tensor, speed: torch.Tensor) -> torch.Tensor:
    """Of a cart of 1 kg and a uniform rod of 0.1 kg and half-length 0.5 m on it: place is (angle, x)."""
    (angle, _), (turning, sideways) = place, speed
    along, upward = sideways + 0.5 * torch.cos(angle) * turning, -0.5 * torch.sin(angle) * turning
    spinning = 0.5 * 0.1 * 0.5**2 / 3 * turning**2
    return 0.5 * sideways**2 + 0.05 * (along**2 + upward**2) + spinning - 0.1 * 9.8 * 0.5 * torch.cos(angle)


def test_the_cart_pole_of_two_inputs_follows_its_lagrangian():
    task = small("two-input-cart-pole", time_step=1.0)
    for state, (force, torque) in zip(drawn(task, 9, 3), task.actions, strict=True):
        place, speed = state[0::2], state[1::2]
        mixed, mass = jacrev(jacrev(lagrangian, 1), (0, 1))(place, speed)
        pull = jacrev(lagrangian)(place, speed) + torch.stack([torque, force])
        wanted = torch.linalg.solve(mass, pull - mixed @ speed)
        after = task.step(state, torch.stack([force, torque]), torch.zeros(4, dtype=torch.float64))
        torch.testing.assert_close(after[1::2] - speed, wanted)


def test_without_torque_the_cart_pole_of_two_inputs_is_the_cart_pole():
    plain, task = small("cart-pole"), small("two-input-cart-pole")
    states, none = drawn(task, 100, 4)[:, None], torch.zeros(4, dtype=torch.float64)
    still = torch.cat([plain.actions, torch.zeros_like(plain.actions)], 1)
    assert torch.equal(task.step(states, still, none), plain.step(states, plain.actions, none))


# Value iteration on small grids, where mirrored states are worth the same.


@pytest.mark.parametrize(
    ("name", "mirror"),
    [
        ("planar-thrusters", (2, 3)),  # the second and third thruster change places
        ("two-input-cart-pole", (0, 1, 2, 3)),  # both inputs change their sign
    ],
)
def test_exact_values_of_a_small_grid(name: str, mirror: tuple[int, ...]):
    task = make_task(name, states=(5, 5, 5, 5), levels=3)
    model = GridMDP(task, dtype=torch.float64)
    v, _ = solve_exactly(model)
    torch.testing.assert_close(model.backup(v).max(1).values, v, rtol=0, atol=1e-6)
    low, high = task.reward_range
    assert low / 0.05 <= float(v.min()) <= float(v.max()) <= high / 0.05 + 1e-6
    values = v.reshape(task.shape)
    torch.testing.assert_close(values.flip(mirror), values, rtol=0, atol=1e-6)
    assert float(values[2, 2, 2, 2]) == pytest.approx(float(v.max()))  # upright, or at the origin, at rest
    assert float(values[2, 2, 2, 2]) == pytest.approx(high / 0.05, abs=1e-5)


# Peers.


def test_the_authors_mountain_car_is_the_classic_one():
    task = small("mountain-car", variant="authors", x_max=0.6)
    peer = classic_control.MountainCarEnv()
    rng = np.random.default_rng(0)
    for _ in range(100):
        state, action = rng.uniform([-1.0, -0.07], [0.6, 0.07]), int(rng.integers(3))
        peer.state = tuple(state)
        peer.step(action)
        assert one_step(task, tuple(state), (action - 1.0,)) == pytest.approx(list(peer.state), abs=1e-12)


def test_the_cart_pole_is_the_classic_one():
    task = small("cart-pole", time_step=0.02)
    peer = classic_control.CartPoleEnv()
    peer.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(100):
        x, speed, angle, turning = rng.uniform([-2, -3, -0.2, -2], [2, 3, 0.2, 2])
        peer.state = np.array([x, speed, angle, turning])
        peer.steps_beyond_terminated = None
        action = int(rng.integers(2))
        peer.step(action)
        x2, speed2, angle2, turning2 = peer.state
        got = one_step(task, (angle, turning, x, speed), (10.0 if action else -10.0,))
        # Gymnasium keeps its state in float32 in some versions.
        assert got == pytest.approx([angle2, turning2, x2, speed2], abs=1e-5)


# What the interface promises.


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_broadcasting_equals_a_flat_batch(name: str, variant: str, dtype: torch.dtype):
    task = small(name, variant=variant)
    states, actions = task.states().to(dtype), task.actions.to(dtype)
    s, a = len(states), len(actions)
    none = torch.zeros(task.dimensions, dtype=dtype)
    wide = task.step(states[:, None], actions, none)
    rewards = task.reward(states[:, None], actions)
    assert wide.dtype == rewards.dtype == dtype
    assert wide.shape == (s, a, task.dimensions)
    assert rewards.shape == (s, a)
    flat_states, flat_actions = states.repeat_interleave(a, 0), actions.repeat(s, 1)
    flat = task.step(flat_states, flat_actions, none.expand(s * a, -1))
    # Vector and scalar code may round a sine differently.
    torch.testing.assert_close(wide.reshape(s * a, -1), flat)
    torch.testing.assert_close(rewards.reshape(-1), task.reward(flat_states, flat_actions))


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_the_label_says_every_switch(name: str, variant: str):
    label = make_task(name, variant=variant).label
    wanted = {"variant", "time_step", "reward_offset", "update_order"} | (
        {"x_max"} if name == "mountain-car" else set()
    )
    assert set(label) == wanted
    assert label["variant"] == variant
    assert json.loads(json.dumps(label)) == label


def test_single_switches_override_the_variant():
    task = small("mountain-car", variant="authors", x_max=0.55, reward_offset=2.0, time_step=0.5)
    assert task.label == {
        "variant": "authors",
        "time_step": 0.5,
        "reward_offset": 2.0,
        "update_order": "speed-first",
        "x_max": 0.55,
    }
    assert task.axes[0].high == 0.55
    assert paid(task, (0.0, 0.0), (0.0,)) == 1.0
    speed = 0.01 + 0.5 * (0.001 - 0.0025)
    assert one_step(task, (0.0, 0.01), (1.0,)) == pytest.approx([0.5 * speed, speed], abs=1e-15)


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_a_reward_offset_moves_every_reward(name: str, variant: str):
    none, some = (small(name, variant=variant, reward_offset=offset) for offset in (0.0, -3.0))
    states = none.states()[:, None]
    torch.testing.assert_close(some.reward(states, some.actions) + 3.0, none.reward(states, none.actions))


@pytest.mark.parametrize("name", TASKS)
def test_the_metric_fits_the_task(name: str):
    metric = small(name).metric
    if name in ("mountain-car", "double-integrator", "planar-thrusters"):
        assert isinstance(metric, TimeToGoal)
    else:
        assert metric == UprightNorm(axis=0, skip=51)


def test_the_goals():
    car, brick = (small(name).metric.inside for name in ("mountain-car", "double-integrator"))
    assert car(torch.tensor([[0.5, 0.0], [0.49, 0.07], [0.6, -0.07]])).tolist() == [True, False, True]
    places = torch.tensor([[0.1, -0.1], [0.0, 0.11], [-0.11, 0.0]], dtype=torch.float64)
    assert brick(places).tolist() == [True, False, False]
    mass = small("planar-thrusters").metric.inside
    assert mass(row(0.2, -0.2, 0.0, 0.1))
    assert not mass(row(0.0, 0.0, 0.0, 0.21))
