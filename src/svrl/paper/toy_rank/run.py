"""Rank and error of Q_t on a toy MDP, iteration by iteration.

From Q_0 ~ U(0, 1): plain value iteration backs up every pair; online reconstruction backs up a share p of them and
completes the rest by matrix estimation. Rows have t, four ranks, the mean squared error against Q*, and backups so far.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from svrl.matrix import approximate_rank
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.toy import toy_mdp
from svrl.paper.cell import CellResult, Kind, Work
from svrl.planning.evaluation import solve_exactly
from svrl.planning.plan import advance, begin
from svrl.planning.score import TIGHT_ENERGY
from svrl.planning.structured import paper_svp

VANILLA, ONLINE = "value-iteration", "paper-svp"


def compute(settings: Mapping[str, Any], work: Work) -> CellResult:
    """One MDP and one method; the row of the optimum comes last, with t None."""
    sizes = {"n_states": settings["states"], "n_actions": settings["actions"], "discount": settings["discount"]}
    model = toy_mdp(settings["seed"], reward=settings["reward"], device=work.device, **sizes)
    best = model.backup(solve_exactly(model)[0])
    rows = []
    for t, (q, backups) in enumerate(_iterations(model, settings)):
        error = float((q - best).square().mean())
        rows.append({"t": t, **four_ranks(q), "mse": error, "backups": backups})
        work.progress(t / settings["iterations"])
    return CellResult(rows=[*rows, {"t": None, **four_ranks(best), "mse": 0.0, "backups": None}])


KIND = Kind(name="toy-rank", version=1, compute=compute)


def four_ranks(q: Tensor) -> dict[str, int]:
    """At two energies, of q (S, A) as it is and less its row means."""
    found = {}
    for name, energy in (("rank_99", 0.99), ("rank_tight", TIGHT_ENERGY)):
        found[name] = int(approximate_rank(q, energy=energy))
        found[f"{name}_centred"] = int(approximate_rank(q, energy=energy, centre_rows=True))
    return found


def _iterations(model: TabularMDP, settings: Mapping[str, Any]) -> Iterator[tuple[Tensor, int]]:
    """Q_t (S, A), float64, and the backups made until then, t = 0, 1, ..."""
    draw = torch.Generator().manual_seed(1000 + settings["seed"])
    q = torch.rand(model.n_states, model.n_actions, generator=draw, dtype=torch.float64).to(model.device)
    yield q, 0
    if settings["method"] == VANILLA:
        for t in range(settings["iterations"]):
            q = model.backup(q.max(1).values)
            yield q, (t + 1) * q.numel()
        return
    method = paper_svp(observe=settings["observe"], max_iterations=settings["iterations"])
    run = begin(model, method, seed=settings["seed"], start=q)
    for row in advance(model, method, run):
        yield run.state.memory["q"].double(), row.backups
