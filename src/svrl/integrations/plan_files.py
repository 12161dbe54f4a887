"""A plan's Q in a file, .npz, which numpy.load reads.

    q (S, A), or left (S, r) and right (A, r) with Q = left right'; v (S,); policy (S,)
    method, outcome    texts; the empty outcome is success
    gamma              and, where the model is given, certified_error and loss_bound

With V* between L and U (`svrl.certify_plan`) and T_a the backup of one action, T_a L <= Q*(., a) <= T_a U, so that

    certified_error = the largest of T_a U - Q and Q - T_a L over all pairs

and no entry of the saved Q is further from Q* than that. Following the policy loses nowhere more than loss_bound.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch

from svrl.integrations.model_table import write_npz
from svrl.mdp.model import Model
from svrl.planning.certificate import certify_plan
from svrl.planning.plan import Plan


def save_q(found: Plan, file: str | Path, *, model: Model | None = None) -> None:
    """Write the Q of a plan.

    Args:
        found: A plan of S states and A actions.
        file: Its name ends in .npz.
        model: What was planned on. With it the error of Q is certified, by three sweeps that form (S, A) arrays;
            and where the plan kept values only, Q is one backup of them.

    Raises:
        ValueError: If the ending is another one, there is no plan, or it kept values only and there is no model.
    """
    if not isinstance(found, Plan):
        raise ValueError(f"save_q writes a Plan, got {type(found).__name__}. Give what svrl.plan returned.")
    if found.q is not None:
        q, kept = found.q, {"q": found.q}
    elif found.factors is not None:
        left, right = found.factors
        q, kept = left @ right.mT, {"left": left, "right": right}
    elif model is not None:
        q = model.backup(found.v)
        kept = {"q": q}
    else:
        raise ValueError(f"The plan by {found.name} kept values only. Give the model, and Q is one backup of them.")
    certified: dict[str, float] = {}
    if model is not None:
        bounds = certify_plan(model, found.v, found.policy)
        certified["loss_bound"] = bounds.loss_bound
        here = q.to(model.device).double()
        error = float(torch.maximum(model.backup(bounds.upper) - here, here - model.backup(bounds.lower)).max())
        if math.isfinite(error):  # some methods never look at some entries, and say nan there
            certified["certified_error"] = error
    kept |= {"v": found.v, "policy": found.policy}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in kept.items()}
    about = {"method": found.method, "outcome": found.outcome, "gamma": found.problem["gamma"]}
    write_npz(file, **arrays, **about, **certified)
