"""Observed: a matrix with some known entries. Bernoulli: draw the entries to observe.

A mask says which entries are missing, never NaN, so that nothing downstream can mistake a
gap for a number. Leading axes are a batch of matrices: values and mask are (..., m, n).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from svrl.matrix.arrays import Array, Generator, as_array, as_floating, as_tensor, like, torch_generator
from svrl.runtime.kernels import njit

_CPU = torch.device("cpu")


@njit(cache=True, nogil=True)
def _copy_observed(values: Any, mask: Any, out: Any, columns: Any) -> Any:
    """Copy observed entries of (B, m, n) into `out`, zeros elsewhere; one pass, no temporaries.

    Returns the flat positions of the first non-finite entry, matrix with nothing observed, empty row and empty column,
    each -1 if there is none. `columns` (n,) is scratch.
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
    """The same in plain torch, for devices that numba does not reach. Synchronises the device."""
    out = values.masked_fill(~mask, 0)

    def first(bad: torch.Tensor) -> int:
        found = torch.nonzero(bad.reshape(-1))
        return int(found[0]) if len(found) else -1

    rows, columns = mask.any(-1), mask.any(-2)
    return out, (first(~torch.isfinite(out)), first(~rows.any(-1)), first(~rows), first(~columns))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Observed:
    """Some entries of a matrix, or of a batch of matrices.

    Attributes:
        values: (..., m, n), float32 or float64, NumPy or torch; copied. The copy is zero wherever the mask is False,
            even where the value is NaN.
        mask: (..., m, n), True where an entry is observed; copied.
        allow_empty: Accept rows and columns with no observed entry. No low-rank method can
            recover those; estimators then return what their regularisation says (often 0).

    Raises:
        ValueError: If the shapes differ, an observed entry is not finite, nothing is observed, or a row or column is
            empty. The message names the first place.
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
                "The mask is True at each observed entry."
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
            given, seen = as_array(values), as_array(mask)
            copy, batch, columns = np.empty_like(given), (-1, *given.shape[-2:]), np.empty(given.shape[-1], np.uint8)
            trouble = _copy_observed(given.reshape(batch), seen.reshape(batch), copy.reshape(batch), columns)
            numpy = isinstance(self.values, np.ndarray)
            self._set(*(part if numpy else torch.from_numpy(part) for part in (copy, seen.copy())))
        if max(trouble[:2] if self.allow_empty else trouble) >= 0:
            self._explain(as_tensor(values), *trouble)

    def _set(self, values: Array, mask: Array) -> None:
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "mask", mask)

    @property
    def numpy(self) -> bool:
        """Whether the caller gave NumPy arrays and gets NumPy arrays back."""
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
        """Read a matrix (..., m, n) in which NaN marks a missing entry; infinities still raise."""
        values = as_floating(matrix, "matrix")
        mask = ~torch.isnan(values)
        numpy = isinstance(matrix, np.ndarray)
        return cls(values=like(values, numpy), mask=like(mask, numpy), allow_empty=allow_empty)

    @classmethod
    def from_entries(
        cls, shape: tuple[int, int], indices: Array, values: Array, *, allow_empty: bool = False
    ) -> Observed:
        """Scatter values (k,) to flat indices (k,), numbered row by row, of one matrix of the given shape.

        `Bernoulli.indices` and its siblings return such indices: the cheap form when you evaluate
        few entries.
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
        """Skip the checks, and so the one synchronisation of the device, in inner loops.

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
    """Raise TypeError unless this is an Observed."""
    if not isinstance(observed, Observed):
        as_tensor(observed)  # raises for anything that is not an array
        raise TypeError(
            f"An estimator takes an Observed, got {type(observed).__name__}. "
            "Use svrl.complete(matrix, estimator=...), where NaN marks a missing entry."
        )


@dataclass(frozen=True, kw_only=True)
class Bernoulli:
    """Observe each entry independently with probability p, as the paper does.

    `mask(shape, generator)` gives a boolean (..., m, n), a separate draw for every matrix of a batch.
    `indices(shape, generator)` gives the sorted flat indices of one matrix. Its cost is proportional to the entries
    drawn, not to m * n: at p = 0.2, a backup saves time with a list of entries and none with a mask.

    Attributes:
        p: Probability in (0, 1].
        cover: Add one uniformly drawn entry to every row and column left empty, so that all of the matrix
            can be recovered.
    """

    p: float
    cover: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.p <= 1:
            raise ValueError(f"Bernoulli needs a probability p in (0, 1], got {self.p}.")

    def mask(self, shape: tuple[int, ...], generator: Generator, device: torch.device = _CPU) -> torch.Tensor:
        """Boolean (..., m, n), True where an entry is observed."""
        source = _explicit(generator, device)
        # float32 uniforms are multiples of 6e-8: too coarse for a tiny probability.
        precise = torch.float32 if self.p > 1e-3 else torch.float64
        mask = torch.rand(shape, generator=source, device=device, dtype=precise) < self.p
        return _cover(mask, source) if self.cover else mask

    def indices(self, shape: tuple[int, int], generator: Generator, device: torch.device = _CPU) -> torch.Tensor:
        """Sorted flat indices (k,); the gaps between them are geometric, so only k numbers are drawn."""
        source = _explicit(generator, device)
        size = shape[0] * shape[1]
        if self.p == 1:
            return torch.arange(size, device=device)
        found: list[torch.Tensor] = []
        last = -1
        while last < size:
            left = size - last
            count = int(left * self.p + 4 * math.sqrt(left * self.p) + 16)
            uniform = torch.rand(count, generator=source, device=device, dtype=torch.float64)
            # 1 - U lies in (0, 1], where the logarithm is finite.
            gaps = torch.log(1 - uniform).div_(math.log1p(-self.p)).floor_().clamp_(max=float(size)).long()
            at = torch.cumsum(gaps + 1, 0).add_(last)
            last = int(at[-1])
            found.append(at)
        at = torch.cat(found)
        at = at[at < size]
        return _cover_indices(at, shape, source) if self.cover else at


def _explicit(generator: Generator, device: torch.device) -> torch.Generator:
    """Raise TypeError without a generator: it would draw the same set again and again."""
    if generator is None:
        raise TypeError("Drawing needs a generator, got None. Use torch.Generator().manual_seed(0), and keep it.")
    return torch_generator(generator, device)


def _cover(mask: torch.Tensor, source: torch.Generator) -> torch.Tensor:
    """Add one entry to each empty row, then to each empty column."""
    for axis in (-1, -2):
        keys = torch.rand(mask.shape, generator=source, device=mask.device)
        one = torch.zeros_like(mask).scatter_(axis, keys.argmax(axis, keepdim=True), True)
        mask = mask | (one & ~mask.any(axis, keepdim=True))
    return mask


def _cover_indices(at: torch.Tensor, shape: tuple[int, int], source: torch.Generator) -> torch.Tensor:
    m, n = shape
    drawn = len(at)
    seen = torch.zeros(m, dtype=torch.bool, device=at.device).index_fill_(0, at // n, True)
    rows = torch.nonzero(~seen).squeeze(-1)
    columns = torch.randint(n, (len(rows),), generator=source, device=at.device)
    at = torch.cat([at, rows * n + columns])
    seen = torch.zeros(n, dtype=torch.bool, device=at.device).index_fill_(0, at % n, True)
    columns = torch.nonzero(~seen).squeeze(-1)
    rows = torch.randint(m, (len(columns),), generator=source, device=at.device)
    if len(at) == drawn and len(columns) == 0:
        return at  # sorted already, and sorting costs more than drawing
    return torch.cat([at, rows * n + columns]).sort().values
