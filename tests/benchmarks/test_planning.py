"""The planning benchmark: all competitors must have solved the same problem. Nothing here is about speed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from svrl.benchmarks import peers
from svrl.benchmarks.planning import measure_planning
from svrl.benchmarks.planning_peers import one_thread, pair_arrays
from svrl.benchmarks.rows import Row
from svrl.mdp.grid import GridMDP
from svrl.mdp.inverted_pendulum import inverted_pendulum

pytest.importorskip("quantecon")
pytest.importorskip("mdpsolver")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(measure_planning(quick=True))


def test_everybody_is_measured(rows: list[Row]):
    names = [(row.name, row.peer_name) for row in rows]
    sweep = "400x100 full sweep"
    optimum = "400x100 optimum to residual 1e-06, building included"
    assert names == [(sweep, "QuantEcon"), (sweep, "SciPy CSR"), (optimum, "QuantEcon"), (optimum, "mdpsolver")]
    assert all(row.ours > 0.0 and row.peer > 0.0 for row in rows)


def test_sweeps_agree(rows: list[Row]):
    assert all(row.note["sup_distance"] <= 1e-13 for row in rows[:2])


def test_optima_agree_as_far_as_their_residuals_promise(rows: list[Row]):
    for row in rows[2:]:
        assert row.note["ours_residual"] <= 1e-6
        assert row.note["peer_residual"] <= 1e-6
        assert row.note["sup_distance"] <= 20 * (row.note["ours_residual"] + row.note["peer_residual"])
        assert row.ours == pytest.approx(row.note["ours_build_s"] + row.note["ours_solve_s"])
        assert row.peer == pytest.approx(row.note["peer_build_s"] + row.note["peer_solve_s"])
        # The best of all that were measured is the one reported.
        assert row.note["peer_solve_s"] == min(row.note["peer_all_solve_s"].values())
    assert len(rows[2].note["peer_all_solve_s"]) == 4
    assert len(rows[3].note["peer_all_solve_s"]) == 3


def test_the_peers_get_the_same_problem():
    task = inverted_pendulum(states=(9, 7), actions=11)
    arrays, model = pair_arrays(task), GridMDP(task)
    v = torch.linspace(-4.0, 3.0, 63, dtype=torch.float64)
    q = arrays.reward + arrays.discount * (arrays.matrix @ v.numpy())
    assert np.abs(q.reshape(63, 11) - model.backup(v).numpy()).max() <= 1e-14
    assert np.allclose(arrays.matrix.sum(1), 1.0)


def test_threads_are_given_back():
    import numba

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            assert numba.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("peer", ["quantecon", "mdpsolver"])
def test_a_missing_peer_is_answered_by_the_command_to_run(monkeypatch: pytest.MonkeyPatch, peer: str):
    monkeypatch.setitem(sys.modules, peer, None)
    with pytest.raises(peers.MissingPeerError, match=r"pip install 'svrl\[bench\]'"):
        list(measure_planning(quick=True))
