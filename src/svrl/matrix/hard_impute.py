"""HardImpute: fill the missing entries from the best rank-r approximation, and repeat.

    Z <- best rank-r approximation of (P(X) + missing part of Z)

Each step lowers |P(Z - X)|_F^2 over matrices of rank r, which is not convex: where it ends
depends on the start, and on badly conditioned matrices with few entries it sticks. No shrinkage,
so no bias where it works. A baseline; Mazumder, Hastie and Tibshirani, JMLR 2010, section 8.
Stops when the missing entries move by less than `tolerance` of their norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from svrl.matrix.arrays import Generator, torch_generator
from svrl.matrix.estimate import Estimate, Outcome, Start
from svrl.matrix.observed import Observed
from svrl.matrix.parameters import Bounds, Centre, Output, check_options, check_tolerance, check_whole
from svrl.matrix.problem import Problem
from svrl.matrix.subspace import top_directions

DECOMPOSE_UP_TO, OVERSAMPLE = 512, 10
"""Shorter side up to which a full decomposition is taken, and spare directions beyond."""


@dataclass(frozen=True, kw_only=True)
class HardImpute:
    """Iterated rank-r approximation.

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
