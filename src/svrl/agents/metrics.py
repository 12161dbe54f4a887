"""The numbers of a row of the learning log: values, targets, what structure does to them, ranks and features.

They are computed when a row is due, on transitions drawn for this alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from svrl.agents.diagnostics import batch_ranks, dormant_share, feature_rank, held_out_error
from svrl.agents.learner import Learner
from svrl.agents.replay import Batch, observations
from svrl.agents.structured_targets import Completion
from svrl.agents.targets import bellman_targets, next_values
from svrl.matrix.estimate import Outcome

METRIC_STATES = 512
"""Transitions that a row looks at, about."""


@torch.no_grad()
def metrics(learner: Learner, batch: Batch, count: int, masks: torch.Generator) -> dict[str, Any]:
    """The fields of `svrl.agents.events.Learned` that are about values; reading them waits for the device.

    Args:
        learner: Whose values.
        batch: K * B transitions, on the learner's device.
        count: K minibatches that they are looked at in, as in training.
        masks: For the observed sets, on the learner's device.
    """
    structure, online, network = learner.structure, None, learner.online
    mask = learner.draw_masks(count, masks)
    ready = learner.prepare(batch, count, mask)
    completion, completed_q = ready.completion, ready.target_q
    if ready.after is not None:
        online = learner.values(network, ready.after.flatten(0, 1)).view(ready.target_q.shape)
        if structure is not None and mask is not None and completion is None:
            completion, completed_q = structure.complete(online, mask), online
    plain = next_values(learner.config.agent, ready.target_q, online_q=online)
    values = learner.next_values(ready.target_q, online, None if completion is None else completion.matrix)
    change = (values - plain).double()
    targets = bellman_targets(ready.rewards, ready.continues, values, learner.config.discount)
    q, features = network(observations(batch)), network.features(observations(batch))
    ranks = batch_ranks(ready.target_q)
    return {
        "q_mean": float(q.mean()),
        "q_max": float(q.max(-1).values.mean()),
        "target_mean": float(targets.mean()),
        "observe": None if structure is None else structure.probability(learner.updates),
        "target_bias": float(change.mean()),
        "target_gap": float(change.abs().mean()),
        "targets_changed": float((change != 0).double().mean()),
        **_completed(completion, completed_q),
        "rank_99": float(ranks.rank_99.float().mean()),
        "rank_9999": float(ranks.rank_9999.float().mean()),
        "row_centred_rank_99": float(ranks.row_centred_99.float().mean()),
        "feature_rank": float(feature_rank(features)),
        "dormant": dormant_share(features, widths=network.feature_widths),
    }


def _completed(completion: Completion | None, before: Tensor) -> dict[str, float | None]:
    """What completion did to the matrices (K, B, A) themselves."""
    names = ("row_max_bias", "held_out_error", "estimate_rank", "estimates_converged")
    if completion is None:
        return {**dict.fromkeys(names), "row_max_bias": 0.0}
    error = held_out_error(completion.estimate, before, completion.mask)
    bias = completion.matrix.max(-1).values - before.max(-1).values
    converged = (completion.code == Outcome.CONVERGED.code).float()
    numbers = (bias.mean(), error.mean() if error.numel() else None, completion.rank.float().mean(), converged.mean())
    return {name: None if number is None else float(number) for name, number in zip(names, numbers, strict=True)}
