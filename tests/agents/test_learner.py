"""Bursts of updates against a reference that makes one update after another, entry by entry."""

from __future__ import annotations

import copy
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from svrl.agents.config import AgentConfig
from svrl.agents.learner import Learner, _eager
from svrl.agents.networks import build_network
from svrl.agents.replay import Batch
from svrl.agents.structured_targets import StructuredTargets
from svrl.agents.study import metrics
from svrl.envs.vector import EnvSpec

SPEC = EnvSpec(id="test", family="gymnasium", frame_shape=(5,), dtype="float32", n_actions=6)
B = 16
BASE = AgentConfig.of(
    "classic",
    learning_rate_left=1.0,
    batch_size=B,
    hidden=(12, 9),
    gamma=0.9,
    target_update_interval=100,
    learning_rate=1e-2,
    clip_rewards=True,
)
ARMS = [
    {"agent": agent, "structured": structured, "next_value_from": value}
    for agent in ("dqn", "double", "dueling")
    for structured, value in ((False, "completed"), (True, "completed"), (True, "network"))
]


def transitions(count: int, seed: int = 0) -> Batch:
    source = torch.Generator().manual_seed(seed)
    return Batch(
        windows=torch.randn(count, 2, 5, generator=source),
        actions=torch.randint(6, (count,), generator=source),
        rewards=3 * torch.randn(count, generator=source),
        discounts=0.9 * (torch.rand(count, generator=source) < 0.7),
    )


def part_of(batch: Batch, k: int) -> Batch:
    return batch.each(lambda part: part[k * B : (k + 1) * B])


def learner_of(config: AgentConfig, seed: int = 0) -> Learner:
    network = build_network(SPEC, config, torch.Generator().manual_seed(seed))
    learner = Learner(network, config, StructuredTargets.from_config(config))
    with torch.no_grad():  # a target network of its own
        for parameter in learner.target.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(9)))
    return learner


class Reference:
    """One update at a time, the rule of each agent written out, Adam by its formula."""

    def __init__(self, learner: Learner) -> None:
        self.online, self.target = copy.deepcopy(learner.online), copy.deepcopy(learner.target)
        self.config, self.structure = learner.config, learner.structure
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.online.parameters()]
        self.updates = 0

    def value(self, q_target: Tensor, q_online: Tensor, completed: Tensor | None, row: int) -> float:
        double = self.config.agent == "double"
        if completed is None:
            action = int((q_online if double else q_target)[row].argmax())
            return float(q_target[row, action])
        if self.config.next_value_from == "network":
            return float(q_target[row, int(completed[row].argmax())])
        action = int((q_online if double else completed)[row].argmax())
        return float(completed[row, action])

    def completed(self, q_target: Tensor, q_online: Tensor, mask: Tensor | None) -> Tensor | None:
        if self.structure is None:
            return None
        online = self.config.agent == "double" and self.config.next_value_from == "network"
        return self.structure.complete(q_online if online else q_target, mask).matrix

    def update(self, batch: Batch, mask: Tensor | None) -> float:
        config = self.config
        with torch.no_grad():
            q_target, q_online = self.target(batch.windows[:, 1]), self.online(batch.windows[:, 1])
            completed = self.completed(q_target, q_online, mask)
        q = self.online(batch.windows[:, 0])
        total = torch.zeros(())
        for row in range(B):
            target = float(batch.rewards[row])
            if float(batch.discounts[row]) > 0.0:
                target += float(batch.discounts[row]) * self.value(q_target, q_online, completed, row)
            error = q[row, int(batch.actions[row])] - target
            if config.loss == "squared" or abs(float(error.detach())) < 1:
                total = total + (error**2 if config.loss == "squared" else error**2 / 2)
            else:
                total = total + error.abs() - 0.5
        loss = total / B
        gradients = torch.autograd.grad(loss, list(self.online.parameters()))
        self.updates += 1
        with torch.no_grad():
            for parameter, gradient, (first, second) in zip(
                self.online.parameters(), gradients, self.moments, strict=True
            ):
                limit = config.gradient_clamp or math.inf
                clamped = gradient.clamp(-limit, limit)
                first.mul_(0.9).add_(0.1 * clamped)
                second.mul_(0.999).add_(0.001 * clamped**2)
                mean, square = first / (1 - 0.9**self.updates), second / (1 - 0.999**self.updates)
                parameter.sub_(config.learning_rate * mean / (square.sqrt() + config.optimiser_epsilon))
        return float(loss.detach())


def masks_of(learner: Learner, count: int, seed: int) -> list[Tensor | None]:
    """The masks that the learner will draw."""
    if learner.structure is None:
        return [None] * count
    source = torch.Generator().manual_seed(seed)
    return list(torch.rand(count, B, 6, generator=source) < learner.config.p)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: "-".join(map(str, arm.values())))
