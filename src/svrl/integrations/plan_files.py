"""A plan's Q in a file, .npz, which NumPy alone can read.

    q (S, A), or left (S, r) and right (r, A) with Q = left right; v (S,); policy (S,)
    method, outcome    texts; the empty outcome is success
    discount           and, where the model is given, certified_error and loss_bound

With V* between L and U (`svrl.certify_plan`) and T_a the backup of one action, T_a L <= Q*(., a) <= T_a U, so that

    certified_error = the largest of T_a U - Q and Q - T_a L over all pairs

and no entry of the saved Q is further from Q* than that. Following the policy loses nowhere more than loss_bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from svrl.integrations.model_table import read_npz, write_npz
from svrl.mdp.model import Model
from svrl.planning.certificate import certify_plan
from svrl.planning.plan import Plan


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SavedQ:
    """What a file holds.

    Attributes:
        q: (S, A), or None where factors are kept.
        factors: Left (S, r) and right (r, A), or None.
        v: Values (S,).
        policy: Actions (S,), int64.
        method: The repr of the method.
        outcome: How planning ended; the empty sentence is success.
        discount: In (0, 1).
        certified_error: No entry of Q is further from Q* than this; None where the model was not given.
        loss_bound: No state loses more than this by following the policy; None likewise.
    """

    q: np.ndarray | None
    factors: tuple[np.ndarray, np.ndarray] | None
    v: np.ndarray
    policy: np.ndarray
    method: str
    outcome: str
    discount: float
    certified_error: float | None
    loss_bound: float | None

    @property
    def matrix(self) -> np.ndarray:
        """Q (S, A), formed from its factors where those are kept."""
        if self.q is not None:
            return self.q
        assert self.factors is not None
        return self.factors[0] @ self.factors[1]


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
        q, kept = left @ right, {"left": left, "right": right}
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
    about = {"method": found.method, "outcome": found.outcome, "discount": found.problem["discount"]}
    write_npz(file, **arrays, **about, **certified)


def load_q(file: str | Path) -> SavedQ:
    """Read what `save_q` wrote.

    Raises:
        ValueError: If the file is damaged, or is none of `save_q`.
        OSError: If it cannot be opened.
    """
    entries: dict[str, Any] = read_npz(file, "save_q")
    if not {"v", "policy", "method", "outcome", "discount"} <= set(entries):
        raise ValueError(f"{file} holds {', '.join(entries) or 'nothing'}, and was not written by save_q.")
    return SavedQ(
        q=entries.get("q"),
        factors=(entries["left"], entries["right"]) if "left" in entries else None,
        v=entries["v"],
        policy=entries["policy"],
        method=str(entries["method"]),
        outcome=str(entries["outcome"]),
        discount=float(entries["discount"]),
        certified_error=float(entries["certified_error"]) if "certified_error" in entries else None,
        loss_bound=float(entries["loss_bound"]) if "loss_bound" in entries else None,
    )
