"""A very large matrix in a process of its own: error on the unobserved entries and peak memory.

Run as `python -m svrl.benchmarks.matrix_memory 10000 4000`; prints one JSON object. Rank 8 plus
noise 1e-4, 20% observed, float32, FactorALS at rank 8. Memory is the peak of the process minus what
it held after its imports and a first small run; the input matrix is part of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

from svrl.benchmarks.rows import Row

RANK, SHARE, NOISE = 8, 0.2, 1e-4
ALLOWED_COPIES, ALLOWED_ERROR = 6.0, 1e-3


def measure_memory(m: int, n: int, seed: int) -> Iterator[Row]:
    """Rows for one size, held against the limits that the project sets itself."""
    command = [sys.executable, "-m", "svrl.benchmarks.matrix_memory", str(m), str(n), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"The measuring process failed: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout)
    note = {"seconds": found["seconds"], "iterations": found["iterations"]}
    yield Row(
        name=f"{m}x{n} FactorALS, error on unobserved entries",
        unit="relative",
        ours=found["error"],
        peer=ALLOWED_ERROR,
        peer_name="limit",
        note=note,
    )
    yield Row(
        name=f"{m}x{n} FactorALS, peak memory",
        unit="float32 copies of the matrix",
        ours=found["copies"],
        peer=ALLOWED_COPIES,
        peer_name="limit",
        note=note,
    )


def _kilobytes(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))


def _main(m: int, n: int, seed: int) -> None:
    import torch

    from svrl.matrix import FactorALS, Observed

    generator = torch.Generator().manual_seed(seed)
    small = torch.randn(50, 40, generator=generator)
    FactorALS(rank=2)(Observed(values=small, mask=small > -1))
    before = _kilobytes("VmRSS")
    left, right = torch.randn(m, RANK, generator=generator), torch.randn(n, RANK, generator=generator)
    values = left @ right.T
    mask = torch.empty(m, n, dtype=torch.bool)
    # Row by row, so that making the problem leaves no trace in the peak.
    for i in range(m):
        values[i] += NOISE * torch.randn(n, generator=generator)
        mask[i] = torch.rand(n, generator=generator) < SHARE
    observed = Observed(values=values, mask=mask)
    began = time.perf_counter()
    estimate = FactorALS(rank=RANK)(observed)
    taken = time.perf_counter() - began
    assert estimate.factors is not None
    a, b = (torch.as_tensor(factor) for factor in estimate.factors)
    wrong = size = 0.0
    for i in range(0, m, 256):
        hidden = ~mask[i : i + 256]
        truth = left[i : i + 256] @ right.T
        wrong += float((((a[i : i + 256] @ b.T - truth) * hidden).double() ** 2).sum())
        size += float(((truth * hidden).double() ** 2).sum())
    copies = 1024 * (_kilobytes("VmHWM") - before) / (4 * m * n)
    found = {"error": (wrong / size) ** 0.5, "copies": copies, "seconds": taken, "iterations": int(estimate.iterations)}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
