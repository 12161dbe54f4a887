"""Averages of noisy backups: the recursion by hand, what fresh samples confirm, and who wins where Q is low rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import svrl
from svrl.mdp.grid import GridMDP
from svrl.mdp.model import Sampler
from svrl.mdp.simulator import NoisyBackups
from svrl.mdp.tasks import make_task
from svrl.planning.averaged import NO_STRUCTURE, AveragedStructuredIteration, AveragedValueIteration, Fresh
from svrl.planning.evaluation import evaluate_policy, policy_loss
from svrl.planning.method import Meter, Method
from svrl.planning.plan import DIVERGED, advance, begin, conclude, plan
from svrl.planning.policy_iteration import solve_exactly

from .oracles import Dense, low_rank_model, small_grid

GRID = small_grid()
DENSE = Dense.of(GRID)
BEST = DENSE.optimum()
S, A = GRID.n_states, GRID.n_actions


class Fixed:
    """A sampler of one matrix with noise, whatever the values are; it keeps everything it gave."""

    def __init__(self, mean: Tensor, sigma: float, gamma: float = 0.9) -> None:
        self.mean, self.sigma, self.gamma = mean, sigma, gamma
        self.n_states, self.n_actions = mean.shape
        self.device = mean.device
        self.reward_range = (float(mean.min()), float(mean.max()))
        self.given: list[tuple[Tensor, Tensor]] = []

    def describe(self) -> dict[str, Any]:
        return {"task": "fixed"}

    def sample(self, v: Tensor, generator: torch.Generator, count: int = 1) -> Tensor:
        every = torch.arange(self.mean.numel())
        return self._draw(every, v, generator, count).reshape(self.mean.shape)

    def sample_at(
        self, v: Tensor, states: Tensor, actions: Tensor, generator: torch.Generator, count: int = 1
    ) -> Tensor:
        return self._draw(states * self.n_actions + actions, v, generator, count)

    def _draw(self, index: Tensor, v: Tensor, generator: torch.Generator, count: int) -> Tensor:
        noise = torch.randn(len(index), generator=generator) * self.sigma / count**0.5
        values = (self.mean.reshape(-1)[index] + noise).to(v.dtype)
        self.given.append((index, values.clone()))
        return values

    def averaged(self) -> tuple[np.ndarray, np.ndarray]:
        """The average (S, A) of what was given and the number of visits, pair by pair and one after the other."""
        q, visits = np.zeros(self.mean.numel()), np.zeros(self.mean.numel())
        for index, values in self.given:
            for at, value in zip(index.tolist(), values.tolist(), strict=True):
                q[at] += (value - q[at]) / (1.0 + (1.0 - self.gamma) * visits[at]) if visits[at] else value
                visits[at] += 1
        return q.reshape(self.mean.shape), visits.reshape(self.mean.shape)


def signal(m: int = 90, n: int = 60, sizes: tuple[float, ...] = (400.0, 300.0, 200.0)) -> Tensor:
    """Row means, and directions of these sizes across them."""
    rng = np.random.default_rng(0)
    left = np.linalg.qr(rng.standard_normal((m, len(sizes))))[0]
    right = rng.standard_normal((n, len(sizes)))
    right = np.linalg.qr(right - right.mean(0))[0]
    return torch.from_numpy(left * np.array(sizes) @ right.T + 5.0 * rng.standard_normal((m, 1)))


def last(sampler: Sampler, method: Method, seed: int = 0) -> dict[str, Tensor]:
    """What a method remembers after its last step."""
    run = begin(sampler, method, seed=seed)
    for _ in advance(sampler, method, run):
        pass
    return run.state


@pytest.mark.parametrize("iterations", [1, 2, 3, 10, 61])
def test_without_noise_it_is_damped_value_iteration(iterations: int):
    method = AveragedValueIteration(max_iterations=iterations)
    sampler = NoisyBackups(GRID, 0.0)
    run = begin(sampler, method)
    q, v = np.zeros((S, A)), np.zeros(S)
    optimum, fresh = DENSE.backup(BEST), []
    for t, _ in enumerate(advance(sampler, method, run)):
        fresh.append(DENSE.backup(v))
        q = q + (fresh[-1] - q) / (1.0 + (1.0 - DENSE.gamma) * t)
        v = q.max(1)
        assert np.abs(run.state.q.numpy() - q).max() < 1e-4
        assert np.abs(run.state.v.numpy() - v).max() < 1e-4
        # Each step shrinks the error by 1 - a_t (1 - gamma), and the product of those telescopes.
        bound = DENSE.gamma * np.abs(BEST).max() / (1.0 + (1.0 - DENSE.gamma) * t)
        assert np.abs(run.state.q.numpy() - optimum).max() <= bound + 1e-4
    found = conclude(sampler, method, run)
    halves = [fresh[t] for t in range(iterations // 2, iterations)]
    parities = [halves[k::2] for k in (0, 1) if halves[k::2]]
    last = np.mean([np.mean(part, 0) for part in parities], 0) if len(parities) == 2 else q
    assert found.q is not None
    assert np.abs(found.q.numpy() - last).max() < 1e-4
    assert np.abs(found.v.numpy() - last.max(1)).max() < 1e-4
    assert np.abs(last[np.arange(S), found.policy.numpy()] - last.max(1)).max() < 1e-4


def test_with_all_directions_the_structured_one_is_the_plain_one():
    plain = plan(NoisyBackups(GRID, 0.0), AveragedValueIteration(max_iterations=20))
    whole = plan(NoisyBackups(GRID, 0.0), AveragedStructuredIteration(max_iterations=20, rank=A, choose=False))
    assert float((plain.v - whole.v).abs().max()) < 1e-3
    assert plain.q is not None
    assert whole.q is not None
    assert float((plain.q - whole.q).abs().max()) < 1e-3


@pytest.mark.parametrize("p", [1.0, 0.3])
@pytest.mark.parametrize("samples", [1, 4])
def test_the_average_is_the_one_by_hand(p: float, samples: int):
    sampler = Fixed(signal(12, 9), 2.0)
    method = AveragedValueIteration(p=p, samples=samples, max_iterations=15)
    memory = last(sampler, method)
    q, visits = sampler.averaged()
    seen = visits > 0
    assert np.abs(memory.q.numpy() - q)[seen].max() < 1e-3
    best = np.where(seen, q, -np.inf)
    assert np.array_equal(memory.policy.numpy(), best.argmax(1))
    if p == 1.0:
        assert bool((visits == 15).all())


@pytest.mark.parametrize("p", [1.0, 0.3])
def test_a_fixed_rank_takes_the_leading_directions_of_the_average(p: float):
    sampler = Fixed(signal(40, 30), 1.0)
    memory = last(sampler, AveragedStructuredIteration(rank=3, choose=False, p=p, max_iterations=25))
    q, visits = sampler.averaged()
    assert bool((visits > 0).all())
    mean = q.mean(1, keepdims=True)
    u, s, vt = np.linalg.svd(q - mean)
    expected = (u[:, :3] * s[:3]) @ vt[:3] + mean
    assert np.abs(memory.estimate.numpy() - expected).max() < 0.02
    assert np.array_equal(memory.policy.numpy(), memory.estimate.numpy().argmax(1))


def test_the_last_word_is_the_mean_of_the_second_half():
    # Ten samples of the second half, without the weights that a running average has.
    sampler = Fixed(signal(40, 30), 1.0)
    result = plan(sampler, AveragedStructuredIteration(rank=3, choose=False, max_iterations=20))
    mean = torch.stack([values for _, values in sampler.given[10:]]).mean(0).reshape(40, 30).numpy()
    u, s, vt = np.linalg.svd(mean - mean.mean(1, keepdims=True))
    assert result.q is not None
    assert np.abs(result.q.numpy() - (u[:, :3] * s[:3]) @ vt[:3] - mean.mean(1, keepdims=True)).max() < 1e-3
    assert torch.equal(result.policy, result.q.argmax(1))


@pytest.mark.parametrize("p", [1.0, 0.4])
def test_fresh_samples_confirm_signal_and_not_noise(p: float):
    # An observed row mean takes a share of 1 / entries out of the signal, here 1 / 24.
    sampler = Fixed(signal(), 5.0)
    method = AveragedStructuredIteration(rank=12, p=p, max_iterations=100)
    memory = last(sampler, method)
    agreement = memory.agreement
    assert agreement.shape == (12,)
    assert bool((agreement[:3] > 0.9).all())
    assert bool((agreement[:3] < 1.1).all())
    assert bool((agreement[3:].abs() < 0.35).all())
    error = (memory.estimate - sampler.mean).square().mean().sqrt()
    plain = (torch.from_numpy(sampler.averaged()[0]) - sampler.mean).square().mean().sqrt()
    assert float(error) < 0.5 * float(plain)


def test_only_what_is_confirmed_is_kept():
    sampler = Fixed(signal(), 5.0)
    found = plan(sampler, AveragedStructuredIteration(rank=12, max_iterations=100))
    assert found.q is not None
    centred = (found.q - found.q.mean(1, keepdim=True)).double().numpy()
    assert found.rank == 3 == np.linalg.matrix_rank(centred, tol=1e-4 * np.linalg.norm(centred, 2))
    noise = Fixed(torch.zeros(90, 60, dtype=torch.float64) + 1.0, 5.0)
    noise.reward_range = (-100.0, 100.0)
    assert plan(noise, AveragedStructuredIteration(rank=12, max_iterations=60)).rank == 0


def test_confirmed_shares_are_running_means_and_scale_their_direction():
    # Without noise a sample confirms all of every direction, if it is the same matrix again.
    quiet = Fixed(signal(), 0.0)
    agreement = last(quiet, AveragedStructuredIteration(rank=3, max_iterations=10)).agreement
    assert agreement.tolist() == pytest.approx([1.0, 1.0, 1.0], abs=1e-4)
    # A sampler that halves what it says after the first time is confirmed by half, forgetting the rest.
    halving = Fixed(signal(), 0.0, gamma=0.01)
    method = AveragedStructuredIteration(rank=3, max_iterations=2, memory=0.0, least=0.2)
    run = begin(halving, method)
    for _ in advance(halving, method, run):
        halving.mean = 0.5 * halving.mean
    assert run.state.agreement.tolist() == pytest.approx([0.5, 0.5, 0.5], abs=1e-3)
    centred = run.state.q - run.state.q.mean(1, keepdim=True)
    shown = run.state.estimate - run.state.estimate.mean(1, keepdim=True)
    assert float((shown - 0.5 * centred).abs().max()) < 1e-2


@pytest.mark.parametrize(("sigma", "share"), [(0.3, 0.6), (1.0, 0.6)])
def test_structure_beats_the_plain_average_where_there_is_some(sigma: float, share: float):
    model = low_rank_model(n_states=60, n_actions=100)
    dense = Dense.of(model)
    best = dense.optimum()
    losses: dict[str, list[float]] = {"averaged": [], "averaged-svp": []}
    for seed in range(3):
        for method in (AveragedValueIteration(max_iterations=50), AveragedStructuredIteration(max_iterations=50)):
            result = plan(NoisyBackups(model, sigma), method, seed=seed)
            losses[result.name].append(float((best - dense.worth(result.policy)).mean()))
    assert all(x < share * y for x, y in zip(losses["averaged-svp"], losses["averaged"], strict=True)), losses
    assert sum(losses["averaged-svp"]) < 0.4 * sum(losses["averaged"]), losses


def test_what_low_rank_leaves_out_does_not_add_up_over_the_horizon():
    # At first only two or three directions stand out of this noise, and values that lack the others lose the policy.
    model = GridMDP(make_task("three-motor-pendulum", states=(30, 30), levels=10))
    best, _ = solve_exactly(model)
    methods = AveragedValueIteration(max_iterations=30), AveragedStructuredIteration(max_iterations=30)
    plain, structured = (
        policy_loss(best, evaluate_policy(model, plan(NoisyBackups(model, 1.0), method).policy)).relative
        for method in methods
    )
    assert structured < 0.7 * plain, (plain, structured)


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_without_structure_the_plan_is_the_plain_one_and_says_so(p: float):
    sampler = Fixed(torch.zeros(40, 30, dtype=torch.float64), 1.0)
    result = plan(sampler, AveragedStructuredIteration(p=p, max_iterations=30))
    assert result.outcome == NO_STRUCTURE
    assert not result.converged
    assert result.q is not None
    assert torch.equal(result.policy, result.q.argmax(1))
    assert torch.linalg.matrix_rank(result.q) == 30


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_a_sampler_that_breaks_is_no_success(p: float):
    class Breaking(Fixed):
        def _draw(self, index: Tensor, v: Tensor, generator: torch.Generator, count: int) -> Tensor:
            values = super()._draw(index, v, generator, count)
            return values if len(self.given) < 12 else torch.full_like(values, torch.inf)

    result = plan(Breaking(signal(40, 30), 1.0), AveragedStructuredIteration(p=p, max_iterations=20))
    assert result.outcome == DIVERGED


def test_what_was_never_sampled_is_never_chosen_without_structure():
    sampler = Fixed(torch.full((60, 20), -3.0, dtype=torch.float64), 0.0)
    method = AveragedValueIteration(p=0.03, max_iterations=6)
    run = begin(sampler, method)
    for _ in advance(sampler, method, run):
        seen = torch.from_numpy(sampler.averaged()[1] > 0)
        chosen = seen[torch.arange(60), run.state.policy]
        assert bool(chosen[seen.any(1)].all())
        assert bool((run.state.v[seen.any(1)] == -3.0).all())
        assert not bool(run.state.v[~seen.any(1)].any()), "others keep what they started from"


@pytest.mark.parametrize("samples", [1, 3])
def test_chosen_actions_are_sampled_further(samples: int):
    found = plan(NoisyBackups(GRID, 0.1), AveragedStructuredIteration(samples=samples, max_iterations=5))
    steps = np.diff([0, *(row.backups for row in found.trace)]) - S * A * samples
    assert set(steps.tolist()) <= {0, S * samples * round(A**0.5)}


@pytest.mark.parametrize("choose", [True, False])
def test_few_actions_are_few_directions(choose: bool):
    model = small_grid(actions=15)
    method = AveragedStructuredIteration(rank=20, choose=choose, max_iterations=4)
    result = plan(NoisyBackups(model, 0.1), method)
    assert all(row.rank is not None and row.rank <= 15 for row in result.trace)


def test_with_few_samples_the_policy_is_the_one_of_the_last_step():
    model = small_grid(actions=60)
    method = svrl.AveragedStructuredIteration(p=0.1, max_iterations=20)
    found = svrl.plan(svrl.NoisyBackups(model, 1.0), method)
    assert len(found.policy.unique()) > 1, "action 0 everywhere is what ties give"
    assert found.q is not None
    assert torch.equal(found.q.argmax(1), found.policy)


def test_the_worth_of_two_policies_is_compared_without_the_worth_of_the_states():
    # No noise in the backups: a tenth of the pairs must tell the best policy from the worst in every draw.
    model = small_grid(actions=40)
    dense = Dense.of(model)
    q = torch.from_numpy(dense.backup(dense.optimum()))
    meter = Meter(svrl.NoisyBackups(model, 0.0))
    best, worst = q.argmax(1), q.argmin(1)
    for seed in range(20):
        draw = torch.rand(q.numel(), generator=torch.Generator().manual_seed(seed)) < 0.1
        index = draw.nonzero().squeeze(1)
        fresh = Fresh(values=q.reshape(-1)[index], index=index)
        centred = fresh.centred(meter)
        good, bad = (float(fresh.advantage_at(meter, policy, centred)) for policy in (best, worst))
        assert good > bad


def test_a_pair_never_sampled_is_not_in_q():
    model = small_grid(actions=60)
    found = svrl.plan(svrl.NoisyBackups(model, 0.1), svrl.AveragedValueIteration(p=0.02, max_iterations=10))
    assert found.q is not None
    assert bool((found.q == -torch.inf).any())
    assert not bool((found.q == 0.0).any())
