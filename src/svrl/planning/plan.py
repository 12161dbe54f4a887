"""plan(model, method) -> Plan: one function for all planning."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from svrl.mdp.control_task import ControlTask
from svrl.mdp.model import Model, Sampler
from svrl.planning.method import Ledger, Meter, Method, State
from svrl.planning.policy import GreedyPolicy

OUT_OF_ITERATIONS = "The iterations ran out before the stop rule fired. Allow more of them, or a larger tolerance."
DIVERGED = "Its values left the attainable range and grow: it diverges. Use a method with clip and verify."


@dataclass(frozen=True, kw_only=True)
class TraceRow:
    """One iteration, for progress bars and plots of convergence."""

    iteration: int
    residual: float
    rank: int | None
    backups: int
    seconds_backup: float
    seconds_estimate: float


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Plan:
    """The result of planning.

    Attributes:
        method: The repr of the method.
        name: The short name of the method.
        problem: The entries of the model's `describe`, and the number of pairs.
        seed: Seed of all random draws.
        policy: Actions of the grid states (S,), int64.
        v: The method's values (S,). For their distance from the optimum see `certify_plan`.
        q: Dense Q (S, A), or None if the method kept only values, or factors.
        factors: left (S, r) and right (A, r) with Q = left @ right.mT, or None.
        outcome: A sentence on what went wrong; empty on success.
        iterations: Steps taken.
        rank: Rank of the last estimate without its centre; None if nothing was estimated.
        ledger: Backups and seconds, including verification and final sweep.
        trace: One row per iteration.
    """

    method: str
    name: str
    problem: dict[str, Any]
    seed: int
    policy: Tensor
    v: Tensor
    q: Tensor | None
    factors: tuple[Tensor, Tensor] | None
    outcome: str
    iterations: int
    rank: int | None
    ledger: Ledger
    trace: tuple[TraceRow, ...]

    def __repr__(self) -> str:
        ended = self.outcome or "converged"
        return f"Plan({self.name}, {self.iterations} iterations, {self.sweep_equivalents:.2f} sweeps, {ended})"

    @property
    def converged(self) -> bool:
        """Whether the stop rule fired."""
        return self.outcome == ""

    @property
    def sweep_equivalents(self) -> float:
        """Backups over the number of pairs."""
        return self.ledger.backups / self.problem["pairs"]

    def greedy_policy(self, task: ControlTask, model: Model | None = None) -> GreedyPolicy:
        """The greedy policy of this plan at any state of its task, also between grid points; `rollout` follows it.

        Args:
            task: The task of the plan.
            model: The plan's model. If given, the policy is greedy for one exact backup of the plan's values, a
                Q (S, A). Otherwise it is greedy for the plan's own Q, or for its factors, without forming a matrix.

        Raises:
            ValueError: Without a model, if the plan kept only values, or if its Q is not finite, as in baselines at
                pairs that were never backed up.
        """
        if model is not None:
            return GreedyPolicy(task=task, q=model.backup(self.v))
        if self.q is not None and bool(self.q.isfinite().all()):
            return GreedyPolicy(task=task, q=self.q)
        if self.factors is not None and all(bool(factor.isfinite().all()) for factor in self.factors):
            left, right = self.factors
            return GreedyPolicy(task=task, left=left, right=right)
        kept = "only values" if self.q is None and self.factors is None else "a Q that is not finite"
        raise ValueError(f"This plan of {self.name} kept {kept}. Call greedy_policy(task, model) with its model.")


@dataclass(kw_only=True)
class Run:
    """A plan in progress, as a checkpoint holds it. Values beyond `reach` count as divergence."""

    state: State
    ledger: Ledger
    generator: torch.Generator
    seed: int
    reach: float
    trace: list[TraceRow] = field(default_factory=list)


def begin(problem: Model | Sampler, method: Method, *, seed: int = 0, start: Tensor | None = None) -> Run:
    """Create a run before its first step; `start` is a Q (S, A) or values V (S,) to warm-start from."""
    if isinstance(method, type) or not isinstance(method, Method):
        raise ValueError(
            f"A method is a record such as StructuredValueIteration(), or make_method('svp'); got {method!r}."
        )
    meter = Meter(problem)
    v = None if start is None else _values(start, meter)
    generator = torch.Generator(problem.device).manual_seed(seed)
    state = method.begin(meter, v)
    return Run(state=state, ledger=meter.ledger, generator=generator, seed=seed, reach=_reach(meter, state.v))


def advance(problem: Model | Sampler, method: Method, run: Run) -> Iterator[TraceRow]:
    """Take the remaining steps of a run, and yield one row each. Between two rows you can save the run."""
    meter = Meter(problem, run.ledger)
    while not run.state.finished and run.state.iteration < method.max_iterations:
        run.state = method.step(meter, run.state, run.generator)
        run.state.iteration += 1
        if not float(run.state.v.abs().max()) <= run.reach:  # NaN too
            run.state.finished, run.state.outcome = True, DIVERGED
        row = TraceRow(
            iteration=run.state.iteration, residual=run.state.residual, rank=run.state.rank, **asdict(run.ledger)
        )
        run.trace.append(row)
        yield row


def conclude(problem: Model | Sampler, method: Method, run: Run) -> Plan:
    """Turn a run into a plan after its last step."""
    found = method.finish(Meter(problem, run.ledger), run.state, run.generator)
    outcome = run.state.outcome or ("" if run.state.finished else OUT_OF_ITERATIONS)
    return Plan(
        method=repr(method),
        name=method.name,
        problem={**problem.describe(), "pairs": problem.n_states * problem.n_actions},
        seed=run.seed,
        policy=found.policy,
        v=found.v,
        q=found.q,
        factors=found.factors,
        outcome=outcome,
        iterations=run.state.iteration,
        rank=run.state.rank,
        ledger=run.ledger,
        trace=tuple(run.trace),
    )


def plan(
    problem: Model | Sampler,
    method: Method,
    *,
    seed: int = 0,
    start: Tensor | None = None,
    watch: Callable[[TraceRow], None] | None = None,
) -> Plan:
    """Plan on a model, or a sampler, with a method.

    Args:
        problem: A `TabularMDP`, a `GridMDP` or another `Model`; a `Sampler` for noisy backups.
        method: A record such as `StructuredValueIteration()`.
        seed: Seed of the observed sets and samples. The same seed gives the same plan.
        start: Q (S, A) or V (S,) to start from, if the method can.
        watch: Called with the row of every iteration.
    """
    run = begin(problem, method, seed=seed, start=start)
    for row in advance(problem, method, run):
        if watch is not None:
            watch(row)
    return conclude(problem, method, run)


def _reach(meter: Meter, first: Tensor) -> float:
    """Ten times the largest value of a policy, or of the start if that is more; no limit with noisy samples."""
    low, high = meter.value_range
    widest = max(abs(low), abs(high), float(first.abs().max()))
    return sys.float_info.max if meter.noisy or math.isinf(widest) else 10.0 * widest + 1e-9


def _values(start: Tensor, meter: Meter) -> Tensor:
    start = torch.as_tensor(start).to(meter.device, torch.float64)
    if start.shape == (meter.n_states, meter.n_actions):
        start = start.max(1).values
    if start.shape != (meter.n_states,):
        raise ValueError(
            f"A start is Q ({meter.n_states}, {meter.n_actions}) or V ({meter.n_states},), "
            f"got shape {tuple(start.shape)}."
        )
    if not bool(torch.isfinite(start).all()):
        raise ValueError("The start has entries that are not finite. Start from finite values, or leave start out.")
    return start
