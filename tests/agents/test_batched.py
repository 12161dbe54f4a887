"""Many seeds at once: the same algorithm as one at a time, and the same agent in any company."""

from __future__ import annotations

import pytest
import torch

from svrl.agents.batched import (
    ACTIONS,
    GAMES,
    NOISE,
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


def rolled(steps: int, **changes: object) -> BatchedTraining:
    """Two seeds on a task without noise that take steps and learn nothing."""
    task = make_task("three-motor-pendulum", actions=27, noise=0.0)
    config = SMALL.replace(**{"learning_starts": 10_000, "steps": steps, **changes})
    training = BatchedTraining(BatchedTask(task, [4, 7], CPU), BatchedLearner(networks_of(config, range(2)), config))
    list(training.run())
    return training


def by_round(training: BatchedTraining, name: str) -> torch.Tensor:
    """What a buffer holds, (seeds, rounds, environments, ...)."""
    kept = getattr(training._buffer, name)
    return kept.view(2, -1, 4, *kept.shape[2:])


def test_buffers_hold_each_seed_s_own_transitions():
    training = rolled(260 * 4, buffer_size=2000)
    seen, after = by_round(training, "observations"), by_round(training, "next_observations")
    assert seen.shape[:3] == (2, 260, 4)  # no more than the steps need
    same = (seen[:, 1:] == after[:, :-1]).all(-1).all(-1).all(0)
    assert torch.equal(same, torch.arange(259) != 199)  # an episode ends after 200 steps
    sine, cosine, speed = seen.double().unbind(-1)
    states, task = torch.stack([torch.atan2(sine, cosine), 10.0 * speed], -1), training.env.task
    actions = by_round(training, "actions")
    moved = task.move(states, task.actions[actions], torch.zeros(2, dtype=torch.float64))
    torch.testing.assert_close(Features(task, "cpu")(moved), after, rtol=0, atol=2e-5)
    paid = task.reward(states, task.actions[actions]).float()
    torch.testing.assert_close(by_round(training, "rewards"), paid, rtol=0, atol=2e-5)
    assert torch.equal(by_round(rolled(80, clip_rewards=True), "rewards"), paid[:, :20].sign())
    assert not torch.equal(actions[0], actions[1])


def test_a_full_buffer_holds_the_newest_transitions():
    whole, small = rolled(260 * 4, buffer_size=2000), rolled(260 * 4, buffer_size=400)
    for name in Transitions._fields:
        newest = by_round(whole, name)[:, 160:]
        assert torch.equal(by_round(small, name), newest.roll(60, 1))


def test_epsilon_falls_as_in_training():
    training = rolled(80, epsilon_start=1.0, epsilon_steps=4, epsilon_final=0.0)
    greedy = training.learner.values(training.learner.online, training._buffer.observations).argmax(-1)
    same = (training._buffer.actions == greedy).view(2, -1, 4)
    assert bool(same[:, 1:].all())
    assert not bool(same[:, 0].all())


def test_returns_are_discounted_as_agents_learn_and_rewards_without_noise():
    config = SMALL.replace(gamma=0.7, eval_epsilon=0.0)
    task = make_task("three-motor-pendulum", actions=27, noise=0.0)
    learner, env = BatchedLearner(networks_of(config, range(2)), config), BatchedTask(task, [4, 7], CPU)
    found = BatchedTraining(env, learner, reward_noise=5.0).evaluate(3)
    states = env.starts(GAMES, torch.tensor([0]), 3)[1]
    network, rewards = learner.networks()[1], []
    torch.testing.assert_close(found.promised[1], network(Features(task, "cpu")(states)).amax(-1).detach())
    for _ in range(200):
        inputs = task.actions[network(Features(task, "cpu")(states)).argmax(-1)]
        rewards.append(task.reward(states, inputs))
        states = task.move(states, inputs, torch.zeros(2, dtype=torch.float64))
    weights = 0.7 ** torch.arange(200, dtype=torch.float64)
    torch.testing.assert_close(found.returns[1], (weights[:, None] * torch.stack(rewards)).sum(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.scores[1], torch.stack(rewards).sum(0), rtol=1e-3, atol=1e-2)


def test_rewards_in_training_and_moves_have_their_noise():
    (plain,), _ = trained([1])
    (noisy,), _ = trained([1], reward_noise=5.0)
    assert not torch.allclose(plain.q(torch.zeros(3).numpy()), noisy.q(torch.zeros(3).numpy()))
    task = make_task("three-motor-pendulum", actions=27)
    env = BatchedTask(task, range(300), CPU)
    states = torch.zeros(300, 20, 2, dtype=torch.float64)
    _, moved = env.step(states, torch.zeros(300, 20, dtype=torch.int64), NOISE, torch.tensor([3]))
    still = task.move(states[:1, :1], task.actions[:1], torch.zeros(2, dtype=torch.float64))
    assert float((moved - still)[..., 1].std()) == pytest.approx(task.noise[1], rel=0.03)
    assert float((moved - still)[..., 0].abs().max()) < 1e-12


def test_p_rises_with_the_updates():
    training = rolled(4, agent="sv-dqn", p=0.5, p_rise=10)
    training._drawn += 4
    assert float(training._p(training.learner.structure)) == pytest.approx(0.7)
    training._drawn += 40
    assert float(training._p(training.learner.structure)) == 1.0


@pytest.mark.parametrize("evaluated", [None, print])
def test_divergence_is_an_error(evaluated):
    config = SMALL.replace(learning_rate=1e30, optimiser="rmsprop")
    with pytest.raises(ValueError, match="seed 3: the weights are not finite after 600 steps, so training has diverg"):
        train_seeds(ENV, config, seeds=[3, 4], device="cpu", evaluated=evaluated)


def test_warnings_are_said():
    said: list[str] = []
    train_seeds(ENV, SMALL.replace(learning_starts=600), seeds=[0], device="cpu", say=said.append)
    assert "no update is due within 600 steps" in said[0]


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
        (ENV, {"seeds": []}, r"one or more different seeds from 0 to 2\^63 - 1, got \[\]"),
        (ENV, {"seeds": [1, 1]}, r"one or more different seeds from 0 to 2\^63 - 1, got \[1, 1\]"),
        (
            "CartPole-v1",
            {"seeds": [1], "config": SMALL.replace(n_steps=1, actions=0)},
            "train on control tasks, such as control/cart-pole; got CartPole",
        ),
        (
            ENV,
            {"seeds": [1], "config": SMALL.replace(n_steps=3)},
            "n_steps must be 1 where many seeds",
        ),
        (ENV, {"seeds": [1], "config": SMALL.replace(act_lag=1)}, "act_lag must be 0 where many seeds"),
        (ENV, {"seeds": [-1]}, "seeds from 0 to 2"),
        (ENV, {"seeds": [2**63]}, "seeds from 0 to 2"),
        (ENV, {"seeds": [1], "games": 0}, "An evaluation needs at least 1 game, got 0"),
        (ENV, {"seeds": [1], "precision": "bf16"}, "precision"),
        (ENV, {"seeds": [1], "config": "smoke"}, "train_seeds takes an AgentConfig"),
        (ENV, {"seeds": [1], "config": SMALL.replace(n_envs=64, buffer_size=32)}, "must hold at least 64 transitions"),
        (dict, {"seeds": [1]}, "train on control tasks"),
    ],
)
def test_bad_input_is_answered(env, options, words):
    with pytest.raises(ValueError, match=words):
        train_seeds(env, device="cpu", **{"config": SMALL, **options})
