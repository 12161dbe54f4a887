"""Gymnasium: toy-text environments as models, control tasks as environments, and plans that act in both."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from svrl.envs.control import Features
from svrl.integrations.gymnasium import (
    IDS,
    ControlTaskEnv,
    PlannedAgent,
    agent_from_plan,
    mdp_from_env,
    start_probabilities,
    states_from_features,
)
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import toy_mdp
from svrl.mdp.tasks import TASKS, make_task
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.plan import plan
from svrl.planning.policy import GreedyPolicy
from svrl.planning.policy_iteration import ModifiedPolicyIteration, PolicyIteration
from svrl.planning.rollout import draw_starts, rollout
from svrl.planning.svp import StructuredValueIteration

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


def test_success_on_the_frozen_lake_is_what_the_chain_says() -> None:
    env, gamma = gymnasium.make("FrozenLake-v1"), 0.99
    model = mdp_from_env(env, gamma)
    found = plan(model, PolicyIteration())
    agent = agent_from_plan(found)
    first, info = VECTOR.reset(seed=0)
    assert agent.act(first, info).tolist() == [agent.act(int(one)) for one in first]
    # By the table itself: 100 steps of the policy's chain, as the environment is cut off there.
    success = discounted = 0.0
    place = start_probabilities(env)
    for t in range(100):
        following = np.zeros_like(place)
        for s in np.flatnonzero(place):
            for probability, to, reward, done in env.unwrapped.P[s][int(found.policy[s])]:
                success += place[s] * probability * reward
                discounted += gamma**t * place[s] * probability * reward
                following[to] += 0.0 if done else place[s] * probability
        place = following
    # What is left after 100 steps is worth at most its probability, discounted.
    assert discounted <= float(found.v[0]) <= discounted + gamma**100 * place.sum()
    returns, lengths = zip(
        *[played(env, agent, env.reset(seed=seed)[0], gamma) for seed in range(EPISODES)], strict=True
    )
    assert np.mean(np.array(returns) > 0) == pytest.approx(success, abs=4 * np.sqrt(success * (1 - success) / EPISODES))
    assert np.mean(returns) == pytest.approx(discounted, abs=4 * np.std(returns) / np.sqrt(EPISODES))
    assert max(lengths) <= 100


LAKE = mdp_from_env("FrozenLake-v1", 0.9)
PLANNED = plan(LAKE, PolicyIteration())
VECTOR: Any = gymnasium.make_vec("FrozenLake-v1", num_envs=3, vectorization_mode="sync")
NAMES: Any = gymnasium.make("FrozenLake-v1")
NAMES.unwrapped.observation_space = gymnasium.spaces.Discrete(16, start=1)
FICKLE: Any = gymnasium.make(newest("Taxi"))
FICKLE.unwrapped.fickle_passenger = True  # as its argument of that name does, since Gymnasium 1.2


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: mdp_from_env("CartPole-v1", 0.9), "CartPole-v1 carries no table P of its transitions"),
        (lambda: start_probabilities(gymnasium.make("Blackjack-v1")), "Blackjack-v1 carries no table P"),
        (lambda: mdp_from_env(VECTOR, 0.9), r"from one environment, got a SyncVectorEnv of 3\. Give one"),
        (lambda: mdp_from_env("FrozenLake-v1", 1.0), "discount between 0 and 1"),
        (lambda: mdp_from_env(FICKLE, 0.9), "a fickle passenger"),
        (lambda: mdp_from_env(NAMES, 0.9), "16 states and 4 actions, and observes"),
        (lambda: agent_from_plan(LAKE, PLANNED), "needs a Plan, got TabularMDP"),
        (lambda: agent_from_plan(PLANNED).act(16), "states 0 to 15, got 16"),
        (lambda: agent_from_plan(PLANNED).act(0.5), "observes their numbers"),
        (lambda: agent_from_plan(PLANNED, mdp_from_env(newest("CliffWalking"), 0.9)), "v.* with 48 and 4"),
        (
            lambda: agent_from_plan(PLANNED, toy_mdp(0, n_states=16, n_actions=3)),
            "16 states and 4 actions, .* 16 and 3",
        ),
    ],
)
def test_bad_input_is_one_sentence(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


def played(env: gymnasium.Env, agent: PlannedAgent, first: int, gamma: float) -> tuple[float, int]:
    """Discounted return and steps of one episode that has begun."""
    seen, total, t, over = first, 0.0, 0, False
    while not over:
        seen, reward, terminated, truncated, _ = env.step(agent.act(seen))
        total += gamma**t * float(reward)
        t += 1
        over = terminated or truncated
    return total, t


@pytest.mark.parametrize("given", IDS.values())
def test_the_checkers_have_nothing_to_say(given: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(given).unwrapped)
        checker = pytest.importorskip("stable_baselines3.common.env_checker")
        checker.check_env(gymnasium.make(given, actions=64))  # a square and a cube


def test_a_seed_repeats_an_episode_and_no_global_generator_is_drawn_from() -> None:
    env, before = ControlTaskEnv("inverted-pendulum", actions=3), torch.get_rng_state()
    one, other = ([env.reset(seed=seed)[0]] + [env.step(1)[0] for _ in range(5)] for seed in (5, 5))
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(env.reset()[0], one[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_actions_and_variants() -> None:
    assert gymnasium.make(IDS["cart-pole"]).action_space.n == 1000
    motors = gymnasium.make(IDS["three-motor-pendulum"], actions=27, variant="authors").unwrapped.task
    assert (motors.n_actions, motors.label["variant"]) == (27, "authors")
    assert gymnasium.make(IDS["two-input-cart-pole"], actions=25).action_space.n == 25


def begun(task: str | ControlTask = "double-integrator", **options: Any) -> ControlTaskEnv:
    env = ControlTaskEnv(task, **options)
    env.reset(seed=0)
    return env


BROKEN = dataclasses.replace(make_task("double-integrator"), reward=lambda at, inputs: at[..., 0] * math.nan)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: ControlTaskEnv("three-motor-pendulum", actions=30), "Near it are 27"),
        (lambda: ControlTaskEnv("cart-pole", variant="paperr"), "Did you mean paper"),
        (lambda: ControlTaskEnv("cart-pole", render_mode="human"), "rgb_array"),
        (lambda: ControlTaskEnv(make_task("cart-pole"), actions=5), "was given whole"),
        (lambda: ControlTaskEnv("cart-pol"), "Did you mean cart-pole"),
        (lambda: begun(actions=5).step(5), "actions 0 to 4, got 5"),
        (lambda: begun().reset(options={"state": [0.0]}), r"position \(m\) in \[-3, 3\]"),
        (lambda: begun().reset(options={"state": [math.nan, 0.0]}), r"position \(m\) in \[-3, 3\]"),
        (lambda: begun().reset(options={"stat": [0.0, 0.0]}), "the option 'state' and no other, got 'stat'"),
        (lambda: begun(BROKEN).step(0), "returned a reward that is not finite"),
    ],
)
def test_wrong_tasks_and_steps_are_one_sentence(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


def test_pictures_show_the_state() -> None:
    env = gymnasium.make(IDS["double-integrator"], render_mode="rgb_array")
    env.reset(seed=0, options={"state": [3.0, 3.0]})
    picture = env.render()
    assert picture.shape == (200, 200, 3)
    assert picture.dtype == np.uint8
    bright = np.argwhere(picture[..., 0] == 255)
    assert bright.min(axis=0).tolist() == [0, 194]  # top right
    assert ControlTaskEnv("double-integrator").render() is None


def test_one_line_makes_one_without_an_import() -> None:
    code = """
