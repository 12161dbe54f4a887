"""A plan's Q in a file: .npz or .safetensors, by the ending.

    .npz            q (S, A), or left (S, r) and right (r, A) with Q = left right; v (S,), policy (S,), and metadata
    .safetensors    the same tensors, with the metadata in the header

The metadata are texts: format, method, seed, outcome (the empty sentence is success), discount, and, where the model
is given, certified_error and loss_bound. With V* between L and U (`svrl.certify_plan`) and T_a the backup of one
action, T_a L <= Q*(., a) <= T_a U, so that

    certified_error = the largest of T_a U - Q and Q - T_a L over all pairs

and no entry of the saved Q is further from Q* than that. Following the policy loses nowhere more than loss_bound.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.integrations.versions import require
from svrl.mdp.model import Model
from svrl.planning.certificate import certify_plan
from svrl.planning.plan import Plan
from svrl.runtime.files import writing

FORMAT = "svrl-q 1"
ENDINGS = (".npz", ".safetensors")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SavedQ:
    """What a file holds; all but the matrix may be None in a file that is not ours.

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

    q: np.ndarray | None = None
    factors: tuple[np.ndarray, np.ndarray] | None = None
    v: np.ndarray | None = None
    policy: np.ndarray | None = None
    method: str | None = None
    outcome: str | None = None
    discount: float | None = None
    certified_error: float | None = None
    loss_bound: float | None = None

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
        file: Its ending, .npz or .safetensors, says how.
        model: What was planned on. With it the error of Q is certified, by three sweeps that form (S, A) arrays;
            and where the plan kept values only, Q is one backup of them.

    Raises:
        ValueError: If the ending is another one, there is no plan, or it kept values only and there is no model.
    """
    if not isinstance(found, Plan):
        raise ValueError(f"save_q writes a Plan, got {type(found).__name__}. Give what svrl.plan returned.")
    path = _checked(Path(file))
    tensors = _matrix(found, model)
    metadata = _metadata(found, model, tensors["q"] if "q" in tensors else tensors["left"] @ tensors["right"])
    tensors |= {"v": found.v, "policy": found.policy}
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    with writing(path) as temporary:
        if path.suffix == ".safetensors":
            from safetensors.numpy import save_file

            save_file(arrays, temporary, metadata=metadata)
            return
        with temporary.open("wb") as opened:
            np.savez(opened, metadata=np.array(json.dumps(metadata)), **arrays)  # type: ignore[arg-type]


def load_q(file: str | Path) -> SavedQ:
    """Read what `save_q` wrote, or any file with one matrix (S, A) called q, or with factors left and right.

    Raises:
        ValueError: If the ending is another one, the file is damaged, or there is no Q in it.
        OSError: If it cannot be opened.
    """
    path = _checked(Path(file))
    path.open("rb").close()
    try:
        arrays, metadata = _read(path)
    except Exception as error:  # a damaged file fails in as many ways as it has parts
        raise ValueError(f"{path} is damaged, or no {path.suffix} file, and cannot be read.") from error
    matrices = [arrays[name] for name in ("q", "left", "right") if name in arrays]
    if ("q" in arrays) == ("left" in arrays and "right" in arrays) or any(part.ndim != 2 for part in matrices):
        raise ValueError(f"{path} holds {', '.join(arrays) or 'nothing'}, and no matrix q, nor factors left and right.")
    said: dict[str, Any] = {name: arrays.get(name) for name in ("q", "v", "policy")}
    said |= {name: metadata.get(name) for name in ("method", "outcome")}
    for name in ("discount", "certified_error", "loss_bound"):
        said[name] = float(metadata[name]) if name in metadata else None
    return SavedQ(factors=None if "q" in arrays else (arrays["left"], arrays["right"]), **said)


def _matrix(found: Plan, model: Model | None) -> dict[str, Tensor]:
    if found.q is not None:
        return {"q": found.q}
    if found.factors is not None:
        return {"left": found.factors[0], "right": found.factors[1]}
    if model is None:
        raise ValueError(f"The plan by {found.name} kept values only. Give the model, and Q is one backup of them.")
    return {"q": model.backup(found.v)}


def _metadata(found: Plan, model: Model | None, q: Tensor) -> dict[str, str]:
    metadata = {"format": FORMAT, "method": found.method, "seed": str(found.seed), "outcome": found.outcome}
    if "discount" in found.problem:
        metadata["discount"] = repr(float(found.problem["discount"]))
    if model is None:
        return metadata
    bounds = certify_plan(model, found.v, found.policy)
    metadata["loss_bound"] = repr(bounds.loss_bound)
    here = q.to(model.device).double()
    error = float(torch.maximum(model.backup(bounds.upper) - here, here - model.backup(bounds.lower)).max())
    if math.isfinite(error):  # some methods never look at some entries, and say nan there
        metadata["certified_error"] = repr(error)
    return metadata


def _checked(path: Path) -> Path:
    if path.suffix not in ENDINGS:
        raise ValueError(f"A file of Q ends in {' or '.join(ENDINGS)}, got {path.name!r}.")
    if path.suffix == ".safetensors":
        require("safetensors")
    return path


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays in a file, and its metadata."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as entries:
            arrays = dict(entries)
        return arrays, json.loads(str(arrays.pop("metadata", "{}")))
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as tensors:
        return {name: tensors.get_tensor(name) for name in tensors.keys()}, tensors.metadata() or {}  # noqa: SIM118
