"""What structure adds to updates of other libraries: the harness, and the libraries that are here."""

from __future__ import annotations

import importlib.util
import time
from types import SimpleNamespace

import pytest

from svrl.benchmarks import integrations
from svrl.benchmarks.integrations import LIMIT, PEERS, Peer, measure_integrations, share_row
from svrl.benchmarks.peers import MissingPeerError
from svrl.benchmarks.rows import Row


def busy(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


def test_what_structure_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(updates=lambda: (lambda: busy(0.003), lambda: busy(0.004)))
    monkeypatch.setattr(integrations.importlib, "import_module", lambda name: made)
    row = share_row(Peer("a library", "numpy", "nowhere"), 9)
    assert row.ours == pytest.approx(100 / 3, abs=8)
    low, high = row.note["interval"]
    assert low <= row.ours <= high
    assert (row.unit, row.peer, row.peer_name, row.note["pairs"]) == ("%", LIMIT, "limit", 9)
    assert row.note["library"].startswith("numpy ")


@pytest.mark.parametrize("name", PEERS)
def test_each_library_makes_updates(name: str) -> None:
    module = {"sb3": "stable_baselines3", "sb3-contrib": "sb3_contrib", "rllib": "ray", "cleanrl": "torch"}
    if importlib.util.find_spec(module.get(name, name)) is None:
        pytest.skip(f"{name} is not installed in this environment; make test or make test-integrations has it")
    (row,) = measure_integrations(True, [name])
    assert row.note["structured_us"] > 1000  # a real update of a real network
    assert row.note["plain_us"] > 1000


def test_a_share_too_small_to_measure_has_no_ratio_and_says_why() -> None:
    row = Row(name="a", unit="%", ours=-0.3, peer=5.0, peer_name="limit").as_json("svrl bench")
    assert row["ratio"] is None
    assert "not above 0" in row["why_no_ratio"]


def test_what_is_missing_names_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integrations, "_version", lambda package: None)
    with pytest.raises(MissingPeerError, match=r"pip install 'svrl\[torchrl\]'"):
        next(measure_integrations(True, ["torchrl"]))
    with pytest.raises(MissingPeerError, match="pip install"):
        next(measure_integrations(True))


def test_a_wrong_name(svrl) -> None:
    answer = svrl("bench", "integrations", "sb4")
    assert answer.exit_code == 2
    assert "There is no integration 'sb4'" in answer.stderr
