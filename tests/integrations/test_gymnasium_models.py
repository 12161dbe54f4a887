"""Toy-text environments as models, and plans that act in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from svrl.integrations.gymnasium_models import mdp_from_env, start_probabilities
from svrl.integrations.planned_agent import PlannedAgent, agent_from_plan
from svrl.mdp.toy import toy_mdp
from svrl.planning.plan import plan
from svrl.planning.policy_iteration import PolicyIteration
from svrl.planning.structured import StructuredValueIteration

EPISODES = 600


def newest(name: str) -> str:
    """The id of the last version that this Gymnasium has."""
    return max(
        (given for given in gymnasium.registry if given.startswith(f"{name}-v")), key=lambda given: int(given[-1])
    )


def test_a_cliff_is_walked_along_in_13_steps() -> None:
    name = newest("CliffWalking")
    model = mdp_from_env(name, 0.99)
    assert (model.n_states, model.n_actions, model.name) == (48, 4, name)
    start = start_probabilities(name)
    assert start[36] == start.sum() == 1.0
    value = start @ plan(model, PolicyIteration()).v.numpy()
    assert value == pytest.approx(-(1 - 0.99**13) / (1 - 0.99), abs=1e-9)


def test_taxis_start_anywhere_and_their_plans_deliver() -> None:
    env = gymnasium.make(newest("Taxi"))
    model = mdp_from_env(env, 0.95)
    start = start_probabilities(env)
    assert (model.n_states, model.n_actions) == (500, 6)
    assert np.count_nonzero(start) == 300
    found = plan(model, PolicyIteration())
    agent = agent_from_plan(found, model)
    for seed in range(20):
        first, _ = env.reset(seed=seed)
        assert played(env, agent, first, 0.95)[0] == pytest.approx(float(found.v[first]), abs=1e-9)


def test_success_on_the_frozen_lake_is_what_the_chain_says() -> None:
    env, discount = gymnasium.make("FrozenLake-v1"), 0.99
    model = mdp_from_env(env, discount)
    found = plan(model, PolicyIteration())
    agent = agent_from_plan(found)
    # By the table itself: 100 steps of the policy's chain, as the environment is cut off there.
    success = discounted = 0.0
    place = start_probabilities(env)
    for t in range(100):
        following = np.zeros_like(place)
        for s in np.flatnonzero(place):
            for probability, to, reward, done in env.unwrapped.P[s][int(found.policy[s])]:
                success += place[s] * probability * reward
                discounted += discount**t * place[s] * probability * reward
                following[to] += 0.0 if done else place[s] * probability
        place = following
    # What is left after 100 steps is worth at most its probability, discounted.
    assert discounted <= float(found.v[0]) <= discounted + discount**100 * place.sum()
    returns, lengths = zip(
        *[played(env, agent, env.reset(seed=seed)[0], discount) for seed in range(EPISODES)], strict=True
    )
    assert np.mean(np.array(returns) > 0) == pytest.approx(success, abs=4 * np.sqrt(success * (1 - success) / EPISODES))
    assert np.mean(returns) == pytest.approx(discounted, abs=4 * np.std(returns) / np.sqrt(EPISODES))
    assert max(lengths) <= 100


def test_what_the_table_does_not_say_is_refused() -> None:
    taxi = gymnasium.make(newest("Taxi"))
    taxi.unwrapped.fickle_passenger = True  # as its argument of that name does, since Gymnasium 1.2
    with pytest.raises(ValueError, match="a fickle passenger"):
        mdp_from_env(taxi, 0.9)
    env = gymnasium.make("FrozenLake-v1")
    env.unwrapped.observation_space = gymnasium.spaces.Discrete(16, start=1)
    with pytest.raises(ValueError, match="16 states and 4 actions, and observes"):
        mdp_from_env(env, 0.9)


LAKE = mdp_from_env("FrozenLake-v1", 0.9)
PLANNED = plan(LAKE, PolicyIteration())
VECTOR: Any = gymnasium.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: mdp_from_env("CartPole-v1", 0.9), "CartPole-v1 carries no table P of its transitions"),
        (lambda: start_probabilities(gymnasium.make("Blackjack-v1")), "Blackjack-v1 carries no table P"),
        (lambda: mdp_from_env(VECTOR, 0.9), r"from one environment, got a SyncVectorEnv of 3\. Give one"),
        (lambda: mdp_from_env("FrozenLake-v1", 1.0), "discount between 0 and 1"),
        (lambda: agent_from_plan(LAKE, PLANNED), "the plan first and then the model"),
        (lambda: agent_from_plan(PLANNED.policy, LAKE), "needs a Plan, got Tensor"),
        (lambda: agent_from_plan(PLANNED, VECTOR), "needs a model, got"),
        (lambda: agent_from_plan(PLANNED).act(16), "states 0 to 15, got 16"),
        (lambda: agent_from_plan(PLANNED).act(0.5), "observes their numbers"),
    ],
)
def test_bad_input_is_one_sentence(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


def test_many_observations_at_once() -> None:
    agent = agent_from_plan(PLANNED)
    seen, info = VECTOR.reset(seed=0)
    assert agent.act(seen, info).tolist() == [agent.act(int(one)) for one in seen]


def test_a_plan_of_another_model_is_refused() -> None:
    lake = mdp_from_env("FrozenLake-v1", 0.9)
    found = plan(lake, PolicyIteration())
    assert torch.equal(torch.from_numpy(np.asarray(agent_from_plan(found, lake).policy)), found.policy)
    with pytest.raises(ValueError, match="16 states and 4 actions, and the model 48 and 4"):
        agent_from_plan(found, mdp_from_env(newest("CliffWalking"), 0.9))
    with pytest.raises(ValueError, match="16 states and 4 actions, and the model 16 and 3"):
        agent_from_plan(found, toy_mdp(0, n_states=16, n_actions=3))
    kept = plan(lake, StructuredValueIteration(observe=0.6, max_iterations=2))
    assert kept.q is not None
    with pytest.raises(ValueError, match="16 states and 4 actions, and the model 16 and 5"):
        agent_from_plan(kept, toy_mdp(0, n_states=16, n_actions=5))


def played(env: gymnasium.Env, agent: PlannedAgent, first: int, discount: float) -> tuple[float, int]:
    """Discounted return and steps of one episode that has begun."""
    seen, total, t, over = first, 0.0, 0, False
    while not over:
        seen, reward, terminated, truncated, _ = env.step(agent.act(seen))
        total += discount**t * float(reward)
        t += 1
        over = terminated or truncated
    return total, t
