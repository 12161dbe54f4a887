"""An estimator of one's own, and the contract suite that tells whether it behaves."""

from dataclasses import dataclass

import numpy as np
import torch

from svrl import Estimate, Observed, RowMean, check_estimator
from svrl.matrix import ContractBroken


@dataclass(frozen=True, kw_only=True)
class RowAndColumn:
    """Row effect plus column effect, fitted by a few rounds of averaging.

    Attributes:
        rounds: How often the row and the column effects are fitted in turn.
    """

    rounds: int = 20

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise ValueError(f"RowAndColumn needs at least 1 round, got {self.rounds}.")

    def __call__(self, observed: Observed, *, start=None, generator=None) -> Estimate:
        values, mask = observed.tensors  # torch, whatever the caller gave; (..., m, n)
        in_row, in_column = (mask.sum(axis, keepdim=True).clamp(min=1) for axis in (-1, -2))
        row, column = torch.zeros_like(values[..., :1]), torch.zeros_like(values[..., :1, :])
        change = torch.zeros(values.shape[:-2], dtype=torch.float64)
        for _ in range(self.rounds):
            old = row + column
            row = ((values - column) * mask).sum(-1, keepdim=True) / in_row
            column = ((values - row) * mask).sum(-2, keepdim=True) / in_column
            moved, size = (torch.linalg.matrix_norm(x).double() for x in (row + column - old, old))
            change = torch.where(moved == 0, 0.0, moved / size)

        def back(tensor: torch.Tensor):
            return tensor.numpy() if observed.numpy else tensor

        whole = torch.ones(values.shape[:-2], dtype=torch.int64)
        return Estimate(
            dense=back(row + column),
            factors=None,
            code=back(0 * whole),
            rank=back(2 * whole),
            iterations=back(self.rounds * whole),
            change=back(change),
        )


class Forgetful:
    """Breaks promises: answers with zeros in double precision, and cannot be compared or printed."""

    def __call__(self, observed, *, start=None, generator=None):
        estimate = RowMean()(observed)
        return Estimate(**{**vars(estimate), "dense": np.zeros(observed.shape)})


passed = check_estimator(RowAndColumn())
print(f"RowAndColumn keeps all {len(passed)} promises, from {passed[0]} to {passed[-1]}.")
try:
    check_estimator(Forgetful())
except ContractBroken as broken:
    names = [line.partition(":")[0] for line in str(broken).splitlines()[1:]]
    print(f"Forgetful breaks {', '.join(names)}.")

rng = np.random.default_rng(0)
truth = rng.normal(5, 2, size=(60, 1)) + rng.normal(0, 1, size=(1, 18))
observed = Observed(values=truth, mask=rng.random(truth.shape) < 0.5)
for estimator in (RowMean(output="estimate"), RowAndColumn()):
    error = np.linalg.norm(estimator(observed).matrix - truth) / np.linalg.norm(truth)
    print(f"{estimator}: relative error {error:.1e}")
