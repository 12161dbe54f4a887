"""NuclearNorm: the matrix of least nuclear norm that agrees with the observed entries.

    minimise |Z|_*   subject to   Z_ij = X_ij for every observed (i, j)

recovers a rank-r matrix exactly from about r (m + n) log^2(m + n) random entries (Candes and Recht
2009). It is the limit of Soft-Impute's problem as the shrinkage goes to 0, and is computed as that
limit: a path of falling shrinkages, each solved from the last one's solution, down to `smallest`
times the largest singular value. The observed entries are then kept exactly.

With `weight` mu it is the penalised form  sum over observed (Z_ij - X_ij)^2 + mu |Z|_*  instead,
without the usual 1/2: Soft-Impute at shrinkage mu / 2. The authors' code calls it with mu = 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from svrl.matrix.arrays import Generator, torch_generator
from svrl.matrix.estimate import Estimate, Start
from svrl.matrix.observed import Observed, check_observed
from svrl.matrix.parameters import Bounds, Centre, Output, check_options, check_positive, check_tolerance, check_whole
from svrl.matrix.soft_impute import SoftImpute

LARGEST, STEPS_A_DECADE = 0.1, 2
"""First level of the path, as a share of the largest singular value, and levels for each factor of 10."""


@dataclass(frozen=True, kw_only=True)
class NuclearNorm:
    """Least nuclear norm.

    Attributes:
        weight: None for the equality-constrained problem; mu for the penalised one, in units of
            the values.
        smallest: Last shrinkage of the path, as a share of the largest singular value.
        tolerance: Stop each level of the path once the missing entries move by less than this
            fraction of their norm.
        max_steps: Most iterations a level.
        output: For the penalised problem, "estimate" (the minimiser) or "fill". The
            equality-constrained one keeps the observed entries by its nature.
        centre: What to take out first: "none", "mean", "midrange" or "row".
        clip: Bounds (low, high) for what is estimated; observed entries that are kept are not touched.
    """

    weight: float | None = None
    smallest: float = 1e-5
    tolerance: float = 1e-6
    max_steps: int = 2000
    output: Output = "fill"
    centre: Centre = "none"
    clip: Bounds = None

    def __post_init__(self) -> None:
        check_options("NuclearNorm", self.output, self.centre, self.clip)
        check_positive("NuclearNorm", weight=self.weight, smallest=self.smallest)
        check_tolerance("NuclearNorm", self.tolerance)
        check_whole("NuclearNorm", max_steps=self.max_steps)

    @classmethod
    def authors(cls) -> NuclearNorm:
        """The authors' setting: weight 3 without the 1/2, that is shrinkage 1.5 whatever the scale."""
        return cls(weight=3.0, output="estimate")

    def __call__(self, observed: Observed, *, start: Start = None, generator: Generator | None = None) -> Estimate:
        """Recover the matrix (dense)."""
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
        decades = math.log10(LARGEST / min(self.smallest, LARGEST))
        levels = np.geomspace(LARGEST, min(self.smallest, LARGEST), 1 + math.ceil(STEPS_A_DECADE * decades))
        path = []
        for level in levels:
            path.append(replace(soft, ratio=float(level))(observed, start=start, generator=source))
            start = path[-1]
        iterations = sum((one.iterations for one in path[1:]), path[0].iterations)
        return replace(path[-1], iterations=iterations)
