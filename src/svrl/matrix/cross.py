"""cross: recover a matrix from rows and columns that it chooses.

A matrix of rank r is known from r independent rows I and columns J:  M = C G^+ R  with
C = M[:, J], R = M[I, :] and G = M[I, J] (the skeleton, or CUR, decomposition). Where the caller can
evaluate any entry, that takes r (m + n) evaluations instead of the r (m + n) log^2 random ones of
matrix completion, and no iteration. Finding good rows and columns takes about twice that.

Rows and columns are chosen in turns. From the columns evaluated so far, the next rows are those
that pin down their column space best: pivots of a QR decomposition with row exchange (Goreinov,
Tyrtyshnikov and Zamarashkin 1997). The next columns are chosen from those rows in the same way.
A block of random probe entries, drawn once, judges the fit; if its relative error exceeds the
tolerance, the numbers of rows and columns double. Probes aside, no entry is evaluated twice, so the
cost is at most the whole matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from svrl.matrix.arrays import Array, Generator, as_floating, check_positive, check_whole, like, torch_generator
from svrl.matrix.estimate import Estimate, Outcome

Evaluate = Callable[[Array, Array], Array]
"""(row indices (k,), column indices (l,)) -> the block (k, l) of entries at their crossings."""

PROBES = 24
"""Rows and columns whose crossings judge the fit: 576 entries."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CrossEstimate(Estimate):
    """An Estimate with factors, and the rows and columns that it evaluated.

    Attributes:
        rows: (k,) indices of the evaluated rows.
        columns: (l,) indices of the evaluated columns.
        evaluated: How many entries the caller's function evaluated, probes included.
    """

    rows: Array
    columns: Array
    evaluated: int


def cross(
    evaluate: Evaluate,
    shape: tuple[int, int],
    *,
    tolerance: float = 1e-3,
    first: int = 8,
    most: int | None = None,
    generator: Generator | None = None,
    device: torch.device | str | None = None,
) -> CrossEstimate:
    """Approximate an m x n matrix from few of its rows and columns.

    Args:
        evaluate: Called with int64 indices rows (k,) and columns (l,); returns the entries at their
            crossings (k, l).
        shape: (m, n).
        tolerance: Largest relative root-mean-square error on probe entries.
        first: Rows and columns of the first attempt.
        most: Most rows and columns; by default min(m, n).
        generator: Draws the first columns and the probes.
        device: None to call `evaluate` with NumPy arrays and to return them; a device to use torch there.

    Returns:
        An Estimate with factors (m, r) and (n, r); its outcome says whether the tolerance was met.
    """
    check_positive("cross", tolerance=tolerance)
    if len(shape) != 2:
        raise ValueError(f"cross needs a shape (m, n), got {shape}.")
    m, n = shape
    check_whole("cross", m=m, n=n, first=first, most=1 if most is None else most)
    source = torch_generator(generator, torch.device("cpu"))
    limit = min(m, n, most if most is not None else min(m, n))
    table = _Table(evaluate, m, n, device)
    probes = torch.randperm(m, generator=source)[:PROBES], torch.randperm(n, generator=source)[:PROBES]
    truth = table.block(*probes)
    cut = max(0.1 * tolerance, 10 * limit * torch.finfo(truth.dtype).eps)
    count = min(first, limit)
    columns = torch.randperm(n, generator=source)[:count]
    rounds = 0
    while True:
        rounds += 1
        rows = pivots(table.lines(1, columns).T, count)
        columns = pivots(table.lines(0, rows).T, count)
        rows = pivots(table.lines(1, columns).T, count)
        left, right = skeleton(table.lines(1, columns).T, table.lines(0, rows), columns, cut)
        fit = left[probes[0]] @ right[:, probes[1]]
        unit = float(truth.abs().max()) or float(fit.abs().max()) or 1.0  # keeps the squares in range
        wrong, size = (float(torch.linalg.norm(part.double() / unit)) for part in (fit.double() - truth, truth))
        error = wrong / size if size > 0 else wrong
        if error <= tolerance or count >= limit:
            break
        count = min(2 * count, limit)
        fresh = torch.randperm(n, generator=source)
        columns = torch.cat([columns, fresh[~torch.isin(fresh, columns)]])[:count]

    def back(value: object) -> Array:
        return like(torch.as_tensor(value, device=device), device is None)

    outcome = Outcome.CONVERGED if error <= tolerance else Outcome.NOT_LOW_ENOUGH
    return CrossEstimate(
        dense=None,
        factors=(back(left), back(right.T)),
        code=back(outcome.code),
        rank=back(int((left != 0).any(0).sum())),
        iterations=back(rounds),
        change=back(error),
        rows=back(sorted(table.known[0])),
        columns=back(sorted(table.known[1])),
        evaluated=table.evaluated,
    )


