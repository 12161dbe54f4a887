"""The numbers of a row of the learning log: values, targets, what structure does to them, ranks and features.

They are computed when a row is due, on transitions drawn for this alone. Ranks are the paper's approximate rank of
batches of values B x A. A large mean alone often carries 99% of the energy, so ranks are also computed at .9999 and
with each row's mean removed (the advantages).

Features are the last hidden activations of a network, N x F. A unit is dormant (Sokar et al., 2023) if

    score_i = mean_n |h_ni| / mean_j mean_n |h_nj|  <=  threshold

and srank (Kumar et al., 2021) is the smallest k with sigma_1 + ... + sigma_k >= (1 - delta) sum of all. Ranks and
features are small and needed on the host, so they are computed on the CPU, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from svrl.agents.learner import Learner
from svrl.agents.replay import Batch, observations
from svrl.agents.structured_targets import Completion
from svrl.agents.targets import bellman_targets, next_values
from svrl.matrix.estimate import Outcome
from svrl.matrix.rank import PAPER_ENERGY, effective_rank, energies, ranks_at, spectrum

METRIC_STATES = 512
"""Transitions that a row looks at, approximately."""
TIGHT_ENERGY = 0.9999
DORMANT = 0.025
DELTA = 0.01


@torch.no_grad()
def metrics(learner: Learner, batch: Batch, count: int, masks: torch.Generator) -> dict[str, Any]:
    """The fields of `svrl.agents.events.Learned` that are about values; reading them waits for the device.

    Args:
        learner: Gives networks and structure.
        batch: K * B transitions, on the learner's device.
        count: K, the number of minibatches that they are split into, as in training.
        masks: Generator for the observed sets, on the learner's device.
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
    targets = bellman_targets(ready.rewards, ready.continues, values, learner.config.gamma)
    q, features = network(observations(batch)), network.features(observations(batch))
    return {
        "q_mean": float(q.mean()),
        "q_max": float(q.max(-1).values.mean()),
        "target_mean": float(targets.mean()),
        "p": None if structure is None else structure.probability(learner.updates),
        "target_bias": float(change.mean()),
        "target_gap": float(change.abs().mean()),
        "targets_changed": float((change != 0).double().mean()),
        **_completed(completion, completed_q),
        **{name: float(ranks.float().mean()) for name, ranks in batch_ranks(ready.target_q).items()},
        "feature_rank": float(feature_rank(features)),
        "dormant": dormant_share(features, widths=network.feature_widths),
    }


def _completed(completion: Completion | None, before: Tensor) -> dict[str, float | None]:
    """What completion did to the matrices (K, B, A)."""
    names = ("row_max_bias", "held_out_error", "estimate_rank", "estimates_converged")
    if completion is None:
        return {**dict.fromkeys(names), "row_max_bias": 0.0}
    error = held_out_error(completion.estimate, before, completion.mask)
    bias = completion.matrix.max(-1).values - before.max(-1).values
    converged = (completion.code == Outcome.CONVERGED.code).float()
    numbers = (bias.mean(), error.mean() if error.numel() else None, completion.rank.float().mean(), converged.mean())
    return {name: None if number is None else float(number) for name, number in zip(names, numbers, strict=True)}


def batch_ranks(q: Tensor) -> dict[str, Tensor]:
    """Approximate ranks (...) of matrices of values (..., B, A), as they are and with each row's mean removed.

    The keys are those of `Learned`. Ranks are float64, and NaN for matrices that are not finite: training goes on.
    """
    q = q.detach().cpu()
    finite = torch.isfinite(q).flatten(-2).all(-1)
    q = torch.where(finite[..., None, None], q, 0.0)
    raw, centred = energies(q), energies(q, centre_rows=True)
    found = {
        "rank_99": ranks_at(raw, PAPER_ENERGY),
        "rank_9999": ranks_at(raw, TIGHT_ENERGY),
        "row_centred_rank_99": ranks_at(centred, PAPER_ENERGY),
    }
    return {name: torch.where(finite, ranks.double(), math.nan) for name, ranks in found.items()}


def dormant_share(features: Tensor, threshold: float = DORMANT, widths: Sequence[int] | None = None) -> float:
    """Share of dormant units on features (N, F); 1 if every unit is silent, NaN if a feature is not finite.

    A unit is compared with its own layer: give the widths of the layers if several stand side by side.
    """
    activity = features.detach().cpu().double().abs().mean(0)
    if not bool(torch.isfinite(activity).all()):
        return math.nan
    layers = torch.split(activity, list(widths or [len(activity)]))
    return sum(int((layer <= threshold * layer.mean()).sum()) for layer in layers) / len(activity)


def feature_rank(features: Tensor) -> float:
    """Effective rank of features (N, F): exp of the entropy of the normalised singular values. NaN if not finite."""
    features = features.detach().cpu().double()
    return float(effective_rank(features)) if bool(torch.isfinite(features).all()) else math.nan


def srank(features: Tensor, delta: float = DELTA) -> int:
    """The fewest singular values of features (N, F) with at least 1 - delta of the sum of all; 0 if all are 0."""
    sigma = torch.as_tensor(spectrum(features.detach().cpu().double()))
    tail = sigma.flip(-1).cumsum(-1).flip(-1)
    return int((tail > delta * tail[:1]).sum())


def held_out_error(estimate: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Relative error of an estimator on hidden entries, |estimate - truth|_F / |truth|_F over unobserved entries.

    Args:
        estimate: (..., B, A).
        truth: (..., B, A).
        mask: (..., B, A), bool: the observed entries.

    Returns:
        (M,), float64: one number for each of the M matrices whose unobserved entries are not all zero.
    """
    wrong = torch.where(mask, 0.0, estimate - truth).detach().double().flatten(-2).norm(dim=-1)
    right = torch.where(mask, 0.0, truth).detach().double().flatten(-2).norm(dim=-1)
    judged = right > 0
    return wrong[judged] / right[judged]
