from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from svrl.matrix import (
    USVT,
    ContractBroken,
    Estimate,
    Estimator,
    FactorALS,
    HardImpute,
    NuclearNorm,
    Observed,
    RowMean,
    SoftImpute,
    check_estimator,
)
from svrl.matrix.contract import CHECKS, example

ESTIMATORS = [
    SoftImpute(),
    SoftImpute(output="fill", centre="row"),
    SoftImpute(solver="path", ratio=0.2),
    pytest.param(SoftImpute(solver="plain", centre="mean"), marks=pytest.mark.slow),
    SoftImpute(solver="accelerated", clip=(-1.0, 2.0)),
    SoftImpute.authors(),
    FactorALS(),
    FactorALS(rank=3),
    FactorALS(rank=2, centre="row", output="fill"),
    HardImpute(rank=3),
    pytest.param(HardImpute(rank=2, centre="midrange", output="fill"), marks=pytest.mark.slow),
    USVT(),
    USVT(threshold="published", output="fill"),
    NuclearNorm(),
    NuclearNorm.authors(),
    RowMean(),
    RowMean(output="estimate"),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_every_estimator_keeps_its_promises(estimator: Estimator):
    passed = check_estimator(estimator)
    assert passed == [check.__name__ for check in CHECKS]
    assert len(passed) >= 13


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("writeable", [True, False])
def test_factors_of_either_kind_make_the_same_matrix(order: str, writeable: bool):
    # NumPy and torch bring a BLAS each, which round differently on some CPUs: one of them must do both.
    source = torch.Generator().manual_seed(0)
    factors = [np.array(torch.randn(m, 9, generator=source).double().numpy(), order=order) for m in (200, 64)]
    given = RowMean(output="estimate")(example())
    tensors = replace(given, dense=None, factors=tuple(torch.from_numpy(part) for part in factors)).matrix
    for part in factors:
        part.flags.writeable = writeable
    arrays = replace(given, dense=None, factors=tuple(factors)).matrix
    assert isinstance(arrays, np.ndarray)
    assert np.array_equal(arrays, tensors.numpy())


@dataclass(frozen=True)
class Constant:
    """A user's own estimator, which knows nothing of this package but its records."""

    value: float = 0.5

    def __call__(self, observed: Observed, *, start=None, generator=None) -> Estimate:
        return replace(RowMean(output="estimate")(observed), dense=self.fill(observed))

    def fill(self, observed: Observed):
        return observed.values * 0 + self.value


def test_a_users_own_estimator_can_be_checked():
    check_estimator(Constant())


class MutatesItsInput(Constant):
    def __call__(self, observed, *, start=None, generator=None):
        observed.values[..., 0, 0] += 1
        return super().__call__(observed)


class UsesTheGlobalGenerator(Constant):
    def fill(self, observed):
        return super().fill(observed) + float(torch.rand(()))


class ReturnsDoublePrecision(Constant):
    def fill(self, observed):
        filled = super().fill(observed)
        return filled.double() if isinstance(filled, torch.Tensor) else filled.astype("float64")


class ReturnsTensorsForArrays(Constant):
    def fill(self, observed):
        return torch.as_tensor(super().fill(observed))


class IgnoresTheBatch(Constant):
    def fill(self, observed):
        return super().fill(observed) + float(observed.tensors[0].mean())


class ReportsForTheWholeBatch(Constant):
    def __call__(self, observed, *, start=None, generator=None):
        estimate = super().__call__(observed)
        return replace(estimate, rank=estimate.rank.reshape(-1)[0])


class ReturnsNaN(Constant):
    def fill(self, observed):
        return super().fill(observed) * float("nan")


class CannotBeHashed(Constant):
    __hash__ = None


class KeepsNothingItSaysItKept(Constant):
    def __call__(self, observed, *, start=None, generator=None):
        return replace(super().__call__(observed), kept=True)


class LooksAtTheOrderOfRows(Constant):
    def fill(self, observed):
        filled = super().fill(observed)
        filled[..., 0, :] = 3.0
        return filled


class RefusesAStart(Constant):
    def __call__(self, observed, *, start=None, generator=None):
        if start is not None:
            raise NotImplementedError("no warm starts here")
        return super().__call__(observed)


class CountsItsCalls(Constant):
    calls = 0

    def fill(self, observed):
        CountsItsCalls.calls += 1
        return super().fill(observed) + self.calls


class FailsOnEmptyRows(Constant):
    def fill(self, observed):
        filled = super().fill(observed)
        filled[~observed.mask.any(-1)] = float("nan")
        return filled


class FailsOnZeroMatrices(Constant):
    def fill(self, observed):
        if not observed.tensors[0].any():
            raise ZeroDivisionError("nothing to divide by")
        return super().fill(observed)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (MutatesItsInput(), "does_not_write_to_its_input"),
        (UsesTheGlobalGenerator(), "leaves_the_global_random_state_alone"),
        (UsesTheGlobalGenerator(), "repeats_itself"),
        (ReturnsDoublePrecision(), "returns_the_kind_it_was_given"),
        (ReturnsTensorsForArrays(), "returns_the_kind_it_was_given"),
        (IgnoresTheBatch(), "treats_a_batch_as_its_members"),
        (ReportsForTheWholeBatch(), "reports_one_number_a_matrix"),
        (ReturnsNaN(), "returns_finite_numbers"),
        (CannotBeHashed(), "is_a_value"),
        (KeepsNothingItSaysItKept(), "keeps_observed_entries_if_it_says_so"),
        (LooksAtTheOrderOfRows(), "follows_row_and_column_order"),
        (RefusesAStart(), "accepts_a_start"),
        (CountsItsCalls(), "repeats_itself"),
        (FailsOnEmptyRows(), "survives_empty_rows_and_columns"),
        (FailsOnZeroMatrices(), "survives_odd_matrices"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_broken_promise_is_named(broken: Estimator, promise: str):
    state = torch.get_rng_state()
    try:
        with pytest.raises(ContractBroken, match=f"\n{promise}: ") as caught:
            check_estimator(broken)
    finally:
        torch.set_rng_state(state)
    sentence = next(check.__doc__ for check in CHECKS if check.__name__ == promise)
    assert sentence.strip() in str(caught.value)
    assert str(caught.value).startswith(f"{broken!r} breaks ")


def test_the_message_counts_and_lists_all_broken_promises():
    with pytest.raises(ContractBroken) as caught:
        check_estimator(CannotBeHashed())
    head, *lines = str(caught.value).splitlines()
    assert head.endswith(f"breaks 1 of {len(CHECKS)} promises.")
    assert len(lines) == 1
    assert "TypeError" in lines[0]


def test_something_that_is_no_estimator_breaks_nearly_everything():
    with pytest.raises(ContractBroken, match=r"returns_finite_numbers: .* Got TypeError"):
        check_estimator("soft-impute")
