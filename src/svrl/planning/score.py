"""Score plans against the exact optimum: loss on the grid, rollouts and ranks.

A rollout needs a policy between grid states too. It interpolates a known Q whose greedy policy is the plan's policy;
otherwise the plan's own Q, if it has one; otherwise the nearest grid point decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from svrl.matrix.rank import PAPER_ENERGY, ranks_at, spectrum
from svrl.mdp.control_task import ControlTask
from svrl.mdp.model import Model
from svrl.planning.certificate import SampleCertificate, certify_on_sample
from svrl.planning.evaluation import evaluate_policy, policy_loss
from svrl.planning.method import Meter
from svrl.planning.plan import Plan, Run, plan
from svrl.planning.policy import GreedyPolicy, NearestPolicy, Policy
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.rollout import Rollout, rollout

EXACT = 1e-9
"""Error of exact values, as a share of the attainable range."""
TIGHT_ENERGY = 1.0 - 1e-6
MOST_ENTRIES = 200_000_000
"""Scores never form a larger Q, and solve larger problems exactly only on request."""
SAMPLED, SAMPLED_PAIRS = 1000, 10_000_000
"""Most states of a sample certificate, and most of their pairs."""
INTERPOLATED, NEAREST = "interpolated Q", "nearest grid point"


class Recorder:
    """Watch a run and keep the numbers for its score and figures in `notes`, which can go into a checkpoint.

    `notes` holds "errors", max |V - V*| after each iteration (None if V* is not known), and "last" and "before", the
    values of the last two iterations.
    """

    def __init__(self, optimal_values: Tensor | None) -> None:
        self._optimal = optimal_values
        self.notes: dict[str, Any] = {"errors": []}

    def __call__(self, run: Run) -> None:
        """Record the run after an iteration. A second call for the same iteration changes nothing."""
        v, errors = run.state.v, self.notes["errors"]
        if len(errors) == run.state.iteration:
            return
        error = None if self._optimal is None else float((v.double() - self._optimal).abs().max())
        news: dict[str, Any] = {"errors": [*errors, error], "last": v.clone()}
        if "last" in self.notes:
            news["before"] = self.notes["last"]
        self.notes.update(news)  # all at once: a second Ctrl-C may come between any two lines

    @property
    def values(self) -> list[Tensor]:
        """Values that the policy may be greedy for, (S,) each."""
        return [self.notes[name] for name in ("last", "before") if name in self.notes]


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of one policy."""

    policy_loss: float | None  # mean over grid states of V* - V_policy, exact on the grid; None if V* is not known
    policy_loss_relative: float | None  # policy_loss over the range of V*
    discounted_return: float  # mean over rollouts; without a task, the mean of V_policy
    metric: dict[str, Any]  # of the task, with the name of the main number under "name"; empty without a task
    followed: str  # how the policy chose actions between grid points
    rollout: Rollout | None


