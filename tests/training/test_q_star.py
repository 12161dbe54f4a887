"""The error against Q*: a network that is Q* itself has none, and one that is off by a constant is off by that."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig
from svrl.agents.networks import build_network
from svrl.envs.make import describe_env
from svrl.mdp import GridMDP, make_task
from svrl.planning import evaluate_policy, solve_exactly
from svrl.training.q_star import QStarError

DISCOUNT = 0.9


@pytest.fixture(scope="module")
def known() -> QStarError:
    return QStarError.of(make_task("inverted-pendulum", states=(11, 9), actions=5), gamma=DISCOUNT)


class Lookup:
    """Q* at the grid states, found by their observations, plus what is asked for."""

    def __init__(self, known: QStarError, change: torch.Tensor | float = 0.0) -> None:
        self.known, self.change = known, change

    def __call__(self, observations: torch.Tensor) -> torch.Tensor:
        nearest = torch.cdist(observations.double(), self.known.observations.double()).argmin(1)
        return (self.known.q_star + self.change)[nearest]


def test_q_star_is_optimal_for_the_agent_s_discount(known: QStarError) -> None:
    assert known.model.gamma == DISCOUNT
    v = known.q_star.max(1).values
    assert torch.allclose(v, known.v_star, rtol=0, atol=1e-7)
    assert torch.allclose(known.model.backup(v), known.q_star, rtol=0, atol=1e-7)
    other = QStarError.of(known.model.task, gamma=0.5)
    assert float((other.q_star - known.q_star).abs().max()) > 0.1


def test_the_best_network_has_no_error(known: QStarError) -> None:
    # The two ends of the angle are one place and one observation, where Q* agrees up to rounding.
    assert max(map(abs, known.measure(Lookup(known)).values())) < 1e-6


@pytest.mark.parametrize("shift", [2.5, -0.75])
def test_a_constant_shift_is_an_error_of_the_value_alone(known: QStarError, shift: float) -> None:
    off = abs(shift) / known.span
    wanted = {"mean_error": off, "max_error": off, "value_error": off, "advantage_error": 0.0, "greedy_loss": 0.0}
    assert known.measure(Lookup(known, shift)) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_one_wrong_entry_is_found_and_weighed(known: QStarError) -> None:
    states, actions = known.q_star.shape
    change = torch.zeros(states, actions, dtype=torch.float64)
    middle = states // 2
    change[middle, 1] = -known.span  # an action that looks worse than all: no new maximum
    if int(known.q_star[middle].argmax()) == 1:
        change = change.roll(1, 1)
    errors = known.measure(Lookup(known, change))
    assert errors["max_error"] == pytest.approx(1.0, rel=1e-5)
    assert errors["mean_error"] == pytest.approx(1.0 / (states * actions), rel=1e-3)
    # |1 - 1/A| once and |1/A| for each of the others.
    assert errors["advantage_error"] == pytest.approx((2 - 2 / actions) / (states * actions), rel=1e-3)
    assert errors["value_error"] < 1e-6


def test_the_greedy_loss_is_that_of_the_policy(known: QStarError) -> None:
    errors = known.measure(lambda observations: -Lookup(known)(observations))
    worst = (-Lookup(known)(known.observations)).argmax(1)
    lost = known.v_star - evaluate_policy(known.model, worst, 1e-8)
    width = known.v_star.max() - known.v_star.min()
    assert errors["greedy_loss"] == pytest.approx(float(lost.mean() / width), rel=1e-6)
    assert errors["greedy_loss"] > 0.1


def test_a_diverged_network_is_no_success(known: QStarError) -> None:
    change = torch.zeros_like(known.q_star)
    change[4, 2] = math.nan
    errors = known.measure(Lookup(known, change))
    assert math.isnan(errors["mean_error"])
    assert math.isnan(errors["max_error"])


def agent_on(env: str, **changes: object) -> Agent:
    config = AgentConfig.of("classic", hidden=(16,), **changes)
    spec = describe_env(env, config.actions)
    network = build_network(spec, config, torch.Generator().manual_seed(1))
    return Agent(source=env, spec=spec, config=config, network=network, steps=70, updates=7, seed=0)


def test_an_agent_is_measured_on_its_own_task() -> None:
    agent = agent_on("control/inverted-pendulum", actions=7, gamma=0.8)
    known = QStarError.of_learner(agent)
    assert known.q_star.shape == (2500, 7)
    row = known.event_row(agent)
    assert (row.pop("steps"), row.pop("updates")) == (70, 7)
    assert all(isinstance(value, float) and value > 0 for value in row.values())
    assert agent.network.training
    # From the definitions, with nothing of the module's but what the agent sees.
    model = GridMDP(dataclasses.replace(make_task("inverted-pendulum", actions=7), gamma=0.8))
    v, _ = solve_exactly(model)
    truth = model.backup(v).numpy()
    got = agent.q(known.observations).numpy()
    assert row["mean_error"] == pytest.approx(np.abs(got - truth).mean() / np.ptp(truth), rel=1e-5)


@pytest.mark.parametrize("task", ["mountain-car", "double-integrator", "cart-pole"])
def test_every_task_can_be_compared(task: str) -> None:
    agent = agent_on(f"control/{task}", actions=3, gamma=0.99)
    known = QStarError.of_learner(agent)
    assert known.observations.shape == (known.model.n_states, *agent.spec.observation_shape)
    assert all(math.isfinite(value) for value in known.event_row(agent).values())


def test_where_q_star_is_not_known_there_is_a_reason() -> None:
    clipped = agent_on("control/inverted-pendulum", actions=3, clip_rewards=True)
    for agent, words in ((agent_on("CartPole-v1"), "there is no planning on CartPole-v1"), (clipped, "clip_rewards")):
        with pytest.raises(ValueError, match=words):
            QStarError.of_learner(agent)
    with pytest.raises(ValueError, match="fewer actions"):
        QStarError.of(make_task("inverted-pendulum", states=(400, 400), actions=1000), gamma=0.9)
