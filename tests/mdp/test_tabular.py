from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.mdp import tabular_kernel
from svrl.mdp.model import MarkovRewardProcess, Model
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.tabular_kernel import Products

from .tables import brute, csr, kinds, random_table, solve, torch_csr, values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["CSR and list", "int64", "repeated columns"])
@pytest.mark.parametrize("ends", [False, True])
def test_the_kernels_and_their_twin_agree(dtype: torch.dtype, kind: str, ends: bool):
    p, r = random_table(5, n_states=40, n_actions=6, share=0.1)
    terminal = np.arange(40) % 7 == 0 if ends else None
    mdp = TabularMDP(**kinds()[kind](p, r), gamma=0.97, terminal=terminal)
    twin, v = Products(mdp.entries), mdp._values(values(6, 40, dtype))
    states, actions = torch.arange(0, 40, 3), torch.arange(14) % 6
    pairs = [
        (mdp.backup(v), twin.block(v)),
        (mdp.backup_at(v, states, actions), twin.pairs(v, states, actions)),
        (mdp.backup_rows(v, states), twin.block(v, states=states)),
        (mdp.backup_columns(v, actions), twin.block(v, actions=actions)),
        (mdp.improve(v)[0], twin.improve(v)[0]),
    ]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype == dtype
        assert ours.shape == theirs.shape
        assert float((ours - theirs).abs().max()) < (1e-12 if dtype == torch.float64 else 1e-6)
    assert torch.equal(mdp.improve(v)[1], twin.improve(v)[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_have_the_dtype_of_the_values_and_are_rounded_once(dtype: torch.dtype):
    p, r = random_table(7)
    v = values(8, 7, dtype)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9)
    expected = torch.from_numpy(brute(p, r, 0.9, v.double().numpy()))
    assert mdp.backup(v).dtype == mdp.improve(v)[0].dtype == dtype
    assert mdp.improve(v)[1].dtype == torch.int64
    assert float((mdp.backup(v) - expected).abs().max()) <= torch.finfo(dtype).eps * 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_first_of_equal_actions_is_taken(dtype: torch.dtype):
    p = np.full((1, 4, 1), 1.0)
    tied = TabularMDP(transitions=p, rewards=[[0.0, 1.0, 1.0, 0.5]], gamma=0.5)
    assert tied.improve(torch.zeros(1, dtype=dtype))[1].tolist() == [1]
    # A difference that float32 cannot hold is a tie there.
    near = TabularMDP(transitions=p, rewards=[[0.0, 1.0, 1.0 + 1e-12, 0.5]], gamma=0.5)
    best, action = near.improve(torch.zeros(1, dtype=dtype))
    assert action.tolist() == near.backup(torch.zeros(1, dtype=dtype)).argmax(1).tolist()
    assert action.tolist() == [1 if dtype == torch.float32 else 2]
    assert best.tolist() == near.backup(torch.zeros(1, dtype=dtype)).amax(1).tolist()


def test_nan_is_passed_on():
    mdp = TabularMDP.deterministic(following=torch.tensor([[0, 1, 0], [0, 0, 0]]), rewards=np.ones((2, 3)), gamma=0.5)
    best, action = mdp.improve(torch.tensor([0.0, torch.nan]))
    assert best.isnan().tolist() == [True, False]
    assert action.tolist() == [1, 0]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_do_not_depend_on_the_threads(threads: int, monkeypatch: pytest.MonkeyPatch):
    pieces: list[int] = []

    def counted(work: Callable[[int, int], object], size: int, threads: int, *, least: int) -> None:
        bounds = [size * k // threads for k in range(threads + 1)]
        pieces.append(threads)
        for low, high in pairwise(bounds):
            work(low, high)

    p, r = random_table(9, n_states=30)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9)
    v, states, actions = values(1, 30), torch.arange(30).flip(0), torch.arange(30) % 3

    def everything() -> list[torch.Tensor]:
        return [mdp.backup(v), *mdp.improve(v), mdp.backup_at(v, states, actions), mdp.backup_rows(v, states)]

    alone = everything()
    monkeypatch.setattr(tabular_kernel, "share_out", counted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert all(torch.equal(a, b) for a, b in zip(alone, everything(), strict=True))
    assert pieces == [threads] * 4


def test_many_entries_are_worked_on_by_several_threads(monkeypatch: pytest.MonkeyPatch):
    following = torch.randint(2000, (2000, 60), generator=torch.Generator().manual_seed(0))
    mdp = TabularMDP.deterministic(following=following, rewards=torch.rand(2000, 60), gamma=0.9)
    v = values(1, 2000)
    found = {}
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found[threads] = mdp.backup(v)
    assert torch.equal(found[1], found[3])
    assert torch.allclose(found[1], mdp.entries.reward + 0.9 * v[following], rtol=0, atol=1e-15)


def test_empty_lists_give_empty_backups():
    p, r = random_table(1)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9)
    none, v = torch.tensor([], dtype=torch.int64), values(1, 7)
    for engine in (mdp._engine, Products(mdp.entries)):
        assert engine.pairs(v, none, none).shape == (0,)
        assert engine.block(v, states=none).shape == (0, 3)
        assert engine.block(v, actions=none).shape == (7, 0)


def test_values_with_a_gradient_or_a_stride_are_read_as_they_are():
    p, r = random_table(1)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9)
    wide = torch.stack([values(1, 7), values(2, 7)], 1).requires_grad_()
    assert torch.equal(mdp.backup(wide[:, 1]), mdp.backup(values(2, 7)))


