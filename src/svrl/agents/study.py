"""Study a learned Q: the numbers of a row of the learning log, and the rank study of section 4.1.

**Ranks** are the paper's approximate rank of batches of values B x A. A large mean alone often carries 99% of the
energy, so ranks are also computed at .9999 and with each row's mean removed (the advantages).

**Features** are the last hidden activations of a network, N x F. A unit is dormant (Sokar et al., 2023) if

    score_i = mean_n |h_ni| / mean_j mean_n |h_nj|  <=  threshold

and srank (Kumar et al., 2021) is the smallest k with sigma_1 + ... + sigma_k >= (1 - delta) sum of all. Ranks and
features are small and needed on the host, so they are computed on the CPU, in float64.

**Estimation**: how matrix estimation changes the values. Each entry of a batch of values q (B x A) is observed with
probability p, and Soft-Impute completes the rest, as in a structured update. Over all batches

    held_out          sqrt(sum (estimate - q)^2 / sum q^2), both over hidden entries
    beyond_row_mean   the same, against sum (q - mean of the row's observed entries)^2: 1 is no better than that mean
    row_max_bias      mean over rows of max(completed row) - max(row), in units of Q: what a target gains or loses
    best_kept         share of rows whose best action is the same

A matrix with a large mean is easy to complete: `held_out` is then small, and says little about the actions.

**Overestimation**: the agent's values of the states that it visits, minus the returns that follow,

    G_t = r_t + gamma * G_{t+1},    and G_t = r_t where the bootstrap ends (a terminal state, or a lost life if
                                       `life_loss_ends`)

with rewards as the agent learns from them. A record of play ends at some point, and what comes after it is unknown. A
state counts if the unknown part has at most 1% of the weight in its return: if H steps with gamma^H <= .01 follow it,
or if a truncation is that far away. Two kinds of states are left out although their return is known, because they would
bias the sample: those near the end of the record, which would count only if their episode is about to fail, and those
so late in an episode that only failed episodes would have known returns.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from svrl.agents.config import Scale
from svrl.agents.evaluation import MOST_ENVS, at_rest, derived_seed, generator_for, play
from svrl.agents.learner import Learner
from svrl.agents.replay import Batch
from svrl.agents.structured_targets import Completion, StructuredTargets
from svrl.agents.targets import bellman_targets, next_values, only_valid
from svrl.envs.make import make_env
from svrl.matrix.estimate import Outcome
from svrl.matrix.rank import PAPER_ENERGY, check_energy, effective_rank, energies, ranks_at, spectrum

if TYPE_CHECKING:
    from svrl.agents.agent import Agent

METRIC_STATES = 512
"""Approximate number of transitions for a row of the log."""
DIRECTIONS = (1, 2, 4, 8)
"""Numbers of leading directions that a study looks at."""
TIGHT_ENERGY = 0.9999
DORMANT = 0.025
DELTA = 0.01
FEATURE_STATES = 2_048
"""States whose features a rank study uses, as in Kumar et al."""
BLOCK = 1 << 21
"""Entries of batches in one computation of ranks."""
BATCHES = 1_000
"""Most batches to complete."""
SCALES: tuple[Scale, ...] = ("minmax", "row")
"""The authors' scaling, and each row's mean removed."""
ROUNDING = 1e-12
"""Relative size of squares that are float32 rounding: equal entries of a row differ by no more."""
NO_FEATURES = "the network has no nn.Linear that takes a row for each state"
UNKNOWN = 0.01
"""Largest weight of the unknown part after the record of play."""


@torch.no_grad()
def metrics(learner: Learner, batch: Batch, count: int, masks: torch.Generator) -> dict[str, Any]:
    """Compute the fields of `svrl.agents.events.Learned` that describe values; this waits for the device.

    Args:
        learner: The learner with the networks and the structure.
        batch: K * B transitions, on the learner's device.
        count: K, the number of minibatches to split them into, as in training.
        masks: Generator for the observed sets, on the learner's device.
    """
    structure, online, network = learner.structure, None, learner.online
    mask = learner.draw_masks(count, masks)
    ready = learner.prepare(batch, count, mask)
    completion, completed_q = ready.completion, ready.target_q
    if ready.after is not None:
        online = learner.values(network, ready.after.flatten(0, 1)).view(ready.target_q.shape)
        if structure is not None and mask is not None and completion is None:
            completion, completed_q = structure.complete(online, mask, ready.action_masks), online
    plain = next_values(learner.config.agent, ready.target_q, online_q=online, action_mask=ready.action_masks)
    completed = None if completion is None else completion.matrix
    values = learner.next_values(ready.target_q, online, completed, ready.action_masks)
    change = (values - plain).double()
    targets = bellman_targets(ready.rewards, ready.discounts, values)
    q, features = network(batch.observations), network.features(batch.observations)
    return {
        "q_mean": float(q.mean()),
        "q_max": float(q.max(-1).values.mean()),
        "target_mean": float(targets.mean()),
        "p": None if structure is None else structure.probability(learner.updates),
        "target_bias": float(change.mean()),
        "target_gap": float(change.abs().mean()),
        "targets_changed": float((change != 0).double().mean()),
        **_completed(completion, completed_q, ready.action_masks),
        **{name: float(ranks.float().mean()) for name, ranks in batch_ranks(ready.target_q).items()},
        "feature_rank": None if features is None else feature_rank(features),
        "dormant": None if features is None else dormant_share(features, widths=network.feature_widths),
    }


def _completed(completion: Completion | None, before: Tensor, action_masks: Tensor | None) -> dict[str, float | None]:
    """What completion did to the valid entries of the matrices (K, B, A)."""
    names = ("row_max_bias", "held_out_error", "estimate_rank", "estimates_converged")
    if completion is None:
        return {**dict.fromkeys(names), "row_max_bias": 0.0}
    known = completion.mask if action_masks is None else completion.mask | ~action_masks
    error = held_out_error(completion.estimate, before, known)
    after, before = (only_valid(q, action_masks).amax(-1) for q in (completion.matrix, before))
    bias = after - before
    converged = (completion.code == Outcome.CONVERGED.code).float()
    numbers = (bias.mean(), error.mean() if error.numel() else None, completion.rank.float().mean(), converged.mean())
    return {name: None if number is None else float(number) for name, number in zip(names, numbers, strict=True)}


def batch_ranks(q: Tensor) -> dict[str, Tensor]:
    """Approximate ranks (...) of matrices of values (..., B, A), plain and with each row's mean removed.

    The keys are those of `Learned`. Ranks are float64, and NaN for matrices that are not finite: training continues.
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

    A unit is compared with its own layer: pass the widths of the layers if `features` concatenates several.
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
    """The fewest singular values of features (N, F) that hold at least 1 - delta of the sum; 0 if all are 0."""
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


