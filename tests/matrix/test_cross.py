import numpy as np
import pytest
import torch

from svrl.matrix import CrossEstimate, Outcome, cross
from svrl.matrix.cross import PROBES, pivots, skeleton

from .problems import low_rank, relative_error, seeded


class Asked:
    """A matrix that remembers which entries it was asked for."""

    def __init__(self, matrix: torch.Tensor, *, numpy: bool = True) -> None:
        self.matrix = matrix.numpy() if numpy else matrix
        self.entries = 0
        self.calls: list[tuple[int, int]] = []
        self.seen = np.zeros(matrix.shape, bool)

    def __call__(self, rows, columns):
        self.entries += len(rows) * len(columns)
        self.calls.append((len(rows), len(columns)))
        self.seen[np.ix_(rows, columns)] = True
        return self.matrix[rows][:, columns]


def decaying(m: int, n: int, rate: float) -> torch.Tensor:
    """Singular values rate, rate^2, rate^3, ...: of no exact rank."""
    u = torch.linalg.qr(torch.randn(m, min(m, n), generator=seeded(1), dtype=torch.float64))[0]
    v = torch.linalg.qr(torch.randn(n, min(m, n), generator=seeded(2), dtype=torch.float64))[0]
    return u @ torch.diag(rate ** torch.arange(1, min(m, n) + 1, dtype=torch.float64)) @ v.T * (m * n) ** 0.5


@pytest.mark.parametrize("rank", [1, 4, 8])
@pytest.mark.parametrize("shape", [(120, 80), (80, 120)])
def test_an_exact_rank_is_recovered_exactly(rank: int, shape: tuple[int, int]):
    truth = low_rank(*shape, rank)
    estimate = cross(Asked(truth), shape)
    assert estimate.converged
    assert relative_error(estimate.matrix, truth) < 1e-8
    assert int(estimate.rank) == rank
    assert int(estimate.iterations) == 1


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-5])
def test_the_tolerance_is_met_on_a_matrix_of_no_exact_rank(tolerance: float):
    truth = decaying(150, 100, 0.6)
    estimate = cross(Asked(truth), (150, 100), tolerance=tolerance)
    assert estimate.converged
    assert float(estimate.change) <= tolerance
    assert relative_error(estimate.matrix, truth) < 3 * tolerance


def test_rows_and_columns_grow_until_the_rank_is_reached():
    truth = low_rank(200, 150, 20)
    estimate = cross(Asked(truth), (200, 150), first=4)
    assert estimate.converged
    assert int(estimate.iterations) == 4  # 4, 8, 16, 32
    assert relative_error(estimate.matrix, truth) < 1e-6


def test_no_entry_is_asked_for_twice():
    asked = Asked(low_rank(90, 70, 12))
    estimate = cross(asked, (90, 70), first=4)
    assert len(set(estimate.rows)) == len(estimate.rows)
    assert len(set(estimate.columns)) == len(estimate.columns)
    assert bool(asked.seen[estimate.rows].all())
    assert bool(asked.seen[:, estimate.columns].all())
    k, j = len(estimate.rows), len(estimate.columns)
    # Rows and columns share k * j crossings; the probes are asked for on their own.
    assert estimate.evaluated == 70 * k + 90 * j - k * j + PROBES**2


def test_a_matrix_without_structure_costs_no_more_than_all_of_it():
    asked = Asked(torch.randn(60, 50, generator=seeded(), dtype=torch.float64))
    estimate = cross(asked, (60, 50))
    assert estimate.evaluated <= 60 * 50 + PROBES**2
    assert relative_error(estimate.matrix, asked.matrix) < 1e-3


@pytest.mark.parametrize("scale", [1e-200, 1e170])
def test_the_error_is_measured_at_any_scale(scale):
    full = torch.randn(60, 50, generator=seeded(), dtype=torch.float64)
    estimate = cross(Asked(full * scale), (60, 50), most=8)
    assert estimate.outcome is Outcome.NOT_LOW_ENOUGH
    assert 0.1 < float(estimate.change) < 10


def test_far_fewer_entries_than_the_matrix_has_are_asked_for():
    asked = Asked(low_rank(1000, 600, 5))
    estimate = cross(asked, (1000, 600))
    assert relative_error(estimate.matrix, asked.matrix) < 1e-8
    assert estimate.evaluated < 0.06 * 600_000


def test_too_few_rows_and_columns_are_reported():
    truth = low_rank(90, 70, 12)
    estimate = cross(Asked(truth), (90, 70), first=2, most=6)
    assert estimate.outcome is Outcome.NOT_LOW_ENOUGH
    assert int(estimate.rank) <= 6
    assert float(estimate.change) > 1e-3
    assert relative_error(estimate.matrix, truth) > 0.1


