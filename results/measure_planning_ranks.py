"""Approximate ranks of Q* for every task, variant and discretisation. Writes planning_ranks.json.

python results/measure_planning_ranks.py OUT_DIR [cuda|cpu]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from svrl import GridMDP, make_task, solve_exactly

PLANES = (((20, 20), 100), ((50, 50), 1000), ((100, 100), 4000))
SIZES = {
    "inverted-pendulum": PLANES,
    "mountain-car": PLANES,
    "double-integrator": PLANES,
    "cart-pole": (((6,) * 4, 100), ((10,) * 4, 1000)),
}


def ranks(q: torch.Tensor) -> dict:
    """As `approximate_rank`, from the eigenvalues of Q'Q in float64: quicker on tall matrices."""
    found = {}
    for kind, matrix in (("raw", q), ("row_centred", q - q.mean(1, keepdim=True))):
        squares = torch.linalg.eigvalsh(matrix.mT @ matrix).flip(0).clamp(min=0)
        share = squares.cumsum(0) / squares.sum()
        for label, energy in (("99", 0.99), ("tight", 1 - 1e-6)):
            found[f"{kind}_{label}"] = int((share < energy).sum()) + 1
    return found


def main(out: Path, device: str) -> None:
    rows = []
    for task, sizes in SIZES.items():
        for variant in ("paper", "authors"):
            for states, actions in sizes:
                model = GridMDP(make_task(task, variant=variant, states=states, actions=actions), device=device)
                q = model.backup(solve_exactly(model)[0])
                row = {"task": task, "variant": variant, "states": model.n_states, "actions": actions, **ranks(q)}
                print(row, flush=True)
                rows.append(row)
    (out / "planning_ranks.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cpu")
