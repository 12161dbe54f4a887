"""check_estimator: the promises of every estimator, as a suite that you can run on your own estimator.

    from svrl import check_estimator
    check_estimator(MyEstimator(strength=2.0))

Each check is a small function whose docstring states the promise. All estimators of this package pass.
The checks do not measure how good an estimate is. They test that an estimator returns the kind and
shape of its input, has no side effects, gives equal results for equal seeds, treats a batch as its
members, and accepts matrices that are legal but odd.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import torch

from svrl.matrix.arrays import Array, as_tensor
from svrl.matrix.estimate import Estimate, Estimator, Outcome
from svrl.matrix.observed import Bernoulli, Observed

Check = Callable[[Estimator], None]


class ContractBroken(AssertionError):
    """An estimator failed `check_estimator`; the message lists every broken promise."""


def check_estimator(estimator: Estimator) -> list[str]:
    """Run the contract suite.

    Args:
        estimator: Any object that can be called as `estimator(observed, start=..., generator=...)`.

    Returns:
        The names of the checks, all passed.

    Raises:
        ContractBroken: If a check fails. The message names each one, what it promises and what happened.
    """
    broken = []
    for check in CHECKS:
        try:
            check(estimator)
        except Exception as error:  # any exception is a broken promise here
            promise = (check.__doc__ or "").strip()
            broken.append(f"{check.__name__}: {promise} Got {type(error).__name__}: {error}")
    if broken:
        raise ContractBroken(f"{estimator!r} breaks {len(broken)} of {len(CHECKS)} promises.\n" + "\n".join(broken))
    return [check.__name__ for check in CHECKS]


def example(*, batch: tuple[int, ...] = (), dtype: torch.dtype = torch.float64, seed: int = 0) -> Observed:
    """A noisy rank-3 matrix, 14 x 9, or a batch: 80% is observed, and some entry of every row and column."""
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(*batch, 14, 3, generator=generator, dtype=torch.float64)
    right = torch.randn(*batch, 9, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(*batch, 14, 9, generator=generator, dtype=torch.float64)
    mask = Bernoulli(p=0.8, cover=True).mask((*batch, 14, 9), generator)
    return Observed(values=(left @ right.mT + 0.05 * noise + 1).to(dtype), mask=mask)


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def _close(a: Array, b: Array, tolerance: float = 1e-6) -> None:
    a, b = as_tensor(a).double(), as_tensor(b).double()
    worst = float((a - b).abs().max())
    assert worst <= tolerance * (1 + float(b.abs().max())), f"the matrices differ by {worst:.2e}"


def returns_the_kind_it_was_given(estimator: Estimator) -> None:
    """NumPy in gives NumPy out, torch gives torch, with shape and precision kept."""
    for dtype in (torch.float32, torch.float64):
        observed = example(dtype=dtype)
        values, mask = observed.tensors
        out = estimator(observed, generator=_seeded()).matrix
        assert isinstance(out, torch.Tensor) and out.shape == values.shape and out.dtype == dtype, type(out)
        numpy = Observed(values=values.numpy(), mask=mask.numpy())
        same = estimator(numpy, generator=_seeded()).matrix
        assert isinstance(same, np.ndarray) and same.dtype == values.numpy().dtype, type(same)
        assert np.array_equal(same, out.numpy()), "NumPy and torch give different numbers"


def returns_finite_numbers(estimator: Estimator) -> None:
    """Every entry of the estimate is finite."""
    assert bool(torch.isfinite(as_tensor(estimator(example(), generator=_seeded()).matrix)).all())


def reports_one_number_a_matrix(estimator: Estimator) -> None:
    """code, rank, iterations and change have the batch shape, and the outcome is an Outcome."""
    for batch in ((), (2, 3)):
        estimate = estimator(example(batch=batch), generator=_seeded())
        assert isinstance(estimate, Estimate) and isinstance(estimate.outcome, Outcome)
        for name in ("code", "rank", "iterations", "change"):
            assert tuple(getattr(estimate, name).shape) == batch, name


def treats_a_batch_as_its_members(estimator: Estimator) -> None:
    """A batch of several equals each member alone, and a batch of one equals the single matrix."""
    many = example(batch=(3,))
    values, mask = many.tensors
    together = as_tensor(estimator(many, generator=_seeded()).matrix)
    for k in range(3):
        alone = estimator(Observed(values=values[k], mask=mask[k]), generator=_seeded()).matrix
        one = estimator(Observed(values=values[k : k + 1], mask=mask[k : k + 1]), generator=_seeded()).matrix
        _close(one[0], alone, 1e-9)
        _close(together[k], alone, 5e-3)


def repeats_itself(estimator: Estimator) -> None:
    """Equal arguments and equal generators give equal results, bit for bit."""
    first, second = (as_tensor(estimator(example(), generator=_seeded()).matrix) for _ in range(2))
    assert torch.equal(first, second)


def leaves_the_global_random_state_alone(estimator: Estimator) -> None:
    """Neither torch's nor NumPy's global generator moves."""
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]
    estimator(example())
    assert torch.equal(before[0], torch.get_rng_state()), "torch's global generator moved"
    assert np.array_equal(before[1], np.random.get_state()[1]), "NumPy's global generator moved"  # type: ignore[index]


def does_not_write_to_its_input(estimator: Estimator) -> None:
    """Values and mask are the same before and after."""
    observed = example()
    before = [tensor.clone() for tensor in observed.tensors]
    estimator(observed, generator=_seeded())
    assert all(torch.equal(a, b) for a, b in zip(before, observed.tensors, strict=True))


def follows_row_and_column_order(estimator: Estimator) -> None:
    """Permuting rows and columns of the input permutes the estimate."""
    observed = example()
    values, mask = observed.tensors
    rows, columns = torch.randperm(14, generator=_seeded()), torch.randperm(9, generator=_seeded())
    turned = Observed(values=values[rows][:, columns], mask=mask[rows][:, columns])
    plain = as_tensor(estimator(observed, generator=_seeded()).matrix)
    _close(estimator(turned, generator=_seeded()).matrix, plain[rows][:, columns], 5e-3)


def accepts_a_start(estimator: Estimator) -> None:
    """Starting from its own estimate, or from any matrix of that shape, works and gives finite numbers."""
    observed = example()
    first = estimator(observed, generator=_seeded())
    for start in (first, first.matrix, as_tensor(first.matrix).numpy()):
        again = estimator(observed, start=start, generator=_seeded())
        assert bool(torch.isfinite(as_tensor(again.matrix)).all())


def survives_odd_matrices(estimator: Estimator) -> None:
    """Zero, constant, fully observed, one-row, one-column, 1 x 1, tiny and huge matrices give finite numbers."""
    everything = torch.ones(6, 5, dtype=torch.bool)
    some = Bernoulli(p=0.6, cover=True).mask((6, 5), _seeded())
    numbers = torch.randn(6, 5, generator=_seeded(), dtype=torch.float64)
    cases = {
        "zero": (torch.zeros(6, 5, dtype=torch.float64), some),
        "constant": (torch.full((6, 5), 3.0, dtype=torch.float64), some),
        "full": (numbers, everything),
        "one row": (numbers[:1], everything[:1]),
        "one column": (numbers[:, :1], everything[:, :1]),
        "1 x 1": (numbers[:1, :1], everything[:1, :1]),
        "tiny": (1e-12 * numbers, some),
        "huge": (1e12 * numbers, some),
    }
    for name, (values, mask) in cases.items():
        matrix = as_tensor(estimator(Observed(values=values, mask=mask), generator=_seeded()).matrix)
        assert matrix.shape == values.shape and bool(torch.isfinite(matrix).all()), f"the {name} matrix"


def survives_empty_rows_and_columns(estimator: Estimator) -> None:
    """If the caller allows empty rows and columns, the estimate is finite there too."""
    values, mask = (tensor.clone() for tensor in example().tensors)
    mask[2], mask[:, 4] = False, False
    observed = Observed(values=values, mask=mask, allow_empty=True)
    assert bool(torch.isfinite(as_tensor(estimator(observed, generator=_seeded()).matrix)).all())


def keeps_observed_entries_if_it_says_so(estimator: Estimator) -> None:
    """An estimate marked as kept equals the observed values where they are observed."""
    observed = example()
    estimate = estimator(observed, generator=_seeded())
    if estimate.kept:
        values, mask = observed.tensors
        assert torch.equal(as_tensor(estimate.matrix)[mask], values[mask])


def is_a_value(estimator: Estimator) -> None:
    """It can be hashed, compared, pickled and printed, and its repr does not mention an address."""
    assert hash(estimator) == hash(pickle.loads(pickle.dumps(estimator)))
    assert estimator == pickle.loads(pickle.dumps(estimator))
    assert " at 0x" not in repr(estimator), repr(estimator)


CHECKS: tuple[Check, ...] = (
    returns_the_kind_it_was_given,
    returns_finite_numbers,
    reports_one_number_a_matrix,
    treats_a_batch_as_its_members,
    repeats_itself,
    leaves_the_global_random_state_alone,
    does_not_write_to_its_input,
    follows_row_and_column_order,
    accepts_a_start,
    survives_odd_matrices,
    survives_empty_rows_and_columns,
    keeps_observed_entries_if_it_says_so,
    is_a_value,
)
