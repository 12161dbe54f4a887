"""cross: recover a matrix from rows and columns of one's own choice.

A matrix of rank r is known from r independent rows I and columns J:  M = C G^+ R  with
C = M[:, J], R = M[I, :] and G = M[I, J] (the skeleton, or CUR, decomposition). Where the caller can
evaluate any entry, that takes r (m + n) evaluations instead of the r (m + n) log^2 random ones of
matrix completion, and no iteration. Finding good rows and columns takes about twice that.

Rows and columns are chosen in turns. From the columns evaluated so far, the next rows are those
that pin down their column space best: pivots of a QR decomposition with row exchange (Goreinov,
Tyrtyshnikov and Zamarashkin 1997), or a random draw by leverage scores (Drineas, Mahoney and
Muthukrishnan 2008; used for policy iteration by Stojanovic, Jedra and Proutiere 2024). The next
columns are chosen from those rows in the same way. A block of random probe entries, drawn once,
judges the fit; if its relative error exceeds the tolerance, the numbers of rows and columns double.
No entry of a row or column is asked for twice, so the whole matrix is the most this can cost, probes
aside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
import torch

from svrl.matrix.arrays import Array, Generator, as_array, as_floating, like, torch_generator
from svrl.matrix.estimate import Estimate, Outcome
from svrl.matrix.parameters import check_positive, check_whole

Evaluate = Callable[[Array, Array], Array]
"""(row indices (k,), column indices (l,)) -> the block (k, l) of entries at their crossings."""

PROBES = 24
"""Rows and columns whose crossings judge the fit: 576 entries."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CrossEstimate(Estimate):
    """An Estimate with factors, and where it looked.

    Attributes:
        rows: (k,) indices of the evaluated rows.
        columns: (l,) indices of the evaluated columns.
        evaluated: How many entries the caller's function was asked for, probes included.
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
    choose: Literal["pivots", "leverage"] = "pivots",
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
        choose: By "pivots" (deterministic, sharpest) or random by "leverage" (robust to noise).
        generator: Draws first columns, probes and leverage samples.
        device: None to speak NumPy with `evaluate` and to get NumPy back; a device for torch there.

    Returns:
        An Estimate with factors (m, r) and (n, r); its outcome says whether the tolerance was met.
    """
    _check(tolerance, first, most, choose, shape)
    m, n = shape
    source = torch_generator(generator, torch.device("cpu"))
    limit = min(m, n, most if most is not None else min(m, n))
    table = _Table(evaluate, m, n, device)
    probes = _draw(m, PROBES, source), _draw(n, PROBES, source)
    truth = table.block(*probes)
    pick = _pivots if choose == "pivots" else _leverage
    count = min(first, limit)
    columns = _draw(n, count, source)
    rounds = 0
    while True:
        rounds += 1
        rows = pick(table.columns(columns), count, source)
        columns = pick(table.rows(rows).T, count, source)
        rows = pick(table.columns(columns), count, source)
        left, right = _skeleton(table.columns(columns), table.rows(rows), columns, 0.1 * tolerance)
        error = _relative_error(left[probes[0]] @ right[probes[1]].T, truth)
        if error <= tolerance or count >= limit:
            break
        count = min(2 * count, limit)
        fresh = np.setdiff1d(_draw(n, n, source), columns, assume_unique=True)
        columns = np.concatenate([columns, fresh[: count - len(columns)]])
    return _estimate(table, left, right, error, tolerance, rounds, device)


def _check(tolerance: float, first: int, most: int | None, choose: str, shape: tuple[int, int]) -> None:
    check_positive("cross", tolerance=tolerance)
    check_whole("cross", first=first, most=1 if most is None else most)
    if choose not in ("pivots", "leverage"):
        raise ValueError(f"cross cannot choose by {choose!r}: use pivots or leverage.")
    if len(shape) != 2:
        raise ValueError(f"cross needs a shape (m, n), got {shape}.")
    check_whole("cross", m=shape[0], n=shape[1])


def _relative_error(fit: np.ndarray, truth: np.ndarray) -> float:
    """|fit - truth|_F / |truth|_F, in units that keep the squares in range."""
    unit = float(np.abs(truth).max()) or float(np.abs(fit).max()) or 1.0
    size = float(np.linalg.norm(truth.astype(np.float64) / unit))
    wrong = float(np.linalg.norm((fit.astype(np.float64) - truth) / unit))
    return wrong / size if size > 0 else wrong


