"""Matrix estimation on a CUDA device against the same machine's CPU; prints the rows kept beside this file."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch

from svrl import Estimate, FactorALS, Observed, SoftImpute

RANK, SHARE, NOISE, REPEATS = 8, 0.2, 1e-4, 5


def best_of(call: Callable[[], Estimate]) -> tuple[float, Estimate]:
    estimate = call()
    best = float("inf")
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        estimate = call()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return best, estimate


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = []
    for m, n in ((2500, 1000), (10_000, 4_000)):
        left, right = (torch.randn(size, RANK, generator=generator) for size in (m, n))
        values = left @ right.T + NOISE * torch.randn(m, n, generator=generator)
        mask = torch.rand(m, n, generator=generator) < SHARE
        for estimator in (FactorALS(rank=RANK), SoftImpute(tolerance=1e-4)):
            row: dict[str, object] = {"shape": [m, n], "estimator": repr(estimator)}
            taken, matrices = {}, {}
            for device in ("cpu", "cuda"):
                observed = Observed(values=values.to(device), mask=mask.to(device))
                taken[device], estimate = best_of(lambda e=estimator, o=observed: e(o))
                matrices[device] = torch.as_tensor(estimate.matrix).cpu()
            difference = torch.linalg.norm(matrices["cpu"] - matrices["cuda"]) / torch.linalg.norm(matrices["cpu"])
            row |= {f"{device}_seconds": seconds for device, seconds in taken.items()}
            row |= {"ratio": taken["cpu"] / taken["cuda"], "relative_difference": float(difference)}
            rows.append(row)
    machine = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    json.dump({"machine": machine, "rows": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
