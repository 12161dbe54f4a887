"""What a burst of updates says about the values and about structure: the numbers of a `Learned` event."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from svrl.agents.diagnostics import batch_ranks, dormant_share, feature_rank, held_out_error
from svrl.agents.learner import Burst


def describe_burst(burst: Burst, features: Tensor) -> dict[str, Any]:
    """The numbers; reading them waits for the device.

    Args:
        burst: The last burst.
        features: Last features of the online network at some states of the memory, (N, F).
    """
    worth = burst.worth
    ranks = batch_ranks(burst.target_q)
    difference = worth.values - worth.plain_values
    report = {
        "q_mean": float(burst.q.mean()),
        "q_max": float(burst.q.max(-1).values.mean()),
        "target_mean": float(burst.targets.mean()),
        "row_max_bias": float(difference.mean()),
        "target_gap": float(difference.abs().mean()),
        "targets_changed": float((difference != 0).float().mean()),
        "held_out_error": None,
        "estimate_rank": None,
        "rank_99": float(ranks.rank_99.float().mean()),
        "rank_9999": float(ranks.rank_9999.float().mean()),
        "row_centred_rank_99": float(ranks.row_centred_99.float().mean()),
        "feature_rank": float(feature_rank(features)),
        "dormant": float(dormant_share(features)),
    }
    if worth.completion is not None:
        report["estimate_rank"] = float(worth.completion.rank.float().mean())
        error = held_out_error(worth.completion.estimate, worth.completed_q, worth.completion.mask)
        report["held_out_error"] = float(error.mean()) if error.numel() else None
    return report
