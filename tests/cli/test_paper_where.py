from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from svrl.cli.paper_progress import CellProgress
from svrl.cli.paper_work import fits
from svrl.paper.catalogue import load_experiment

ARMS = ("dqn", "sv-dqn")
"""Of CartPole at smoke scale, one seed each."""


def kept(store: Path) -> dict[str, dict]:
    """Cells of a store, by arm."""
    found = [json.loads(path.read_text()) for path in store.rglob("*.json") if ".work" not in str(path)]
    assert len({cell["settings"]["arm"] for cell in found}) == len(found)
    return {cell["settings"]["arm"]: cell for cell in found}


@pytest.fixture
def run(svrl, tmp_path):
    """`svrl paper run cartpole` with a store of its own."""

    def run(*options: object):
        return svrl("paper", "run", "cartpole", *options, "--store", tmp_path / "cells", "--out", tmp_path / "out")

    return run


def test_only_cells_that_fit_are_computed(run, tmp_path):
    assert [cell.settings["arm"] for cell in load_experiment("cartpole_learning").budgets["smoke"].cells] == list(ARMS)
    shown = run("--where", "arm=sv-dqn", "--where", "seed=0")
    assert shown.exit_code == 0, shown.stderr
    assert "1 cells to compute" in shown.stderr
    found = kept(tmp_path / "cells")
    assert list(found) == ["sv-dqn"]
    assert "written:" not in shown.stdout  # the figure needs the other arm too
    command = "svrl paper run cartpole --scale smoke --where arm=sv-dqn --where seed=0 --jobs 1"
    assert found["sv-dqn"]["provenance"]["command"] == command
    shown = run("--where", "arm=dqn,sv-dqn")
    assert "1 cells to compute" in shown.stderr
    assert set(kept(tmp_path / "cells")) == set(ARMS)
    assert f"written: {tmp_path / 'out' / 'cartpole-smoke.svg'}" in shown.stdout


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("weather=rain", "No cell of these figures at smoke scale has weather=rain. None has such a setting."),
        ("arm=sarsa", "No cell of these figures at smoke scale has arm=sarsa. There are dqn, sv-dqn."),
        ("arm=dqn,sarsa", "No cell of these figures at smoke scale has arm=sarsa. There are dqn, sv-dqn."),
        ("seed=7", "No cell of these figures at smoke scale has seed=7. There are 0."),
        # What other figures have is no help here.
        ("arm=dueling", "No cell of these figures at smoke scale has arm=dueling. There are dqn, sv-dqn."),
        ("env=minatar/breakout", "at smoke scale has env=minatar/breakout. There are CartPole-v1."),
        ("dqn", "--where takes NAME=VALUE, as in env=atari/frostbite or seed=0,1; got 'dqn'."),
        ("=dqn", "--where takes NAME=VALUE, as in env=atari/frostbite or seed=0,1; got '=dqn'."),
        ("arm=", "--where takes NAME=VALUE, as in env=atari/frostbite or seed=0,1; got 'arm='."),
    ],
)
def test_what_no_cell_has_is_refused_before_any_work(run, tmp_path, where, words):
    shown = run("--where", where)
    assert shown.exit_code == 2
    assert words in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "cells").exists()


def test_short_is_a_scale(svrl, svrl_json, tmp_path):
    rows = {row["figure"]: row for row in svrl_json("paper", "list", "--scale", "short", "--store", tmp_path)}
    assert {row["scale"] for row in rows.values()} == {"short"}
    assert rows["values"]["cells"] == 57 * 3 * 3
    assert (rows["minatar"]["cells"], rows["cartpole"]["cells"]) == (5 * 3 * 10, 0)
    shown = svrl("paper", "run", "fig7", "--scale", "short", "--where", "env=atari/tetris", "--store", tmp_path)
    assert shown.exit_code == 2
    assert "No cell of these figures at short scale has env=atari/tetris. There are atari/alien, " in shown.stderr


def test_settings_of_the_agent_can_be_asked_for(svrl, tmp_path):
    """Batches of 128 are a change of the preset, those of 32 are the preset's, and an arm has settings of its own."""
    cells = load_experiment("atari_batch_size").budgets["short"].cells
    for size in (32, 64, 128):
        found = [cell for cell in cells if fits(cell, {"batch_size": (str(size),), "env": ("atari/seaquest",)})]
        assert len(found) == 3 * 3
        assert {cell.settings["overrides"].get("batch_size", 32) for cell in found} == {size}
        assert {cell.settings["env"] for cell in found} == {"atari/seaquest"}
    ours = [cell for cell in cells if fits(cell, {"value": ("network",)})]
    assert {cell.settings["arm"] for cell in ours} == {"sv-dqn-network"}
    shown = svrl("paper", "run", "fig30", "--scale", "short", "--where", "batch_size=96", "--store", tmp_path)
    assert shown.exit_code == 2
    assert "No cell of these figures at short scale has batch_size=96. There are 128, 32, 64." in shown.stderr


def test_trainings_at_a_time_are_in_the_command(run, tmp_path):
    shown = run("--together", 2)
    assert shown.exit_code == 0, shown.stderr
    found = kept(tmp_path / "cells")
    assert set(found) == set(ARMS)
    for cell in found.values():
        assert cell["provenance"]["command"] == "svrl paper run cartpole --scale smoke --together 2 --jobs 1"
        assert cell["provenance"]["seconds"] > 0.0


def test_trainings_at_a_time_stop_and_go_on(run, tmp_path, monkeypatch):
    told: dict[str, list[float]] = {}
    stopped: list[str] = []
    lock = threading.Lock()

    def stop(self, cell, share):
        with lock:
            told.setdefault(cell.settings["arm"], []).append(share)
            if share > 0.5 and len(told) == 2 and not stopped:  # a second signal would end the process
                stopped.append(cell.settings["arm"])
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)  # the main thread hears it

    with monkeypatch.context() as patch:
        patch.setattr(CellProgress, "goes_on", stop)
        shown = run("--together", 2)
    assert shown.exit_code == 130
    assert "Stopped; what was done is kept, and the same command goes on from there." in shown.stderr
    assert kept(tmp_path / "cells") == {}
    told.clear()
    with monkeypatch.context() as patch:
        patch.setattr(
            CellProgress,
            "goes_on",
            lambda self, cell, share: told.setdefault(cell.settings["arm"], []).append(share),
        )
        shown = run("--together", 2)
    assert shown.exit_code == 0, shown.stderr
    assert "2 cells to compute, 2 of them begun before" in shown.stderr
    assert min(told[stopped[0]]) > 0.5  # it did not begin anew
    assert set(kept(tmp_path / "cells")) == set(ARMS)


@pytest.mark.parametrize("number", ["0", "65"])
def test_trainings_at_a_time_are_between_1_and_64(run, number):
    assert run("--together", number).exit_code == 2
