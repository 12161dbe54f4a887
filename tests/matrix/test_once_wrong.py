"""What was wrong once: one test for each mistake that was found after the code was written."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse
import torch

import svrl
from svrl import (
    USVT,
    Bernoulli,
    FactorALS,
    HardImpute,
    NuclearNorm,
    Observed,
    RowMean,
    SoftImpute,
    complete,
    effective_rank,
    stable_rank,
)
from svrl.matrix.held_out import held_out_error

from .problems import low_rank, noisy, relative_error, seeded


@pytest.mark.parametrize("output", ["estimate", "fill"])
@pytest.mark.parametrize("centre", ["none", "row"])
def test_a_single_numpy_matrix_can_be_certified(output, centre):
    values, mask = (tensor.numpy() for tensor in noisy().tensors)
    observed = Observed(values=values, mask=mask)
    certificate = SoftImpute(output=output, centre=centre, tolerance=1e-9)(observed).certify(observed)
    assert isinstance(certificate.gap, np.ndarray)
    assert certificate.gap.shape == ()
    assert float(certificate.relative_gap) < 1e-6


@pytest.mark.parametrize(("few", "many"), [(1, 3), (2, 3), (1, 2)])
def test_a_warm_start_with_too_few_factors_finds_the_others(few, many):
    truth = low_rank(30, 20, many)
    observed = Observed(values=truth, mask=Bernoulli(p=0.7, cover=True).mask((30, 20), seeded()))
    warm = FactorALS(rank=many)(observed, start=FactorALS(rank=few)(observed))
    assert relative_error(warm.matrix, truth) < 2e-2


def test_a_record_does_not_share_the_callers_mask():
    values, mask = np.ones((3, 2)), np.ones((3, 2), bool)
    observed = Observed(values=values, mask=mask)
    values[0, 0], mask[0, 0] = 9, False
    assert observed.values[0, 0] == 1
    assert observed.mask[0, 0]


def test_a_list_as_mask_is_answered_with_what_to_do():
    with pytest.raises(TypeError, match=r"numpy\.asarray"):
        Observed(values=np.ones((2, 2)), mask=[[True, True], [True, True]])


@pytest.mark.parametrize(
    "use",
    [
        complete,
        Observed.from_nan,
        FactorALS(),
        SoftImpute(),
        NuclearNorm(),
        lambda sparse: complete(sparse, sparse != 0),
        lambda sparse: complete(sparse.toarray(), sparse != 0),
    ],
)
@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_matrices_are_answered_with_what_to_do(use, kind):
    with pytest.raises(TypeError, match=r"got \w+_(matrix|array)\. Give .* \.toarray\(\), with NaN"):
        use(kind(np.eye(4)))


def test_a_matrix_given_to_an_estimator_is_answered_with_what_to_do():
    for estimator in (FactorALS(), SoftImpute(), NuclearNorm()):
        with pytest.raises(TypeError, match=r"takes an Observed, got ndarray\. Use svrl\.complete"):
            estimator(np.eye(4))


def test_foreign_byte_order_is_read():
    observed = Observed(values=np.arange(6.0).reshape(2, 3).astype(">f8"), mask=np.ones((2, 3), bool))
    assert np.array_equal(observed.values, np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize(
    ("indices", "error", "said"), [([1, 1], ValueError, "1 repeated"), ([0.5, 1.0], TypeError, "whole numbers")]
)
def test_entries_that_cannot_be_placed_are_refused(indices, error, said):
    with pytest.raises(error, match=said):
        Observed.from_entries((2, 2), np.array(indices), np.ones(2), allow_empty=True)


def test_a_zero_matrix_has_rank_zero_and_a_certificate():
    observed = Observed(values=torch.zeros(6, 5), mask=torch.ones(6, 5, dtype=torch.bool))
    assert int(HardImpute(rank=2)(observed).rank) == 0
    estimate = SoftImpute()(observed)
    assert int(estimate.rank) == 0
    assert float(estimate.certify(observed).gap) == 0


def test_numpy_whole_numbers_are_ranks():
    assert FactorALS(rank=np.int64(3)).rank == 3


@pytest.mark.parametrize("measure", [effective_rank, stable_rank])
def test_a_matrix_without_entries_has_no_rank(measure):
    with pytest.raises(ValueError, match=r"m, n >= 1, got shape \(0, 3\)"):
        measure(np.zeros((0, 3)))


def test_a_tiny_probability_is_honoured():
    drawn = Bernoulli(p=1e-8).mask((2000, 2000), seeded())
    assert int(drawn.sum()) <= 2  # .04 expected; float32 uniforms would draw about .24 a million


@pytest.mark.parametrize("solver", ["small", "accelerated"])
def test_running_out_of_steps_never_leaves_an_extrapolated_point(solver):
    observed = noisy(p=0.4)
    objectives = [
        float(SoftImpute(ratio=0.02, tolerance=1e-12, max_steps=k, solver=solver)(observed).certify(observed).objective)
        for k in range(1, 25)
    ]
    best = min(objectives)
    assert all(later <= earlier + 1e-3 * best for earlier, later in itertools.pairwise(objectives))


ESTIMATORS = [FactorALS(), SoftImpute(), SoftImpute(solver="path"), SoftImpute(solver="plain"), HardImpute(rank=3)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
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


def test_masked_arrays_are_refused_with_what_to_pass():
    with pytest.raises(TypeError, match="getmaskarray"):
        Observed.from_nan(np.ma.array(np.ones((3, 4)), mask=np.eye(3, 4, dtype=bool)))
    with pytest.raises(TypeError, match="getmaskarray"):
        Observed(values=np.ma.array(np.ones((3, 4))), mask=np.ones((3, 4), bool))


def test_the_published_threshold_is_2_02():
    # 60 x 60 of ones, all observed: centred at the mid-range everything is 0; so use a checkerboard of +-1.
    board = np.where(np.indices((60, 60)).sum(0) % 2, 1.0, -1.0)
    keep, lose = USVT(threshold="published"), USVT(threshold="published", margin=1.01)
    everything = np.ones((60, 60), bool)
    assert int(keep(Observed(values=board, mask=everything)).rank) == 1  # 60 > 2.02 sqrt(60) = 15.6
    assert keep(Observed(values=board, mask=everything)).matrix == pytest.approx(
        lose(Observed(values=board, mask=everything)).matrix
    )
    small = np.where(np.indices((5, 5)).sum(0) % 2, 1.0, -1.0)  # 5 > 2.02 sqrt(5) = 4.52, but 5 < 2.7 sqrt(5)
    assert int(keep(Observed(values=small, mask=np.ones((5, 5), bool))).rank) == 1


def test_a_near_miss_is_named():
    with pytest.raises(AttributeError, match="Did you mean SoftImpute"):
        _ = svrl.SoftImput
    with pytest.raises(TypeError, match="such as SoftImpute"):
        svrl.complete(np.ones((3, 3)), estimator="SoftImpute")


def test_hard_impute_of_a_full_matrix_is_its_best_approximation():
    for m, n in ((400, 300), (700, 600)):
        full = torch.randn(m, n, generator=seeded(), dtype=torch.float64)
        estimate = HardImpute(rank=5)(Observed(values=full, mask=torch.ones(m, n, dtype=torch.bool)))
        u, s, vt = torch.linalg.svd(full, full_matrices=False)
        best = float(torch.linalg.norm(full - (u[:, :5] * s[:5]) @ vt[:5]))
        assert float(torch.linalg.norm(full - estimate.matrix)) < best * (1 + 1e-4)


@pytest.mark.parametrize("estimator", [FactorALS(rank=2), SoftImpute(), SoftImpute(solver="path"), HardImpute(rank=2)])
def test_a_start_is_checked(estimator):
    observed = noisy(6, 6, 2, 0.9)
    with pytest.raises(ValueError, match="start has shape"):
        estimator(observed, start=FactorALS(rank=2)(noisy(5, 5, 2, 0.9)))
    with pytest.raises(ValueError, match="start must be finite"):
        estimator(observed, start=torch.full((6, 6), torch.nan, dtype=torch.float64))


def test_a_ridge_that_crushes_everything_leaves_rank_zero():
    assert int(FactorALS(rank=5, ridge=1e6)(noisy()).rank) == 0


@pytest.mark.parametrize("scale", [1e170, 1e-170])
def test_ranks_do_not_depend_on_the_scale(scale):
    matrix = np.diag([3.0, 2.0, 1.0]) * scale
    assert int(svrl.approximate_rank(matrix)) == 3
    assert float(stable_rank(matrix)) == pytest.approx(14 / 9)


def test_drawing_needs_a_generator():
    with pytest.raises(TypeError, match="needs a generator"):
        Bernoulli(p=0.5).mask((3, 3), None)


@pytest.mark.parametrize("wrong", [{"clip": [0, 1]}, {"clip": (0,)}, {"shrinkage": "a"}])
def test_settings_of_the_wrong_kind_are_refused_in_words(wrong):
    with pytest.raises(ValueError, match="SoftImpute needs"):
        SoftImpute(**wrong)


def test_read_only_arrays_are_read_in_silence(recwarn):
    values = np.ones((3, 4))
    values.flags.writeable = False
    svrl.complete(values)
    assert not recwarn.list


def test_over_guessed_ranks_are_annealed():
    truth = low_rank(120, 100, 3)
    observed = Observed(values=truth, mask=Bernoulli(p=0.4, cover=True).mask((120, 100), seeded()))
    assert relative_error(FactorALS(rank=9)(observed).matrix, truth) < 1e-2


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


@pytest.mark.parametrize("solver", ["path", "plain"])
def test_large_matrices_take_an_exact_share_of_their_largest_singular_value(solver):
    observed = noisy(300, 200, 5, 0.5)
    exact = 0.02 * float(torch.linalg.matrix_norm(observed.tensors[0], 2))
    estimate = SoftImpute(solver=solver, max_steps=2)(observed)
    assert float(estimate.shrinkage) == pytest.approx(exact, rel=1e-6)


def test_a_shrinkage_below_the_resolution_of_a_gram_matrix_is_still_exact():
    left = torch.linalg.qr(torch.randn(80, 2, generator=seeded(), dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(70, 2, generator=seeded(1), dtype=torch.float64))[0]
    values = left @ torch.diag(torch.tensor([1.0, 3e-8], dtype=torch.float64)) @ right.T
    observed = Observed(values=values, mask=torch.ones(80, 70, dtype=torch.bool))
    estimate = SoftImpute(shrinkage=1e-8, solver="plain")(observed).matrix
    assert float(torch.linalg.svdvals(estimate)[1]) == pytest.approx(2e-8, rel=1e-3)


def test_a_rank_that_predicts_nothing_says_so():
    noise = torch.randn(60, 40, generator=seeded(), dtype=torch.float64)
    good = noisy(60, 40, 3, 0.6, noise=0.01)
    hopeless = Observed(values=noise, mask=good.tensors[1])
    assert float(FactorALS()(hopeless).held_out) > 0.9
    assert float(FactorALS()(good).held_out) < 0.1
    assert FactorALS(rank=3)(good).held_out is None
