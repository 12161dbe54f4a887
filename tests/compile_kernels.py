"""Compile the kernels that take longest, so that tests find them in numba's cache.

`make test` runs this beside the second half of an installation, on the core that pip leaves free, and it takes about as
long. Nothing depends on it: a kernel that is missing is compiled where it is first used.
"""

from __future__ import annotations

import torch

import svrl


def main() -> None:
    """Soft-Impute in both precisions, and sweeps of grids with more than two dimensions."""
    for dtype in (torch.float32, torch.float64):
        values = torch.rand(2, 6, 4, dtype=dtype)
        svrl.SoftImpute()(svrl.Observed(values=values, mask=torch.rand(2, 6, 4) < 0.9))
    model = svrl.GridMDP(svrl.make_task("cart-pole", states=(3, 3, 3, 3), actions=3))
    model.improve(torch.zeros(model.n_states, dtype=torch.float64))


if __name__ == "__main__":
    main()
