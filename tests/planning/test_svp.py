"""SVP: value iteration where all is observed; below the optimum whatever the estimator says; blind to offsets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor

import svrl
from svrl.matrix import Estimate, Estimator, FactorALS, Observed, RowMean, SoftImpute
from svrl.mdp.grid import GridMDP
from svrl.mdp.tasks import make_task
from svrl.planning.plan import advance, begin, conclude, plan
from svrl.planning.svp import StructuredValueIteration, paper_svp

from .oracles import Dense, Watched, low_rank_model, pendulum, small_grid

GRID = small_grid()
DENSE = Dense.of(GRID)
BEST = DENSE.optimum()
S, A = GRID.n_states, GRID.n_actions
QUICK = FactorALS(rank=4, ridge=1e-3, max_steps=1)


def answer(matrix: Tensor) -> Estimate:
    """An estimate that is a dense matrix."""
    zero = torch.zeros((), dtype=torch.int64)
    return Estimate(dense=matrix, factors=None, code=zero, rank=zero + 1, iterations=zero, change=zero)


@dataclass
class Says:
    """An estimator that returns a given matrix, and keeps what it was asked."""

    matrix: Callable[[Observed], Tensor]
    asked: list[Observed] = field(default_factory=list)

    def __call__(self, observed: Observed, *, start: object = None, generator: object = None) -> Estimate:
        self.asked.append(observed)
        return answer(self.matrix(observed))


def noise(observed: Observed) -> Tensor:
    """Nonsense, in the right shape."""
    return 100.0 * torch.randn(S, A, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "estimator", [QUICK, RowMean(), SoftImpute(max_steps=5), Says(noise)], ids=lambda e: type(e).__name__
)
def test_with_all_pairs_it_is_value_iteration(estimator: Estimator):
    method = StructuredValueIteration(p=1.0, estimator=estimator, max_iterations=30)
    run = begin(GRID, method)
    exact = np.full(S, GRID.reward_range[0] / (1.0 - GRID.gamma))
    for _ in advance(GRID, method, run):
        q = DENSE.backup(exact)
        exact = q.max(1)
        assert np.abs(run.state.v.numpy() - exact).max() < 1e-12
        assert np.abs(q[np.arange(S), run.state.policy.numpy()] - exact).max() < 1e-12
    result = conclude(GRID, method, run)
    assert np.abs(result.v.numpy() - DENSE.backup(exact).max(1)).max() < 1e-12
    assert np.array_equal(result.policy.numpy(), DENSE.backup(exact).argmax(1))


@pytest.mark.parametrize(
    "estimator",
    [
        QUICK,
        RowMean(),
        Says(noise),
        Says(lambda observed: torch.full((S, A), 1e6)),
        Says(lambda observed: torch.full((S, A), torch.nan)),
    ],
    ids=["factors", "row mean", "noise", "huge", "nan"],
)
def test_whatever_the_estimator_says_values_stay_below(estimator: Estimator):
    # Half of 25 pairs: a row of which none is drawn would end the run.
    method = StructuredValueIteration(p=0.5, estimator=estimator, max_iterations=30)
    run = begin(GRID, method, seed=2)
    before = run.state.v.numpy().copy()
    assert bool((before <= BEST).all())
    for _ in advance(GRID, method, run):
        after, q = run.state.v.numpy(), DENSE.backup(before)
        assert float((after - q.max(1)).max()) <= 1e-12
        assert np.abs(q[np.arange(S), run.state.policy.numpy()] - after).max() <= 1e-12
        assert float((after - BEST).max()) <= 1e-12
        before = after.copy()
    assert not run.state.outcome


def test_a_problem_of_low_rank_is_solved_from_a_part_of_it():
    model = low_rank_model()
    dense = Dense.of(model)
    estimator = FactorALS(rank=3, ridge=1e-3, max_steps=1)
    result = plan(model, StructuredValueIteration(p=0.3, estimator=estimator, final_sweep=False))
    assert result.converged
    assert result.rank == 3
    assert dense.loss(result.policy) < 1e-3
    assert np.abs(result.v.numpy() - dense.optimum()).max() < 1e-3
    assert result.q is not None
    assert np.abs(result.q.numpy() - dense.backup(dense.optimum())).max() < 5e-2
    draws = plan(model, StructuredValueIteration(p=0.3, estimator=RowMean(), final_sweep=False))
    assert dense.loss(draws.policy) > 1e-2, "the same draws without the structure do not suffice"


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("final_sweep", [True, False])
def test_a_constant_added_to_the_reward_changes_nothing(seed: int, final_sweep: bool):
    method = StructuredValueIteration(p=0.5, estimator=QUICK, final_sweep=final_sweep, max_iterations=25)
    plain, less = (
        plan(GridMDP(pendulum(reward_offset=offset), dtype=torch.float64), method, seed=seed) for offset in (0.0, -1.0)
    )
    assert torch.equal(plain.policy, less.policy)
    assert plain.iterations == less.iterations
    shift = 1.0 / (1.0 - GRID.gamma)
    assert float((plain.v - less.v - shift).abs().max()) < 1e-6


def test_the_estimator_sees_rows_without_their_mean_and_of_size_one():
    listener = Says(lambda observed: torch.zeros(S, A))
    method = StructuredValueIteration(p=0.5, estimator=listener, max_iterations=4, verify=False, clip=False)
    run = begin(GRID, method)
    previous = run.state.v.clone()
    assert not bool(previous.any()), "without verify it starts from zero, as the authors do"
    for _ in advance(GRID, method, run):
        values, mask = listener.asked[-1].tensors
        count = mask.sum(1)
        assert float((values.double() * mask).sum(1).abs().max()) < 1e-4
        assert float(values[mask].double().square().mean()) == pytest.approx(1.0, rel=1e-5)
        # Zeros say that all actions are worth their row's observed mean, and that is what the values are then.
        mean = (DENSE.backup(previous.numpy()) * mask.numpy()).sum(1) / count.numpy()
        assert np.abs(run.state.v.numpy() - mean).max() < 1e-5
        previous = run.state.v.clone()


def test_without_centring_the_estimator_sees_the_backups():
    listener = Says(lambda observed: torch.zeros(S, A))
    run = begin(GRID, method := StructuredValueIteration(p=0.5, estimator=listener, centre=False))
    backups = DENSE.backup(run.state.v.numpy())
    next(advance(GRID, method, run))
    values, mask = listener.asked[0].tensors
    assert np.abs((values - torch.from_numpy(backups))[mask].numpy()).max() < 1e-6


def test_estimates_are_kept_in_the_attainable_range():
    low, high = (reward / (1.0 - GRID.gamma) for reward in GRID.reward_range)
    method = StructuredValueIteration(p=0.5, estimator=Says(noise), verify=False, max_iterations=3)
    result = plan(GRID, method)
    assert result.q is not None
    assert result.q.aminmax() == (pytest.approx(low), pytest.approx(high))
    loose = plan(GRID, dataclasses.replace(method, clip=False))
    assert loose.q is not None
    assert float(loose.q.max()) > 10.0 * high


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("estimator", [QUICK, RowMean()], ids=lambda e: type(e).__name__)
def test_the_last_estimate_starts_the_next(estimator: Estimator, warm: bool):
    seen: list[Estimate | None] = []

    def listening(observed: Observed, *, start: Estimate | None = None, generator: torch.Generator) -> Estimate:
        seen.append(start)
        return estimator(observed, start=start, generator=generator)

    plan(GRID, StructuredValueIteration(p=0.5, estimator=listening, warm_start=warm, max_iterations=3))
    first, *others = seen
    assert first is None
    for start in others:
        assert (start is not None) == warm
        if start is None:
            continue
        assert start.matrix.shape == (S, A)
        if estimator is QUICK:
            assert start.factors is not None
            assert start.factors[0].shape == (S, 4)


@pytest.mark.parametrize(
    ("verify", "final_sweep", "each", "last"),
    [
        (True, True, S * A + S, S * A),
        (True, False, S * A + S, 0),
        (False, True, S * A, S * A),
        (False, False, S * A, 0),
    ],
)
def test_every_backup_is_counted(verify: bool, final_sweep: bool, each: int, last: int):
    method = StructuredValueIteration(
        p=1.0, estimator=RowMean(), verify=verify, final_sweep=final_sweep, max_iterations=6
    )
    watched = Watched(GRID)
    result = plan(watched, method)
    assert [row.backups for row in result.trace] == [each * (k + 1) for k in range(6)]
    assert result.ledger.backups == watched.backups == 6 * each + last
    assert result.sweep_equivalents == pytest.approx((6 * each + last) / (S * A))


@pytest.mark.parametrize("final_sweep", [True, False])
def test_an_empty_row_is_an_outcome(final_sweep: bool):
    found = plan(GRID, StructuredValueIteration(p=0.1, cover=False, final_sweep=final_sweep))
    assert re.fullmatch(r"svp observed no action of state \d+, .* Set p above 0.1\.", found.outcome)
    assert found.iterations == len(found.trace) == 1
    assert found.q is None
    assert found.policy.shape == found.v.shape == (S,)


def test_the_paper_has_its_choices():
    method = paper_svp()
    assert method.name == "paper-svp"
    assert not any([method.centre, method.clip, method.verify, method.final_sweep])
    assert isinstance(method.estimator, SoftImpute)
    assert method.estimator.ratio == 1 / 50
    watched = Watched(GRID)
    result = plan(watched, paper_svp(p=0.5, max_iterations=60))
    assert result.q is not None
    assert torch.equal(result.policy, result.q.argmax(1))
    assert torch.equal(result.v, result.q.max(1).values.double())
    assert DENSE.loss(result.policy) < 0.2 * DENSE.loss(np.zeros(S, int))


def test_a_ridge_below_rounding_does_not_end_in_nan():
    """Values that are nearly the same in all rows once made the equations of a row indefinite in float32."""
    model = GridMDP(make_task("mountain-car", states=(9, 9), actions=80))
    found = plan(model, StructuredValueIteration(p=0.2, max_iterations=15), seed=0)
    assert bool(found.v.isfinite().all())
    assert found.q is None or bool(found.q.isfinite().all())


def test_a_large_constant_costs_no_more_than_another_draw():
    # The best action is taken before the row's mean is added: in single precision a large one would hide it.
    losses = []
    for offset in (0.0, 1e5):
        task = svrl.make_task("inverted-pendulum", states=(12, 12), actions=40, reward_offset=offset)
        model = svrl.GridMDP(task, dtype=torch.float64)
        best, _ = svrl.solve_exactly(model, tolerance=1e-6)
        method = svrl.StructuredValueIteration(final_sweep=False, max_iterations=60)
        for seed in range(3):
            policy = svrl.plan(model, method, seed=seed).policy
            losses.append(svrl.policy_loss(best, svrl.evaluate_policy(model, policy, tolerance=1e-6)).relative)
    assert max(losses[3:]) < 1.5 * max(losses[:3])
