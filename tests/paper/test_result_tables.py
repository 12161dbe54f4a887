"""The script that prints the tables of docs/evidence.md, on the committed runs."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ATARI = ("atari_batch_size", "--env", "seaquest", "--batch-size", "128")


def printed(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tables.py", *words])
    runpy.run_path(str(ROOT / "results" / "tables.py"), run_name="__main__")


@pytest.mark.parametrize(
    ("words", "lines", "on_the_page"),
    [
        (ATARI, ("  score, last 100 games +227 [128, 326]",), "by 227 points [128, 326] (last 100 games; Welch)"),
        (
            ("control_ways", "--env", "mountain-car"),
            ("| policy loss |", "authors beats plain by policy loss, 1 environments: probability of improvement 0.10"),
            "mountain car (.10 [.00, .27])",
        ),
    ],
)
def test_the_numbers_of_the_page(
    words: tuple[str, ...],
    lines: tuple[str, ...],
    on_the_page: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    printed(words, monkeypatch)
    shown = capsys.readouterr().out
    assert all(line in shown for line in lines)
    assert on_the_page in (ROOT / "docs" / "evidence.md").read_text()


def test_what_is_not_complete_is_said(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SystemExit, match=r"Nothing that was asked for is complete\. There is: Alien, "):
        printed(("atari_learning", "--env", "gopher"), monkeypatch)
