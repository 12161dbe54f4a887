"""The files of a run at one moment, taken while the run goes on and ends."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest
from tests.agents.checkpoint_rig import Rig

from svrl.agents.checkpoint import Checkpoints
from svrl.runs.rows import RowLog, last_rows
from svrl.runs.training_run import TrainingRun
from svrl.sweeps.frozen_run import freeze


def written(frozen: dict, into: Path) -> Path:
    """What the store would have of it."""
    shutil.rmtree(into, ignore_errors=True)
    for name, file in frozen.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_bytes(file.path.read_bytes() if file.is_large else file.content())
    return into


@pytest.mark.parametrize("links", [True, False])
def test_every_moment_of_a_run_can_be_gone_on_with(
    tmp_path: Path, links: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr("os.link", _no_links)
    work = tmp_path / "work"
    work.mkdir()
    run = TrainingRun.begin(work / "run", {"steps": 1})
    rig = Rig(work / "run", capacity=40)
    over = threading.Event()

    def train() -> None:
        with RowLog(work / "run" / "episodes.jsonl", seconds=0.0) as rows:
            for _ in range(150):
                rig.step(3)
                rows.append({"steps": rig.replay.made, "text": "x" * 200})
                rows.flush()
                rig.save()
                rig.step(1)
                rows.append({"steps": rig.replay.made, "text": "later than the checkpoint"})
        run.finish({"score": 1.0}, keep_state=False)
        over.set()

    training = threading.Thread(target=train)
    training.start()
    moments, steps = 0, set()
    while True:
        ended = over.is_set()
        frozen = freeze(work, tmp_path / "frozen")
        kept = written(frozen, tmp_path / "kept") / "run"
        last = last_rows(kept / "episodes.jsonl", 1)
        if (kept / "result.json").exists():
            assert last[0]["steps"] == rig.replay.made
        elif (kept / "checkpoints").exists():
            loaded = Checkpoints(kept).load(rig.empty())
            assert loaded is not None
            assert loaded.note is None
            assert last[0]["steps"] >= loaded.state["steps"]
            moments += 1
            steps.add(loaded.state["steps"])
        else:
            assert not steps  # never a run without its checkpoints, after it had some
        if ended:
            break
    training.join()
    assert "run/result.json" in frozen
    assert min(moments, len(steps)) >= 3
    again = freeze(work, tmp_path / "frozen")
    assert {name: file.stamp for name, file in again.items()} == {name: file.stamp for name, file in frozen.items()}
    assert {name for name in frozen if "checkpoints" in name or "replay" in name} == set()


def _no_links(*_: object) -> None:
    raise PermissionError("this disk has no hard links")
