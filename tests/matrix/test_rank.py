import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.matrix import approximate_rank, effective_rank, spectrum, stable_rank

from .problems import low_rank, seeded

RANKS = [approximate_rank, effective_rank, stable_rank]


def with_spectrum(values: list[float], m: int = 12, n: int = 9) -> torch.Tensor:
    u = torch.linalg.qr(torch.randn(m, len(values), generator=seeded(1), dtype=torch.float64))[0]
    v = torch.linalg.qr(torch.randn(n, len(values), generator=seeded(2), dtype=torch.float64))[0]
    return u @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ v.T


def test_the_spectrum_is_known_where_the_matrix_was_built_from_it():
    found = spectrum(with_spectrum([5.0, 3.0, 0.5]))
    assert found.shape == (9,)
    assert torch.allclose(found[:3], torch.tensor([5.0, 3.0, 0.5], dtype=torch.float64))
    assert float(found[3:].abs().max()) < 1e-12


def test_an_energy_of_one_counts_every_value_that_is_not_zero():
    assert int(approximate_rank(torch.diag(torch.tensor([1.0, 1e-3, 0.0, 1e-10])), energy=1)) == 3


def test_the_papers_energy_is_the_default():
    assert int(approximate_rank(with_spectrum([10.0, 5.0, 2.0, 1.0]))) == 3  # shares .769, .962, .992, 1


def test_small_values_are_not_lost_against_large_ones():
    matrix = torch.diag(torch.tensor([1.0, *[1e-5] * 20], dtype=torch.float64))
    assert int(approximate_rank(matrix, energy=1 - 1e-12)) == 21
    assert int(approximate_rank(matrix, energy=1 - 1e-8)) == 1


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), m=st.integers(1, 8), n=st.integers(1, 8), energy=st.floats(0.01, 0.999))
def test_the_rank_is_the_smallest_that_suffices(seed: int, m: int, n: int, energy: float):
    matrix = torch.randn(m, n, generator=seeded(seed), dtype=torch.float64)
    squares = np.linalg.svd(matrix.numpy(), compute_uv=False) ** 2
    shares = np.cumsum(squares) / squares.sum()
    rank = int(approximate_rank(matrix, energy=energy))
    assert shares[rank - 1] >= energy - 1e-12
    assert rank == 1 or shares[rank - 2] < energy + 1e-12


def test_effective_and_stable_rank_are_their_formulas():
    matrix = with_spectrum([4.0, 2.0, 2.0])
    share = np.array([0.5, 0.25, 0.25])
    assert float(effective_rank(matrix)) == pytest.approx(np.exp(-(share * np.log(share)).sum()))
    assert float(stable_rank(matrix)) == pytest.approx(24 / 16)


def test_stable_rank_is_unmoved_by_small_noise_and_never_above_the_rank():
    clean, noisy = low_rank(60, 40, 3), low_rank(60, 40, 3, noise=1e-3)
    assert float(stable_rank(noisy)) == pytest.approx(float(stable_rank(clean)), rel=1e-3)
    assert 1 <= float(stable_rank(clean)) <= 3


def test_a_large_mean_hides_the_structure_until_rows_are_centred():
    advantage = low_rank(30, 20, 4)
    advantage = advantage - advantage.mean(-1, keepdim=True)
    value = 100 + 10 * torch.randn(30, 1, generator=seeded(), dtype=torch.float64)
    assert int(approximate_rank(value + advantage)) == 1
    assert int(approximate_rank(value + advantage, centre_rows=True)) == int(approximate_rank(advantage)) > 1
    for measure in (spectrum, effective_rank, stable_rank):
        assert torch.allclose(measure(value + advantage, centre_rows=True), measure(advantage), atol=1e-9)


@pytest.mark.parametrize("rank", RANKS)
def test_a_zero_matrix_has_rank_zero(rank):
    assert float(rank(torch.zeros(5, 4))) == 0
    assert float(rank(torch.full((5, 4), 7.0), centre_rows=True)) == 0


@pytest.mark.parametrize("rank", [*RANKS, spectrum])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_batch_equals_its_members_in_the_kind_that_was_given(rank, kind: str):
    many = low_rank(9, 7, 3, noise=0.05, batch=(2, 3))
    given_ = many.numpy() if kind == "numpy" else many
    together = rank(given_)
    assert isinstance(together, np.ndarray) == (kind == "numpy")
    assert together.shape[:2] == (2, 3)
    for k in np.ndindex(2, 3):
        assert np.allclose(together[k], rank(many[k]), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e170, 1e-170])
def test_ranks_do_not_depend_on_the_scale(scale):
    matrix = np.diag([3.0, 2.0, 1.0]) * scale
    assert int(approximate_rank(matrix)) == 3
    assert float(stable_rank(matrix)) == pytest.approx(14 / 9)
