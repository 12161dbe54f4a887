"""Diagnostics against singular values and closed forms."""

from __future__ import annotations

import math

import pytest
import torch

from svrl.agents.study import batch_ranks, dormant_share, feature_rank, held_out_error, srank
from svrl.matrix.rank import approximate_rank, energies, ranks_at, spectrum


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
