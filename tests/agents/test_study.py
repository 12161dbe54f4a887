"""Ranks, features, what matrix estimation makes of values, and overestimation: against closed forms."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from itertools import combinations

import gymnasium
import numpy as np
import pytest
import torch

from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig
from svrl.agents.networks import build_network
from svrl.agents.structured_targets import StructuredTargets
from svrl.agents.study import (
    BATCHES,
    SCALES,
    RankStudy,
    batch_ranks,
    discounted_returns,
    distinct_rows,
    dormant_share,
    estimate_batches,
    feature_rank,
    held_out_error,
    leading_directions,
    overestimation,
    rank_study,
    srank,
)
from svrl.envs.make import make_env
from svrl.matrix.rank import approximate_rank, energies, ranks_at, spectrum

NEVER = torch.zeros(4, 1, dtype=torch.bool)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_batches_have_distinct_states_and_every_set_is_as_likely() -> None:
    rows = distinct_rows(30_000, 3, 6, generator())
    sets = Counter(tuple(sorted(row)) for row in rows.tolist())
    assert set(sets) == set(combinations(range(6), 3))
    expected = 30_000 / 20
    chi_square = sum((count - expected) ** 2 / expected for count in sets.values())
    assert chi_square < 43.8  # the .999 quantile at 19 degrees of freedom
    everything = distinct_rows(50, 6, 6, generator(1))
    assert everything.sort(1).values.tolist() == [list(range(6))] * 50


class Drift(gymnasium.Env):
    """A point that drifts in the plane by five actions; the game is over once it is far out."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.normal(size=2)
        return self.at.astype(np.float32), {}

    def step(self, action):
        angle = 2 * np.pi * action / 5
        self.at = self.at + 0.3 * np.array([np.cos(angle), np.sin(angle)]) + 0.1 * self.np_random.normal(size=2)
        return self.at.astype(np.float32), 1.0, bool(np.abs(self.at).max() > 8.0), False, {}


def drifter() -> Agent:
    config = AgentConfig.of("smoke", network="mlp", hidden=(16, 16))
    env = make_env(Drift, 1, seed=0)
    env.close()
    network = build_network(env.spec, config, generator(3))
    return Agent(source=Drift, spec=env.spec, config=config, network=network, steps=0, updates=0, seed=0)


def study(agent: Agent, **changes: object) -> RankStudy:
    return rank_study(agent, **{"batches": 300, "states": 500, **changes})


def test_a_study_is_consistent_with_itself_and_its_seed() -> None:
    agent = drifter()
    found = study(agent)
    for kind in ("", "tight_", "row_centred_", "tight_row_centred_"):
        histogram, cdf = getattr(found, f"{kind}histogram"), getattr(found, f"{kind}cdf")
        assert len(histogram) == len(cdf) == 6
        assert sum(histogram) == 300
        assert cdf == pytest.approx(np.cumsum(histogram) / 300)
        assert getattr(found, f"{kind}mean") == float(np.dot(histogram, range(6)) / 300)
    assert found.tight_mean >= found.mean
    assert found.tight_row_centred_mean >= found.row_centred_mean
    assert found.q_min <= found.q_mean <= found.q_max
    assert study(agent) == found
    assert study(agent, seed=1) != found
    written = json.loads(json.dumps(found.as_json()))
    assert {"energy", "batches", "batch_size", "mean", "histogram", "row_centred_mean"} <= set(written)
    assert written["histogram"] == list(found.histogram)


def test_a_study_finds_the_rank_that_a_network_was_given() -> None:
    agent = drifter()
    out = agent.network.head
    direction = torch.tensor([1.0, -2.0, 0.5, 3.0, 1.5])
    with torch.no_grad():
        out.weight.copy_(torch.outer(direction, torch.rand(16, generator=generator())))
        out.bias.zero_()
    found = study(agent)
    assert found.histogram == found.tight_histogram == found.row_centred_histogram == (0, 300, 0, 0, 0, 0)
    with torch.no_grad():
        out.weight.copy_(torch.outer(torch.ones(5), out.weight[0]))
    found = study(agent)
    assert found.mean == 1.0
    assert found.row_centred_mean == 0.0
    assert agent.network.training
    with torch.no_grad():
        agent.network.trunk[-2].weight.zero_()
        agent.network.trunk[-2].bias.fill_(-1.0)
    assert study(agent).dormant == 1.0


def test_a_diverged_agent_has_no_study() -> None:
    agent = drifter()
    with torch.no_grad():
        agent.network.head.bias.fill_(math.nan)
    with pytest.raises(ValueError, match="diverged"):
        study(agent)


