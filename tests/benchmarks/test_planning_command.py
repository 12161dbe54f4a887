"""svrl bench planning, end to end. Nothing here is about speed: these machines are shared."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


def test_the_quick_bench_end_to_end():
    command = [sys.executable, "-m", "svrl", "bench", "planning", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["peer_name"] for row in rows} == {"QuantEcon", "SciPy CSR", "mdpsolver"}
    for row in rows:
        assert row["ratio"] == pytest.approx(row["peer"] / row["ours"])
        assert row["command"] == "svrl bench planning --quick"
        assert row["sup_distance"] < 1e-4, "the same answer"
