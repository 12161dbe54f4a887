"""What a network's values look like: ranks, features, and the errors of matrix estimation.

Ranks here are the paper's approximate rank, the fewest singular values whose squares carry a share
(the energy) of the sum of all squares, of batches of values B x A. A large mean alone often
carries 99%, so they are also taken at .9999 and with each row's mean taken out (the advantages).
`rank_study` is the study of section 4.1 of "Harnessing Structures for Value-Based Planning and
Reinforcement Learning", ICLR 2020.

Features are the last hidden activations of a network, N x F. A unit is dormant (Sokar et al., 2023) if

    score_i = mean_n |h_ni| / mean_j mean_n |h_nj|  <=  threshold

and srank (Kumar et al., 2021) is the smallest k with sigma_1 + ... + sigma_k >= (1 - delta) sum of all.

Everything is small and wanted on the host, so it is computed on the CPU, in float64.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from svrl.agents.environment import open_env
from svrl.agents.estimation_study import SCALES, Estimation, estimate_batches
from svrl.agents.evaluation import LANES, Move, at_rest, play
from svrl.agents.optimism import Optimism, optimism_of
from svrl.agents.seeds import derived_seed, generator_for
from svrl.matrix.rank import PAPER_ENERGY, effective_rank, spectrum

if TYPE_CHECKING:
    from svrl.agents.agent import Agent
    from svrl.agents.config import AgentConfig

TIGHT_ENERGY = 0.9999
DORMANT = 0.025
DELTA = 0.01
ROUNDING = 4 * torch.finfo(torch.float32).eps
"""Share of a value that may be rounding: a layer may sum some actions in another order than the others."""
FEATURE_STATES = 2_048
"""States whose features a rank study looks at; Kumar et al. take as many."""
BLOCK = 1 << 21
"""Entries of the batches whose ranks are taken at once."""


class BatchRanks(NamedTuple):
    """Approximate ranks of matrices of values, each (...), float64; NaN where a matrix is not finite.

    Attributes:
        rank_99, rank_9999: At energy .99 and .9999.
        row_centred_99: With each row's mean taken out, at energy .99.
    """

    rank_99: Tensor
    rank_9999: Tensor
    row_centred_99: Tensor


def energies(q: Tensor, *, centre_rows: bool = False) -> Tensor:
    """Squared singular values (..., min(B, A)) of (..., B, A), descending, float64.

    They are the eigenvalues of the Gram matrix of the shorter side, which takes less than half the
    time of singular values. What lies below rounding is 0: singular values under about 1e-7 of the largest,
    which is also as far as a network's float32 can be trusted. Centring removes the values and leaves their
    rounding, so there singular values under `ROUNDING` of the norm before it are 0 too: equal actions have rank 0.
    """
    q = q.detach().cpu().double()
    noise = torch.zeros((), dtype=torch.float64)
    if centre_rows:
        noise = (ROUNDING * torch.linalg.matrix_norm(q)[..., None]).square()
        q = q - q.mean(-1, keepdim=True)
    top = q.abs().amax((-2, -1), keepdim=True)
    q = q / torch.where(top > 0, top, 1.0)
    gram = q.mT @ q if q.shape[-1] <= q.shape[-2] else q @ q.mT
    squares = torch.linalg.eigvalsh(gram).flip(-1)
    rounding = max(q.shape[-2:]) * torch.finfo(torch.float64).eps * squares[..., :1]
    found = torch.where(squares > rounding, squares, 0.0) * top[..., 0].square()
    return torch.where(found > noise, found, 0.0)


def ranks_at(squares: Tensor, energy: float) -> Tensor:
    """Approximate ranks (...), int64, from `energies` (..., n); 0 for a zero matrix."""
    _check_energy(energy)
    tail = squares.flip(-1).cumsum(-1).flip(-1)
    return (tail > (1.0 - energy) * tail[..., :1]).sum(-1)


def _check_energy(energy: float) -> None:
    if not 0.0 < energy <= 1.0:
        raise ValueError(f"The energy is a share in (0, 1], got {energy}.")


def batch_ranks(q: Tensor) -> BatchRanks:
    """Ranks (...) of matrices of values (..., B, A). A network that diverged has none, which must not stop training."""
    q = q.detach().cpu()
    finite = torch.isfinite(q).flatten(-2).all(-1)
    q = torch.where(finite[..., None, None], q, 0.0)
    raw, centred = energies(q), energies(q, centre_rows=True)
    found = ranks_at(raw, PAPER_ENERGY), ranks_at(raw, TIGHT_ENERGY), ranks_at(centred, PAPER_ENERGY)
    return BatchRanks(*(torch.where(finite, ranks.double(), math.nan) for ranks in found))


def dormant_share(features: Tensor, threshold: float = DORMANT, widths: Sequence[int] | None = None) -> float:
    """Share of the units that are dormant on features (N, F); 1 where every unit is silent, NaN if not finite.

    A unit is held against its own layer: give the widths of the layers where several stand side by side.
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
    """The fewest singular values of features (N, F) that sum to at least 1 - delta of the sum of all; 0 of nothing."""
    if not 0.0 <= delta < 1.0:
        raise ValueError(f"srank leaves out a share delta in [0, 1), got {delta}.")
    sigma = torch.as_tensor(spectrum(features.detach().cpu().double()))
    tail = sigma.flip(-1).cumsum(-1).flip(-1)
    return int((tail > delta * tail[:1]).sum())


