"""The error messages of the package, in one table: what was wrong, what was found and where, and what to do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from svrl.matrix import (
    USVT,
    Bernoulli,
    Estimate,
    FactorALS,
    HardImpute,
    NuclearNorm,
    Observed,
    RowMean,
    SoftImpute,
    approximate_rank,
    certify,
    complete,
    cross,
    effective_rank,
    objective,
    spectrum,
    stable_rank,
)

from .problems import low_rank, noisy, seeded

SMALL = noisy(9, 7, 2)
NUMBERS = {name: torch.tensor(0) for name in ("code", "rank", "iterations", "change")}
HALF = torch.zeros(2, 2, dtype=torch.float16)


def everything(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


def observed(values: Any, mask: Any) -> Callable[[], object]:
    return lambda: Observed(values=values, mask=mask)


def with_hole(shape: tuple[int, ...], hole: Any) -> Callable[[], object]:
    mask = everything(*shape)
    mask[hole] = False
    return observed(torch.zeros(shape), mask)


def with_bad_entry(bad: float) -> torch.Tensor:
    values = torch.zeros(2, 3, 4)
    values[1, 2, 3] = bad
    return values


def from_entries(indices: list, values: list) -> Callable[[], object]:
    return lambda: Observed.from_entries((2, 3), np.array(indices), np.array(values), allow_empty=True)


def made(record: Callable[..., object], **settings: Any) -> Callable[[], object]:
    return lambda: record(**settings)


def asked(answer: Callable[..., np.ndarray], shape: Any = (40, 30), **settings: Any) -> Callable[[], object]:
    return lambda: cross(answer, shape, **settings)


def ones(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return np.ones((len(rows), len(columns)))


ERRORS: list[tuple[Callable[[], object], str]] = [
    # Settings.
    (made(SoftImpute, shrinkage=0.0), "SoftImpute needs shrinkage above 0 and finite, got 0.0"),
    (made(SoftImpute, shrinkage=float("nan")), "SoftImpute needs shrinkage above 0 and finite, got nan"),
    (made(SoftImpute, shrinkage="a"), "SoftImpute needs shrinkage"),
    (made(SoftImpute, tolerance=0), "tolerance above 0 and at most 1, because it is a relative change; got 0"),
    (made(SoftImpute, tolerance=1e308), r"tolerance above 0 and at most 1, .*; got 1e\+308"),
    (made(SoftImpute, max_steps=0), "SoftImpute needs max_steps as a whole number of at least 1, got 0"),
    (made(SoftImpute, output="filled"), "SoftImpute has no output 'filled': choose one of estimate, fill"),
    (made(SoftImpute, centre="median"), "no centre 'median': choose one of none, mean, midrange, row"),
    (made(SoftImpute, solver="fast"), "no solver 'fast': choose one of auto, small, path, plain, accelerated"),
    (made(SoftImpute, clip=(1.0, 1.0)), r"SoftImpute needs clip bounds .* low < high, got \(1.0, 1.0\)"),
    (made(SoftImpute, clip=[0, 1]), "SoftImpute needs clip bounds"),
    (made(SoftImpute, clip=(0,)), "SoftImpute needs clip bounds"),
    (made(FactorALS, rank=0), "FactorALS needs rank as a whole number of at least 1, got 0"),
    (made(FactorALS, rank=2.5), "FactorALS needs rank as a whole number of at least 1, got 2.5"),
    (made(FactorALS, rank="best"), "FactorALS needs .* got 'best'"),
    (made(FactorALS, ridge=-1.0), "FactorALS needs ridge above 0 and finite, got -1.0"),
    (made(FactorALS, max_rank=0), "FactorALS needs max_rank as a whole number of at least 1, got 0"),
    (made(HardImpute, rank=0), "HardImpute needs rank as a whole number of at least 1, got 0"),
    (made(NuclearNorm, weight=0), "NuclearNorm needs weight above 0 and finite, got 0"),
    (made(NuclearNorm, smallest=-1), "NuclearNorm needs smallest above 0 and finite"),
    (made(USVT, threshold="best"), "USVT has no threshold 'best': choose one of variance, published"),
    (made(USVT, margin=0), "USVT needs margin above 0 and finite, got 0"),
    (made(USVT, noise=-1.0), "USVT needs a noise of at least 0, got -1.0"),
    (made(RowMean, output="mean"), "RowMean has no output 'mean'"),
    *((made(Bernoulli, p=p), r"probability p in \(0, 1\], got") for p in (0, -0.1, 1.1, float("nan"))),
    (lambda: Bernoulli(p=0.5).mask((3, 3), None), "needs a generator"),
    (lambda: Bernoulli(p=0.5).mask((3, 3), 0), r"torch\.Generator or a numpy\.random\.Generator, got int"),
    # Arrays.
    (observed(torch.zeros(3, 4), everything(4, 3)), r"one shape, got \(3, 4\) and \(4, 3\)"),
    (observed(torch.zeros(4), everything(4)), r"needs matrices \(\.\.\., m, n\).*got shape \(4,\)"),
    (observed(torch.zeros(0, 3, 3), everything(0, 3, 3)), r"got shape \(0, 3, 3\)"),
    (observed(HALF, everything(2, 2)), "float32, float64 or whole numbers, got float16"),
    (observed(HALF.to(torch.complex64), everything(2, 2)), "whole numbers, got complex64"),
    (observed(everything(2, 2), everything(2, 2)), "whole numbers, got bool"),
    (observed(HALF.numpy(), np.ones((2, 2), bool)), "got float16"),
    (observed(np.ma.array(np.ones((3, 4))), np.ones((3, 4), bool)), "getmaskarray"),
    (observed([[1.0, 2.0]], np.ones((1, 2), bool)), "NumPy array or a torch tensor, got list"),
    (observed(np.ones((1, 2)), [[True, True]]), r"numpy\.asarray"),
    (observed(np.ones((2, 2)), np.ones((2, 2), np.int64)), "mask must be boolean, got int"),
    (observed(np.ones((2, 2)), torch.ones(2, 2)), "mask must be boolean, got float"),
    (observed(with_bad_entry(np.inf), everything(2, 3, 4)), r"entry \(1, 2, 3\) is inf"),
    (observed(with_bad_entry(np.nan).numpy(), everything(2, 3, 4).numpy()), r"entry \(1, 2, 3\) is nan"),
    (lambda: Observed.from_nan(np.array([[np.nan, np.inf], [1.0, 2.0]])), r"entry \(0, 1\) is inf"),
    (lambda: complete([[np.nan, np.nan], [1.0, 2.0]]), "first: row 0"),
    # What no method can recover.
    (with_hole((3, 4), ...), "No entry is observed"),
    (with_hole((2, 3, 4, 5), (1, 2)), r"No entry of matrix \(1, 2\) is observed"),
    (lambda: Observed(values=np.ones((3, 4)), mask=np.zeros((3, 4), bool), allow_empty=True), "No entry is observed"),
    (with_hole((5, 4), ([2, 4],)), r"2 of 5 rows with no observed entry \(first: row 2\)"),
    (with_hole((5, 4), (slice(None), 3)), r"1 of 4 columns with no observed entry \(first: column 3\)"),
    (with_hole((2, 3, 5, 4), (1, 0, 3)), r"1 of 30 rows .* \(first: row 3 of matrix \(1, 0\)\)"),
    (with_hole((3, 5, 4), (2, slice(None), 1)), r"1 of 12 columns .* \(first: column 1 of matrix \(2,\)\)"),
    # Entries that cannot be placed.
    (from_entries([1, 6], [1.0, 2.0]), r"0\.\.5 for shape \(2, 3\), got 1\.\.6"),
    (from_entries([-1, 2], [1.0, 2.0]), r"got -1\.\.2"),
    (from_entries([1, 2], [1.0, 1.0, 1.0]), r"one length, got \(2,\) and \(3,\)"),
    (from_entries([1, 1], [1.0, 1.0]), "1 repeated"),
    (from_entries([0.5, 1.0], [1.0, 1.0]), "whole numbers"),
    # Lists.
    (lambda: complete([[1.0, 2.0], [3.0]]), r"^matrix has rows of different lengths\. Give each row the same number"),
    (lambda: complete([[1.0, None], [3.0, 4.0]]), "got object"),
    (lambda: complete([[1.0, "2"], [3.0, 4.0]]), "whole numbers, got <U"),
    (lambda: complete([1.0, 2.0]), r"matrices \(\.\.\., m, n\)"),
    # Estimates, certificates and ranks.
    (lambda: complete(np.ones((3, 3)), estimator="SoftImpute"), "such as SoftImpute"),
    (lambda: Estimate(dense=None, factors=None, **NUMBERS).matrix, "neither a matrix nor factors"),
    (lambda: RowMean()(SMALL).certify(SMALL), "nothing to certify"),
    (lambda: certify(SMALL, low_rank(9, 7, 2), 0.0), "shrinkage above 0, got 0"),
    (lambda: objective(SMALL, low_rank(7, 9, 2), 1.0), r"shape \(7, 9\) but the observed one has \(9, 7\)"),
    *(
        (lambda energy=energy: approximate_rank(torch.eye(3), energy=energy), r"share in \(0, 1\], got")
        for energy in (0, 1.1, float("nan"))
    ),
    # Chosen rows and columns.
    *((asked(ones, shape), "cross needs") for shape in ((0, 5), (5,), (-3, 4), (3.0, 4))),
    (asked(ones, tolerance=0.0), "cross needs tolerance above 0 and finite, got 0.0"),
    (asked(ones, first=0), "cross needs first as a whole number of at least 1, got 0"),
    (asked(ones, most=0), "cross needs most as a whole number of at least 1, got 0"),
    (asked(lambda rows, columns: np.zeros(len(rows))), r"must return \(24, 24\) entries, got \(24,\)"),
    (asked(lambda rows, columns: ones(rows, columns) * np.nan), "returned NaN or infinity"),
]
for measure in (approximate_rank, effective_rank, stable_rank, spectrum):
    ERRORS += [
        (lambda measure=measure: measure(torch.zeros(4)), r"got shape \(4,\)"),
        (lambda measure=measure: measure(np.zeros((0, 3))), r"m, n >= 1, got shape \(0, 3\)"),
        (lambda measure=measure: measure(torch.tensor([[1.0, torch.nan]])), "NaN or infinity"),
        (lambda measure=measure: measure(HALF), "got float16"),
    ]
for estimator in (FactorALS(rank=2), SoftImpute(), SoftImpute(solver="path"), HardImpute(rank=2)):
    wrong, nan = FactorALS(rank=2)(noisy(5, 5, 2, 0.9)), torch.full((9, 7), torch.nan, dtype=torch.float64)
    ERRORS += [
        (lambda call=estimator: call(np.eye(4)), r"takes an Observed, got ndarray\. Use svrl\.complete"),
        (lambda call=estimator, start=wrong: call(SMALL, start=start), "start has shape"),
        (lambda call=estimator, start=nan: call(SMALL, start=start), "start must be finite"),
    ]
for use in (complete, Observed.from_nan, FactorALS(), lambda sparse: complete(sparse.toarray(), sparse != 0)):
    for kind in (scipy.sparse.csr_matrix, scipy.sparse.coo_array):
        said = r"got \w+_(matrix|array)\. Give .* \.toarray\(\), with NaN"
        ERRORS.append((lambda use=use, kind=kind: use(kind(np.eye(4))), said))


@pytest.mark.parametrize(("wrong", "said"), ERRORS, ids=[said for _, said in ERRORS])
def test_the_message_says_what_was_wrong(wrong: Callable[[], object], said: str):
    with pytest.raises((TypeError, ValueError), match=said):
        wrong()


def test_the_same_settings_are_accepted_as_numpy_numbers_and_a_generator_of_either_kind():
    assert FactorALS(rank=np.int64(3)).rank == 3
    for source in (seeded(1), np.random.default_rng(1)):
        assert Bernoulli(p=0.5).mask((3, 3), source).shape == (3, 3)
