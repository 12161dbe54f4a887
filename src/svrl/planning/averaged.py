"""Plan from noisy backups by a running average, and its structure.

With samples in place of backups the maximum over many actions picks the luckiest noise. Averaging over iterations,

    Q <- Q + a_t (noisy backup - Q),    a_t = 1 / (1 + (1 - gamma) t),

removes noise as fast as the discount allows: the weights forget backups of old values. The rest of the noise spreads
over all singular directions of Q, whereas the advantage of most control problems lies in a few. So the structured
method takes V and policy from a low-rank part of the row-centred average.

Which directions? With sigma_k u_k w_k' the k-th singular triple of the centred average and F the centred fresh backup,
fresh samples confirm the share u_k' F w_k / sigma_k of the direction: near 1 for signal, near 0 for noise. It scales
the direction, and a direction with a share below `least` is left out. Above one half, keeping it lowers the held-out
squared error of Q. Noise hurts the maximum over actions more, and 0.7 gave better policies than 0.5. Choosing by energy
fails for control: three directions may hold 99% of the norm and lose the policy.

The running average must forget, and so stays noisier than the samples allow. So the final policy comes from the plain
mean of all backups of the second half of the iterations, when the values have nearly settled. The even iterations
confirm a share r of the directions of the odd ones, and vice versa; for the whole mean the share is 2 r / (1 + r).

A low-rank part chooses actions well and values them badly: the directions that it leaves out are missing from every
value, and value iteration adds that error up over the horizon. So values come from sqrt(A) fresh samples of the chosen
action. With hardly any noise, or too much, structure may not pay. So fresh samples compare the policies of the
low-rank part and of the plain average, and the method uses the plain one while it is worth more.

With `p` below 1 an iteration samples a random part of the pairs, and the step size of a pair depends on its visits.
The structure fills pairs that were never visited.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor

from svrl.matrix import Bernoulli
from svrl.matrix.arrays import check_whole
from svrl.matrix.scaling import means_of_rows, row_means
from svrl.matrix.subspace import leading_directions
from svrl.planning.method import Meter, MethodResult, State
from svrl.planning.sampling import check_share, first_policy

NO_STRUCTURE = "Fresh samples confirmed no structure that pays, so policy and values are those of the plain average."


@dataclass(kw_only=True)
class AverageState(State):
    """State of the averaging methods."""

    policy: Tensor  # (S,)
    q: Tensor  # the running average (S, A)
    visits: Tensor | None  # samples of every pair (S, A), where an iteration samples a part of them
    even: Tensor | None = None  # means of the even and of the odd iterations of the second half, (S, A)
    odd: Tensor | None = None

    def known(self) -> Tensor:
        """The average, -inf where a pair was never sampled."""
        return self.q if self.visits is None else self.q.masked_fill(self.visits == 0, -torch.inf)


@dataclass(kw_only=True)
class StructuredState(AverageState):
    """State of the structured method."""

    structured: Tensor  # best actions (S,) of the estimate
    plain: Tensor  # best actions (S,) of the average
    agreement: Tensor  # running mean (r,) of the share of each direction that fresh samples confirm
    gain: Tensor  # running mean of the worth of the structured policy above the plain one
    directions: tuple[Tensor, Tensor] | None = None  # left (S, r), which carries the lengths, and right (A, r)
    estimate: Tensor | None = None  # the low-rank part of the average, (S, A)


@dataclass(frozen=True, kw_only=True)
class AveragedValueIteration:
    """Value iteration on a running average of noisy backups: the baseline without structure.

    Attributes:
        samples: Samples of every chosen pair in an iteration.
        p: Share of the pairs sampled in an iteration.
        max_iterations: Number of iterations; noise has no natural end.
    """

    samples: int = 1
    p: float = 1.0
    max_iterations: int = 90
    name = "averaged"

    def __post_init__(self) -> None:
        check_whole("AveragedValueIteration", samples=self.samples, max_iterations=self.max_iterations)
        check_share("AveragedValueIteration", self.p)

    def begin(self, meter: Meter, v: Tensor | None) -> AverageState:
        """From zero values unless some are given."""
        return AverageState(**_first(meter, v, self.p))

    def step(self, meter: Meter, state: AverageState, generator: torch.Generator) -> AverageState:
        """Average fresh samples in."""
        _average(meter, state, _sample(meter, state, generator, self.p, self.samples), self.max_iterations // 2)
        top = state.known().max(1)
        v = torch.where(top.values.isfinite(), top.values, state.v)
        return _take(state, v, top.indices)

    def finish(self, meter: Meter, state: AverageState, generator: torch.Generator) -> MethodResult:
        """The best actions of the mean of the second half's backups, as in the structured method."""
        state.finished = True
        if state.even is None or state.odd is None:
            return MethodResult(policy=state.policy, v=state.v.double(), q=state.known())
        q = torch.lerp(state.even, state.odd, 0.5)
        top = q.max(1)
        return MethodResult(policy=top.indices, v=top.values.double(), q=q)


