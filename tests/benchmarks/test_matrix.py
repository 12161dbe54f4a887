from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from svrl.benchmarks import peers
from svrl.benchmarks.rows import Row


@pytest.mark.slow
def test_the_quick_bench_end_to_end():
    """Nothing here is about speed: these machines are shared."""
    command = [sys.executable, "-m", "svrl", "bench", "matrix", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    for row in rows:
        assert {"name", "unit", "ours", "peer", "peer_name", "ratio", "command"} <= set(row)
        assert row["ratio"] == pytest.approx(row["peer"] / row["ours"])
        assert row["command"] == "svrl bench matrix --quick"
    named = {row["name"]: row for row in rows}
    singles = [row for name, row in named.items() if "ours_distance_to_optimum" in row]
    assert len(singles) == 4
    # At the same stopping rule ours must not be the less exact one.
    assert all(row["ours_distance_to_optimum"] <= row["peer_distance_to_optimum"] for row in singles)
    large = [row for row in rows if "objective" in row]
    assert len(large) == 2
    assert all(row["objective"] <= row["peer_objective"] for row in large)
    assert named["2500x1000 FactorALS, error on unobserved entries"]["ours"] < 1e-3


def test_the_table_is_printed_for_people(svrl, monkeypatch):
    row = Row(name="a thing", unit="us", ours=2.0, peer=50.0, peer_name="somebody")
    monkeypatch.setattr("svrl.cli.bench._matrix", lambda quick, seed: iter([row]))
    result = svrl("bench", "matrix")
    assert result.exit_code == 0
    assert "25.0" in result.stdout
    assert "somebody" in result.stdout


def test_a_missing_peer_is_answered_by_the_command_to_run(svrl, monkeypatch):
    def absent(*_: object, **__: object) -> np.ndarray:
        raise peers.MissingPeerError("The peer is missing: pip install 'svrl[bench]'")

    monkeypatch.setattr("svrl.benchmarks.matrix_small.fancy_soft_impute", absent)
    result = svrl("bench", "matrix", "--quick")
    assert result.exit_code == 2
    assert "pip install 'svrl[bench]'" in result.stderr
