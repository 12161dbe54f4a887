"""The baselines: HardImpute, USVT and RowMean, each in a few lines around one decomposition or none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from svrl.matrix.arrays import Generator, torch_generator
from svrl.matrix.estimate import Estimate, Outcome, Start
from svrl.matrix.observed import Observed
from svrl.matrix.parameters import Bounds, Centre, Output, check_options, check_positive, check_tolerance, check_whole
from svrl.matrix.problem import Problem
from svrl.matrix.scaling import offset_of
from svrl.matrix.subspace import top_directions

DECOMPOSE_UP_TO, OVERSAMPLE = 512, 10
"""Shorter side up to which HardImpute takes a full decomposition, and spare directions beyond."""
PUBLISHED = 2.02
"""The constant of USVT's published threshold."""


@dataclass(frozen=True, kw_only=True)
class HardImpute:
    """Iterated rank-r approximation: fill the missing entries from it, and repeat.

        Z <- best rank-r approximation of (P(X) + missing part of Z)

    Each step lowers |P(Z - X)|_F^2 over matrices of rank r, which is not convex: where it ends depends on the
    start, and on badly conditioned matrices with few entries it sticks. No shrinkage, so no bias where it
    works. Mazumder, Hastie and Tibshirani, JMLR 2010, section 8. Stops when the missing entries move by less
    than `tolerance` of their norm.

    Attributes:
        rank: Rank of the estimate.
        tolerance: Stop once the missing entries move by less than this fraction of their norm.
        max_steps: Most iterations. Running out is reported, not raised.
        output: "fill" keeps the observed entries; "estimate" returns the rank-r matrix.
        centre: What to take out first: "none", "mean", "midrange" or "row".
        clip: Bounds (low, high) for what is estimated; observed entries that are kept are not touched.
    """

    rank: int
    tolerance: float = 1e-5
    max_steps: int = 1000
    output: Output = "estimate"
    centre: Centre = "none"
    clip: Bounds = None

    def __post_init__(self) -> None:
        check_options("HardImpute", self.output, self.centre, self.clip)
        check_tolerance("HardImpute", self.tolerance)
        check_whole("HardImpute", rank=self.rank, max_steps=self.max_steps)

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix as factors, or dense where output or clip need it."""
        problem = Problem.of(observed, self.centre)
        source = torch_generator(generator, problem.values.device)
        values, mask = problem.values, problem.mask
        given = problem.start_matrix(start)
        filled = values if given is None else torch.where(mask, values, given)
        batch = values.shape[0]
        running = torch.ones(batch, dtype=torch.bool, device=values.device)
        steps = torch.zeros(batch, dtype=torch.int64, device=values.device)
        change = torch.full((batch,), torch.inf, dtype=torch.float64, device=values.device)
        left = right = torch.zeros(0)
        for step in range(self.max_steps):
            new_left, new_right = self._truncate(filled, right if step else None, source)
            approximation = new_left @ new_right.mT
            moved = torch.linalg.matrix_norm((approximation - filled).masked_fill(mask, 0)).double()
            size = torch.linalg.matrix_norm(filled.masked_fill(mask, 0)).double()
            new_change = torch.where(moved == 0, 0.0, moved / size)
            alive = running[:, None, None]
            left = torch.where(alive, new_left, left) if step else new_left
            right = torch.where(alive, new_right, right) if step else new_right
            filled = torch.where(alive & ~mask, approximation, filled)
            change = torch.where(running, new_change, change)
            steps = steps + running
            running = running & (new_change >= self.tolerance)
            if not bool(running.any()):
                break
        code = torch.where(running, Outcome.OUT_OF_STEPS.code, Outcome.CONVERGED.code)
        return problem.deliver(
            factors=(left, right),
            code=torch.where(torch.isfinite(left).all(-1).all(-1), code, Outcome.NOT_FINITE.code),
            rank=(left != 0).any(-2).sum(-1),
            iterations=steps,
            change=change,
            output=self.output,
            clip=self.clip,
        )

    def _truncate(
        self, filled: torch.Tensor, guess: torch.Tensor | None, source: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rank = min(self.rank, *filled.shape[-2:])
        if min(filled.shape[-2:]) <= DECOMPOSE_UP_TO:
            u, s, vt = torch.linalg.svd(filled, full_matrices=False)
            return u[..., :rank] * s[..., None, :rank], vt.mT[..., :rank]
        # Some directions more than are wanted: they bring out the wanted ones where values are close.
        # Between two iterations little changes, so a few power steps from the last directions do.
        u, s, v = top_directions(
            filled, rank + OVERSAMPLE, source, guess=guess, tolerance=1e-7, max_steps=200 if guess is None else 6
        )
        return (u * s.unsqueeze(-2))[..., :rank], v[..., :rank]


@dataclass(frozen=True, kw_only=True)
class USVT:
    """Universal singular value thresholding: one decomposition and no iteration.

    Scale the observed entries to [-1, 1], fill the missing ones with 0, keep the singular values of that matrix
    above a threshold, divide by the observed share p, and clip to the range of the data (Chatterjee, Annals of
    Statistics 2015).

    The published threshold, 2.02 sqrt(max(m, n) p), is safe for any noise inside [-1, 1]: on matrices of
    everyday size it often keeps nothing. The threshold "variance" replaces the worst case by what the data
    show: a missing-entry noise of variance v = p (1 - p) mean(x^2) + p noise^2 has spectral norm about sqrt(v)
    (sqrt(m) + sqrt(n)). Either way the error falls no faster than sqrt(rank / (p n)).

    Attributes:
        threshold: "variance" (from the data) or "published" (the universal constant).
        margin: Factor on the threshold "variance". Entries are rarely equally large, and unequal
            noise has a larger norm than the formula says: near 1, noise is kept for signal.
        noise: Standard deviation of the noise on observed entries, in their units, for "variance".
        output: "estimate", or "fill" to keep the observed entries.
    """

    threshold: Literal["variance", "published"] = "variance"
    margin: float = 1.35
    noise: float = 0.0
    output: Output = "estimate"

    def __post_init__(self) -> None:
        check_options("USVT", self.output, "none", None)
        check_positive("USVT", margin=self.margin)
        if self.threshold not in ("variance", "published"):
            raise ValueError(f"USVT has no threshold {self.threshold!r}: choose variance or published.")
        if not self.noise >= 0:
            raise ValueError(f"USVT needs a noise of at least 0, got {self.noise}.")

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix; start and generator make no difference."""
        problem = Problem.of(observed, "midrange")
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
        # With everything observed and no noise nothing is thresholded away; rounding is not a singular value.
        kept = torch.where(s > 1e-6 * s[:, :1], kept, torch.zeros_like(s))
        estimate = (u * kept.unsqueeze(-2)) @ vt / share[:, None, None]
        zeros = torch.zeros(len(values), dtype=torch.int64, device=values.device)
        return problem.deliver(
            matrix=estimate.clamp(-1, 1) * unit,
            code=zeros,
            rank=(kept > 0).sum(-1),
            iterations=zeros + 1,
            change=zeros.double(),
            output=self.output,
        )


@dataclass(frozen=True, kw_only=True)
class RowMean:
    """Each row's observed mean in place of its missing entries: the control.

    For a Q matrix this says that all unseen actions are worth the same, so it tells how much of an estimator's
    success is structure and how much is only the value of the state. The estimate has rank 1; a row without an
    observed entry takes the mean of the whole matrix.

    Attributes:
        output: "fill" keeps the observed entries; "estimate" returns the means everywhere.
    """

    output: Output = "fill"

    def __post_init__(self) -> None:
        check_options("RowMean", self.output, "none", None)

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix; start and generator make no difference."""
        problem = Problem.of(observed, "none")
        mean = offset_of(problem.values, problem.mask, "row")
        assert mean is not None
        zeros = torch.zeros(len(mean), dtype=torch.int64, device=mean.device)
        return problem.deliver(
            matrix=mean.expand_as(problem.values).clone(),
            code=zeros,
            rank=(mean != 0).any(-2).squeeze(-1).long(),
            iterations=zeros + 1,
            change=zeros.double(),
            output=self.output,
        )
