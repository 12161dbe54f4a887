"""Many seeds at once: the same algorithm as one at a time, and the same agent in any company."""

from __future__ import annotations

import pytest
import torch

from svrl.agents.batched import (
    ACTIONS,
    BatchedLearner,
    BatchedTask,
    BatchedTraining,
    SeedsEvaluated,
    Transitions,
    explored,
    normal,
    train_seeds,
    uniform,
)
from svrl.agents.config import AgentConfig
from svrl.agents.evaluation import generator_for
from svrl.agents.learner import Learner
from svrl.agents.networks import build_network
from svrl.agents.replay import Batch
from svrl.agents.structured_targets import StructuredTargets
from svrl.envs.control import Features
from svrl.envs.make import describe_env
from svrl.mdp import make_task

ENV = "control/three-motor-pendulum"
SMALL = AgentConfig.for_env(
    ENV,
    "smoke",
    actions=27,
    hidden=(16, 16),
    batch_size=8,
    learning_starts=32,
    buffer_size=400,
    n_envs=4,
    steps=600,
    updates_per_step=0.5,
    learning_rate=1e-3,
)
CPU = torch.device("cpu")


def networks_of(config: AgentConfig, seeds: range) -> list:
    return [build_network(describe_env(ENV, 27), config, generator_for(seed, "network")) for seed in seeds]


@pytest.mark.parametrize(
    "changes",
    [
        {"agent": "dqn"},
        {"agent": "double", "loss": "squared", "gradient_clamp": 0.0},
        {"agent": "dueling", "optimiser": "rmsprop", "tau": 0.3},
        {"agent": "lowrank", "head_rank": 5, "head_ridge": 0.01, "layer_norm": True},
        {"agent": "sv-dqn", "learning_rate_left": 0.1},
        {"agent": "sv-double-network", "p": 0.6},
    ],
    ids=lambda changes: changes["agent"],
)
def test_with_the_same_minibatches_the_weights_are_those_of_the_learner(changes):
    config = SMALL.replace(**changes, target_update_interval=7)
    singles = [
        Learner(network, config, StructuredTargets.from_config(config)) for network in networks_of(config, range(3))
    ]
    batched = BatchedLearner(networks_of(config, range(3)), config)
    source = torch.Generator().manual_seed(0)
    for _ in range(40):
        seen, after = torch.randn(2, 3, 8, 3, generator=source)
        rewards = torch.randn(3, 8, generator=source)
        actions = torch.randint(27, (3, 8), generator=source)
        mask = torch.rand(3, 8, 27, generator=source) < config.p if config.structured else None
        batched.update(Transitions(seen, actions, rewards, after), mask)
        batched.advance()
        for k, learner in enumerate(singles):
            batch = Batch(
                windows=torch.stack([seen[k], after[k]], 1),
                actions=actions[k],
                rewards=rewards[k],
                discounts=torch.full((8,), config.gamma),
            )
            ready = learner.prepare(batch, 1, None if mask is None else mask[k][None])
            learner.update(ready, 0, config.learning_rate_at(learner.updates))
            learner.updates += 1
            learner.copy_if_due()
    for k, network in enumerate(batched.networks()):
        for (name, ours), theirs in zip(network.named_parameters(), singles[k].online.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=2e-3, atol=2e-5, msg=name)


def trained(seeds, config: AgentConfig = SMALL, **options) -> tuple[list, list[SeedsEvaluated]]:
    found: list[SeedsEvaluated] = []
    return train_seeds(ENV, config, seeds=seeds, device="cpu", evaluated=found.append, **options), found


