"""Observed: a matrix of which only some entries are known.

A mask says which entries are missing, never NaN, so that nothing downstream can mistake a
gap for a number. Leading axes are a batch of matrices: values and mask are (..., m, n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from svrl.matrix.arrays import Array, as_array, as_floating, as_tensor, like
from svrl.runtime.kernels import njit


@njit(cache=True, nogil=True)
def _copy_observed(values: Any, mask: Any, out: Any, columns: Any) -> Any:
    """Copy observed entries of (B, m, n) into `out`, zeros elsewhere; one pass, no temporaries.

    Returns flat positions of the first trouble, or -1: a non-finite entry, a matrix with nothing
    observed, an empty row, an empty column. `columns` (n,) is scratch.
    """
    infinite, nothing, empty_row, empty_column = -1, -1, -1, -1
    batch, m, n = values.shape
    for b in range(batch):
        columns[:] = 0
        any_observed = False
        for i in range(m):
            seen = False
            for j in range(n):
                if mask[b, i, j]:
                    value = values[b, i, j]
                    out[b, i, j] = value
                    seen = True
                    columns[j] = 1
                    if infinite < 0 and not np.isfinite(value):
                        infinite = (b * m + i) * n + j
                else:
                    out[b, i, j] = 0
            if seen:
                any_observed = True
            elif empty_row < 0:
                empty_row = b * m + i
        if not any_observed and nothing < 0:
            nothing = b
        for j in range(n):
            if columns[j] == 0 and empty_column < 0:
                empty_column = b * n + j
    return infinite, nothing, empty_row, empty_column


def _copy_observed_torch(values: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int, int, int]]:
    """The same in plain torch, for devices numba does not reach (one synchronisation)."""
    out = torch.where(mask, values, torch.zeros((), dtype=values.dtype, device=values.device))

    def first(bad: torch.Tensor) -> int:
        found = torch.nonzero(bad.reshape(-1))
        return int(found[0]) if len(found) else -1

    rows, columns = mask.any(-1), mask.any(-2)
    return out, (first(~torch.isfinite(out)), first(~rows.any(-1)), first(~rows), first(~columns))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Observed:
    """Some entries of a matrix, or of a batch of matrices.

    Attributes:
        values: (..., m, n), float32 or float64, NumPy or torch; copied. Zero wherever the mask is
            False: whatever stood there, NaN too, is dropped when the record is made.
        mask: (..., m, n), True where an entry is observed; copied.
        allow_empty: Accept rows and columns with no observed entry. No low-rank method can
            recover those; estimators then return what their regularisation says (often 0).

    Raises:
        ValueError: With one sentence that names the first offending place, if the shapes differ,
            an observed entry is not finite, nothing is observed, or a row or column is empty.
    """

    values: Array
    mask: Array
    allow_empty: bool = False

    def __post_init__(self) -> None:
        values, mask = self.values, self.mask
        if not (
            isinstance(values, np.ndarray)
            and values.dtype.char in "fd"
            and values.dtype.isnative
            and not isinstance(values, np.ma.MaskedArray)
        ):
            values = as_floating(values, "values")
        mask = mask if isinstance(mask, np.ndarray | torch.Tensor) else as_tensor(mask)
        if values.shape != mask.shape:
            raise ValueError(
                f"values and mask must have one shape, got {tuple(values.shape)} and {tuple(mask.shape)}. "
                "Give the mask True at each observed entry."
            )
        if not (mask.dtype.char == "?" if isinstance(mask, np.ndarray) else mask.dtype == torch.bool):
            raise TypeError(f"mask must be boolean, got {str(mask.dtype).removeprefix('torch.')}. Use mask != 0.")
        if values.ndim < 2 or 0 in values.shape:
            raise ValueError(
                f"Observed needs matrices (..., m, n) with entries in them, got shape {tuple(values.shape)}."
            )
        if isinstance(values, torch.Tensor) and values.device.type != "cpu":
            kept = as_tensor(mask).to(values.device, copy=True)
            out, trouble = _copy_observed_torch(values, kept)
            self._set(out, kept)
        else:
            trouble = self._copy_on_cpu(as_array(values), as_array(mask))
        if max(trouble[:2] if self.allow_empty else trouble) >= 0:
            self._explain(as_tensor(values), *trouble)

    def _copy_on_cpu(self, values: np.ndarray, mask: np.ndarray) -> tuple[int, int, int, int]:
        out = np.empty(values.shape, values.dtype)
        batch = (-1, *values.shape[-2:])
        trouble = _copy_observed(
            values.reshape(batch), mask.reshape(batch), out.reshape(batch), np.empty(values.shape[-1], np.uint8)
        )
        if isinstance(self.values, np.ndarray):
            self._set(out, mask.copy())
        else:
            self._set(torch.from_numpy(out), torch.from_numpy(mask.copy()))
        return trouble

    def _set(self, values: Array, mask: Array) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "mask", mask)

    @property
    def numpy(self) -> bool:
        """Whether the caller gave NumPy arrays, and so gets NumPy arrays."""
        return isinstance(self.values, np.ndarray)

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Values and mask as torch tensors on the same memory."""
        return as_tensor(self.values), as_tensor(self.mask)

    def _explain(self, values: torch.Tensor, infinite: int, nothing: int, row: int, column: int) -> None:
        *batch, m, n = values.shape

        def where(matrix: int) -> str:
            return f" of matrix {tuple(int(i) for i in np.unravel_index(matrix, batch))}" if batch else ""

        if infinite >= 0:
            place = tuple(int(i) for i in np.unravel_index(infinite, values.shape))
            raise ValueError(
                f"Observed entry {place} is {float(values[place])}, and observed entries must be finite. "
                "Mark it as missing in the mask, or repair it."
            )
        if nothing >= 0:
            raise ValueError(f"No entry{where(nothing)} is observed, so there is nothing to recover it from.")
        line, at, size = ("row", row, m) if row >= 0 else ("column", column, n)
        mask = as_tensor(self.mask)
        empty = int((~mask.any(-1 if line == "row" else -2)).sum())
        raise ValueError(
            f"Observed has {empty} of {size * int(np.prod(batch))} {line}s with no observed entry (first: {line} "
            f"{at % size}{where(at // size)}), and no low-rank method can recover those. Raise the observation "
            f"probability, draw at least one entry per {line}, or pass allow_empty=True."
        )

    @classmethod
    def from_nan(cls, matrix: Array, *, allow_empty: bool = False) -> Observed:
        """Read a matrix (..., m, n) in which NaN marks a missing entry; infinities stay errors."""
        values = as_floating(matrix, "matrix")
        mask = ~torch.isnan(values)
        numpy = isinstance(matrix, np.ndarray)
        return cls(values=like(values, numpy), mask=like(mask, numpy), allow_empty=allow_empty)

    @classmethod
    def from_entries(
        cls, shape: tuple[int, int], indices: Array, values: Array, *, allow_empty: bool = False
    ) -> Observed:
        """Scatter values (k,) at flat indices (k,), row by row, of one matrix of the given shape.

        This is what `Bernoulli.indices` and its siblings return: the cheap form when few entries
        are evaluated.
        """
        flat, at = as_floating(values, "values"), as_tensor(indices)
        if at.dtype.is_floating_point or at.dtype == torch.bool:
            raise TypeError(f"indices must be whole numbers, got {str(at.dtype).removeprefix('torch.')}.")
        at = at.long()
        size = shape[0] * shape[1]
        if flat.ndim != 1 or flat.shape != at.shape:
            raise ValueError(
                f"indices and values must be two vectors of one length, got {tuple(at.shape)} and {tuple(flat.shape)}."
            )
        if len(at) and (int(at.min()) < 0 or int(at.max()) >= size):
            raise ValueError(
                f"indices must lie in 0..{size - 1} for shape {shape}, got {int(at.min())}..{int(at.max())}."
            )
        dense = torch.zeros(size, dtype=flat.dtype, device=flat.device)
        mask = torch.zeros(size, dtype=torch.bool, device=flat.device)
        dense[at], mask[at] = flat, True
        if int(mask.sum()) != len(at):
            raise ValueError(f"indices must differ, got {len(at) - int(mask.sum())} repeated; which value is meant?")
        numpy = isinstance(values, np.ndarray)
        return cls(values=like(dense.view(shape), numpy), mask=like(mask.view(shape), numpy), allow_empty=allow_empty)

    @classmethod
    def trusted(cls, values: torch.Tensor, mask: torch.Tensor) -> Observed:
        """Skip the checks, and with them the one synchronisation of the device, in inner loops.

        Values must already be zero wherever the mask is False.
        """
        record = object.__new__(cls)
        object.__setattr__(record, "allow_empty", True)
        record._set(values, mask)
        return record

    @property
    def shape(self) -> tuple[int, ...]:
        """(..., m, n)."""
        return tuple(self.values.shape)

    @property
    def fraction(self) -> float:
        """The share of entries that are observed, over the whole batch."""
        return float(self.tensors[1].mean(dtype=torch.float64))

    def __repr__(self) -> str:
        kind = "numpy" if isinstance(self.values, np.ndarray) else str(self.values.device)
        dtype = str(self.values.dtype).removeprefix("torch.")
        return f"Observed(shape={self.shape}, observed={self.fraction:.1%}, {dtype}, {kind})"


def check_observed(observed: Any) -> None:
    """Refuse what is given to an estimator in place of an Observed."""
    if not isinstance(observed, Observed):
        as_tensor(observed)  # what is no array at all has a sentence of its own
        raise TypeError(
            f"An estimator takes an Observed, got {type(observed).__name__}. "
            "Use svrl.complete(matrix, estimator=...), where NaN marks what is missing."
        )
