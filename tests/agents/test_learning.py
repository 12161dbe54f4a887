"""Agents learn. Minutes each, so marked slow; seeds are named beforehand and all of them count."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.events import Evaluated, Learned
from svrl.agents.training import Training, train
from svrl.envs.atari_games import GAMES

SEEDS = (0, 1, 2)
ARMS = [(agent, structured) for agent in ("dqn", "double", "dueling") for structured in (False, True)]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "structured"), ARMS)
def test_cart_pole_is_solved_from_two_of_three_seeds(agent: str, structured: bool) -> None:
    config = AgentConfig.for_env("CartPole-v1", agent=agent, structured=structured, eval_every=0)
    means = []
    for seed in SEEDS:
        found = train("CartPole-v1", config, seed=seed)
        means.append(found.evaluate(episodes=20, seed=seed).mean)
    assert sum(mean >= 475 for mean in means) >= 2, means


@pytest.mark.slow
@pytest.mark.parametrize("structured", [False, True])
def test_minatar_breakout_is_far_above_random(structured: bool) -> None:
    pytest.importorskip("minatar")
    config = AgentConfig.for_env("minatar/breakout", structured=structured, steps=100_000, eval_every=0)
    found = train("minatar/breakout", config, seed=0)
    learned = found.evaluate(episodes=30, seed=1)
    random = found.evaluate(episodes=30, seed=1, epsilon=1.0)
    assert learned.interval()[0] > 2 * random.mean


@pytest.mark.slow
@pytest.mark.parametrize("structured", [False, True])
def test_the_error_against_the_planned_q_falls(structured: bool) -> None:
    from svrl.training.q_star import QStarError

    config = AgentConfig.for_env(
        "control/inverted-pendulum", actions=100, structured=structured, steps=20_000, gamma=0.95, eval_every=0
    )
    training = Training("control/inverted-pendulum", config, seed=0)
    error = QStarError.of_learner(training)
    rows = [error.event_row(training)]
    rows += [error.event_row(training) for event in training.events() if isinstance(event, Learned)]
    assert np.mean([row["mean_error"] for row in rows[-3:]]) < 0.6 * rows[0]["mean_error"]
    assert np.mean([row["greedy_loss"] for row in rows[-3:]]) < rows[0]["greedy_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_every_atari_game_trains_and_is_evaluated(game: str) -> None:
    pytest.importorskip("ale_py")
    env = f"atari/{game}"
    config = AgentConfig.for_env(
        env, "smoke", structured=True, steps=96, learning_starts=64, log_every=40, eval_epsilon=1.0
    )
    events: list[object] = []
    found = train(env, config, watch=events.append)
    assert found.updates == 8
    assert any(isinstance(event, Learned) for event in events)
    assert [len(event.scores) for event in events if isinstance(event, Evaluated)] == [1]