@pytest.mark.parametrize("agent", ["dqn", "sv-double"])
def test_a_seed_leads_to_the_same_agent_in_any_company(agent):
    config = SMALL.replace(agent=agent, eval_every=200, eval_episodes=3)
    (alone,), (first, *_, last) = trained([5], config)
    among, (*_, of_all) = trained([2, 5, 9], config)
    assert (alone.steps, alone.updates, alone.seed, first.steps) == (600, 284, 5, 200)
    look = torch.randn(4, 3).numpy()
    torch.testing.assert_close(alone.q(look), among[1].q(look), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(among[0].q(look), among[1].q(look), atol=1e-2)
    torch.testing.assert_close(last.promised[0], of_all.promised[1], rtol=1e-3, atol=1e-4)
    again, _ = trained([5], config)
    assert torch.equal(alone.q(look), again[0].q(look))


def test_agents_learn_and_are_agents():
    config = AgentConfig.for_env(
        "control/inverted-pendulum",
        "control",
        actions=5,
        hidden=(32, 32),
        gamma=0.95,
        batch_size=32,
        learning_rate=3e-3,
        target_update_interval=25,
        updates_per_step=1.0,
        learning_starts=256,
        steps=4_000,
        epsilon_steps=2_000,
        eval_every=500,
        eval_episodes=20,
    )
    found: list[SeedsEvaluated] = []
    agents = train_seeds("control/inverted-pendulum", config, seeds=range(4), device="cpu", evaluated=found.append)
    assert [each.steps for each in found] == [504, 1000, 1504, 2000, 2504, 3000, 3504, 4000]
    assert float(found[-1].scores.mean()) > float(found[0].scores.mean()) + 25
    assert agents[3].evaluate(episodes=10, seed=1).mean > 100
    assert (found[-1].scores.shape, found[-1].returns.shape, found[-1].promised.shape) == ((4, 20),) * 3


def test_buffers_hold_each_seed_s_own_transitions():
    task = make_task("three-motor-pendulum", actions=27, noise=0.0)
    env = BatchedTask(task, [4, 7], CPU)
    training = BatchedTraining(env, BatchedLearner(networks_of(SMALL, range(2)), SMALL.replace(steps=160)))
    list(training.run())
    kept = training._buffer
    assert bool((kept.observations[:, :160].abs().sum(-1) > 0).all())
    assert bool((kept.observations[:, 160:] == 0).all())
    assert not torch.equal(kept.actions[0], kept.actions[1])
    sine, cosine, speed = kept.observations[:, :160].double().unbind(-1)
    states = torch.stack([torch.atan2(sine, cosine), 10.0 * speed], -1)
    inputs = task.actions[kept.actions[:, :160]]
    after = Features(task)(task.move(states, inputs, torch.zeros(2, dtype=torch.float64)))
    torch.testing.assert_close(kept.next_observations[:, :160], after, rtol=0, atol=2e-5)
    torch.testing.assert_close(kept.rewards[:, :160], task.reward(states, inputs).float(), rtol=0, atol=2e-5)


def test_the_buffer_forgets_the_oldest_and_noise_stays_out_of_evaluations():
    config = SMALL.replace(buffer_size=80, eval_episodes=4)
    (plain,), (*_, clean) = trained([1], config)
    (noisy,), (*_, other) = trained([1], config, reward_noise=5.0)
    assert not torch.allclose(plain.q(torch.zeros(3).numpy()), noisy.q(torch.zeros(3).numpy()))
    assert float((clean.scores - other.scores).abs().max()) < 150


def splitmix(state: int, number: int) -> int:
    """The number-th output of SplitMix64 from a state."""
    mixed = (state + number * 0x9E3779B97F4A7C15) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    return mixed ^ mixed >> 31


def test_random_numbers_are_splitmix64():
    seeds, position = torch.tensor([0, 3, -8]), torch.tensor([2])
    drawn = uniform(seeds, 5, position, 4)
    for row, seed in zip(drawn.tolist(), seeds.tolist(), strict=True):
        state = splitmix((splitmix(seed % 2**64, 0) + 5) % 2**64, 0)
        assert row == [(splitmix(state, (2 << 32) + k) >> 11) / 2**53 for k in range(1, 5)]


def test_random_numbers_are_uniform_normal_and_independent():
    seeds, many = torch.arange(50), torch.tensor([0])
    flat = uniform(seeds, 1, many, 4000)
    assert torch.allclose(torch.histc(flat, 10, 0, 1) / flat.numel(), torch.tensor(0.1).double(), atol=0.003)
    correlation = torch.corrcoef(torch.cat([flat, uniform(seeds, 2, many, 4000), uniform(seeds, 1, many + 1, 4000)]))
    assert float((correlation - torch.eye(150)).abs().max()) < 0.09
    drawn = normal(seeds, 1, many, 4000)
    assert float(drawn.mean()) == pytest.approx(0, abs=0.01)
    assert float(drawn.std()) == pytest.approx(1, abs=0.01)
    assert float((drawn**4).mean()) == pytest.approx(3, abs=0.1)


def test_exploration_is_random_with_probability_epsilon():
    q = torch.zeros(40, 1000, 5)
    q[..., 3] = 1.0
    actions = explored(q, torch.tensor([0.3]), torch.arange(40), ACTIONS, torch.tensor([0]))
    shares = torch.bincount(actions.flatten(), minlength=5) / actions.numel()
    assert torch.allclose(shares, torch.tensor([0.06, 0.06, 0.06, 0.76, 0.06]), atol=0.005)


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        (ENV, {"seeds": []}, r"needs one or more different seeds, got \[\]"),
        (ENV, {"seeds": [1, 1]}, r"needs one or more different seeds, got \[1, 1\]"),
        (
            "CartPole-v1",
            {"seeds": [1], "config": SMALL.replace(n_steps=1, actions=0)},
            "train on control tasks, such as control/cart-pole; CartPole",
        ),
        (
            ENV,
            {"seeds": [1], "config": SMALL.replace(n_steps=3)},
            "n_steps must be 1 where many seeds",
        ),
        (ENV, {"seeds": [1], "config": SMALL.replace(act_lag=1)}, "act_lag must be 0 where many seeds"),
    ],
)
def test_bad_input_is_answered(env, options, words):
    with pytest.raises(ValueError, match=words):
        train_seeds(env, device="cpu", **{"config": SMALL, **options})
