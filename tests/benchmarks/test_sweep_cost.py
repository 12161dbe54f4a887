from __future__ import annotations

import pytest

from svrl.benchmarks.sweep import measure_sweep


@pytest.mark.slow
def test_a_sweep_is_measured_beside_loops_that_keep_no_books():
    rows = list(measure_sweep(quick=True, runs=2))
    assert [row.peer_name for row in rows] == ["a bare loop of processes", "a bare loop that forks"]
    for row in rows:
        assert row.name == "sweep of 2 trivial runs"
        assert row.unit == "s a run"
        assert row.ours > 0
        assert row.peer > 0
        shown = row.as_json("svrl bench sweep --quick")
        assert shown["ratio"] == pytest.approx(row.peer / row.ours)
        assert (shown["runs"], shown["blocks"]) == (2, 2)
    assert rows[1].note["added"] == pytest.approx(rows[1].ours / rows[1].peer - 1)
