from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

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
class Own:
    """A user's own estimator: one number everywhere, then whatever `spoil` makes of it."""

    spoil: Callable[[Observed, Any], Any] | None = None
    changes: Callable[[Estimate], dict[str, Any]] | None = None

    def __call__(self, observed: Observed, *, start=None, generator=None) -> Estimate:
        if start is not None and self.spoil is no_start:
            raise NotImplementedError("no warm starts here")
        filled = observed.values * 0 + 0.5
        filled = self.spoil(observed, filled) if self.spoil else filled
        estimate = replace(RowMean(output="estimate")(observed), dense=filled)
        return replace(estimate, **self.changes(estimate)) if self.changes else estimate


def test_a_users_own_estimator_can_be_checked():
    check_estimator(Own())


def no_start(observed, filled):
    return filled


def writes_to_its_input(observed, filled):
    observed.values[..., 0, 0] += 1
    return filled


def first_row_is_special(observed, filled):
    filled[..., 0, :] = 3.0
    return filled


def nan_in_empty_rows(observed, filled):
    filled[~observed.mask.any(-1)] = float("nan")
    return filled


def global_noise(observed, filled):
    return filled + float(torch.rand(()))


BROKEN = [
    ("does_not_write_to_its_input", Own(writes_to_its_input)),
    ("leaves_the_global_random_state_alone", Own(global_noise)),
    ("repeats_itself", Own(global_noise)),
    ("returns_the_kind_it_was_given", Own(lambda _, x: x.double() if isinstance(x, torch.Tensor) else x.astype(float))),
    ("returns_the_kind_it_was_given", Own(lambda _, filled: torch.as_tensor(filled))),
    ("treats_a_batch_as_its_members", Own(lambda observed, x: x + float(observed.tensors[0].mean()))),
    ("reports_one_number_a_matrix", Own(changes=lambda estimate: {"rank": estimate.rank.reshape(-1)[0]})),
    ("returns_finite_numbers", Own(lambda _, filled: filled * float("nan"))),
    ("is_a_value", Own([])),  # a list has no hash
    ("keeps_observed_entries_if_it_says_so", Own(changes=lambda _: {"kept": True})),
    ("follows_row_and_column_order", Own(first_row_is_special)),
    ("accepts_a_start", Own(no_start)),
    ("survives_empty_rows_and_columns", Own(nan_in_empty_rows)),
    ("survives_odd_matrices", Own(lambda observed, x: x / int(bool(observed.tensors[0].any())))),
]


@pytest.mark.parametrize(("promise", "broken"), BROKEN, ids=[promise for promise, _ in BROKEN])
def test_a_broken_promise_is_named(promise: str, broken: Estimator):
    state = torch.get_rng_state()
    try:
        with pytest.raises(ContractBroken, match=f"\n{promise}: ") as caught:
            check_estimator(broken)
    finally:
        torch.set_rng_state(state)
    sentence = next(check.__doc__ for check in CHECKS if check.__name__ == promise)
    assert sentence.strip() in str(caught.value)
    head, *lines = str(caught.value).splitlines()
    assert head == f"{broken!r} breaks {len(lines)} of {len(CHECKS)} promises."


def test_an_object_that_is_not_an_estimator_breaks_nearly_everything():
    with pytest.raises(ContractBroken, match=r"returns_finite_numbers: .* Got TypeError"):
        check_estimator("soft-impute")