@dataclass(frozen=True, kw_only=True)
class Directions:
    """How much of the values' differences between actions, and of their errors, lies in a few common directions.

    The directions are the leading right singular vectors of the values with each row's mean removed. Low-rank
    estimation of the values can take away the part of an error outside of them, and no more.

    Attributes:
        counts: Numbers of directions.
        values: Share of the squares of the row-centred values in the first 1, 2, ... directions.
        errors: The same share of the row-centred errors; None if the true values are not known.
        independent: The share that errors would have which are independent from entry to entry, k / (A - 1).
    """

    counts: tuple[int, ...]
    values: tuple[float, ...]
    errors: tuple[float, ...] | None
    independent: tuple[float, ...]


def leading_directions(blocks: Iterable[tuple[Tensor, Tensor | None]]) -> Directions:
    """Find the leading directions of values.

    Args:
        blocks: Values (n, A) of some states and their errors (n, A), or None if the true values are not known.
    """
    of_values = of_errors = torch.zeros(())
    known = True
    for q, error in blocks:
        centred = q.double() - q.double().mean(1, keepdim=True)
        of_values = of_values + centred.mT @ centred
        known = known and error is not None
        if error is not None:
            centred = error.double() - error.double().mean(1, keepdim=True)
            of_errors = of_errors + centred.mT @ centred
    actions = len(of_values)
    counts = tuple(count for count in DIRECTIONS if count < actions - 1)
    basis = torch.linalg.eigh(of_values).eigenvectors.flip(-1)[:, : max(counts, default=0)]

    def shares(energy: Tensor) -> tuple[float, ...]:
        inside = (basis * (energy @ basis)).sum(0).cumsum(0) / energy.trace()
        return tuple(float(inside[count - 1]) for count in counts)

    return Directions(
        counts=counts,
        values=shares(of_values),
        errors=shares(of_errors) if known else None,
        independent=tuple(count / (actions - 1) for count in counts),
    )


