"""What matrix estimation makes of values, against sums by hand and matrices whose answer is known."""

from __future__ import annotations

import pytest
import torch

from svrl.agents.structured_targets import StructuredTargets
from svrl.agents.study import BATCHES, SCALES, estimate_batches


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def batches(count: int, size: int, states: int) -> torch.Tensor:
    return torch.stack([torch.randperm(states, generator=seeded(k))[:size] for k in range(count)])


@pytest.mark.parametrize("scale", SCALES)
def test_the_numbers_are_the_sums_over_all_batches(scale: str) -> None:
    q = torch.randn(60, 5, generator=seeded(1)).double() + 2.0
    rows = batches(7, 20, 60)
    found = estimate_batches(q, rows, seeded(3), scale=scale)  # type: ignore[arg-type]
    completion = StructuredTargets(scale=scale)(q.float()[rows], seeded(3))  # type: ignore[arg-type]
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
    found = estimate_batches(q, batches(4, 16, 40), seeded(), scale="row")
    assert found.held_out == pytest.approx(0.0, abs=1e-6)
    assert found.beyond_row_mean is None
    assert found.row_max_bias == pytest.approx(0.0, abs=1e-5)


def test_noise_cannot_be_completed_and_a_factor_can() -> None:
    noise = torch.randn(500, 12, generator=seeded(0))
    rank_one = torch.randn(500, 1, generator=seeded(1)) * torch.randn(1, 12, generator=seeded(2))
    rows = batches(50, 32, 500)
    errors = [estimate_batches(q, rows, seeded(5), scale="row").beyond_row_mean for q in (noise, rank_one)]
    assert errors[0] is not None
    assert errors[0] > 0.9
    assert errors[1] is not None
    assert errors[1] < 0.3


def test_where_all_is_seen_nothing_is_judged_and_nothing_moves() -> None:
    found = estimate_batches(torch.randn(40, 4, generator=seeded()), batches(3, 8, 40), seeded(), p=1.0)
    assert (found.held_out, found.beyond_row_mean, found.row_max_bias, found.best_kept) == (None, None, 0.0, 1.0)


def test_many_batches_are_cut() -> None:
    found = estimate_batches(torch.randn(9, 2, generator=seeded()), batches(4, 3, 9).repeat(500, 1), seeded())
    assert found.batches == BATCHES < 2_000