@pytest.mark.parametrize("kind", ["CSR and list", "int64", "repeated columns", "torch CSR"])
@pytest.mark.parametrize("ends", [False, True])
def test_a_policys_chain_backs_up_like_its_pairs(kind: str, ends: bool):
    p, r = random_table(10)
    terminal = np.array([0, 0, 1, 0, 0, 1, 0], bool) if ends else None
    mdp = TabularMDP(**kinds()[kind](p, r), gamma=0.9, terminal=terminal)
    policy = torch.tensor([0, 2, 1, 1, 0, 2, 2])
    chain, v = mdp.policy_chain(policy), values(3, 7)
    assert isinstance(chain, MarkovRewardProcess)
    assert chain.transitions.layout == torch.sparse_csr
    assert chain.transitions.dtype == chain.reward.dtype == torch.float64
    assert torch.allclose(chain.backup(v), mdp.backup_at(v, torch.arange(7), policy), rtol=0, atol=1e-12)
    dense = p[np.arange(7), policy]
    if terminal is not None:
        dense = dense * ~terminal[:, None] * ~terminal
    assert np.abs(chain.transitions.to_dense().numpy() - dense).max() < 1e-15
    # Each column once and in order, which torch checks if asked.
    parts = (chain.transitions.crow_indices(), chain.transitions.col_indices(), chain.transitions.values())
    torch.sparse_csr_tensor(*parts, (7, 7), check_invariants=True)


def test_terminal_states_are_worth_nothing_whatever_the_values_say():
    p, r = random_table(11)
    terminal = np.array([0, 1, 0, 0, 1, 0, 0], bool)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9, terminal=torch.from_numpy(terminal))
    v = values(4, 7)
    expected = brute(p, r, 0.9, v.numpy(), terminal)
    assert np.abs(mdp.backup(v).numpy() - expected).max() < 1e-12
    assert np.abs(mdp.improve(v)[0].numpy() - expected.max(1)).max() < 1e-12
    assert mdp.improve(v)[1][torch.from_numpy(terminal)].tolist() == [0, 0]
    assert v.abs().min() > 0  # the caller's are left alone


def test_terminal_rows_may_be_empty():
    p = np.zeros((2, 1, 2))
    p[0, 0, 1] = 1.0
    mdp = TabularMDP(transitions=p, rewards=[[3.0], [0.0]], gamma=0.9, terminal=np.array([False, True]))
    assert solve(mdp)[0].tolist() == [3.0, 0.0]
    with pytest.raises(ValueError, match=r"state 1, action 0 sum to 0,"):
        TabularMDP(transitions=p, rewards=[[3.0], [0.0]], gamma=0.9)


def test_a_transition_that_is_done_pays_and_ends():
    # Half of the time state 0 ends with reward 6; otherwise it stays, for nothing: v = 3 + .9 / 2 v.
    mdp = TabularMDP.from_toy_text({0: {0: [(0.5, 0, 6.0, True), (0.5, 0, 0.0, False)]}}, 0.9)
    assert float(solve(mdp)[0]) == pytest.approx(3 / (1 - 0.45), abs=1e-9)
    assert float(mdp.policy_chain(torch.tensor([0])).transitions.to_dense()) == 0.5


def test_a_problem_of_one_step_has_no_transitions_left():
    mdp = TabularMDP.from_toy_text({0: {0: [(1.0, 0, 2.0, True)], 1: [(1.0, 0, 5.0, True)]}}, 0.9)
    v = torch.tensor([100.0], dtype=torch.float64)
    assert mdp.improve(v)[0].tolist() == Products(mdp.entries).improve(v)[0].tolist() == [5.0]
    assert mdp.policy_chain(torch.tensor([1])).backup(v).tolist() == [5.0]


