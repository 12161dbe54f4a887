"""Value iteration on a part of the pairs: exact where nothing is left out, bounded by theorems where something is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

import svrl
from svrl.mdp.model import Model
from svrl.mdp.simulator import NoisyBackups
from svrl.planning import baselines
from svrl.planning.baselines import (
    AsyncValueIteration,
    CoarseActions,
    IncumbentIteration,
    RowMeanUpdate,
    SampledMax,
)
from svrl.planning.method import Meter, Method, State
from svrl.planning.plan import begin, plan
from svrl.planning.sampling import Drawn, best_of_rows, observe

from .oracles import Dense, Watched, flat_grid, small_grid

GRID = small_grid()
DENSE = Dense.of(GRID)
BEST = DENSE.optimum()
S, A = GRID.n_states, GRID.n_actions

# Async and row-mean-update keep Q in single precision; its roundings add up to no more than this.
ROUNDING = {"async": 2e-5, "row-mean-update": 2e-5}


def steps(model: Model, method: Method, count: int, seed: int = 0) -> Iterator[tuple[Tensor, State]]:
    """Values before each of `count` steps, and the state after it; no guard looks on."""
    run = begin(model, method, seed=seed)
    meter = Meter(model, run.ledger)
    for _ in range(count):
        before = run.state.v.clone()
        run.state = method.step(meter, run.state, run.generator)
        run.state.iteration += 1
        yield before, run.state


@pytest.mark.parametrize(
    "method",
    [AsyncValueIteration(p=1.0), SampledMax(p=1.0), RowMeanUpdate(p=1.0), CoarseActions(actions=A)],
)
def test_with_all_pairs_they_are_value_iteration(method: Method):
    exact = np.full(S, GRID.reward_range[0] / (1.0 - GRID.gamma))
    for _, state in steps(GRID, method, 40):
        q = DENSE.backup(exact)
        exact = q.max(1)
        assert np.abs(state.v.numpy() - exact).max() < ROUNDING.get(method.name, 1e-12)
        chosen = q[np.arange(S), state.policy.numpy()]
        assert np.abs(chosen - exact).max() < ROUNDING.get(method.name, 1e-12)


@pytest.mark.parametrize("share", [0.05, 0.3])
@pytest.mark.parametrize("kind", [AsyncValueIteration, SampledMax, IncumbentIteration])
def test_values_stay_below_the_optimum_and_below_a_sweep(kind: type, share: float):
    method = kind(p=share)
    room = ROUNDING.get(method.name, 1e-12)
    for before, state in steps(GRID, method, 60, seed=3):
        sweep = DENSE.backup(before.numpy()).max(1)
        new = state.v.numpy() != before.numpy()  # a state without a draw keeps its value
        assert bool((state.v.numpy() <= sweep + room)[new].all())
        assert float((state.v.numpy() - BEST).max()) <= room


@pytest.mark.parametrize("kind", [AsyncValueIteration, IncumbentIteration])
def test_from_the_pessimistic_start_values_only_rise(kind: type):
    for before, state in steps(GRID, kind(p=0.2), 60):
        assert float((before - state.v).max()) <= ROUNDING.get(str(kind.name), 1e-12)


@pytest.mark.parametrize("kind", [AsyncValueIteration, IncumbentIteration, RowMeanUpdate])
def test_they_find_the_optimum_in_the_end(kind: type):
    result = plan(GRID, kind(p=0.2, max_iterations=300), seed=1)
    assert result.converged
    assert np.abs(result.v.numpy() - BEST).max() < 1e-3
    assert DENSE.loss(result.policy) < 1e-3


@pytest.mark.parametrize("kind", [AsyncValueIteration, SampledMax, RowMeanUpdate, IncumbentIteration])
@pytest.mark.parametrize("share", [0.01, 0.05])
@pytest.mark.parametrize("flat", [True, False])
def test_what_was_never_backed_up_is_never_chosen(kind: type, share: float, flat: bool):
    # With equal rewards a pair that was not looked at ties with one that was: any guess of its value is as good.
    watched = Watched(flat_grid() if flat else GRID)
    for _, state in steps(watched, kind(p=share), 12, seed=5):
        known = watched.seen.any(1)
        chosen = watched.seen[torch.arange(S), state.policy]
        assert bool(chosen[known].all())


def test_the_best_of_each_row_and_the_first_of_equals():
    meter = Meter(GRID)
    states = torch.tensor([0, 0, 0, 2, 2, 5])
    actions = torch.tensor([3, 7, 9, 4, 8, 1])
    values = torch.tensor([1.0, 2.0, 2.0, -5.0, -5.0, 0.0], dtype=torch.float64)
    best, action = best_of_rows(meter, Drawn(states, actions, values))
    assert best[[0, 2, 5]].tolist() == [2.0, -5.0, 0.0]
    assert action[[0, 2, 5]].tolist() == [7, 4, 1]
    assert best[1] == -torch.inf


def test_drawn_pairs_come_by_rows_with_their_backups():
    meter = Meter(GRID)
    v = torch.from_numpy(BEST)
    states, actions, values = observe(meter, v, 0.3, torch.Generator().manual_seed(0))
    index = states * A + actions
    assert bool((index.diff() > 0).all())
    assert abs(len(index) / (S * A) - 0.3) < 4 * (0.21 / (S * A)) ** 0.5
    assert torch.equal(values, GRID.backup(v)[states, actions])
    assert meter.ledger.backups == len(index)


def test_row_means_move_the_rest_of_their_row(monkeypatch: pytest.MonkeyPatch):
    def drawn(*pairs: tuple[int, int, float]) -> None:
        columns = (torch.tensor([pair[k] for pair in pairs]) for k in range(3))
        states, actions, values = columns
        monkeypatch.setattr(baselines, "observe", lambda *_, **__: Drawn(states, actions, values.double()))

    method = RowMeanUpdate()
    meter = Meter(GRID)
    state = method.begin(meter, None)
    low = float(state.v[0])
    drawn((0, 0, 1.0), (0, 1, 2.0), (0, 2, 3.0), (1, 4, 7.0))
    state = method.step(meter, state, torch.Generator())
    assert state.v[:3].tolist() == [3.0, 7.0, low]
    assert state.policy[:2].tolist() == [2, 4]
    # Pairs 0 and 1 rise by 4 and 6: pair 2 by 5. Pair 3 is new and moves nothing; row 1 keeps what it has.
    drawn((0, 0, 5.0), (0, 1, 8.0), (0, 3, 100.0), (1, 5, 6.0))
    state = method.step(meter, state, torch.Generator())
    assert state.q[0, :5].tolist() == [5.0, 8.0, 8.0, 100.0, -torch.inf]
    assert state.q[1, 3:6].tolist() == [-torch.inf, 7.0, 6.0]
    assert state.v[:3].tolist() == [100.0, 7.0, low]


def test_a_state_without_a_draw_keeps_its_value(monkeypatch: pytest.MonkeyPatch):
    one = Drawn(torch.tensor([4]), torch.tensor([6]), torch.tensor([9.0], dtype=torch.float64))
    monkeypatch.setattr(baselines, "observe", lambda *_, **__: one)
    for method in (AsyncValueIteration(), SampledMax(), RowMeanUpdate()):
        state = method.begin(Meter(GRID), torch.from_numpy(BEST))
        state = method.step(Meter(GRID), state, torch.Generator())
        kept = torch.arange(S) != 4
        assert torch.equal(state.v[kept], torch.from_numpy(BEST)[kept])
        assert float(state.v[4]) == 9.0
        assert int(state.policy[4]) == 6


@pytest.mark.parametrize("count", [2, 7])
def test_coarse_solves_the_problem_with_few_actions_and_looks_at_all_at_last(count: int):
    chosen = np.round(np.linspace(0, A - 1, count)).astype(int)
    part = Dense(reward=DENSE.reward[:, chosen], transitions=DENSE.transitions[:, chosen], gamma=DENSE.gamma).optimum()
    result = plan(GRID, CoarseActions(actions=count, tolerance=1e-10))
    last = DENSE.backup(part)
    assert result.converged
    assert np.abs(result.v.numpy() - last.max(1)).max() < 1e-8
    assert np.array_equal(result.policy.numpy(), last.argmax(1))


@pytest.mark.parametrize(
    ("method", "each", "last"),
    [
        (AsyncValueIteration(p=1.0, max_iterations=7), S * A, 0),
        (SampledMax(p=1.0, max_iterations=7), S * A, 0),
        (RowMeanUpdate(p=1.0, max_iterations=7), S * A, 0),
        (CoarseActions(actions=6, max_iterations=7), 6 * S, S * A),
        (CoarseActions(actions=99, max_iterations=7), S * A, S * A),
        (IncumbentIteration(p=0.2, max_iterations=7), 5 * S, 0),  # 5 of 25 actions, the incumbent among them
        (IncumbentIteration(challengers=3, max_iterations=7), 4 * S, 0),
    ],
)
def test_every_backup_is_counted(method: Method, each: int, last: int):
    watched = Watched(GRID)
    result = plan(watched, method)
    assert [row.backups for row in result.trace] == [each * (k + 1) for k in range(7)]
    assert result.ledger.backups == watched.backups == 7 * each + last


@pytest.mark.parametrize(("challengers", "count"), [(1, 12), (4, 5), (30, 1)])
def test_incumbents_spend_a_sweep_on_noisy_backups(challengers: int, count: int):
    noisy = NoisyBackups(GRID, 0.1)
    result = plan(noisy, IncumbentIteration(challengers=challengers, max_iterations=4))
    assert result.ledger.backups == noisy.calls == 4 * S * (challengers + 1) * count
    assert not result.converged, "noise has no natural end"


def sparse_reward(states: int = 30, actions: int = 10) -> svrl.TabularMDP:
    """One pair pays, and the rest lead there by chance."""
    rng = np.random.default_rng(0)
    following = rng.integers(0, states, (states, actions))
    rewards = np.zeros((states, actions))
    rewards[3, 4] = 1.0
    return svrl.TabularMDP.deterministic(following=following, rewards=rewards, gamma=0.9)


@pytest.mark.parametrize("name", ["svp", "async", "sampled-max", "row-mean-update", "incumbent"])
def test_a_draw_that_misses_the_reward_is_no_convergence(name: str):
    model = sparse_reward()
    best, _ = svrl.solve_exactly(model)
    for seed in range(6):
        found = svrl.plan(model, svrl.make_method(name, p=0.3), seed=seed)
        assert not found.converged or float((best - found.v).abs().max()) < 1.0, (name, seed, found.iterations)
