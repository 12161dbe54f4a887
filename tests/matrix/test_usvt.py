import numpy as np
import pytest
import torch

from svrl.matrix import USVT, Observed

from .problems import low_rank, noisy, observe, relative_error


def by_hand(observed: Observed, level: float) -> torch.Tensor:
    """Scale to [-1, 1], threshold, divide by the share, clip, scale back."""
    known = observed.values[observed.mask]
    middle, half = (known.max() + known.min()) / 2, (known.max() - known.min()) / 2
    scaled = torch.where(observed.mask, (observed.values - middle) / half, 0.0)
    u, s, vt = torch.linalg.svd(scaled, full_matrices=False)
    kept = torch.where(s > level, s, 0.0)
    return ((u * kept) @ vt / observed.fraction).clamp(-1, 1) * half + middle


def test_the_published_threshold_is_the_papers_formula():
    observed = observe(torch.sign(low_rank(60, 40, 1, seed=3)) + 2, 0.8)
    estimate = USVT(threshold="published")(observed)
    assert int(estimate.rank) == 1
    wanted = by_hand(observed, 2.02 * (60 * observed.fraction) ** 0.5)
    assert torch.allclose(estimate.matrix, wanted, rtol=0, atol=1e-12)


def test_the_variance_threshold_is_what_the_data_show():
    observed = noisy(60, 40, 2, 0.5)
    p = observed.fraction
    known = observed.values[observed.mask]
    middle, half = (known.max() + known.min()) / 2, (known.max() - known.min()) / 2
    energy = float(((known - middle) / half).square().mean())
    variance = p * (1 - p) * energy + p * (0.1 / float(half)) ** 2
    wanted = by_hand(observed, 1.35 * variance**0.5 * (60**0.5 + 40**0.5))
    assert torch.allclose(USVT(noise=0.1)(observed).matrix, wanted, rtol=0, atol=1e-12)


def test_the_published_threshold_keeps_nothing_of_an_everyday_matrix():
    observed = noisy(60, 40, 3, 0.5)
    published, variance = USVT(threshold="published")(observed), USVT()(observed)
    assert int(published.rank) == 0
    known = observed.values[observed.mask]
    assert torch.allclose(published.matrix, ((known.min() + known.max()) / 2).expand(60, 40))
    assert int(variance.rank) >= 3
    truth = low_rank(60, 40, 3)
    assert relative_error(variance.matrix, truth) < 0.7 * relative_error(published.matrix, truth)


def test_more_noise_raises_the_threshold():
    observed = noisy(60, 40, 3, 0.5)
    assert int(USVT(noise=0.0)(observed).rank) >= int(USVT(noise=1.0)(observed).rank)
    assert int(USVT(noise=50.0)(observed).rank) == 0


def test_the_error_falls_as_more_is_observed():
    truth = low_rank(120, 80, 2)
    errors = [relative_error(USVT()(observe(truth, p)).matrix, truth) for p in (0.2, 0.5, 0.9)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.3


def test_with_everything_observed_nothing_is_lost():
    truth = low_rank(30, 20, 3)
    estimate = USVT()(observe(truth, 1.0))
    assert relative_error(estimate.matrix, truth) < 1e-5


def test_the_estimate_stays_inside_the_range_of_the_data():
    observed = noisy(60, 40, 3, 0.3, noise=0.5)
    estimate = USVT(margin=0.01)(observed).matrix
    known = observed.values[observed.mask]
    assert float(estimate.min()) >= float(known.min()) - 1e-12
    assert float(estimate.max()) <= float(known.max()) + 1e-12


def test_fill_keeps_observed_entries_bit_for_bit():
    observed = noisy()
    estimate = USVT(output="fill")(observed)
    assert torch.equal(estimate.matrix[observed.mask], observed.values[observed.mask])


def test_shift_and_scale_pass_through():
    observed = noisy(60, 40, 2, 0.5)
    moved = Observed(values=7 * observed.values - 30, mask=observed.mask)
    assert relative_error(USVT()(moved).matrix, 7 * USVT()(observed).matrix - 30) < 1e-9


def test_a_batch_equals_its_members():
    observed = noisy(24, 16, 2, batch=(2, 2))
    together = USVT()(observed)
    for k in np.ndindex(2, 2):
        alone = USVT()(Observed(values=observed.values[k], mask=observed.mask[k]))
        assert torch.allclose(together.matrix[k], alone.matrix, rtol=0, atol=1e-12)
        assert int(together.rank[k]) == int(alone.rank)


def test_a_constant_matrix_comes_back():
    estimate = USVT()(observe(torch.full((9, 7), 2.5), 0.5))
    assert torch.equal(estimate.matrix, torch.full((9, 7), 2.5))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"threshold": "best"}, "no threshold 'best': choose variance or published"),
        ({"margin": 0}, "margin above 0 and finite, got 0"),
        ({"noise": -1.0}, "noise of at least 0, got -1.0"),
    ],
)
def test_a_wrong_setting_is_refused_at_birth(wrong: dict, said: str):
    with pytest.raises(ValueError, match=f"USVT .*{said}"):
        USVT(**wrong)
