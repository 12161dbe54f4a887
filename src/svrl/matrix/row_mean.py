"""RowMean: the control. Every missing entry is its row's observed mean.

For a Q matrix this says that all unseen actions are worth the same, so it tells how much of an
estimator's success is structure and how much is only the value of the state. The estimate has
rank 1; a row without an observed entry takes the mean of the whole matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from svrl.matrix.arrays import Generator
from svrl.matrix.estimate import Estimate, Start
from svrl.matrix.observed import Observed
from svrl.matrix.parameters import Output, check_options
from svrl.matrix.problem import Problem
from svrl.matrix.scaling import offset_of


@dataclass(frozen=True, kw_only=True)
class RowMean:
    """Each row's observed mean.

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