import gymnasium
env = gymnasium.make("svrl.integrations.gymnasium:svrl/InvertedPendulum-v0", actions=7)
print(env.spec.id, env.action_space)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["svrl/InvertedPendulum-v0", "Discrete(7)"]
    with pytest.raises(gymnasium.error.ResetNeeded, match="Call reset"):
        ControlTaskEnv("double-integrator").step(0)


@pytest.mark.parametrize("name", TASKS)
def test_features_are_turned_back(name: str) -> None:
    task = make_task(name)
    drawn = draw_starts(task, 500, torch.Generator().manual_seed(0))
    states = drawn.numpy()
    spans = np.array([axis.high - axis.low for axis in task.axes])
    back = states_from_features(task, Features(task)(states))
    assert back.dtype == np.float64
    assert np.abs((back - states) / spans).max() < 1e-6
    with pytest.raises(ValueError, match="is observed by"):
        states_from_features(task, states[:, :1])


@pytest.fixture(scope="module")
def pendulum() -> GridMDP:
    return GridMDP(make_task("inverted-pendulum", states=(31, 31), actions=15))


METHODS = {
    "values": ModifiedPolicyIteration(),
    "dense Q": StructuredValueIteration(p=0.6, max_iterations=10),
    "factors": CrossValueIteration(rank=6, max_iterations=10),
}


