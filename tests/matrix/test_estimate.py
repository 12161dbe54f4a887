import numpy as np
import pytest
import torch

from svrl.matrix import (
    Estimate,
    FactorALS,
    HardImpute,
    Observed,
    Outcome,
    RowMean,
    SoftImpute,
    complete,
)
from svrl.matrix.estimate import held_out_error

from .problems import low_rank, noisy, observe, relative_error, seeded


def estimate_of(code: list[int] | int = 0, **parts: object) -> Estimate:
    numbers = torch.tensor(code)
    record = {"dense": None, "factors": None, "rank": numbers, "iterations": numbers, "change": numbers.double()}
    return Estimate(code=numbers, **(record | parts))


def test_codes_and_outcomes_are_one_to_one_and_zero_is_success():
    assert Outcome.from_code(0) is Outcome.CONVERGED
    assert [Outcome.from_code(outcome.code) for outcome in Outcome] == list(Outcome)


def test_every_failure_says_what_to_do():
    for outcome in list(Outcome)[1:]:
        assert any(word in outcome.value for word in ("raise", "allow", "use")), outcome


def test_the_outcome_of_a_batch_is_its_worst():
    estimate = estimate_of([0, Outcome.OUT_OF_STEPS.code, 0], dense=torch.zeros(3, 2, 2))
    assert estimate.outcome is Outcome.OUT_OF_STEPS
    assert not estimate.converged
    assert estimate_of([0, 0], dense=torch.zeros(2, 2, 2)).converged


@pytest.mark.parametrize("numpy", [False, True])
def test_the_matrix_is_formed_from_factors_batch_by_batch(numpy: bool):
    left, right = torch.randn(3, 5, 2, generator=seeded()), torch.randn(3, 4, 2, generator=seeded(1))
    factors = (left.numpy(), right.numpy()) if numpy else (left, right)
    matrix = estimate_of([0, 0, 0], factors=factors).matrix
    assert isinstance(matrix, np.ndarray) == numpy
    for k in range(3):
        assert np.allclose(matrix[k], left[k] @ right[k].T, atol=1e-6)


def test_a_repr_tells_shape_rank_and_outcome():
    single = repr(SoftImpute(ratio=0.3)(noisy()))
    assert single.startswith("Estimate(shape=(40, 30), rank=3, iterations=")
    assert single.endswith("converged)")
    many = repr(SoftImpute(ratio=0.3)(noisy(batch=(2, 2))))
    assert many == "Estimate(shape=(2, 2, 40, 30), ranks 3..3, converged)"
    assert Outcome.OUT_OF_STEPS.value in repr(SoftImpute(max_steps=1)(noisy()))
    assert "shape=(40, 30), rank=2" in repr(FactorALS(rank=2)(noisy()))


def test_an_estimate_cannot_be_changed():
    with pytest.raises(AttributeError):
        estimate_of().kept = True


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_complete_reads_nan_as_missing_and_returns_what_went_in(kind: str, dtype: torch.dtype):
    truth = low_rank(60, 40, 2, dtype=dtype)
    gappy = torch.where(observe(truth, 0.6).mask, truth, torch.nan)
    estimate = complete(gappy.numpy() if kind == "numpy" else gappy)
    assert isinstance(estimate.matrix, np.ndarray) == (kind == "numpy")
    assert str(estimate.matrix.dtype).removeprefix("torch.") == str(dtype).removeprefix("torch.")
    assert relative_error(estimate.matrix, truth) < 3e-3
    assert int(estimate.rank) == 2


def test_complete_takes_a_mask_and_an_estimator():
    observed = noisy()
    wanted = SoftImpute(ratio=0.1)(observed).matrix
    assert torch.equal(complete(observed.values, observed.mask, estimator=SoftImpute(ratio=0.1)).matrix, wanted)


@pytest.mark.parametrize("lists", [[[1.0, 2.0], [3.0, float("nan")], [5, 6]], ((1, 2), (3, 4))])
def test_complete_takes_nested_lists_as_numpy_does(lists):
    assert np.array_equal(complete(lists).matrix, complete(np.asarray(lists, float)).matrix)


def test_complete_hands_on_the_generator_and_allows_empty_rows():
    seen = []

    def spy(observed: Observed, *, start=None, generator=None) -> Estimate:
        seen.append(generator)
        return RowMean()(observed)

    source = seeded()
    complete(torch.tensor([[torch.nan, torch.nan], [1.0, 2.0]]), estimator=spy, allow_empty=True, generator=source)
    assert seen == [source]


@pytest.mark.parametrize(
    "estimator",
    [FactorALS(), SoftImpute(), SoftImpute(solver="path"), SoftImpute(solver="plain"), HardImpute(rank=3)],
    ids=repr,
)
@pytest.mark.parametrize(
    ("dtype", "scale"), [(torch.float32, 2.0**90), (torch.float32, 2.0**-100), (torch.float64, 2.0**-900)], ids=str
)
def test_the_answer_follows_the_scale(estimator, dtype, scale):
    observed = noisy(70, 66, dtype=dtype)
    values, mask = observed.tensors
    plain = estimator(observed)
    scaled = estimator(Observed(values=values * scale, mask=mask))
    assert torch.equal(plain.rank, scaled.rank)
    # Powers of two change no digit, so what is left is where iterations stop.
    assert relative_error(scaled.matrix / scale, plain.matrix) < (1e-3 if dtype == torch.float32 else 1e-6)


def test_absolute_numbers_follow_the_scale_too():
    observed = noisy(70, 66)
    values, mask = observed.tensors
    huge = Observed(values=values * 2.0**400, mask=mask)
    for make in (lambda x: SoftImpute(shrinkage=x, solver="path"), lambda x: FactorALS(rank=3, ridge=x)):
        plain, scaled = make(2.0)(observed), make(2.0**401)(huge)
        assert relative_error(scaled.matrix / 2.0**400, plain.matrix) < 1e-6
        assert float(scaled.shrinkage) == pytest.approx(2.0**401)


def test_hiding_entries_never_empties_a_row_or_column():
    seen = []

    def spy(observed, **_):
        seen.append(observed.mask)
        return RowMean()(observed)

    mask = torch.zeros(12, 9, dtype=torch.bool)
    mask[:4] = True
    mask[range(4, 12), range(8)] = True  # eight rows with a single entry, which must not be hidden
    for seed in range(20):
        held_out_error(spy, Observed(values=torch.ones(12, 9), mask=mask), share=0.5, generator=seeded(seed))
    assert len(seen) == 20
    assert all(bool(shown.any(0).all()) and bool(shown.any(1).all()) for shown in seen)
    assert all(int(shown.sum()) < int(mask.sum()) for shown in seen)
