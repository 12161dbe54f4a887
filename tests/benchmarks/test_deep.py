"""The benchmarks of deep RL run end to end; what they measure is for people to read."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("stable_baselines3")


def test_update(svrl_json: Callable[..., list[dict]]) -> None:
    rows = svrl_json("bench", "update", "--quick")
    names = [row["name"] for row in rows]
    assert ["share of an update" in name for name in names[:4]] == [True] * 4
    for share in rows[0:4:2]:
        assert 0 < share["ours"] < share["peer"] < 100
        assert share["ratio"] == pytest.approx(share["peer"] / share["ours"])
    assert rows[0]["command"] == "svrl bench update --quick"
    assert any("1,000,000 transitions" in name for name in names)


def test_env(svrl_json: Callable[..., list[dict]]) -> None:
    rows = svrl_json("bench", "env", "--quick")
    assert [row["peer_name"] for row in rows] == ["Stable-Baselines3 DQN"] * 2
    assert all(row["ours"] > 0 and row["peer"] > 0 for row in rows)
