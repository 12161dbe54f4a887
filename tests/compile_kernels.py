"""Compile the kernels that take longest, so that tests find them in numba's cache.

`make test` runs this beside the second half of an installation, on the core that pip leaves free, and it takes about as
long. Nothing depends on it: a kernel that is missing is compiled where it is first used.
"""

from __future__ import annotations

import torch

import svrl


def main() -> None:
    """Soft-Impute in both precisions, and what planning asks of grids of two and more dimensions and of tables."""
    for dtype in (torch.float32, torch.float64):
        values = torch.rand(2, 6, 4, dtype=dtype)
        svrl.SoftImpute()(svrl.Observed(values=values, mask=torch.rand(2, 6, 4) < 0.9))
    plane = svrl.make_task("inverted-pendulum", states=(5, 5), actions=3)
    space = svrl.make_task("cart-pole", states=(3, 3, 3, 3), actions=3)
    pair = torch.zeros(1, dtype=torch.int64)
    for model in (
        svrl.GridMDP(plane),
        svrl.GridMDP(space),
        svrl.TabularMDP.deterministic(following=[[0]], rewards=[[0.0]], gamma=0.5),
    ):
        v = torch.zeros(model.n_states, dtype=torch.float64)
        model.backup(v)
        model.improve(v)
        model.backup_at(v, pair, pair)
    svrl.plan(svrl.GridMDP(plane), svrl.ModifiedPolicyIteration(max_iterations=2))


if __name__ == "__main__":
    main()
