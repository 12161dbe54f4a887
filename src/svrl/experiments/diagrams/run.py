"""Two small checks of what the diagrams say.

counted-backups  an iteration of SVP at p backs up a share p of the pairs: the ledger of a plan on a toy MDP.
drop-in          SV-RL changes the targets and nothing else: if every entry is observed and kept, the weights after
                 some steps are those of the plain agent bit for bit; at p < 1 they are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from svrl.agents.config import AUTHORS_STRUCTURE, AgentConfig
from svrl.agents.train_agent import train
from svrl.experiments.paper.cell import CellResult, Kind, Work
from svrl.mdp.toy import toy_mdp
from svrl.planning.plan import plan
from svrl.planning.structured import paper_svp


def count_backups(settings: Mapping[str, Any], work: Work) -> CellResult:
    """Backups of every iteration over the number of pairs."""
    model = toy_mdp(settings["seed"], n_states=settings["states"], n_actions=settings["actions"])
    found = plan(
        model, paper_svp(observe=settings["observe"], max_iterations=settings["iterations"]), seed=settings["seed"]
    )
    pairs = model.n_states * model.n_actions
    totals = [0, *(row.backups for row in found.trace)]
    rows = [
        {"iteration": t, "share": (after - before) / pairs}
        for t, (before, after) in enumerate(pairwise(totals), start=1)
    ]
    return CellResult(rows=rows)


def compare_weights(settings: Mapping[str, Any], work: Work) -> CellResult:
    """The plain agent and the structured one, from one seed; on the CPU, where equal means equal in every bit."""
    plain = AgentConfig.for_env(settings["env"], "smoke", agent=settings["agent"], steps=settings["steps"])
    way = {**AUTHORS_STRUCTURE, "observe": settings["observe"], "output": settings["output"]}
    structured = plain.but(structured=True, **way)
    found = []
    for k, config in enumerate((plain, structured)):
        found.append(_weights(settings["env"], config, settings["seed"]))
        work.progress((k + 1) / 2)
    same = bool(torch.equal(*found))
    gap = float((found[0] - found[1]).abs().max())
    return CellResult(rows=[{"identical": same, "largest_difference": gap, "weights": found[0].numel()}])


BACKUPS = Kind(name="counted-backups", version=1, compute=count_backups)
DROP_IN = Kind(name="drop-in", version=1, compute=compare_weights)


def _weights(env: str, config: AgentConfig, seed: int) -> Tensor:
    """All weights after training, (n,)."""
    agent = train(env, config, seed=seed)
    return torch.cat([part.detach().reshape(-1) for part in agent.network.parameters()])