def test_without_noise_an_episode_is_the_rollout(pendulum: GridMDP) -> None:
    agent = agent_from_plan(plan(pendulum, METHODS["values"]), pendulum)
    still = dataclasses.replace(pendulum.task, noise=(0.0, 0.0))
    starts = draw_starts(still, 2, torch.Generator().manual_seed(1))
    followed = rollout(still, agent.policy, starts=starts, generator=torch.Generator().manual_seed(2))
    env = ControlTaskEnv(still)
    for k, start in enumerate(starts.numpy()):
        seen, info = env.reset(options={"state": start})
        for t in range(100):
            action = agent.act(seen, info)
            assert action == int(followed.actions[t, k])
            seen, reward, _, _, info = env.step(action)
            assert reward == pytest.approx(float(followed.rewards[t, k]), abs=1e-12)
            np.testing.assert_allclose(info["state"], followed.states[t + 1, k], atol=1e-12)


@pytest.mark.parametrize("kept", METHODS)
def test_the_agent_is_greedy_for_the_q_of_the_plan(pendulum: GridMDP, kept: str) -> None:
    found = plan(pendulum, METHODS[kept], seed=0)
    assert (found.q is not None, found.factors is not None) == (kept == "dense Q", kept == "factors")
    q = pendulum.backup(found.v) if kept == "values" else found.q
    if found.factors is not None:
        q = found.factors[0] @ found.factors[1].mT
    states = draw_starts(pendulum.task, 1000, torch.Generator().manual_seed(4))
    expected = GreedyPolicy(task=pendulum.task, q=q).actions(states).numpy()
    chosen = agent_from_plan(found, pendulum).act(Features(pendulum.task)(states.numpy()), {"state": states.numpy()})
    assert np.mean(chosen == expected) > 0.99  # where two are equal up to rounding, either may be chosen


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, r"over a grid of 31x31 states of inverted-pendulum.*agent_from_plan\(found, gr"),
        (("inverted-pendulum", (31, 31), 14), "31x31 states and 15 actions, .* 31x31 and 14"),
        (("inverted-pendulum", (30, 31), 15), "and the model inverted-pendulum with 30x31"),
        (("double-integrator", (31, 31), 15), "and the model double-integrator with 31x31"),
    ],
)
def test_a_plan_of_another_grid_is_refused(pendulum: GridMDP, given: Any, sentence: str) -> None:
    other = None if given is None else GridMDP(make_task(given[0], states=given[1], actions=given[2]))
    with pytest.raises(ValueError, match=sentence):
        agent_from_plan(plan(pendulum, METHODS["values"]), other)


UPRIGHT = np.array([0.0, 1.0, 0.0])  # the features of the state (0, 0)


def test_observations_and_states_of_a_wrong_size_are_refused(pendulum: GridMDP) -> None:
    agent = agent_from_plan(plan(pendulum, METHODS["values"]), pendulum)
    assert agent.act(UPRIGHT, {"state": [0, 0]}) == agent.act(UPRIGHT)
    with pytest.raises(ValueError, match=r"states of shape \(5, 2\) for this observation, got info\['state'\]"):
        agent.act(np.tile(UPRIGHT, (5, 1)), {"state": np.zeros((4, 2))})


def test_stable_baselines_evaluates_a_plan(pendulum: GridMDP) -> None:
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    from stable_baselines3.common.env_util import make_vec_env

    agent = agent_from_plan(plan(pendulum, METHODS["values"]), pendulum)
    envs = make_vec_env(IDS["inverted-pendulum"], n_envs=10, seed=0, env_kwargs={"actions": 15})
    returns, lengths = evaluation.evaluate_policy(agent, envs, n_eval_episodes=10, return_episode_rewards=True)
    assert lengths == [200] * 10
    source = torch.Generator().manual_seed(0)
    followed = rollout(pendulum.task, agent.policy, starts=400, generator=source).rewards.sum(0)
    spread = float(followed.std()) * math.sqrt(1 / 10 + 1 / 400)
    assert np.mean(returns) == pytest.approx(float(followed.mean()), abs=4 * spread)
