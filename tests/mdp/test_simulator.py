"""Samplers: unbiased, counted and reproducible."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from svrl.mdp import simulator
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.model import Model, Sampler
from svrl.mdp.simulator import NoisyBackups, Simulator
from svrl.mdp.tasks import inverted_pendulum

MANY = 400
TASK = dataclasses.replace(inverted_pendulum(states=(7, 6), actions=5), noise=(0.0, 0.3))
S, A = TASK.n_states, TASK.n_actions


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def values(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(S, generator=seeded(5), dtype=torch.float64).to(dtype)


def dynamics(task: ControlTask = TASK, reward_noise: float = 0.0) -> simulator.Sample:
    """The task's own step with drawn noise, and a noisy reward."""

    def sample(states: Tensor, actions: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        noise = torch.randn(states.shape, generator=generator, dtype=torch.float64) * torch.tensor(task.noise)
        jitter = torch.randn(len(states), generator=generator, dtype=torch.float64)
        return task.step(states, actions, noise), task.reward(states, actions) + reward_noise * jitter

    return sample


def simulated(sample: simulator.Sample | None = None, **options: object) -> Simulator:
    sample = dynamics(reward_noise=0.2) if sample is None else sample
    return Simulator(sample, axes=TASK.axes, actions=TASK.actions, gamma=TASK.gamma, **options)


def samplers() -> list[Simulator | NoisyBackups]:
    return [simulated(), NoisyBackups(GridMDP(TASK, dtype=torch.float64), 0.7)]


def mean_backup(v: Tensor) -> Tensor:
    """Backups (S, A) under the noise of the speed, by a Gauss-Hermite rule with ten nodes."""
    total = torch.zeros(TASK.n_states, TASK.n_actions, dtype=torch.float64)
    places, weights = np.polynomial.hermite_e.hermegauss(10)
    for place, weight in zip(TASK.noise[1] * places, weights / weights.sum(), strict=True):
        shift = torch.tensor([0.0, place], dtype=torch.float64)
        shifted = dataclasses.replace(TASK, step=lambda s, a, n, shift=shift: TASK.step(s, a, n + shift))
        total += weight * GridMDP(shifted).backup(v)
    return total


@pytest.mark.parametrize("k", [0, 1], ids=["simulator", "noisy backups"])
def test_means_are_the_exact_backups(k: int):
    # v is linear, so ten nodes have no error except where the speed stops at its edge, and little there.
    sampler = samplers()[k]
    v = TASK.states() @ torch.tensor([0.2, 0.1], dtype=torch.float64)
    exact = mean_backup(v) if k == 0 else GridMDP(TASK).backup(v)
    generator = seeded(1)
    draws = torch.stack([sampler.sample(v, generator) for _ in range(MANY)])
    error = draws.std(0) / math.sqrt(MANY)
    z = (draws.mean(0) - exact) / error
    assert float(z.abs().max()) < 4.5  # of 210 pairs; 4.5 standard errors are passed once in 700 seeds
    assert abs(float(z.mean())) < 4.0 / math.sqrt(z.numel())
    assert 0.8 < float(z.std()) < 1.2


@pytest.mark.parametrize("k", [0, 1], ids=["simulator", "noisy backups"])
def test_more_samples_are_averaged(k: int):
    sampler = samplers()[k]
    v = values()
    one = torch.stack([sampler.sample(v, seeded(seed)) for seed in range(60)]).var(0).mean()
    nine = torch.stack([sampler.sample(v, seeded(seed), 9) for seed in range(60)]).var(0).mean()
    assert float(one / nine) == pytest.approx(9.0, rel=0.15)


@pytest.mark.parametrize("k", [0, 1], ids=["simulator", "noisy backups"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_generator_decides_everything_and_every_sample_counts(k: int, dtype: torch.dtype):
    sampler = samplers()[k]
    v, pairs = values(dtype), (torch.tensor([3, 3, 1]), torch.tensor([0, 0, 4]))
    first, again, other = (sampler.sample(v, seeded(seed)) for seed in (2, 2, 3))
    assert sampler.calls == 3 * S * A
    assert first.shape == (S, A)
    assert first.dtype == dtype
    assert torch.equal(first, again)
    assert not bool((first == other).any())
    listed = sampler.sample_at(v, *pairs, seeded(4))
    assert sampler.calls == 3 * S * A + 3
    assert listed.shape == (3,)
    assert torch.equal(listed, sampler.sample_at(v, *pairs, seeded(4)))
    assert listed[0] != listed[1], "a pair that is asked for twice is sampled twice"


def test_without_noise_a_simulator_is_the_grid():
    quiet = dataclasses.replace(TASK, noise=(0.0, 0.0))
    v = values()
    sampled = simulated(dynamics(quiet)).sample(v, seeded())
    assert float((sampled - GridMDP(quiet, dtype=torch.float64).backup(v)).abs().max()) < 1e-12
    listed = simulated(dynamics(quiet)).sample_at(v, torch.tensor([41, 0]), torch.tensor([2, 4]), seeded(), 3)
    assert torch.allclose(listed, sampled[[41, 0], [2, 4]], atol=1e-12)


def test_a_simulator_is_asked_in_blocks(monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []

    def watched(states: Tensor, actions: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        sizes.append(len(states))
        return dynamics()(states, actions, generator)

    monkeypatch.setattr(simulator, "BLOCK", 100)
    simulated(watched).sample(values(), seeded())
    assert sizes == [100, 100, 10]


def test_without_noise_noisy_backups_are_the_backups():
    model = GridMDP(TASK)
    v = values()
    assert torch.equal(NoisyBackups(model, 0.0).sample(v, seeded()), model.backup(v))


def test_the_noise_has_its_level():
    noisy = NoisyBackups(GridMDP(TASK, dtype=torch.float64), 0.7)
    v = values()
    noise = torch.stack([noisy.sample(v, seeded(seed)) - noisy.model.backup(v) for seed in range(50)])
    assert float(noise.std()) == pytest.approx(0.7, rel=0.03)
    assert float((noise[:, 0, 0] * noise[:, 0, 1]).mean().abs()) < 4 * 0.49 / math.sqrt(50)


def test_samplers_say_what_they_are():
    for sampler in samplers():
        assert isinstance(sampler, Sampler)
        assert not isinstance(sampler, Model)
        said = json.loads(json.dumps(sampler.describe()))
        assert {"states": "7x6", "actions": 5, "gamma": 0.95, "device": "cpu"}.items() <= said.items()
    assert said["sample_noise"] == 0.7
    assert NoisyBackups(GridMDP(TASK), 0.1).reward_range == GridMDP(TASK).reward_range
    assert simulated().reward_range == (-math.inf, math.inf)
    assert simulated(reward_range=(0.0, 1.0)).reward_range == (0.0, 1.0)
