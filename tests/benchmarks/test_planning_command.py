"""svrl bench planning, end to end. Nothing here is about speed: these machines are shared."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def test_the_quick_bench_end_to_end(svrl_json: Callable[..., list[dict]]):
    rows = svrl_json("bench", "planning", "--quick")
    assert {row["peer_name"] for row in rows} == {"QuantEcon", "SciPy CSR", "mdpsolver"}
    for row in rows:
        assert row["ratio"] == pytest.approx(row["peer"] / row["ours"])
        assert row["command"] == "svrl bench planning --quick"
        assert row["sup_distance"] < 1e-4, "the same answer"
