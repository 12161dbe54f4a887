"""USVT: universal singular value thresholding, one decomposition and no iteration.

Scale the observed entries to [-1, 1], fill the missing ones with 0, keep the singular values of
that matrix above a threshold, divide by the observed share p, and clip to the range of the data
(Chatterjee, Annals of Statistics 2015).

The published threshold, 2.02 sqrt(max(m, n) p), is safe for any noise inside [-1, 1]: on matrices
of everyday size it often keeps nothing. The threshold "variance" replaces the worst case by what
the data show: a missing-entry noise of variance v = p (1 - p) mean(x^2) + p noise^2 has spectral
norm about sqrt(v) (sqrt(m) + sqrt(n)). A baseline either way: its error falls no faster than
sqrt(rank / (p n)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from svrl.matrix.arrays import Generator
from svrl.matrix.estimate import Estimate, Start
from svrl.matrix.observed import Observed
from svrl.matrix.parameters import Output, check_options, check_positive
from svrl.matrix.problem import Problem

PUBLISHED = 2.02


@dataclass(frozen=True, kw_only=True)
class USVT:
    """Universal singular value thresholding.

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