@dataclass(frozen=True, kw_only=True)
class AveragedStructuredIteration:
    """Structured value iteration for noisy backups.

    Attributes:
        samples: Samples of every chosen pair in an iteration.
        p: Share of the pairs sampled in an iteration.
        rank: Most directions; or exactly this many, at full weight, if `choose` is off.
        choose: Scale directions by the share that fresh samples confirm, and value actions by fresh samples.
        least: Leave out directions with a smaller confirmed share.
        memory: Weight of the past in the running mean of the confirmed shares.
        max_iterations: Number of iterations; noise has no natural end.
    """

    samples: int = 1
    p: float = 1.0
    rank: int = 20
    choose: bool = True
    least: float = 0.7
    memory: float = 0.9
    max_iterations: int = 90
    name = "averaged-svp"

    def __post_init__(self) -> None:
        name = "AveragedStructuredIteration"
        check_whole(name, samples=self.samples, rank=self.rank, max_iterations=self.max_iterations)
        check_share(name, self.p)
        if not (0.0 <= self.least < 1.0 and 0.0 <= self.memory < 1.0):
            raise ValueError(f"{name} needs least and memory in [0, 1), got {self.least} and {self.memory}.")

    def checks(self, n_actions: int) -> int:
        """Number of further samples of each state's chosen action in an iteration."""
        return self.samples * max(1, round(math.sqrt(self.p * n_actions))) if self.choose else 0

    def begin(self, meter: Meter, v: Tensor | None) -> StructuredState:
        """From zero values unless some are given."""
        first = _first(meter, v, self.p)
        return StructuredState(
            **first,
            structured=first["policy"],
            plain=first["policy"],
            agreement=torch.ones(self.rank, device=meter.device),
            gain=torch.zeros((), device=meter.device),
        )

    def step(self, meter: Meter, state: StructuredState, generator: torch.Generator) -> StructuredState:
        """Average fresh samples in, and take values from the confirmed part."""
        fresh = _sample(meter, state, generator, self.p, self.samples)
        with meter.estimating():
            weight = self._confirmed(meter, state, fresh)
            _average(meter, state, fresh, self.max_iterations // 2)
            q, mean = _filled(state)
            if state.directions is None:
                size = meter.n_actions, min(self.rank, meter.n_states, meter.n_actions)
                right = torch.randn(size, generator=generator, dtype=q.dtype, device=q.device)
                state.directions = leading_directions(q - mean, right, 12)
            else:  # they turn little from one iteration to the next
                state.directions = leading_directions(q - mean, state.directions[1], 2)
            left, right = state.directions
            weight = weight[: left.shape[1]]
            estimate = (left * weight) @ right.mT
            estimate += mean
            top, plain = estimate.max(1), q.max(1)
            state.estimate, state.structured, state.plain = estimate, top.indices, plain.indices
            state.rank = int((weight > 0).sum())
        if not self.choose:
            return _take(state, top.values, top.indices)
        if state.rank == 0 or float(state.gain) < 0.0:
            return _take(state, plain.values, plain.indices)
        # The mean of fresh samples that had no part in choosing the actions.
        every = torch.arange(meter.n_states, device=meter.device)
        values = meter.sample_at(state.v, every, top.indices, generator, self.checks(meter.n_actions))
        return _take(state, values.to(state.v.dtype), top.indices)

    def finish(self, meter: Meter, state: StructuredState, generator: torch.Generator) -> MethodResult:
        """The low-rank part of the mean of the second half's backups, and its best actions."""
        state.finished = True
        if state.outcome or state.even is None or state.odd is None:  # it diverged, or ended early
            structured = torch.equal(state.policy, state.structured)
            state.outcome = state.outcome or ("" if structured else NO_STRUCTURE)
            q = state.estimate if structured else _filled(state)[0]
            return MethodResult(policy=state.policy, v=state.v.double(), q=q)
        with meter.estimating():
            estimate = self._judged_by_halves(state, state.even, state.odd)
        top = estimate.max(1)
        return MethodResult(policy=top.indices, v=top.values.double(), q=estimate)

    def _judged_by_halves(self, state: StructuredState, even: Tensor, odd: Tensor) -> Tensor:
        """The part of the mean of both halves that each half confirms in the other, (S, A)."""
        assert state.directions is not None, "finish comes after a step"
        start = state.directions[1]
        both = torch.lerp(even, odd, 0.5)
        mean = both.mean(1, keepdim=True)
        left, right = leading_directions(both - mean, start, 4)
        if not self.choose:
            state.rank = left.shape[1]
            return left @ right.mT + mean
        pairs = ((even, odd), (odd, even))
        halves = [leading_directions(_centred(own), start, 4) for own, _ in pairs]
        shares = [_agreement(*half, _centred(other)) for half, (_, other) in zip(halves, pairs, strict=True)]
        share = (0.5 * (shares[0] + shares[1])).clamp(0.0, 1.0)
        whole = 2.0 * share / (1.0 + share)
        kept = whole >= self.least
        gain = 0.0
        for (half_left, half_right), (own, other) in zip(halves, pairs, strict=True):
            structured = ((half_left * share * kept) @ half_right.mT).argmax(1, keepdim=True)
            gain += float((other.gather(1, structured) - other.gather(1, own.argmax(1, keepdim=True))).mean())
        state.rank = int(kept.sum())
        if gain < 0.0 or state.rank == 0:
            state.rank, state.outcome = 0, NO_STRUCTURE
            return both
        return (left * whole * kept) @ right.mT + mean

    def _confirmed(self, meter: Meter, state: StructuredState, fresh: Fresh) -> Tensor:
        """The weight (r,) of each direction of the old average, judged by backups that are not in it."""
        if state.directions is None or not self.choose:
            return state.agreement
        centred = fresh.centred(meter)
        structured, plain = (fresh.advantage_at(meter, one, centred) for one in (state.structured, state.plain))
        state.gain = self.memory * state.gain + (1.0 - self.memory) * (structured - plain)
        now = _agreement(*state.directions, centred) / fresh.share_left(meter)
        state.agreement = self.memory * state.agreement[: len(now)] + (1.0 - self.memory) * now
        kept = state.agreement.clamp(0.0, 1.0)
        return torch.where(kept >= self.least, kept, torch.zeros_like(kept))


@dataclass(frozen=True, kw_only=True)
class Fresh:
    """Samples of one iteration: values (S, A) of all pairs, or values (K,) of the listed pairs at index (K,)."""

    values: Tensor
    index: Tensor | None

    def centred(self, meter: Meter) -> Tensor:
        """Samples minus the mean of their row, (S, A); zero where nothing was sampled."""
        if self.index is None:
            return _centred(self.values)
        rows = self.index // meter.n_actions
        mean = means_of_rows(rows, self.values, meter.n_states)
        dense = torch.zeros(meter.n_states * meter.n_actions, dtype=self.values.dtype, device=meter.device)
        dense[self.index] = self.values - mean[rows]
        return dense.reshape(meter.n_states, meter.n_actions)

    def share_left(self, meter: Meter) -> float:
        """The share of a direction's square that remains after centring by the sampled means of the rows."""
        if self.index is None:
            return 1.0
        count = torch.bincount(self.index // meter.n_actions, minlength=meter.n_states)
        return max(float((count - 1).clamp(min=0).double().mean()) / max(meter.n_actions - 1, 1), 1e-12)

    def advantage_at(self, meter: Meter, policy: Tensor, centred: Tensor) -> Tensor:
        """Mean of the `centred` (S, A) samples at a policy's actions (S,), over those that were sampled."""
        chosen = centred.gather(1, policy[:, None]).squeeze(1)
        if self.index is None:
            return chosen.mean()
        rows = self.index // meter.n_actions
        hits = (self.index - rows * meter.n_actions == policy[rows]).sum()
        return chosen.sum() / hits.clamp(min=1)


def _first(meter: Meter, v: Tensor | None, p: float) -> dict[str, Any]:
    """The parts of a first state, in single precision: the noise is far above its rounding."""
    shape = meter.n_states, meter.n_actions
    zeros = partial(torch.zeros, dtype=torch.float32, device=meter.device)
    return {
        "v": zeros(meter.n_states) if v is None else v.float(),
        "policy": first_policy(meter),
        "q": zeros(shape),
        "visits": zeros(shape) if p < 1.0 else None,
    }


def _sample(meter: Meter, state: State, generator: torch.Generator, p: float, samples: int) -> Fresh:
    if p == 1.0:
        return Fresh(values=meter.sample(state.v, generator, samples).to(state.v.dtype), index=None)
    index = Bernoulli(p=p).indices((meter.n_states, meter.n_actions), generator, meter.device)
    states, actions = index // meter.n_actions, index % meter.n_actions
    values = meter.sample_at(state.v, states, actions, generator, samples)
    return Fresh(values=values.to(state.v.dtype), index=index)


def _average(meter: Meter, state: AverageState, fresh: Fresh, half: int) -> None:
    """Move the running average towards fresh backups, and from iteration `half` on keep means of even and odd ones.

    A pair's first sample replaces its average.
    """
    forget = 1.0 - meter.gamma
    if fresh.index is not None and state.visits is not None:
        q, visits = state.q.view(-1), state.visits.view(-1)
        seen = visits[fresh.index]
        old = q[fresh.index]
        q[fresh.index] = old + (fresh.values - old) / (1.0 + forget * seen)
        visits[fresh.index] = seen + 1.0
        return
    state.q.lerp_(fresh.values, 1.0 / (1.0 + forget * state.iteration))
    if state.iteration >= half:
        count, odd = (state.iteration - half) // 2 + 1, state.iteration % 2 == 1
        mean = state.odd if odd else state.even
        mean = fresh.values.clone() if mean is None else mean.lerp_(fresh.values, 1.0 / count)
        if odd:
            state.odd = mean
        else:
            state.even = mean


def _filled(state: StructuredState) -> tuple[Tensor, Tensor]:
    """The average (S, A) and its row means (S, 1); the last estimate fills pairs that were never visited."""
    q, last = state.q, state.estimate
    if state.visits is None:
        return q, q.mean(1, keepdim=True)
    known = state.visits > 0
    mean = row_means(q * known, known)
    q = torch.where(known, q, mean if last is None else last - last.mean(1, keepdim=True) + mean)
    return q, q.mean(1, keepdim=True)


_Averaging = TypeVar("_Averaging", bound=AverageState)


def _take(state: _Averaging, v: Tensor, policy: Tensor) -> _Averaging:
    state.residual = float((v - state.v).abs().max())
    state.v, state.policy = v, policy
    return state


def _centred(q: Tensor) -> Tensor:
    return q - q.mean(1, keepdim=True)


def _agreement(left: Tensor, right: Tensor, centred: Tensor) -> Tensor:
    """The share (r,) of each direction that other, centred backups (S, A) confirm."""
    return ((centred @ right) * left).sum(0) / left.square().sum(0).clamp(min=1e-30)
