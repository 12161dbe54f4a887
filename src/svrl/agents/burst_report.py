"""What a burst of updates says about the values and about structure: the numbers of a `Learned` event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from svrl.agents.diagnostics import batch_ranks, dormant_share, feature_rank, held_out_error, target_gap
from svrl.agents.learner import Burst, Worth
from svrl.matrix.estimate import Outcome


def describe_burst(burst: Burst, features: Tensor, widths: Sequence[int]) -> dict[str, Any]:
    """The numbers; reading them waits for the device.

    Args:
        burst: The last burst.
        features: Last features of the online network at some states of the memory, (N, F).
        widths: Of the layers that the features are of.
    """
    worth = burst.worth
    ranks = batch_ranks(burst.target_q)
    gap = target_gap(worth.plain_values, worth.values)
    return {
        "q_mean": float(burst.q.mean()),
        "q_max": float(burst.q.max(-1).values.mean()),
        "target_mean": float(burst.targets.mean()),
        "target_bias": gap.bias,
        "target_gap": gap.gap,
        "targets_changed": gap.changed,
        **_completed(worth),
        "rank_99": float(ranks.rank_99.float().mean()),
        "rank_9999": float(ranks.rank_9999.float().mean()),
        "row_centred_rank_99": float(ranks.row_centred_99.float().mean()),
        "feature_rank": float(feature_rank(features)),
        "dormant": dormant_share(features, widths=widths),
    }


def _completed(worth: Worth) -> dict[str, float | None]:
    """What completion did to the matrices themselves."""
    names = ("row_max_bias", "held_out_error", "estimate_rank", "estimates_converged")
    if worth.completion is None:
        return {**dict.fromkeys(names), "row_max_bias": 0.0}
    found, before = worth.completion, worth.completed_q
    error = held_out_error(found.estimate, before, found.mask)
    bias = found.matrix.max(-1).values - before.max(-1).values
    converged = (found.code == Outcome.CONVERGED.code).float()
    numbers = (bias.mean(), error.mean() if error.numel() else None, found.rank.float().mean(), converged.mean())
    return {name: None if number is None else float(number) for name, number in zip(names, numbers, strict=True)}
