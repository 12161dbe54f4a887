"""The loop around a method: outcomes, starts, the ledger, and the pieces that plan is made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from svrl.mdp.control_task import ControlTask
from svrl.mdp.simulator import NoisyBackups, Simulator
from svrl.planning.averaged import AveragedStructuredIteration, AveragedValueIteration
from svrl.planning.baselines import (
    AsyncValueIteration,
    CoarseActions,
    IncumbentIteration,
    RowMeanUpdate,
    SampledMax,
)
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.method import Ledger, Meter, Method, MethodResult, State
from svrl.planning.plan import DIVERGED, OUT_OF_ITERATIONS, TraceRow, advance, begin, conclude, plan
from svrl.planning.svp import StructuredValueIteration, paper_svp

from .oracles import Dense, Watched, flat_grid, pendulum, small_grid

GRID = small_grid()
DENSE = Dense.of(GRID)
BEST = DENSE.optimum()
S, A = GRID.n_states, GRID.n_actions


@dataclass(frozen=True, kw_only=True)
class Turns:
    """A method that only moves its values, by a rule."""

    rule: Callable[[Tensor], Tensor]
    max_iterations: int = 100
    name: str = "turns"

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        return State(v=torch.ones(meter.n_states, dtype=torch.float64) if v is None else v.clone())

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        state.v = self.rule(state.v)
        return state

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> MethodResult:
        return MethodResult(policy=torch.zeros(meter.n_states, dtype=torch.int64), v=state.v)


@pytest.mark.parametrize(
    "rule",
    [lambda v: 1.5 * v, lambda v: -1.5 * v, lambda v: v * torch.nan, lambda v: v / 0.0],
    ids=["up", "down", "nan", "inf"],
)
def test_values_that_grow_are_a_divergence(rule: Callable[[Tensor], Tensor]):
    method = Turns(rule=rule)
    assert isinstance(method, Method)
    result = plan(GRID, method)
    assert result.outcome == DIVERGED
    assert not result.converged
    assert result.iterations < 20


def test_values_that_wander_in_the_range_are_none():
    result = plan(GRID, Turns(rule=lambda v: -v))
    assert result.outcome == OUT_OF_ITERATIONS
    assert result.iterations == 100


@pytest.mark.parametrize("iterations", [1, 5])
def test_running_out_of_iterations_is_an_outcome(iterations: int):
    result = plan(GRID, SampledMax(max_iterations=iterations))
    assert result.outcome == OUT_OF_ITERATIONS
    assert result.iterations == iterations == len(result.trace)
    settled = plan(GRID, SampledMax(p=1.0))
    assert settled.outcome == ""
    assert settled.converged
    assert settled.iterations < 200


EXACT = [
    AsyncValueIteration(),
    SampledMax(),
    RowMeanUpdate(),
    CoarseActions(),
    IncumbentIteration(),
    StructuredValueIteration(p=0.6),
    paper_svp(p=0.6),
    CrossValueIteration(),
]


@pytest.mark.parametrize("reward", [-0.3, 0.0, 0.1])
@pytest.mark.parametrize("method", EXACT, ids=lambda method: method.name)
def test_equal_rewards_are_no_divergence(method: Method, reward: float):
    # The attainable range is a single point then, which roundings and a start from zero are outside of.
    flat = flat_grid(reward)
    method = dataclasses.replace(method, max_iterations=20)  # type: ignore[type-var]
    result = plan(flat, method)
    assert result.outcome in ("", OUT_OF_ITERATIONS)
    if method.name != "paper-svp":  # which starts from zero and shrinks
        assert float((result.v - reward / (1.0 - flat.gamma)).abs().max()) < 1e-5


@pytest.mark.parametrize("method", [AveragedValueIteration(), IncumbentIteration()], ids=lambda method: method.name)
def test_noise_around_rewards_of_zero_is_no_divergence(method: Method):
    method = dataclasses.replace(method, max_iterations=20)  # type: ignore[type-var]
    assert plan(NoisyBackups(flat_grid(0.0), 0.1), method).outcome in ("", OUT_OF_ITERATIONS)


@pytest.mark.parametrize("stopped", [3, 8])
def test_a_divergence_is_seen_as_soon_after_an_interruption(stopped: int):
    method = Turns(rule=lambda v: 1.5 * v)
    whole = plan(GRID, method)
    run = begin(GRID, method)
    for _ in zip(range(stopped), advance(GRID, method, run), strict=False):
        pass
    for _ in advance(GRID, method, run):
        pass
    assert run.state.outcome == DIVERGED
    assert run.state.iteration == whole.iterations


@pytest.mark.parametrize("scale", [1e3, -1e3])
def test_a_start_outside_the_range_is_no_divergence(scale: float):
    # Value iteration contracts from any start.
    result = plan(GRID, SampledMax(p=1.0), start=torch.full((S,), scale))
    assert result.outcome == ""
    assert np.abs(result.v.numpy() - BEST).max() < 1e-4


def simulator(task: ControlTask, **options: object) -> Simulator:
    still = torch.zeros(2, dtype=torch.float64)
    return Simulator(
        lambda states, actions, generator: (task.step(states, actions, still), task.reward(states, actions)),
        axes=task.axes,
        actions=task.actions,
        gamma=task.gamma,
        **options,
    )


@pytest.mark.parametrize("reward_range", [(-math.inf, math.inf), (0.0, math.inf), (-0.1, 1.0)])
@pytest.mark.parametrize(
    "method",
    [
        AveragedValueIteration(max_iterations=12),
        AveragedStructuredIteration(max_iterations=12),
        IncumbentIteration(max_iterations=12),
    ],
    ids=lambda method: method.name,
)
def test_a_simulator_need_not_know_its_rewards(method: Method, reward_range: tuple[float, float]):
    result = plan(simulator(pendulum(), reward_range=reward_range), method)
    assert result.outcome in ("", OUT_OF_ITERATIONS)
    assert result.iterations == 12


def test_without_a_range_values_that_are_not_finite_still_diverge():
    assert plan(simulator(pendulum()), Turns(rule=lambda v: v * torch.nan)).outcome == DIVERGED


def test_a_plan_may_start_from_the_q_of_another():
    # Pairs that were never backed up are -inf there.
    rough = plan(GRID, AsyncValueIteration(p=0.3, max_iterations=4))
    assert rough.q is not None
    assert float(rough.q.min()) == -math.inf
    run = begin(GRID, SampledMax(), start=rough.q)
    assert torch.equal(run.state.v, rough.v)


def test_a_plan_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    for method in EXACT:
        plan(GRID, dataclasses.replace(method, max_iterations=2))  # type: ignore[type-var]
    assert torch.equal(before, torch.get_rng_state())


def test_plan_is_made_of_its_pieces():
    told: list[TraceRow] = []
    method = AsyncValueIteration(max_iterations=9)
    whole = plan(GRID, method, seed=2, watch=told.append)
    run = begin(GRID, method, seed=2)
    steps = advance(GRID, method, run)
    for _ in range(4):
        next(steps)
    for _ in advance(GRID, method, run):  # taken up again, as after an interruption
        pass
    parts = conclude(GRID, method, run)
    assert torch.equal(whole.v, parts.v)
    assert torch.equal(whole.policy, parts.policy)
    assert tuple(told) == whole.trace
    assert [row.iteration for row in parts.trace] == list(range(1, 10))
    assert [row.backups for row in parts.trace] == [row.backups for row in whole.trace]
    assert [row.residual for row in parts.trace] == [row.residual for row in whole.trace]


def test_the_ledger_counts_by_the_pair_and_times_both_parts():
    watched = Watched(GRID)
    meter = Meter(watched)
    v = torch.from_numpy(BEST)
    few = torch.tensor([1, 4, 4])
    asked: list[tuple[Callable[[], object], int]] = [
        (lambda: meter.backup(v), S * A),
        (lambda: meter.improve(v), S * A),
        (lambda: meter.backup_at(v, few, few), 3),
        (lambda: meter.backup_rows(v, few), 3 * A),
        (lambda: meter.backup_columns(v, few), 3 * S),
    ]
    total = 0
    for ask, pairs in asked:
        ask()
        total += pairs
        assert meter.ledger.backups == watched.backups == total
    assert meter.ledger.seconds_backup > 0.0
    assert meter.ledger.seconds_estimate == 0.0
    with meter.estimating():
        sum(range(1000))
    assert meter.ledger.seconds_estimate > 0.0
    kept = Ledger(backups=7)
    Meter(GRID, kept).backup(v)
    assert kept.backups == 7 + S * A


def test_a_meter_knows_the_attainable_range():
    low, high = Meter(GRID).value_range
    assert low == pytest.approx(GRID.reward_range[0] / 0.2)
    assert high == pytest.approx(GRID.reward_range[1] / 0.2)
    assert low <= BEST.min()
    assert high >= BEST.max()
    assert not Meter(GRID).noisy
    assert Meter(NoisyBackups(GRID, 0.0)).noisy