@pytest.mark.parametrize(
    "learning",
    [{}, {"loss": "squared", "gradient_clamp": 0.01}, {"clip_rewards": False, "life_loss_ends": False}],
    ids=["huber", "squared-clamped", "raw"],
)
def test_a_burst_makes_the_updates_of_the_reference(arm: dict, learning: dict) -> None:
    learner = learner_of(BASE.replace(**arm, **learning, p=0.7))
    reference, count = Reference(learner), 3
    batch = transitions(count * B)
    masks = masks_of(learner, count, seed=4)
    found = learner.burst(batch, count, torch.Generator().manual_seed(4))
    losses = [reference.update(part_of(batch, k), masks[k]) for k in range(count)]
    assert found.tolist() == pytest.approx(losses, rel=1e-4)
    for ours, theirs in zip(learner.online.parameters(), reference.online.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: "-".join(map(str, arm.values())))
def test_a_log_row_says_what_structure_does_to_targets(arm: dict) -> None:
    learner = learner_of(BASE.replace(**arm, p=0.7))
    reference, batch, count = Reference(learner), transitions(3 * B), 3
    told = metrics(learner, batch, count, torch.Generator().manual_seed(4))
    change = []
    for k, mask in enumerate(masks_of(learner, count, seed=4)):
        after = batch.windows[k * B : (k + 1) * B, 1]
        with torch.no_grad():
            q_target, q_online = reference.target(after), reference.online(after)
            completed = reference.completed(q_target, q_online, mask)
        for row in range(B):
            plain = reference.value(q_target, q_online, None, row)
            change.append(reference.value(q_target, q_online, completed, row) - plain)
    expected = {
        "target_bias": np.mean(change),
        "target_gap": np.mean(np.abs(change)),
        "targets_changed": np.mean(np.array(change) != 0),
        "q_mean": float(learner.online(batch.windows[:, 0]).mean()),
    }
    assert {name: told[name] for name in expected} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("agent", ["dqn", "double", "dueling"])
