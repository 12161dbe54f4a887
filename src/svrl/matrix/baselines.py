"""Baseline estimators in a few lines each: HardImpute, NuclearNorm, USVT and RowMean."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from svrl.matrix.arrays import Bounds, Centre, Generator, Output, check_choice, check_settings, torch_generator
from svrl.matrix.estimate import Estimate, Factors, Start, repeat
from svrl.matrix.observed import Observed, check_observed
from svrl.matrix.scaling import Problem, offset_of
from svrl.matrix.soft_impute import SoftImpute
from svrl.matrix.soft_impute_reference import fill
from svrl.matrix.subspace import top_directions

DECOMPOSE_UP_TO, OVERSAMPLE = 512, 10
"""Shorter side up to which HardImpute takes a full decomposition, and spare directions above that size."""
LARGEST_LEVEL, STEPS_A_DECADE = 0.1, 2
"""First level of NuclearNorm's path, as a share of the largest singular value, and levels for each factor of 10."""
PUBLISHED = 2.02
"""The constant of USVT's published threshold."""


@dataclass(frozen=True, kw_only=True)
class HardImpute:
    """Iterated rank-r approximation: fill the missing entries from it, and repeat.

        Z <- best rank-r approximation of (P(X) + missing part of Z)

    Each step lowers |P(Z - X)|_F^2 over matrices of rank r, which is not convex: where it ends depends on the
    start, and on badly conditioned matrices with few entries it gets stuck. It does not shrink, so it has no
    bias where it works. Mazumder, Hastie and Tibshirani, JMLR 2010, section 8. It stops when the missing
    entries move by less than `tolerance` of their norm.

    Attributes:
        rank: Rank of the estimate.
        tolerance: Stop once the missing entries move by less than this fraction of their norm.
        max_steps: Most iterations. Running out of them is reported, not raised.
        output: "fill" keeps the observed entries; "estimate" returns the rank-r matrix.
        centre: What to subtract first: "none", "mean", "midrange" or "row".
        clip: Bounds (low, high) on estimated entries; observed entries that are kept do not change.
    """

    rank: int
    tolerance: float = 1e-5
    max_steps: int = 1000
    output: Output = "estimate"
    centre: Centre = "none"
    clip: Bounds = None

    def __post_init__(self) -> None:
        check_settings(self, whole=("rank", "max_steps"))

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix as factors, or as a dense matrix where output or clip needs one."""
        problem = Problem(observed, self.centre)
        source = torch_generator(generator, problem.values.device)
        values, mask = problem.values, problem.mask

        def step(
            filled: torch.Tensor, _: torch.Tensor, right: torch.Tensor
        ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
            left, right = self._truncate(filled, right, source)
            filled, _, change = fill(values, mask, filled, left @ right.mT)
            return (filled, left, right), change

        given = problem.start_matrix(start)
        filled = values if given is None else torch.where(mask, values, given)
        nothing = filled[..., :0], filled.mT[..., :0]
        (_, left, right), steps, change, code = repeat(step, (filled, *nothing), self.tolerance, self.max_steps)
        return problem.deliver(
            factors=(left, right),
            code=code,
            rank=(left != 0).any(-2).sum(-1),
            iterations=steps,
            change=change,
            output=self.output,
            clip=self.clip,
        )

    def _truncate(self, filled: torch.Tensor, guess: torch.Tensor, source: torch.Generator) -> Factors:
        """Factors of the best approximation; `guess` (B, n, k) holds the last right factors, with k = 0 at first."""
        rank = min(self.rank, *filled.shape[-2:])
        if min(filled.shape[-2:]) <= DECOMPOSE_UP_TO:
            u, s, vt = torch.linalg.svd(filled, full_matrices=False)
            return u[..., :rank] * s[..., None, :rank], vt.mT[..., :rank]
        # A few directions more than needed: they separate the wanted ones where singular values are close.
        # Between two iterations little changes, so a few power steps from the last directions are enough.
        max_steps = 6 if guess.shape[-1] else 200
        u, s, v = top_directions(filled, rank + OVERSAMPLE, source, guess=guess, tolerance=1e-7, max_steps=max_steps)
        return (u * s.unsqueeze(-2))[..., :rank], v[..., :rank]


@dataclass(frozen=True, kw_only=True)
class NuclearNorm:
    """The matrix of least nuclear norm that agrees with the observed entries.

        minimise |Z|_*   subject to   Z_ij = X_ij for every observed (i, j)

    This recovers a rank-r matrix exactly from about r (m + n) log^2(m + n) random entries (Candes and Recht 2009). The
    solution is the limit of Soft-Impute's as the shrinkage goes to 0: a path of falling shrinkages, each solved from
    the last one's solution, down to `smallest` times the largest singular value. The observed entries are then kept
    exactly.

    With `weight` mu it solves the penalised form  sum over observed (Z_ij - X_ij)^2 + mu |Z|_*  instead, without the
    usual 1/2: Soft-Impute at shrinkage mu / 2. The authors' code calls it with mu = 3.

    Attributes:
        weight: None for the equality-constrained problem; mu for the penalised one, in units of
            the values.
        smallest: Last shrinkage of the path, as a share of the largest singular value.
        tolerance: Stop each level of the path once the missing entries move by less than this
            fraction of their norm.
        max_steps: Most iterations per level.
        output: For the penalised problem, "estimate" (the minimiser) or "fill". The
            equality-constrained problem keeps the observed entries.
        centre: What to subtract first: "none", "mean", "midrange" or "row".
        clip: Bounds (low, high) on estimated entries; observed entries that are kept do not change.
    """

    weight: float | None = None
    smallest: float = 1e-5
    tolerance: float = 1e-6
    max_steps: int = 2000
    output: Output = "fill"
    centre: Centre = "none"
    clip: Bounds = None

    def __post_init__(self) -> None:
        check_settings(self, whole=("max_steps",), positive=("weight", "smallest"))

    @classmethod
    def authors(cls) -> NuclearNorm:
        """The authors' setting: weight 3 without the 1/2, which is shrinkage 1.5 at any scale."""
        return cls(weight=3.0, output="estimate")

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix as a dense matrix."""
        check_observed(observed)
        soft = SoftImpute(
            tolerance=self.tolerance,
            max_steps=self.max_steps,
            output=self.output if self.weight is not None else "fill",
            centre=self.centre,
            clip=self.clip,
        )
        if self.weight is not None:
            return replace(soft, shrinkage=self.weight / 2)(observed, start=start, generator=generator)
        source = torch_generator(generator, observed.tensors[0].device)
        decades = math.log10(LARGEST_LEVEL / min(self.smallest, LARGEST_LEVEL))
        levels = np.geomspace(LARGEST_LEVEL, min(self.smallest, LARGEST_LEVEL), 1 + math.ceil(STEPS_A_DECADE * decades))
        path = []
        for level in levels:
            path.append(replace(soft, ratio=float(level))(observed, start=start, generator=source))
            start = path[-1]
        iterations = sum((one.iterations for one in path[1:]), path[0].iterations)
        return replace(path[-1], iterations=iterations)


@dataclass(frozen=True, kw_only=True)
class USVT:
    """Universal singular value thresholding: one decomposition and no iteration.

    Scale the observed entries to [-1, 1], fill the missing ones with 0, keep the singular values of that matrix
    above a threshold, divide by the observed share p, and clip to the range of the data (Chatterjee, Annals of
    Statistics 2015).

    The published threshold, 2.02 sqrt(max(m, n) p), is safe for any noise inside [-1, 1]: on matrices of
    everyday size it often keeps nothing. The threshold "variance" replaces the worst case with an estimate from
    the data: missing-entry noise of variance v = p (1 - p) mean(x^2) + p noise^2 has spectral norm about sqrt(v)
    (sqrt(m) + sqrt(n)). Either way the error falls no faster than sqrt(rank / (p n)).

    Attributes:
        threshold: "variance" (from the data) or "published" (the universal constant).
        margin: Factor on the threshold "variance". Entries are rarely equally large, and unequal
            noise has a larger norm than the formula says: a margin near 1 takes noise for signal.
        noise: Standard deviation of the noise on observed entries, in their units, for "variance".
        output: "estimate", or "fill" to keep the observed entries.
    """

    threshold: Literal["variance", "published"] = "variance"
    margin: float = 1.35
    noise: float = 0.0
    output: Output = "estimate"

    def __post_init__(self) -> None:
        check_settings(self, positive=("margin",))
        check_choice("USVT", "threshold", self.threshold, ("variance", "published"))
        if not self.noise >= 0:
            raise ValueError(f"USVT needs a noise of at least 0, got {self.noise}.")

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix; start and generator make no difference."""
        problem = Problem(observed, "midrange")
        values, mask = problem.values, problem.mask
        m, n = values.shape[-2:]
        high = values.abs().amax((-2, -1))
        unit = torch.where(high > 0, high, torch.ones_like(high))[:, None, None]
        scaled = values / unit
        share = mask.to(values.dtype).mean((-2, -1))
        u, s, vt = torch.linalg.svd(scaled, full_matrices=False)
        if self.threshold == "published":
            level = PUBLISHED * (max(m, n) * share).sqrt()
        else:
            energy = scaled.square().sum((-2, -1)) / mask.sum((-2, -1))
            variance = share * (1 - share) * energy + share * (self.noise / unit[:, 0, 0]) ** 2
            level = self.margin * variance.sqrt() * (m**0.5 + n**0.5)
        kept = torch.where(s > level.unsqueeze(-1), s, torch.zeros_like(s))
        # With everything observed and no noise the threshold is 0; rounding is not a singular value.
        kept = torch.where(s > 1e-6 * s[:, :1], kept, torch.zeros_like(s))
        estimate = (u * kept.unsqueeze(-2)) @ vt / share[:, None, None]
        return problem.deliver(matrix=estimate.clamp(-1, 1) * unit, rank=(kept > 0).sum(-1), output=self.output)


@dataclass(frozen=True, kw_only=True)
class RowMean:
    """The control: fill each row's missing entries with its observed mean.

    For a Q matrix this says that all unseen actions are worth the same, so it shows how much of an estimator's
    success is structure and how much is only the value of the state. The estimate has rank 1; a row without an
    observed entry takes the mean of the whole matrix.

    Attributes:
        output: "fill" keeps the observed entries; "estimate" returns the means everywhere.
    """

    output: Output = "fill"

    def __post_init__(self) -> None:
        check_settings(self)

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix; start and generator make no difference."""
        problem = Problem(observed, "none")
        mean = offset_of(problem.values, problem.mask, "row")
        assert mean is not None
        rank = (mean != 0).any(-2).squeeze(-1).long()
        return problem.deliver(matrix=mean.expand_as(problem.values).clone(), rank=rank, output=self.output)
