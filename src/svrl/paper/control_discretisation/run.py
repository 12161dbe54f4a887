"""The optimum of a grid under several sets of starts and noise.

The grid is solved once, and its Q* is interpolated and followed greedily from every set. A set is drawn from a seed
of its own, so that the rows are independent and have an interval:

    metric         the task's own: mean over starts of the norm of the late angles, in radians
    mean_degrees   mean of their absolute values, in degrees
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from svrl.paper.cell import CellResult, Kind, Work
from svrl.paper.control_cells import problem_of
from svrl.planning.policy import GreedyPolicy
from svrl.planning.rollout import rollout


def compute_starts(settings: Mapping[str, Any], work: Work) -> CellResult:
    """One row for each of `start_seeds`."""
    seeds = settings["start_seeds"]
    # The judge's own starts are not used: any seed leads to the same optimum, and the first is shared with its cell.
    problem = problem_of({**settings, "start_seed": seeds[0]}, work.device)
    policy = GreedyPolicy(task=problem.task, q=problem.q)
    rows = []
    for done, seed in enumerate(seeds, start=1):
        generator = torch.Generator().manual_seed(seed)
        found = rollout(problem.task, policy, starts=settings["starts"], generator=generator).metric
        rows.append(
            {"start_seed": seed, "metric": found[problem.task.metric.name], "mean_degrees": found["mean_degrees"]}
        )
        work.progress(done / len(seeds))
    return CellResult(rows=rows)


STARTS_KIND = Kind(name="control-starts", version=1, compute=compute_starts)
