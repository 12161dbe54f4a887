"""Cross value iteration: the skeleton of a low-rank matrix is that matrix, and values stay below in any case."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from svrl.mdp.model import Model
from svrl.mdp.tabular import TabularMDP
from svrl.planning import cross_iteration
from svrl.planning.cross_iteration import HELD_OUT, CrossValueIteration, argmax_of_product
from svrl.planning.plan import advance, begin, plan

from .oracles import Dense, Watched, flat_grid, low_rank_model, small_grid

GRID = small_grid()
DENSE = Dense.of(GRID)
BEST = DENSE.optimum()
S, A = GRID.n_states, GRID.n_actions


def low_rank(m: int = 50, n: int = 30, rank: int = 4, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    left, right = (torch.randn(size, rank, generator=generator, dtype=torch.float64) for size in (m, n))
    return left @ right.mT


@pytest.mark.parametrize("block", [1, 64, 1 << 22])
def test_maxima_are_found_block_by_block(block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cross_iteration, "BLOCK", block)
    generator = torch.Generator().manual_seed(1)
    left, right = torch.randn(41, 3, generator=generator), torch.randn(3, 17, generator=generator)
    assert torch.equal(argmax_of_product(left, right), (left.double() @ right.double()).argmax(1))


@pytest.mark.parametrize(
    ("model", "rank"),
    [(low_rank_model(), 3), (low_rank_model(1), 6), (GRID, A), (GRID, 400)],
    ids=["3", "6", "all", "more"],
)
def test_with_the_full_rank_it_is_value_iteration(model: Model, rank: int):
    # The argmax is taken in single precision: near ties cost up to its rounding.
    dense = Dense.of(model)
    method = CrossValueIteration(rank=rank, max_iterations=25)
    run = begin(model, method)
    exact = run.state.v.numpy().copy()
    for _ in advance(model, method, run):
        exact = dense.backup(exact).max(1)
        assert np.abs(run.state.v.numpy() - exact).max() < 1e-5
    if rank <= 6:
        assert run.state.rank == 3


def test_a_problem_of_low_rank_is_solved_from_a_few_lines():
    model = low_rank_model()
    dense = Dense.of(model)
    result = plan(model, CrossValueIteration(rank=3))
    assert result.converged
    assert dense.loss(result.policy) < 1e-6
    assert result.q is None
    assert result.factors is not None
    left, right = result.factors
    assert left.shape == (60, 3)
    assert right.shape == (40, 3)
    assert np.abs((left @ right.mT).numpy() - dense.backup(dense.optimum())).max() < 1e-3


@pytest.mark.parametrize("rank", [1, 2, 8])
def test_whatever_the_rank_values_stay_below(rank: int):
    method = CrossValueIteration(rank=rank, max_iterations=50)
    run = begin(GRID, method, seed=1)
    before = run.state.v.numpy().copy()
    for _ in advance(GRID, method, run):
        after, q = run.state.v.numpy(), DENSE.backup(before)
        assert float((after - q.max(1)).max()) <= 1e-12
        assert np.abs(q[np.arange(S), run.state.policy.numpy()] - after).max() <= 1e-12
        assert float((after - BEST).max()) <= 1e-12
        before = after.copy()


def test_more_rank_is_better_on_the_pendulum():
    losses = [DENSE.loss(plan(GRID, CrossValueIteration(rank=rank, max_iterations=80)).policy) for rank in (1, 12)]
    assert losses[1] < 0.2 * losses[0]


@pytest.mark.parametrize("final_sweep", [True, False])
@pytest.mark.parametrize(("rank", "columns"), [(5, 5), (40, A)])
def test_every_backup_is_counted(rank: int, columns: int, final_sweep: bool):
    watched = Watched(GRID)
    result = plan(watched, CrossValueIteration(rank=rank, final_sweep=final_sweep, max_iterations=6))
    each = rank * A + S * columns + S
    assert [row.backups for row in result.trace] == [each * (k + 1) for k in range(6)]
    judged = min(S, HELD_OUT) * min(A, HELD_OUT)
    assert result.ledger.backups == watched.backups == 6 * each + judged + (S * A if final_sweep else 0)
    if final_sweep:
        v, policy = plan(watched, CrossValueIteration(rank=rank, max_iterations=6)).v, result.policy
        assert torch.equal(result.v, GRID.improve(v)[0])
        assert torch.equal(policy, GRID.improve(v)[1])


def test_a_rank_that_does_not_suffice_is_the_outcome():
    rng = np.random.default_rng(0)
    model = TabularMDP.deterministic(
        following=torch.from_numpy(rng.integers(150, size=(150, 90))),
        rewards=torch.from_numpy(rng.normal(size=(150, 90))),
        gamma=0.9,
    )
    found = plan(model, CrossValueIteration(rank=5, max_iterations=20))
    assert "Q is not of rank 5" in found.outcome
    assert "Raise the rank" in found.outcome
    assert Dense.of(model).loss(found.policy) > 0.5
    assert "Q is not of rank" not in plan(model, CrossValueIteration(rank=90, max_iterations=20)).outcome
    assert "Q is not of rank" not in plan(GRID, CrossValueIteration(rank=12, max_iterations=20)).outcome


def test_only_what_was_backed_up_is_chosen():
    watched = Watched(flat_grid())
    method = CrossValueIteration(rank=2, max_iterations=5, tolerance=1e-30)
    run = begin(watched, method)
    for _ in advance(watched, method, run):
        assert bool(watched.seen[torch.arange(S), run.state.policy].all())
