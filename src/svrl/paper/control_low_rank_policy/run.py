"""Policies from some entries of a converged Q: keep a share, recover the rest by matrix estimation, act greedily."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from svrl.paper.cell import CellResult, Kind, Work
from svrl.paper.control_cells import judged_q, problem_of
from svrl.planning.low_rank_policy import low_rank_policy


def compute(settings: Mapping[str, Any], work: Work) -> CellResult:
    """One task, one share, one mask."""
    problem = problem_of(settings, work.device)
    generator = torch.Generator(problem.model.device).manual_seed(settings["seed"])
    found = low_rank_policy(problem.q, generator, observe=settings["observe"])
    row, arrays = judged_q(problem, found.q, found.policy)
    return CellResult(rows=[{**row, "rank_of_estimate": int(found.estimate.rank)}], arrays=arrays)


KIND = Kind(name="control-low-rank-policy", version=1, compute=compute)
