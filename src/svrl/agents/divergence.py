"""Training that has diverged is stopped at once: what follows from a loss that is no number is none either."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from svrl.agents.training import Training


def refuse_divergence(training: Training, sums: Sequence[Tensor], last: Tensor) -> None:
    """Raise ValueError, with the update and the seed that show it, if a loss is not finite. Waits for the device.

    Args:
        training: Where it stands.
        sums: Summed losses of the bursts since one was looked at.
        last: Losses of the updates of the last burst, (K,).
    """
    if not sums or math.isfinite(float(torch.stack(list(sums)).sum())):
        return
    wrong = (~torch.isfinite(last)).nonzero()
    first = training.updates - len(last) + 1 + int(wrong[0]) if len(wrong) else training.updates
    where = "at" if len(sums) == 1 else "by"
    raise ValueError(
        f"{training.env}, seed {training.seed}: the loss is not finite {where} update {first:,}, after "
        f"{training.steps:,} steps, so training has diverged. Lower the learning rate, or look for rewards and "
        "observations that are not finite."
    )