class Judge:
    """Score plans on one model with the same starts, noise and optimum; without `exact` their losses are None."""

    def __init__(self, model: Model, task: ControlTask | None, *, starts: int, seed: int, exact: bool = True) -> None:
        self.model = model
        self.task = task
        self.exact = exact
        self._starts = starts
        self._seed = seed
        low, high = Meter(model).value_range
        self._low = low
        self._tolerance = EXACT * max(high - low, abs(high), abs(low), 1e-300)

    @cached_property
    def optimum(self) -> Plan:
        """The optimal plan, by modified policy iteration."""
        return plan(self.model, ModifiedPolicyIteration(tolerance=self._tolerance))

    @cached_property
    def optimal(self) -> Score:
        """The score of the optimum, whose loss is only rounding."""
        return self.score(self.optimum, [self.optimum.v])

    def score(self, found: Plan, values: Sequence[Tensor] = ()) -> Score:
        """Score a plan. Its policy may be greedy for one of `values` (S,), which a `Recorder` keeps."""
        parts: dict[str, Any] = {"policy_loss": None, "policy_loss_relative": None}
        if self.exact or self.task is None:
            own = evaluate_policy(self.model, found.policy, self._tolerance)
        if self.exact:
            loss = policy_loss(self.optimum.v, own)
            parts = {"policy_loss": loss.mean, "policy_loss_relative": loss.relative}
        if self.task is None:
            return Score(**parts, discounted_return=float(own.mean()), metric={}, followed="exact values", rollout=None)
        policy, followed = self._carried(found, values)
        generator = torch.Generator().manual_seed(self._seed)
        done = rollout(self.task, policy, starts=self._starts, generator=generator)
        metric = {"name": self.task.metric.name, **done.metric} if self.task.metric is not None else {}
        return Score(**parts, discounted_return=done.discounted_return, metric=metric, followed=followed, rollout=done)

    def sample(self, found: Plan) -> SampleCertificate:
        """Judge a plan by some states, when one exact sweep would take too long."""
        count = max(1, min(SAMPLED, SAMPLED_PAIRS // self.model.n_actions))
        generator = torch.Generator().manual_seed(2**63 - 1 - self._seed)  # a different seed from the plan's
        states = torch.randint(self.model.n_states, (count,), generator=generator)
        return certify_on_sample(self.model, found.v, found.policy, states)

    def _carried(self, found: Plan, values: Sequence[Tensor]) -> tuple[Policy, str]:
        """The policy at continuous states, and how it chooses."""
        assert self.task is not None, "only tasks have states between grid points"
        own = None if found.q is None else self._filled(found.q)
        for q in self._candidates(own, values):
            chosen = q.gather(1, found.policy[:, None])[:, 0]
            if bool((q.max(1).values - chosen <= 1e-7 * q.abs().max()).all()):
                return GreedyPolicy(task=self.task, q=q), INTERPOLATED
        if own is not None:
            return GreedyPolicy(task=self.task, q=own), INTERPOLATED
        if found.factors is not None and all(bool(part.isfinite().all()) for part in found.factors):
            return found.greedy_policy(self.task), INTERPOLATED
        return NearestPolicy(task=self.task, table=found.policy), NEAREST

    def _candidates(self, own: Tensor | None, values: Sequence[Tensor]) -> Iterator[Tensor]:
        """Matrices Q (S, A) that the policy may be greedy for."""
        if own is not None:
            yield own
        if self.model.n_states * self.model.n_actions <= MOST_ENTRIES:
            yield from (self.model.backup(v.double()) for v in values if bool(v.isfinite().all()))

    def _filled(self, q: Tensor) -> Tensor | None:
        """Q with the lowest value where a pair was never backed up; None if other entries are not finite."""
        q = torch.where(q == -math.inf, torch.tensor(self._low, dtype=q.dtype, device=q.device), q)
        return q if bool(q.isfinite().all()) else None


def ranks(found: Plan, model: Model) -> dict[str, Any]:
    """Ranks of the plan's Q, with and without row means; None, and the reason, if there is no answer.

    If a plan kept only values, its Q is one exact backup of them.
    """
    names = ("rank_99", "rank_tight", "rank_99_centred", "rank_tight_centred")
    q, reason = _matrix(found, model)
    if q is None:
        return {**dict.fromkeys(names), "rank_reason": reason}
    counts = []
    for centred in (False, True):
        squares = torch.as_tensor(spectrum(_square(q, centred))).double().square()
        counts += [int(ranks_at(squares, energy)) for energy in (PAPER_ENERGY, TIGHT_ENERGY)]
    return dict(zip(names, counts, strict=True))


def _matrix(found: Plan, model: Model) -> tuple[Tensor | None, str]:
    if model.n_states * model.n_actions > MOST_ENTRIES:
        return None, f"Q would have more than {MOST_ENTRIES} entries"
    if found.q is not None:
        q = found.q.double()
    elif found.factors is not None:
        q = (found.factors[0] @ found.factors[1].mT).double()
    elif bool(found.v.isfinite().all()):
        q = model.backup(found.v.double())
    else:
        return None, "the values are not finite"
    if not bool(q.isfinite().all()):
        return None, "some entries of Q are unknown or not finite"
    return q, ""


def _square(q: Tensor, centred: bool) -> Tensor:
    """A matrix with the singular values of q (S, A) and no more rows than columns."""
    q = q - q.mean(1, keepdim=True) if centred else q
    q = q if q.shape[0] >= q.shape[1] else q.mT
    return torch.linalg.qr(q, mode="r").R