class _Table:
    """The caller's matrix, with every whole row and column evaluated so far."""

    def __init__(self, evaluate: Evaluate, m: int, n: int, device: torch.device | str | None) -> None:
        self._evaluate = evaluate
        self._shape = m, n
        self._device = device
        self.known: tuple[dict[int, Tensor], dict[int, Tensor]] = {}, {}
        self.evaluated = 0

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The entries (k, l) at the crossings of rows (k,) and columns (l,)."""
        indices = (i.numpy() if self._device is None else i.to(self._device) for i in (rows, columns))
        found = as_floating(self._evaluate(*indices), "evaluate(...)").cpu()
        if found.shape != (len(rows), len(columns)):
            raise ValueError(
                f"evaluate(rows, columns) must return ({len(rows)}, {len(columns)}) entries, got {tuple(found.shape)}."
            )
        if not bool(torch.isfinite(found).all()):
            raise ValueError("evaluate(rows, columns) returned NaN or infinity; cross needs finite entries.")
        self.evaluated += found.numel()
        self._dtype = found.dtype
        return found

    def lines(self, axis: int, wanted: Tensor) -> Tensor:
        """Whole rows (axis 0) or columns (axis 1), (k, length). Evaluates only entries that no known line contains."""
        mine, crossing = self.known[axis], self.known[1 - axis]
        new = torch.tensor([line for line in wanted.tolist() if line not in mine], dtype=torch.int64)
        if len(new):
            unknown = torch.ones(self._shape[1 - axis], dtype=torch.bool)
            unknown[list(crossing)] = False
            rest = unknown.nonzero().squeeze(1)
            lines = torch.empty(len(new), len(unknown), dtype=self._dtype)
            if len(rest):
                lines[:, rest] = self.block(new, rest) if axis == 0 else self.block(rest, new).T
            for k, line in crossing.items():
                lines[:, k] = line[new]
            mine.update(zip(new.tolist(), lines, strict=True))
        return torch.stack([mine[line] for line in wanted.tolist()])


def pivots(tall: Tensor, count: int) -> Tensor:
    """Rows of (m, k) that span its row space best, by QR with exchange."""
    order = scipy.linalg.qr(np.asarray(tall.cpu()).T, mode="r", pivoting=True)[1][:count]
    return torch.from_numpy(order.astype(np.int64)).to(tall.device)


def skeleton(c: Tensor, r: Tensor, columns: Tensor, cut: float) -> tuple[Tensor, Tensor]:
    """Factors left (m, k) and right (k, n) of C G^+ R; directions of G below `cut` of its norm are left out."""
    u, s, vt = torch.linalg.svd(r[:, columns], full_matrices=False)
    keep = s > cut * s[0]
    keep[0] = True  # for a zero matrix too, so that factors always have a column
    scale = 1.0 / s[keep].clamp(min=torch.finfo(s.dtype).tiny)
    return c @ (vt[keep].mT * scale), u[:, keep].mT @ r