def test_the_reported_error_is_that_on_entries_no_fit_has_seen():
    truth = low_rank(300, 200, 12)
    estimate = cross(Asked(truth), (300, 200), first=6, most=6)
    assert float(estimate.change) == pytest.approx(relative_error(estimate.matrix, truth), rel=0.5)


@pytest.mark.parametrize("numpy", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kind_and_precision_of_the_answers_come_back(numpy: bool, dtype: torch.dtype):
    device = None if numpy else "cpu"
    estimate = cross(Asked(low_rank(60, 40, 3, dtype=dtype), numpy=numpy), (60, 40), device=device)
    assert isinstance(estimate, CrossEstimate)
    kind = np.ndarray if numpy else torch.Tensor
    for array in (*estimate.factors, estimate.matrix, estimate.rows, estimate.columns, estimate.rank, estimate.code):
        assert isinstance(array, kind)
    assert str(estimate.matrix.dtype).endswith(str(dtype).removeprefix("torch."))
    assert relative_error(estimate.matrix, low_rank(60, 40, 3)) < 1e-3


@pytest.mark.parametrize("device", [None, "cpu"])
def test_every_call_speaks_the_language_that_was_asked_for(device):
    truth, heard = low_rank(60, 40, 3), set()

    def evaluate(rows, columns):
        heard.update({type(rows), type(columns)})
        block = truth[torch.as_tensor(rows)][:, torch.as_tensor(columns)]
        return block if device else block.numpy()

    cross(evaluate, (60, 40), device=device)
    assert heard == {torch.Tensor if device else np.ndarray}


def test_noise_is_not_blown_up():
    truth = low_rank(150, 100, 5)
    noise = 1e-3 * torch.randn(150, 100, generator=seeded(8), dtype=torch.float64)
    for seed in range(6):
        estimate = cross(Asked(truth + noise), (150, 100), tolerance=1e-2, generator=seeded(seed))
        assert relative_error(estimate.matrix, truth) < 2e-2
        assert estimate.evaluated < 0.9 * truth.numel()


def test_equal_generators_give_equal_results():
    truth = decaying(100, 80, 0.7)

    def ask(generator) -> CrossEstimate:
        return cross(Asked(truth), (100, 80), generator=generator)

    assert np.array_equal(ask(seeded(1)).matrix, ask(seeded(1)).matrix)
    assert np.array_equal(ask(None).matrix, ask(None).matrix)
    assert np.array_equal(ask(np.random.default_rng(2)).matrix, ask(np.random.default_rng(2)).matrix)
    assert not np.array_equal(ask(seeded(1)).matrix, ask(seeded(2)).matrix)


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (30, 1), (3, 2)])
def test_tiny_matrices_come_back(shape: tuple[int, int]):
    truth = torch.randn(shape, generator=seeded(), dtype=torch.float64)
    estimate = cross(Asked(truth), shape)
    assert estimate.converged
    assert relative_error(estimate.matrix, truth) < 1e-9


def test_a_zero_matrix_has_rank_zero():
    estimate = cross(Asked(torch.zeros(40, 30)), (40, 30))
    assert estimate.converged
    assert int(estimate.rank) == 0
    assert not estimate.matrix.any()


def test_whole_numbers_are_welcome():
    table = np.multiply.outer(np.arange(40), np.arange(30))
    estimate = cross(lambda rows, columns: table[np.ix_(rows, columns)], (40, 30))
    assert np.allclose(estimate.matrix, table)


def test_small_directions_of_the_crossing_are_left_out():
    q = low_rank(50, 30, 2) + 1e-9 * low_rank(50, 30, 8, seed=1)
    rows = columns = torch.arange(8)
    left, right = skeleton(q[:, columns], q[rows], columns, 1e-6)
    assert left.shape[1] == 2
    assert float((left @ right - q).abs().max()) < 1e-6


def test_pivots_span_the_rows():
    q = low_rank(60, 5, 3)
    q[:40] = q[40]  # most rows are the same one
    chosen = pivots(q, 3)
    assert chosen.dtype == torch.int64
    assert len(set(chosen.tolist())) == 3
    assert int((chosen <= 40).sum()) <= 1
    singular = torch.linalg.svdvals(q[chosen])
    best = torch.linalg.svdvals(q[[40, *range(50, 60)]])
    assert float(singular[2]) > 0.1 * float(best[2])