@dataclass(frozen=True, kw_only=True)
class RankStudy:
    """Ranks of many random batches of a learned Q.

    There are four kinds: plain at `energy`; `tight_`, at `tight_energy`; `row_centred_`, at `energy` with each
    row's mean removed; and `tight_row_centred_`.

    Attributes:
        env: The environment of the states.
        energy, tight_energy: Shares of the sum of squares.
        batches, batch_size: Number of batches, and of distinct states in each.
        states: Number of states to draw from.
        actions: Number of actions, A.
        mean, ...: Mean rank.
        histogram, ...: Batches of rank 0, 1, ..., A.
        cdf, ...: Share of the batches of rank at most 0, 1, ..., A.
        feature_rank, srank, dormant: Measures of the last features, on up to 2,048 of the states; None if your own
            network has none.
        q_mean, q_std, q_min, q_max: Statistics of all values of all states.
        estimation: Results of Soft-Impute on up to 1,000 of the batches, for each of `SCALES`.
        optimism: The overestimation; None if too few consecutive steps were played to know the returns.
        directions: The leading directions of the values of all states.
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
    feature_rank: float | None
    srank: int | None
    dormant: float | None
    q_mean: float
    q_std: float
    q_min: float
    q_max: float
    estimation: tuple[Estimation, ...] = ()
    optimism: Overestimation | None = None
    directions: Directions | None = None

    def as_json(self) -> dict[str, Any]:
        """All fields, as JSON types."""
        fields = dataclasses.asdict(self).items()
        reasons = {
            f"{name}_reason": NO_FEATURES
            for name in ("feature_rank", "srank", "dormant")
            if getattr(self, name) is None
        }
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields} | reasons


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

    The paper does not say where its states come from. Here the agent plays on new environments, with a random action
    now and then so that its games differ, and every state counts as often as the agent meets it.

    Args:
        agent: The agent whose Q is studied.
        batches: Batches to draw.
        batch_size: States in each batch, all distinct.
        energy: Share of the sum of squared singular values that the rank must carry.
        states: States to collect.
        epsilon: Probability of a random action while collecting.
        seed: Seed of environments, actions and batches.
        progress: Called with (states collected, states to collect).
    """
    if batches < 1 or not 1 <= batch_size <= states:
        raise ValueError(
            f"A rank study needs at least 1 batch of 1 to {states} distinct states, the number it collects; "
            f"got {batches} batches of {batch_size}."
        )
    check_energy(energy)
    q, features, found = _collect(agent, states, epsilon, seed, progress)
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
        feature_rank=None if features is None else feature_rank(features),
        srank=None if features is None else srank(features),
        dormant=None if features is None else dormant_share(features, widths=agent.network.feature_widths),
        q_mean=float(q.mean()),
        q_std=float(q.std(correction=0)),
        q_min=float(q.min()),
        q_max=float(q.max()),
        estimation=tuple(
            estimate_batches(q, rows, generator_for(seed, "rank study masks"), scale=scale) for scale in SCALES
        ),
        optimism=found,
        directions=leading_directions([(q, None)]),
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
) -> tuple[Tensor, Tensor | None, Overestimation | None]:
    """Play; return values (states, A), float64, the features of some of the states, and the overestimation."""
    config = agent.config
    env_seed, generator = derived_seed(seed, "rank study environments"), generator_for(seed, "rank study actions")
    env = make_env(agent.source, min(MOST_ENVS, states), seed=env_seed, **config.env_options)
    stride = max(1, math.ceil(states / FEATURE_STATES))
    values, best, features, moved = [], [], list[Tensor](), []
    try:
        with at_rest(agent.network):
            moves = play(agent.network, env, epsilon=epsilon, generator=generator, device=agent.device)
            for k, move in zip(range(math.ceil(states / env.count)), moves, strict=False):
                values.append(move.q.cpu())
                valid = None if move.action_masks is None else torch.from_numpy(move.action_masks)
                best.append(only_valid(values[-1], valid).amax(-1))
                step = move.step
                stops = step.terminal | step.life_lost if config.life_loss_ends else step.terminal
                outcome = (step.rewards, stops, step.truncated & ~stops, step.ended)
                moved.append([torch.tensor(part) for part in outcome])
                if k % stride == 0:
                    with torch.no_grad():
                        shown = agent.network.features(move.observations)
                    features += [] if shown is None else [shown.cpu()]
                if progress is not None:
                    progress(min((k + 1) * env.count, states), states)
    finally:
        env.close()
    rewards, stopped, cuts, ended = (torch.stack(parts) for parts in zip(*moved, strict=True))
    rewards = rewards.sign() if config.clip_rewards else rewards
    found = overestimation(torch.stack(best), rewards, stopped, cuts, ended, config.gamma)
    return torch.cat(values)[:states].double(), torch.cat(features)[:states] if features else None, found


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


@dataclass(frozen=True, kw_only=True)
class Estimation:
    """Results of matrix estimation on batches of values; the module gives the formulas.

    Attributes:
        scale: As in `StructuredTargets`.
        p: Probability that an entry is observed.
        batches: Number of completed batches.
        held_out, beyond_row_mean: Errors on hidden entries; None where the denominator is 0.
        row_max_bias: In units of Q.
        best_kept: In [0, 1].
    """

    scale: Scale
    p: float
    batches: int
    held_out: float | None
    beyond_row_mean: float | None
    row_max_bias: float
    best_kept: float