class Rich(Drift):
    """Five for every step, for ever."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        at, _, _, truncated, info = super().step(action)
        return at, 5.0, False, truncated, info


@pytest.mark.parametrize(("clip", "most"), [(True, 10.0), (False, 50.0)])
def test_overestimation_is_in_the_units_that_the_agent_learns_from(clip: bool, most: float) -> None:
    agent = dataclasses.replace(drifter(), source=Rich, config=drifter().config.replace(clip_rewards=clip, gamma=0.9))
    with torch.no_grad():
        agent.network.head.weight.zero_()
        agent.network.head.bias.fill_(7.0)
    found = study(agent, states=800).optimism
    assert found is not None
    assert found.states == 8 * (100 - 44)
    assert found.value == 7.0
    assert 0.99 * most < found.gained < most
    assert found.optimism == pytest.approx(7.0 - found.gained)
    assert study(agent, states=300).optimism is None


def batches(count: int, size: int, states: int) -> torch.Tensor:
    return torch.stack([torch.randperm(states, generator=generator(k))[:size] for k in range(count)])


@pytest.mark.parametrize("scale", SCALES)
def test_the_numbers_are_the_sums_over_all_batches(scale: str) -> None:
    q = torch.randn(60, 5, generator=generator(1)).double() + 2.0
    rows = batches(7, 20, 60)
    found = estimate_batches(q, rows, generator(3), scale=scale)  # type: ignore[arg-type]
    completion = StructuredTargets(scale=scale)(q.float()[rows], generator(3))  # type: ignore[arg-type]
    wrong = right = spread = moved = kept = 0.0
    for batch in range(7):
        for row in range(20):
            truth = q.float()[rows[batch, row]].double()
            seen, guess = completion.mask[batch, row], completion.estimate[batch, row].double()
            done = completion.matrix[batch, row].double()
            moved += float(done.max() - truth.max())
            kept += float(done.argmax() == truth.argmax())
            if seen.any():
                mean = float(truth[seen].mean())
                wrong += float((guess - truth)[~seen].square().sum())
                right += float(truth[~seen].square().sum())
                spread += float((truth[~seen] - mean).square().sum())
    assert found.held_out == pytest.approx((wrong / right) ** 0.5)
    assert found.beyond_row_mean == pytest.approx((wrong / spread) ** 0.5)
    assert found.row_max_bias == pytest.approx(moved / 140)
    assert found.best_kept == pytest.approx(kept / 140)
    assert found.batches == 7


def test_equal_actions_are_found_by_their_row_and_leave_nothing_to_beat() -> None:
    q = torch.arange(40.0)[:, None].expand(40, 6) + 1 / 3
    found = estimate_batches(q, batches(4, 16, 40), generator(), scale="row")
    assert found.held_out == pytest.approx(0.0, abs=1e-6)
    assert found.beyond_row_mean is None
    assert found.row_max_bias == pytest.approx(0.0, abs=1e-5)


def test_noise_cannot_be_completed_and_a_factor_can() -> None:
    noise = torch.randn(500, 12, generator=generator(0))
    rank_one = torch.randn(500, 1, generator=generator(1)) * torch.randn(1, 12, generator=generator(2))
    rows = batches(50, 32, 500)
    errors = [estimate_batches(q, rows, generator(5), scale="row").beyond_row_mean for q in (noise, rank_one)]
    assert errors[0] is not None
    assert errors[0] > 0.9
    assert errors[1] is not None
    assert errors[1] < 0.3


def test_where_all_is_seen_nothing_is_judged_and_nothing_moves() -> None:
    found = estimate_batches(torch.randn(40, 4, generator=generator()), batches(3, 8, 40), generator(), p=1.0)
    assert (found.held_out, found.beyond_row_mean, found.row_max_bias, found.best_kept) == (None, None, 0.0, 1.0)


def test_many_batches_are_cut() -> None:
    found = estimate_batches(torch.randn(9, 2, generator=generator()), batches(4, 3, 9).repeat(500, 1), generator())
    assert found.batches == BATCHES < 2_000


def test_returns_by_hand_with_an_end_and_a_cut_in_each_environment_alone() -> None:
    rewards = torch.stack([torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]), torch.tensor([10.0, 10.0, 0.0, 0.0, 0.0])], 1)
    stops, cuts = torch.zeros(5, 2, dtype=torch.bool), torch.zeros(5, 2, dtype=torch.bool)
    stops[1, 0] = cuts[3, 0] = True
    gained, weight = discounted_returns(rewards, stops, cuts, 0.5)
    assert gained[:, 0].tolist() == [1 + 0.5 * 2, 2, 3 + 0.5 * 4, 4, 5]
    assert gained[:, 1].tolist() == [15, 10, 0, 0, 0]
    assert weight[:, 0].tolist() == [0, 0, 0.25, 0.5, 0.5]
    assert weight[:, 1].tolist() == [0.5**k for k in range(5, 0, -1)]


def test_a_constant_reward_has_its_closed_form() -> None:
    long, gamma = 400, 0.9
    rewards, never = torch.ones(long, 3), torch.zeros(long, 3, dtype=torch.bool)
    found = overestimation(torch.full((long, 3), 12.0), rewards, never, never, never, gamma)
    assert found is not None
    late = math.ceil(math.log(0.01) / math.log(gamma))
    assert found.states == 3 * (long - late)
    assert found.value == 12.0
    assert found.gained == pytest.approx(10.0, rel=0.01)
    assert found.gained < 10.0, "what comes after the record is missing"
    assert found.optimism == pytest.approx(12.0 - found.gained)


def test_states_before_a_cut_do_not_count() -> None:
    never, cuts = torch.zeros(200, 1, dtype=torch.bool), torch.zeros(200, 1, dtype=torch.bool)
    cuts[99] = True
    found = overestimation(torch.zeros(200, 1), torch.ones(200, 1), never, cuts, cuts, 0.9)
    assert found is not None
    # 0.9^44 is the first weight of at most 1%: ages 0 to 56 count, of the second episode those that are not late.
    assert found.states == 57 + min(57, 100 - 44)


def test_exact_values_are_no_overestimates_however_episodes_are_cut() -> None:
    # A step fails with chance .02 and gains 1, an episode is cut after 60: V = 1 / (1 - .9 * .98).
    draws = torch.Generator().manual_seed(0)
    fails = torch.rand(4000, 50, generator=draws) < 0.02
    cuts, age = torch.zeros_like(fails), torch.zeros(50, dtype=torch.int64)
    for t in range(4000):
        cuts[t] = (age == 59) & ~fails[t]
        age = torch.where(cuts[t] | fails[t], 0, age + 1)
    values = torch.full((4000, 50), 1 / (1 - 0.9 * 0.98))
    found = overestimation(values, torch.ones(4000, 50), fails, cuts, fails | cuts, 0.9)
    assert found is not None
    assert found.optimism == pytest.approx(0.0, abs=0.1), "what comes after the cut is at most 1% of 8.5"


def test_a_short_record_says_nothing() -> None:
    assert overestimation(torch.zeros(4, 1), torch.ones(4, 1), NEVER, NEVER, NEVER, 0.99) is None


def matrices(shape: tuple[int, ...], rank: int, *, offset: float = 0.0, noise: float = 0.0) -> torch.Tensor:
    *batch, m, n = shape
    source = generator(rank)
    left, right = torch.randn(*batch, m, rank, generator=source), torch.randn(*batch, rank, n, generator=source)
    return left @ right + offset + noise * torch.randn(*shape, generator=source)


@pytest.mark.parametrize("shape", [(7, 32, 18), (7, 32, 4), (7, 5, 40), (32, 18)])
@pytest.mark.parametrize("centre_rows", [False, True])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_energies_are_squared_singular_values(shape: tuple[int, ...], centre_rows: bool, scale: float) -> None:
    q = scale * matrices(shape, 3, offset=20.0, noise=0.3)
    truth = spectrum(q.double(), centre_rows=centre_rows)
    got = energies(q, centre_rows=centre_rows)
    assert got.shape == truth.shape
    assert float(((got.sqrt() - truth) / truth[..., :1]).abs().max()) < 1e-7
    for energy in (0.5, 0.9, 0.99, 0.9999, 1 - 1e-8):
        assert torch.equal(ranks_at(got, energy), approximate_rank(q.double(), energy=energy, centre_rows=centre_rows))


def test_an_energy_of_one_counts_what_is_above_rounding() -> None:
    assert ranks_at(energies(matrices((20, 32, 18), 3).double()), 1.0).tolist() != [18] * 20
    exact = torch.zeros(32, 18)
    exact[0, 0], exact[1, 1], exact[2, 2] = 1.0, 0.1, 1e-3
    assert int(ranks_at(energies(exact), 1.0)) == 3


def test_batch_ranks_see_the_mean_and_see_past_it() -> None:
    value = torch.linspace(10.0, 20.0, 32)[:, None].expand(32, 6)
    advantage = 0.2 * matrices((32, 6), 3)
    ranks = batch_ranks(torch.stack([value, value + advantage, torch.zeros(32, 6)]))
    assert ranks["rank_99"].tolist() == [1, 1, 0]
    assert ranks["row_centred_rank_99"][0] == 0
    assert ranks["row_centred_rank_99"][1] >= 2
    assert ranks["rank_9999"][1] > ranks["rank_99"][1]


def test_actions_that_differ_by_rounding_have_no_rank_once_centred() -> None:
    # A layer may sum its last columns in another order than the others: MKL does on an AMD CPU.
    equal = torch.linspace(10.0, 20.0, 32)[:, None].repeat(1, 6)
    rounded = equal.clone()
    rounded[::3, 4:] = torch.nextafter(rounded[::3, 4:], torch.tensor(math.inf))
    small = equal + 1e-4 * matrices((32, 6), 3)
    ranks = batch_ranks(torch.stack([rounded, 1e-30 * rounded, 1e30 * rounded, small]))
    assert ranks["rank_99"].tolist() == [1, 1, 1, 1]
    assert ranks["row_centred_rank_99"][:3].tolist() == [0, 0, 0]
    assert ranks["row_centred_rank_99"][3] >= 2


def test_a_diverged_batch_has_no_rank_and_spoils_no_other() -> None:
    q = torch.ones(3, 8, 4)
    q[1, 2, 3] = math.nan
    q[2, 0, 0] = math.inf
    ranks = batch_ranks(q)
    assert ranks["rank_99"][0] == 1
    assert all(bool(part[1:].isnan().all()) for part in ranks.values())
    assert math.isnan(feature_rank(q[1]))


def test_dormant_units_are_those_far_below_the_layer() -> None:
    features = torch.ones(10, 8)
    features[:, 0] = 0.0
    features[:, 1] = 0.01
    features[:, 2] = 0.0
    features[0, 2] = 5.0
    # Mean activity (0 + .01 + .5 + 5) / 8 = .68875: at .025 the line is .0172.
    assert dormant_share(features) == 2 / 8
    assert dormant_share(features, threshold=0.0) == 1 / 8
    assert dormant_share(features, threshold=0.75) == 3 / 8
    assert dormant_share(torch.zeros(5, 3)) == 1.0
    assert dormant_share(100.0 * features) == dormant_share(features)


def test_srank_counts_values_and_not_squares() -> None:
    sigma = torch.tensor([60.0, 30.0, 9.5, 0.5])
    rows, columns = (torch.linalg.qr(torch.randn(n, 4, generator=generator()))[0] for n in (20, 9))
    features = rows @ torch.diag(sigma) @ columns.T
    assert [srank(features, delta) for delta in (0.01, 0.004, 0.2, 0.5)] == [3, 4, 2, 1]
    share = sigma / sigma.sum()
    assert feature_rank(features) == pytest.approx(math.exp(-float((share * share.log()).sum())), rel=1e-4)
    assert srank(torch.zeros(4, 3)) == 0
    assert feature_rank(torch.eye(6)) == pytest.approx(6.0)


def test_held_out_error_is_over_hidden_entries_only() -> None:
    truth = torch.tensor([[[3.0, 4.0], [7.0, 1.0]]]).repeat(3, 1, 1)
    mask = torch.ones(3, 2, 2, dtype=torch.bool)
    mask[0, 0] = False  # hidden: 3 and 4, of norm 5
    mask[2, 1, 1] = False
    estimate = truth + torch.tensor([[[1.0, 0.0], [100.0, 100.0]]])
    assert held_out_error(estimate, truth, mask).tolist() == pytest.approx([1 / 5, 100.0])
    assert held_out_error(estimate[0], truth[0], mask[0]).tolist() == pytest.approx([0.2])
    assert held_out_error(estimate, truth, torch.ones_like(mask)).numel() == 0
    assert held_out_error(estimate[0], torch.zeros(2, 2), mask[0]).numel() == 0


def test_leading_directions_tell_errors_in_them_from_independent_ones() -> None:
    source = torch.Generator().manual_seed(0)
    left, right = torch.randn(4000, 2, generator=source), torch.randn(2, 31, generator=source)
    q, noise = left @ right + torch.randn(4000, 1, generator=source), torch.randn(4000, 31, generator=source)
    independent = leading_directions([(q[:1500], noise[:1500]), (q[1500:], noise[1500:])])
    assert (independent.counts, independent.independent) == ((1, 2, 4, 8), (1 / 30, 2 / 30, 4 / 30, 8 / 30))
    assert independent.errors == pytest.approx(independent.independent, abs=0.01)
    assert independent.values[1] == pytest.approx(1.0, abs=1e-6)
    centred = q - q.mean(1, keepdim=True)
    squares = torch.linalg.svdvals(centred.double()).square()
    assert independent.values[0] == pytest.approx(float(squares[0] / squares.sum()), rel=1e-6)
    inside = torch.randn(4000, 2, generator=source) @ right + 7.0
    assert leading_directions([(q, inside)]).errors[1] == pytest.approx(1.0, abs=1e-6)
    assert leading_directions([(q, None)]).errors is None
    assert leading_directions([(q[:, :2], None)]).counts == ()