def test_the_range_of_rewards_bounds_every_value_also_where_episodes_end():
    mdp = TabularMDP.from_toy_text({0: {0: [(1.0, 0, -1.0, True)]}}, 0.9)
    assert mdp.reward_range == (-1.0, 0.0)
    p = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    mdp = TabularMDP(transitions=p, rewards=[[2.0], [7.0]], gamma=0.9, terminal=np.array([False, True]))
    assert mdp.reward_range == (0.0, 2.0)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    n_states=st.integers(1, 9),
    n_actions=st.integers(1, 4),
    share=st.floats(0.0, 1.0),
    gamma=st.floats(0.01, 0.999),
    ending=st.floats(0.0, 1.0),
)
def test_backups_are_monotone_and_contract(
    seed: int, n_states: int, n_actions: int, share: float, gamma: float, ending: float
):
    p, r = random_table(seed, n_states, n_actions, share)
    rng = np.random.default_rng(seed)
    mdp = TabularMDP(transitions=csr(p), rewards=r, gamma=gamma, terminal=rng.random(n_states) < ending)
    v, w = (torch.from_numpy(rng.normal(size=n_states)) for _ in range(2))
    gap = float((v - w).abs().max())
    assert float((mdp.backup(v) - mdp.backup(w)).abs().max()) <= gamma * gap + 1e-12
    assert float((mdp.improve(v)[0] - mdp.improve(w)[0]).abs().max()) <= gamma * gap + 1e-12
    above = torch.maximum(v, w)
    assert float((mdp.backup(above) - mdp.backup(v)).min()) >= -1e-12
    low, high = mdp.reward_range
    bounded = mdp.improve(torch.full((n_states,), high / (1 - gamma), dtype=torch.float64))[0]
    assert float(bounded.max()) <= high / (1 - gamma) + 1e-9 * (1 + abs(high)) / (1 - gamma)
    bounded = mdp.improve(torch.full((n_states,), low / (1 - gamma), dtype=torch.float64))[0]
    assert float(bounded.min()) >= low / (1 - gamma) - 1e-9 * (1 + abs(low)) / (1 - gamma)


def test_it_is_a_model_and_describes_itself():
    p, r = random_table(1)
    mdp = TabularMDP(transitions=p, rewards=r, gamma=0.9, name="lottery", label={"variant": "small"})
    assert isinstance(mdp, Model)
    found = json.loads(json.dumps(mdp.describe()))
    assert found == {
        "task": "lottery",
        "variant": "small",
        "states": 7,
        "actions": 3,
        "transitions": int((p > 0).sum()),
        "episodic": False,
        "rows_sum_to_one": True,
        "gamma": 0.9,
        "device": "cpu",
    }


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["CSR and list", "int64", "repeated columns", "torch CSR"])
@pytest.mark.parametrize("ends", [False, True])
def test_cuda_agrees_with_the_cpu(kind: str, ends: bool):
    p, r = random_table(14, n_states=50, n_actions=6, share=0.1)
    options: dict[str, Any] = {"gamma": 0.97, "terminal": np.arange(50) % 7 == 0 if ends else None}
    here = TabularMDP(**kinds()[kind](p, r), **options)
    there = TabularMDP(**kinds()[kind](p, r), **options, device="cuda")
    v, states, actions = values(6, 50), torch.arange(0, 50, 3), torch.arange(17) % 6
    w, cuda_states, cuda_actions = v.cuda(), states.cuda(), actions.cuda()
    pairs = [
        (here.backup(v), there.backup(w)),
        (here.backup_at(v, states, actions), there.backup_at(w, cuda_states, cuda_actions)),
        (here.backup_rows(v, states), there.backup_rows(w, cuda_states)),
        (here.backup_columns(v, actions), there.backup_columns(w, cuda_actions)),
        (here.improve(v)[0], there.improve(w)[0]),
        (here.policy_chain(here.improve(v)[1]).backup(v), there.policy_chain(there.improve(w)[1]).backup(w)),
    ]
    for ours, theirs in pairs:
        assert theirs.is_cuda
        assert float((ours - theirs.cpu()).abs().max()) < 1e-12
    assert there.backup(w.float()).dtype == torch.float32


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_matrix_on_cuda_is_shared():
    p, r = random_table(15)
    matrix = torch_csr(csr(p)).cuda()
    mdp = TabularMDP(transitions=matrix, rewards=r, gamma=0.9, device="cuda")
    assert mdp._csr.data.data_ptr() == matrix.values().data_ptr()