def estimate_batches(
    q: Tensor, rows: Tensor, generator: torch.Generator, *, scale: Scale = "minmax", p: float = 0.9
) -> Estimation:
    """Complete batches of values and compare them with the values.

    Args:
        q: (states, A), finite.
        rows: (batches, B), int64: the states of each batch; the first 1,000 batches are used.
        generator: Draws the masks, on the CPU.
        scale: As in `StructuredTargets`.
        p: Probability in (0, 1] that an entry is observed.
    """
    values = q.detach().cpu().float()[rows[:BATCHES]]
    found = StructuredTargets(scale=scale, p=p)(values, generator)
    hidden = ~found.mask & found.mask.any(-1, keepdim=True)  # a row without an observed entry is not estimated
    truth, guess, done = values.double(), found.estimate.double(), found.matrix.double()
    means = torch.where(found.mask, truth, 0.0).sum(-1, keepdim=True) / found.mask.sum(-1, keepdim=True).clamp(min=1)
    wrong, whole = _sum_of_squares(guess - truth, hidden), _sum_of_squares(truth, hidden)
    spread = _sum_of_squares(truth - means, hidden)
    return Estimation(
        scale=scale,
        p=p,
        batches=len(values),
        held_out=(wrong / whole) ** 0.5 if whole > 0.0 else None,
        beyond_row_mean=(wrong / spread) ** 0.5 if spread > ROUNDING * whole else None,
        row_max_bias=float((done.amax(-1) - truth.amax(-1)).mean()),
        best_kept=float((done.argmax(-1) == truth.argmax(-1)).double().mean()),
    )


def _sum_of_squares(entries: Tensor, where: Tensor) -> float:
    return float(torch.where(where, entries, 0.0).square().sum())


@dataclass(frozen=True, kw_only=True)
class Overestimation:
    """Values against returns, in units of Q.

    Attributes:
        states: Number of states that count.
        value: Mean of max_a Q(s, a).
        gained: Mean discounted return from there.
        optimism: The difference; above 0 the agent overestimates.
        error: Root of the mean square of the difference.
    """

    states: int
    value: float
    gained: float
    optimism: float
    error: float


def discounted_returns(rewards: Tensor, stops: Tensor, cuts: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Returns (T, N), and the weight (T, N) of the unknown part of each; float64.

    Args:
        rewards: (T, N), as the agent learns from them.
        stops: (T, N), bool: nothing comes after this step.
        cuts: (T, N), bool: what comes after this step was not seen.
        gamma: In (0, 1).
    """
    gained, weight = torch.empty_like(rewards, dtype=torch.float64), torch.empty_like(rewards, dtype=torch.float64)
    after = torch.zeros(rewards.shape[1], dtype=torch.float64)
    unknown = torch.ones_like(after)
    for t in range(len(rewards) - 1, -1, -1):
        over = stops[t] | cuts[t]
        gained[t] = after = rewards[t].double() + gamma * torch.where(over, 0.0, after)
        unknown = torch.where(cuts[t], 1.0, unknown)
        weight[t] = unknown = gamma * torch.where(stops[t], 0.0, unknown)
    return gained, weight


def overestimation(
    values: Tensor, rewards: Tensor, stops: Tensor, cuts: Tensor, ended: Tensor, gamma: float
) -> Overestimation | None:
    """Compare values (T, N) of the states of N environments with their returns; None if no state counts.

    Args:
        values: (T, N), value of the best action in each state.
        rewards, stops, cuts: As for `discounted_returns`.
        ended: (T, N), bool: another episode begins after this step.
        gamma: In (0, 1).
    """
    gained, weight = discounted_returns(rewards, stops, cuts, gamma)
    late = math.ceil(math.log(UNKNOWN) / math.log(gamma))
    counts = weight <= UNKNOWN
    counts[max(0, len(values) - late) :] = False
    if bool(cuts.any()):
        ages = torch.zeros_like(ended, dtype=torch.int64)  # steps of the episode before this one
        for t in range(1, len(ended)):
            ages[t] = torch.where(ended[t - 1], 0, ages[t - 1] + 1)
        counts &= ages <= int(ages[cuts].min()) + 1 - late
    if not bool(counts.any()):
        return None
    expected, got = values.double()[counts], gained[counts]
    gap = expected - got
    return Overestimation(
        states=int(counts.sum()),
        value=float(expected.mean()),
        gained=float(got.mean()),
        optimism=float(gap.mean()),
        error=float(gap.square().mean().sqrt()),
    )
