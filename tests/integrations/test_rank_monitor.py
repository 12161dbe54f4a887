"""Ranks of what a network says, against matrices whose rank is known."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from svrl.integrations.rank_monitor import RankMonitor, ranks_of


def of_singular_values(*sizes: float, m: int = 32, n: int = 6, seed: int = 0) -> Tensor:
    """(m, n) with these singular values."""
    source = torch.Generator().manual_seed(seed)
    left, right = (torch.linalg.qr(torch.randn(size, len(sizes), generator=source)).Q for size in (m, n))
    return left @ torch.diag(torch.tensor(sizes)) @ right.mT


def test_ranks_follow_the_energy_by_hand() -> None:
    """Shares of squared singular values: 0.96, 0.032, 0.0078, 0.0002; so 2 hold 99% and 4 hold 99.99%."""
    q = of_singular_values(*torch.tensor([0.96, 0.032, 0.0078, 0.0002]).sqrt().tolist())
    found = ranks_of(q)
    assert found["rank_99"] == 2
    assert found["rank_9999"] == 4


def test_a_value_for_each_state_is_taken_out_of_the_centred_rank() -> None:
    advantages = of_singular_values(1.0, 1.0, 1.0)
    advantages -= advantages.mean(1, keepdim=True)
    q = advantages + 1e3 * torch.randn(32, 1, generator=torch.Generator().manual_seed(1))
    found = ranks_of(q)
    assert found["rank_99"] == 1
    assert found["row_centred_rank_99"] > 1


def test_several_matrices_give_the_mean() -> None:
    q = torch.stack([of_singular_values(1.0), of_singular_values(1.0, 1.0)])
    assert ranks_of(q)["rank_99"] == 1.5


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions(kind: torch.dtype) -> None:
    assert ranks_of(of_singular_values(1.0, 1.0).to(kind))["rank_99"] == 2


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nothing_is_said_about_values_that_are_not_finite(bad: float) -> None:
    q = of_singular_values(1.0)
    q[3, 2] = bad
    assert ranks_of(q) == {}


def test_it_watches_and_changes_nothing() -> None:
    torch.manual_seed(0)
    net, x = nn.Linear(2, 6), torch.randn(32, 2)
    raw = net(x)
    with RankMonitor(net) as monitor:
        assert monitor.ranks() == {}
        assert torch.equal(net(x), raw)
        assert net(x).requires_grad
        assert monitor.seen == 2
        assert monitor.ranks() == ranks_of(raw)
        assert monitor.ranks()["rank_9999"] <= 3, "two inputs and a bias"
    net(x)
    assert monitor.seen == 2
    assert len(net._forward_hooks) == 0


def test_quantiles_are_watched_by_their_means() -> None:
    z = torch.randn(16, 5, 3, generator=torch.Generator().manual_seed(0))
    monitor = RankMonitor(nn.Identity(), quantiles=True)
    monitor._look(nn.Identity(), (), z)
    assert monitor.ranks() == ranks_of(z.mean(1))


def test_other_outputs_go_by_unseen() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    net = Pair()
    monitor = RankMonitor(net)
    net(torch.ones(2, 2))
    assert (monitor.seen, monitor.ranks()) == (0, {})


def test_only_networks_are_watched() -> None:
    with pytest.raises(ValueError, match=r"watches a torch.nn.Module, got int"):
        RankMonitor(3)
