"""svrl bench: which measurement a device gets, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
import torch
from typer.testing import CliRunner

from svrl.benchmarks.rows import Row
from svrl.cli import bench
from svrl.cli.main import app

NO_CARD = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which every device is found, and is a card."""
    monkeypatch.setattr(bench, "check_device", lambda name: torch.device("cuda"))


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["bench", *words])
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


@NO_CARD
@pytest.mark.parametrize("what", ["planning", "update", "train"])
def test_a_card_that_is_not_there_is_named(what: str) -> None:
    code, out, told = run(what, "--quick", "--device", "cuda:3")
    assert (code, out) == (2, "")
    assert told.startswith("Error: cuda:3 is not available: torch finds")


@pytest.mark.parametrize("what", ["planning", "update", "train"])
def test_a_device_that_nobody_knows_is_refused(what: str) -> None:
    code, _, told = run(what, "--quick", "--device", "abacus")
    assert code == 2
    assert told == "Error: There is no device 'abacus'. Use cpu, cuda or cuda:N."


@pytest.mark.parametrize("words", [(), ("--device", "cpu")])
def test_training_loops_on_the_cpu_are_refused_unless_quick(words: tuple[str, ...]) -> None:
    code, out, told = run("train", *words)
    assert (code, out) == (2, "")
    assert told.startswith("Error: svrl bench train is about cards")
    assert told.endswith("Use --device cuda where there is a card, or --quick to see that it runs.")


@pytest.mark.parametrize("what", ["planning", "update", "train"])
@pytest.mark.parametrize("quick", [False, True])
def test_a_card_gets_its_own_measurement(what: str, quick: bool, card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(quick: bool, device: str) -> Iterator[Row]:
        asked.append((quick, device))
        yield Row(name="a row", unit="us", ours=2.0, peer=3.0, peer_name="limit", note={"bar": 1})

    monkeypatch.setattr(f"svrl.benchmarks.{what}_device.measure_{what}_device", measure)
    code, out, _ = run(what, "--device", "cuda:1", "--json", *(["--quick"] if quick else []))
    assert code == 0
    (row,) = json.loads(out)
    assert asked == [(quick, "cuda:1")]
    assert row["command"] == f"svrl bench {what}{' --quick' if quick else ''} --device cuda:1"
    assert (row["ratio"], row["bar"]) == (1.5, 1)


def test_planning_on_a_device_end_to_end(card: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU stands in for the card."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    code, out, told = run("planning", "--quick", "--json", "--device", "cpu")
    assert code == 0, told
    assert "400x100 full sweep on cpu, against its floor" in [row["name"] for row in json.loads(out)]


def test_help_says_what_a_card_gets() -> None:
    for what in ("planning", "update", "train"):
        code, out, _ = run(what, "--help")
        assert code == 0
        assert "--device" in out
        assert "On a card:" in out or "on a card" in out