@pytest.mark.parametrize("value", ["completed", "network"])
def test_observing_everything_with_fill_is_the_plain_agent_bit_for_bit(agent: str, value: str) -> None:
    plain = learner_of(BASE.replace(agent=agent))
    full = learner_of(BASE.replace(agent=agent, structured=True, p=1.0, next_value_from=value))
    for seed in range(5):
        batch = transitions(2 * B, seed)
        for learner in (plain, full):
            learner.burst(batch, 2, torch.Generator().manual_seed(seed))
    for a, b in zip(plain.online.parameters(), full.online.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("agent", ["dqn", "double", "dueling"])
def test_one_burst_of_six_is_six_bursts_of_one(agent: str) -> None:
    whole, single = learner_of(BASE.replace(agent=agent)), learner_of(BASE.replace(agent=agent))
    batch = transitions(6 * B)
    whole.burst(batch, 6, torch.Generator())
    for k in range(6):
        single.burst(part_of(batch, k), 1, torch.Generator())
    for a, b in zip(whole.online.parameters(), single.online.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_the_target_network_is_copied_when_due_and_only_then() -> None:
    learner = learner_of(BASE.replace(target_update_interval=5))
    before = [p.clone() for p in learner.target.parameters()]
    learner.burst(transitions(4 * B), 4, torch.Generator())
    assert all(torch.equal(a, b) for a, b in zip(before, learner.target.parameters(), strict=True))
    assert learner.until_copy() == 1
    learner.burst(transitions(B), 1, torch.Generator())
    assert all(torch.equal(a, b) for a, b in zip(learner.online.parameters(), learner.target.parameters(), strict=True))


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
def test_captured_and_restored_it_goes_on_exactly(optimiser: str) -> None:
    config = BASE.replace(optimiser=optimiser, agent="dueling", structured=True)
    one, two = learner_of(config), learner_of(config, seed=7)
    one.burst(transitions(3 * B), 3, torch.Generator().manual_seed(1))
    two.restore(one.capture())
    for learner in (one, two):
        learner.burst(transitions(3 * B, seed=2), 3, torch.Generator().manual_seed(2))
    assert two.updates == 6
    for a, b in zip(one.online.parameters(), two.online.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_convolutional_learner_goes_on_exactly_too() -> None:
    spec = EnvSpec(id="p", family="minatar", frame_shape=(4, 10, 10), dtype="uint8", n_actions=6)
    config = AgentConfig.of("minatar", optimiser="adam", batch_size=B)
    source = torch.Generator().manual_seed(0)
    pictures = torch.randint(2, (2 * B, 2, 4, 10, 10), generator=source, dtype=torch.uint8)
    batch = transitions(2 * B)._replace(windows=pictures)
    learners = []
    for seed in (0, 7):
        network = build_network(spec, config, torch.Generator().manual_seed(seed))
        learners.append(Learner(network, config, None))
    learners[0].burst(batch, 2, source)
    learners[1].restore(learners[0].capture())
    for learner in learners:
        learner.burst(batch, 2, source)
    for a, b in zip(*(learner.online.parameters() for learner in learners), strict=True):
        assert torch.equal(a, b)


def test_what_is_captured_does_not_move_with_the_learner() -> None:
    learner = learner_of(BASE)
    state = learner.capture()
    kept = {name: value.copy() for name, value in state["online"].items()}
    learner.burst(transitions(B), 1, torch.Generator())
    assert all(np.array_equal(kept[name], state["online"][name]) for name in kept)


def test_rmsprop_is_centred_as_published_with_minatar() -> None:
    learner = learner_of(BASE.replace(optimiser="rmsprop", optimiser_epsilon=0.01, learning_rate=1e-3))
    network = copy.deepcopy(learner.online)
    batch = transitions(B)
    targets = learner.prepare(batch, 1, None).targets
    learner.burst(batch, 1, torch.Generator())
    q = network(batch.windows[:, 0]).gather(-1, batch.actions[:, None]).squeeze(-1)
    loss = nn.functional.smooth_l1_loss(q, targets[0])
    gradients = torch.autograd.grad(loss, list(network.parameters()))
    for before, gradient, after in zip(network.parameters(), gradients, learner.online.parameters(), strict=True):
        square, mean = 0.05 * gradient**2, 0.05 * gradient
        expected = before - 1e-3 * gradient / ((square - mean**2).sqrt() + 0.01)
        assert torch.allclose(after, expected, atol=1e-6)


def test_the_learning_rate_falls_linearly_to_what_is_left_of_it() -> None:
    config = BASE.replace(
        learning_rate=0.1, learning_rate_left=0.2, steps=1_100, learning_starts=100, updates_per_step=0.01
    )
    learner = learner_of(config)
    rates = []
    for _ in range(10):
        learner.burst(transitions(B), 1, torch.Generator())
        rates.append(learner.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx(np.linspace(0.1, 0.02, 11)[:10])
    assert BASE.learning_rate_at(7) == BASE.learning_rate


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.RMSprop])
def test_the_eager_optimiser_is_torchs(kind: type[torch.optim.Optimizer]) -> None:
    start = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    found = []
    for make in (kind, _eager(kind)):
        weights = nn.Parameter(start.clone())
        optimiser = make([weights], lr=0.1)
        for _ in range(5):
            optimiser.zero_grad()
            (weights**2).sin().sum().backward()
            optimiser.step()
        found.append((weights.detach(), optimiser.state_dict()["state"][0]))
    assert torch.equal(found[0][0], found[1][0])
    for name, value in found[0][1].items():
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(found[1][1][name])), name


def test_training_imports_no_compiler_and_no_computer_algebra() -> None:
    code = (
        "import sys, svrl\n"
        "config = svrl.AgentConfig.for_env('CartPole-v1', 'smoke', agent='dueling', steps=100, learning_starts=50)\n"
        "svrl.train('CartPole-v1', config)\n"
        "print([name for name in ('torch._dynamo', 'sympy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_soft_updates_move_the_target_network_by_a_share() -> None:
    learner = learner_of(BASE.replace(tau=0.25, target_update_interval=1))
    for k in range(3):
        before = [parameter.clone() for parameter in learner.target.parameters()]
        assert learner.until_copy() == 1
        learner.burst(transitions(B, k), 1, torch.Generator())
        for old, new, online in zip(before, learner.target.parameters(), learner.online.parameters(), strict=True):
            torch.testing.assert_close(new, 0.75 * old + 0.25 * online.detach())


def test_weights_scale_losses_by_the_largest_of_their_minibatch() -> None:
    batch, weights = transitions(B), torch.rand(B, generator=torch.Generator().manual_seed(1)) + 0.1
    weighted, plain = learner_of(BASE), learner_of(BASE)
    loss = weighted.burst(batch._replace(weights=weights), 1, torch.Generator())
    with torch.no_grad():
        values = plain.target(batch.windows[:, 1]).amax(-1)
        chosen = plain.online(batch.windows[:, 0]).gather(-1, batch.actions[:, None]).squeeze(-1)
        errors = chosen - (batch.rewards + batch.discounts * values)
        each = torch.where(errors.abs() < 1, errors**2 / 2, errors.abs() - 0.5)
    torch.testing.assert_close(loss[0], (weights / weights.max() * each).mean())
    torch.testing.assert_close(weighted.errors[0], errors.abs())


def test_the_exponent_of_the_weights_rises_to_1() -> None:
    learner = learner_of(BASE.replace(priority_alpha=0.6, priority_beta=0.4, steps=2_000, learning_starts=1_000))
    assert learner_of(BASE).beta is None
    seen = []
    for learner.updates in (0, 250, 500, 600):
        seen.append(learner.beta)
    assert seen == pytest.approx([0.4, 0.7, 1.0, 1.0])