def _estimate(
    table: _Table,
    left: np.ndarray,
    right: np.ndarray,
    error: float,
    tolerance: float,
    rounds: int,
    device: torch.device | str | None,
) -> CrossEstimate:
    def back(value: object) -> Array:
        return like(torch.as_tensor(value, device=device), device is None)

    outcome = Outcome.CONVERGED if error <= tolerance else Outcome.NOT_LOW_ENOUGH
    return CrossEstimate(
        dense=None,
        factors=(back(left), back(right)),
        code=back(outcome.code),
        rank=back(left.shape[1]),
        iterations=back(rounds),
        change=back(error),
        rows=back(np.sort(table.known_rows)),
        columns=back(np.sort(table.known_columns)),
        evaluated=table.evaluated,
    )


class _Table:
    """The caller's matrix, remembering every row and column it was asked for."""

    def __init__(self, evaluate: Evaluate, m: int, n: int, device: torch.device | str | None) -> None:
        self._evaluate = evaluate
        self._shape = m, n
        self._device = device
        self._rows: dict[int, np.ndarray] = {}
        self._columns: dict[int, np.ndarray] = {}
        self.evaluated = 0

    @property
    def known_rows(self) -> np.ndarray:
        return np.array(list(self._rows), np.int64)

    @property
    def known_columns(self) -> np.ndarray:
        return np.array(list(self._columns), np.int64)

    def block(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        indices = (i if self._device is None else torch.from_numpy(i).to(self._device) for i in (rows, columns))
        found = as_array(as_floating(self._evaluate(*indices), "evaluate(...)").cpu())
        if found.shape != (len(rows), len(columns)):
            raise ValueError(
                f"evaluate(rows, columns) must return ({len(rows)}, {len(columns)}) entries, got {found.shape}."
            )
        if not np.isfinite(found).all():
            raise ValueError("evaluate(rows, columns) returned NaN or infinity; cross needs finite entries.")
        self.evaluated += found.size
        return found

    @staticmethod
    def _lines(
        new: np.ndarray,
        rest: np.ndarray,
        known: np.ndarray,
        crossing: dict[int, np.ndarray],
        block: np.ndarray | None,
    ) -> np.ndarray:
        """Whole lines from the block (new, rest) just evaluated and from the lines that cross them, known already."""
        dtype = block.dtype if block is not None else crossing[int(known[0])].dtype
        lines = np.empty((len(new), len(rest) + len(known)), dtype)
        if block is not None:
            lines[:, rest] = block
        for k in known.tolist():
            lines[:, k] = crossing[k][new]
        return lines

    def rows(self, wanted: np.ndarray) -> np.ndarray:
        new = np.array([i for i in wanted if int(i) not in self._rows], np.int64)
        if len(new):
            blank = self.known_columns
            rest = np.setdiff1d(np.arange(self._shape[1]), blank)
            lines = self._lines(new, rest, blank, self._columns, self.block(new, rest) if len(rest) else None)
            self._rows.update(zip(new.tolist(), lines, strict=True))
        return np.stack([self._rows[int(i)] for i in wanted])

    def columns(self, wanted: np.ndarray) -> np.ndarray:
        new = np.array([j for j in wanted if int(j) not in self._columns], np.int64)
        if len(new):
            blank = self.known_rows
            rest = np.setdiff1d(np.arange(self._shape[0]), blank)
            lines = self._lines(new, rest, blank, self._rows, self.block(rest, new).T if len(rest) else None)
            self._columns.update(zip(new.tolist(), lines, strict=True))
        return np.stack([self._columns[int(j)] for j in wanted], 1)


def _draw(size: int, count: int, source: torch.Generator) -> np.ndarray:
    return torch.randperm(size, generator=source)[: min(count, size)].numpy()


def _pivots(tall: np.ndarray, count: int, source: torch.Generator) -> np.ndarray:
    """Rows of (m, k) that span its row space best, by QR with exchange."""
    return scipy.linalg.qr(tall.T, mode="r", pivoting=True)[1][:count].astype(np.int64)


def _leverage(tall: np.ndarray, count: int, source: torch.Generator) -> np.ndarray:
    """Rows of (m, k) drawn without replacement, by their squared lengths in an orthonormal basis."""
    u, s, _ = np.linalg.svd(tall, full_matrices=False)
    scores = np.square(u[:, s > 1e-10 * max(s[0], 1e-300)]).sum(1) + 1e-12
    return torch.multinomial(torch.from_numpy(scores).double(), min(count, len(tall)), generator=source).numpy()


def _skeleton(c: np.ndarray, r: np.ndarray, columns: np.ndarray, cut: float) -> tuple[np.ndarray, np.ndarray]:
    """Factors of C G^+ R; directions of the crossing G below `cut` of its norm are noise, and left out."""
    u, s, vt = np.linalg.svd(r[:, columns], full_matrices=False)
    keep = s > max(s[0], 1e-300) * max(cut, 10 * np.finfo(s.dtype).eps * max(len(u), len(vt)))
    return c @ (vt[keep].T / s[keep]), (u[:, keep].T @ r).T
