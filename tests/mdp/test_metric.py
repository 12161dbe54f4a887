"""Metrics on trajectories made by hand."""

from __future__ import annotations

import math

import pytest
import torch

from svrl.mdp.control_task import TimeToGoal, UprightNorm


def trajectory(angles: list[list[float]]) -> torch.Tensor:
    """Starts in rows, steps in columns; a second coordinate that no metric may look at."""
    steps = torch.tensor(angles, dtype=torch.float64).T
    return torch.stack([steps, torch.full_like(steps, 99.0)], -1)


def test_the_norm_takes_the_steps_from_skip_to_the_last_but_one():
    # Two starts, T = 5, steps 2, 3 and 4 count: norms 5 and 0.
    states = trajectory([[9.0, 9.0, 3.0, 0.0, -4.0, 9.0], [9.0, 9.0, 0.0, 0.0, 0.0, 9.0]])
    found = UprightNorm(skip=2)(states)
    assert found["norm_rad"] == pytest.approx(2.5)
    assert found["mean_degrees"] == pytest.approx(math.degrees(7 / 6))
    assert found["share_upright"] == 0.5


def test_the_authors_steps_are_51_to_199_of_200():
    marks = torch.zeros(201, 1, 1)
    marks[:51] = 7.0
    marks[200:] = 7.0
    assert UprightNorm()(marks)["norm_rad"] == 0.0
    for edge in (51, 199):
        marked = marks.clone()
        marked[edge] = -2.0
        assert UprightNorm()(marked)["norm_rad"] == 2.0


def test_a_constant_angle_in_closed_form():
    found = UprightNorm()(torch.full((201, 3, 2), -0.1, dtype=torch.float64))
    assert found["norm_rad"] == pytest.approx(0.1 * math.sqrt(149))
    assert found["mean_degrees"] == pytest.approx(math.degrees(0.1))


def test_upright_means_within_twelve_degrees_all_the_time():
    just, over = math.radians(11.99), math.radians(12.01)
    states = trajectory(
        [[0.0, just, -just, 0.0], [0.0, 0.0, -over, 0.0], [0.0, over, 0.0, 0.0], [over, 0.0, 0.0, over]]
    )
    assert UprightNorm(skip=1)(states)["share_upright"] == 0.5


def test_another_axis_may_be_the_angle():
    assert UprightNorm(axis=1, skip=0)(trajectory([[0.0, 0.0]]))["norm_rad"] == pytest.approx(99.0)


def test_time_is_the_first_step_inside_and_the_whole_time_where_there_is_none():
    # First inside at 0, at 2 (and out again), at T = 4, and never: (0 + 2 + 4 + 4) / 4.
    states = trajectory([[1, 0, 0, 0, 0], [0, 0, 1, 0, 1], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    found = TimeToGoal(inside=lambda s: s[..., 0] > 0.5)(states)
    assert found == {"time_to_goal": 2.5, "share_reached": 0.75}


@pytest.mark.parametrize("metric", [UprightNorm(skip=0), TimeToGoal(inside=lambda s: s[..., 0] > 0)])
def test_the_name_is_a_key_and_the_numbers_are_plain(metric: UprightNorm | TimeToGoal):
    found = metric(torch.zeros(5, 3, 2))
    assert metric.name in found
    assert all(type(value) is float for value in found.values())