def held_out_error(estimate: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Relative error of an estimator on what it did not see, |estimate - truth|_F / |truth|_F over unobserved entries.

    Args:
        estimate: (..., B, A).
        truth: (..., B, A).
        mask: (..., B, A), bool: what was observed.

    Returns:
        (M,), float64: one number for each of the M matrices that have unobserved entries which are not all zero.
        Where everything was observed there is nothing to judge by, and M is 0.
    """
    wrong = torch.where(mask, 0.0, estimate - truth).detach().double().flatten(-2).norm(dim=-1)
    right = torch.where(mask, 0.0, truth).detach().double().flatten(-2).norm(dim=-1)
    judged = right > 0
    return wrong[judged] / right[judged]


@dataclass(frozen=True, kw_only=True)
class RankStudy:
    """Ranks of many random batches of a learned Q.

    There are four kinds: plain at `energy`; `tight_`, at `tight_energy`; `row_centred_`, at `energy` with each
    row's mean taken out; and `tight_row_centred_`.

    Attributes:
        env: Where the states come from.
        energy, tight_energy: Shares of the sum of squares.
        batches, batch_size: How many batches, of how many distinct states each.
        states: States that they were drawn from.
        actions: A.
        mean, ...: Mean rank.
        histogram, ...: Batches of rank 0, 1, ..., A.
        cdf, ...: Share of the batches of rank at most 0, 1, ..., A.
        feature_rank, srank, dormant: Of the last features on up to 2,048 of the states.
        q_mean, q_std, q_min, q_max: Of all values of all states.
        estimation: What Soft-Impute makes of up to 1,000 of the batches, for each scaling.
        optimism: Values against what the agent then got; None where too few steps were played in a row to know.
    """

    env: str
    energy: float
    tight_energy: float
    batches: int
    batch_size: int
    states: int
    actions: int
    mean: float
    histogram: tuple[int, ...]
    cdf: tuple[float, ...]
    tight_mean: float
    tight_histogram: tuple[int, ...]
    tight_cdf: tuple[float, ...]
    row_centred_mean: float
    row_centred_histogram: tuple[int, ...]
    row_centred_cdf: tuple[float, ...]
    tight_row_centred_mean: float
    tight_row_centred_histogram: tuple[int, ...]
    tight_row_centred_cdf: tuple[float, ...]
    feature_rank: float
    srank: int
    dormant: float
    q_mean: float
    q_std: float
    q_min: float
    q_max: float
    estimation: tuple[Estimation, ...] = ()
    optimism: Optimism | None = None

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON types only."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }


def rank_study(
    agent: Agent,
    *,
    batches: int = 10_000,
    batch_size: int = 32,
    energy: float = PAPER_ENERGY,
    states: int = 20_000,
    epsilon: float = 0.05,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> RankStudy:
    """Ranks of random batches of states x actions of an agent's Q, as in the paper's section 4.1.

    The paper does not say where its states come from. Here the agent plays on fresh environments, with a
    random action now and then so that its games differ, and every state it meets counts, as often as it is met.

    Args:
        agent: Whose Q.
        batches: Batches to draw.
        batch_size: States in each, none of them drawn twice.
        energy: Share of the sum of squared singular values that the rank must carry.
        states: States to collect.
        epsilon: Probability of a random action while collecting.
        seed: Of environments, actions and batches.
        progress: Told of (states collected, states to collect).
    """
    if states < 1:
        raise ValueError(f"A rank study needs at least 1 state, got {states}.")
    if batches < 1 or not 1 <= batch_size <= states:
        raise ValueError(
            f"A rank study needs at least 1 batch of 1 to {states} distinct states, the number it collects; "
            f"got {batches} batches of {batch_size}."
        )
    _check_energy(energy)
    q, features, optimism = _collect(agent, states, epsilon, seed, progress)
    if not bool(torch.isfinite(q).all()):
        raise ValueError(
            f"The agent's values on {agent.env} are not finite: its training diverged, and its Q has no rank. "
            "Train it again, with a smaller learning rate."
        )
    rows = distinct_rows(batches, batch_size, states, generator_for(seed, "rank study batches"))
    return RankStudy(
        env=agent.env,
        energy=energy,
        tight_energy=TIGHT_ENERGY,
        batches=batches,
        batch_size=batch_size,
        states=states,
        actions=q.shape[1],
        **_four_kinds(q, rows, energy),
        feature_rank=feature_rank(features),
        srank=srank(features),
        dormant=dormant_share(features, widths=agent.network.feature_widths),
        q_mean=float(q.mean()),
        q_std=float(q.std(correction=0)),
        q_min=float(q.min()),
        q_max=float(q.max()),
        estimation=tuple(
            estimate_batches(q, rows, generator_for(seed, "rank study masks"), scale=scale) for scale in SCALES
        ),
        optimism=optimism,
    )


def distinct_rows(batches: int, batch_size: int, states: int, generator: torch.Generator) -> Tensor:
    """Batches of distinct states (batches, batch_size), int64, every set equally likely (Floyd's algorithm)."""
    rows = torch.empty(batches, batch_size, dtype=torch.int64)
    for k, last in enumerate(range(states - batch_size, states)):
        drawn = torch.randint(last + 1, (batches, 1), generator=generator)
        taken = (rows[:, :k] == drawn).any(1)
        rows[:, k] = torch.where(taken, last, drawn[:, 0])
    return rows


def _collect(
    agent: Agent, states: int, epsilon: float, seed: int, progress: Callable[[int, int], None] | None
) -> tuple[Tensor, Tensor, Optimism | None]:
    """Values (states, A), float64, features of some of the states, and optimism, met while playing."""
    seed_of_lanes = derived_seed(seed, "rank study environments")
    env = open_env(agent.source, agent.config, count=min(LANES, states), seed=seed_of_lanes)
    try:
        moves_needed = math.ceil(states / env.count)
        stride = max(1, math.ceil(states / FEATURE_STATES))
        values, features, moved = [], [], []
        with at_rest(agent.network):
            moves = play(
                agent.network,
                env,
                epsilon=epsilon,
                generator=generator_for(seed, "rank study actions"),
                device=agent.device,
            )
            for k, move in zip(range(moves_needed), moves, strict=False):
                values.append(move.q.cpu())
                moved.append(_outcome(move, agent.config))
                if k % stride == 0:
                    with torch.no_grad():
                        features.append(agent.network.features(move.observations).cpu())
                if progress is not None:
                    progress(min((k + 1) * env.count, states), states)
    finally:
        env.close()
    best = torch.stack(values).amax(-1)
    rewards, stops, cuts, ended = (torch.stack(parts) for parts in zip(*moved, strict=True))
    optimism = optimism_of(best, rewards, stops, cuts, ended, agent.config.discount)
    return torch.cat(values)[:states].double(), torch.cat(features)[:states], optimism


def _outcome(move: Move, config: AgentConfig) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rewards (N,) as the agent learns from them; whether nothing comes after, that is unknown, the episode is over."""
    step = move.step
    rewards = torch.from_numpy(step.rewards.copy())
    stops = step.terminal | step.life_lost if config.life_loss_ends else step.terminal
    cuts = torch.from_numpy(step.truncated & ~stops)
    return (
        rewards.sign() if config.clip_rewards else rewards,
        torch.from_numpy(stops.copy()),
        cuts,
        torch.from_numpy(step.ended.copy()),
    )


def _four_kinds(q: Tensor, rows: Tensor, energy: float) -> dict[str, Any]:
    """Mean, histogram and CDF of the ranks of batches q[rows], of the four kinds."""
    kinds = {
        "": (False, energy),
        "tight_": (False, TIGHT_ENERGY),
        "row_centred_": (True, energy),
        "tight_row_centred_": (True, TIGHT_ENERGY),
    }
    counts = {kind: torch.zeros(q.shape[1] + 1, dtype=torch.int64) for kind in kinds}
    together = max(1, BLOCK // (rows.shape[1] * q.shape[1]))
    for low in range(0, len(rows), together):
        some = rows[low : low + together]
        squares = {centred: energies(q[some], centre_rows=centred) for centred in (False, True)}
        for kind, (centred, share) in kinds.items():
            counts[kind] += torch.bincount(ranks_at(squares[centred], share), minlength=q.shape[1] + 1)
    found: dict[str, Any] = {}
    for kind, count in counts.items():
        found[f"{kind}histogram"] = tuple(count.tolist())
        found[f"{kind}cdf"] = tuple((count.cumsum(0).double() / len(rows)).tolist())
        found[f"{kind}mean"] = int((count * torch.arange(len(count))).sum()) / len(rows)
    return found
