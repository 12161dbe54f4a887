from __future__ import annotations

import pytest

from svrl.benchmarks.sweep import measure_sweep


@pytest.mark.slow
def test_a_sweep_is_measured_beside_plain_loops():
    (row,) = measure_sweep(quick=True, runs=2)
    assert (row.name, row.unit) == ("sweep of 2 trivial runs", "s a run")
    assert row.peer_name == "plain loops over the same call"
    assert row.note["added"] == pytest.approx(row.ours / row.peer - 1)
