"""Trainings of several cells in one process: each is what it would have been alone."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from svrl.paper.cell import Cell, CellResult, Work
from svrl.paper.experiments.trainings import training_cell
from svrl.paper.running import Computer
from svrl.paper.store import Store
from svrl.paper.training_cells.compute import TRAINING, Share
from svrl.paper.training_cells.together import train_together
from svrl.runtime.stop_signals import Stopped

Tell = Callable[[float], None]


def cell(arm: str, seed: int, env: str = "CartPole-v1") -> Cell:
    return training_cell(
        env=env, arm=arm, seed=seed, preset="smoke", steps=300, overrides={"hidden": [16]}, batches=20, states=40
    )


CELLS = (cell("dqn", 0), cell("sv-dqn", 1), cell("double", 2))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pictures, which take longer than everything else."""
    monkeypatch.setattr("svrl.plots.style.save_figure", lambda figure, path: path.write_bytes(b"picture"))


def works(place: Path, tells: Sequence[Tell] = (), cells: Sequence[Cell] = CELLS) -> list[tuple[Any, Work]]:
    """Cells and a folder each; `tells` hear how the first of them go."""
    heard = [*tells, *[lambda share: None] * len(cells)]
    return [
        (one.settings, Work(folder=place / one.key, progress=tell)) for one, tell in zip(cells, heard, strict=False)
    ]


def told_alike(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All but the row that says how fast it was."""
    return [row for row in rows if row["what"] != "speed"]


def computed(place: Path, one: Cell, tell: Tell = lambda share: None) -> CellResult:
    return one.kind.compute(one.settings, Work(folder=place / one.key, progress=tell))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """Rows of each cell, computed by itself."""
    place = tmp_path_factory.mktemp("alone")
    return [told_alike(computed(place, one).rows) for one in CELLS]


def test_trained_together_or_alone_the_rows_are_the_same(tmp_path: Path, alone: list[list[dict[str, Any]]]):
    seen: list[set[str]] = []
    shares: list[list[float]] = [[] for _ in CELLS]

    def telling(at: int) -> Tell:
        def tell(share: float) -> None:
            seen.append({thread.name for thread in threading.enumerate() if thread.name.startswith("run ")})
            shares[at].append(share)

        return tell

    seconds = train_together(works(tmp_path, [telling(at) for at in range(3)]), together=2)
    assert set.union(*seen) == {"run 0", "run 1"}
    assert {"run 0", "run 1"} in seen
    assert all(took > 0.0 for took in seconds)
    for told in shares:
        assert told == sorted(told)
        assert told[-1] == pytest.approx(TRAINING)
    for one, rows in zip(CELLS, alone, strict=True):
        later: list[float] = []
        assert told_alike(computed(tmp_path, one, later.append).rows) == rows
        assert min(later) > TRAINING  # only the study was left


def test_the_rows_of_different_cells_differ(alone: list[list[dict[str, Any]]]):
    assert alone[0] != alone[1] != alone[2] != alone[0]


def test_what_is_finished_is_not_trained_again(tmp_path: Path):
    (first,) = train_together(works(tmp_path, cells=CELLS[:1]), together=2)
    assert first > 0.0
    folder = tmp_path / CELLS[0].key
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    told: list[float] = []
    seconds = train_together(works(tmp_path, [told.append]), together=2)
    assert (seconds[0], told) == (0.0, [])
    assert min(seconds[1:]) > 0.0
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert train_together(works(tmp_path, [told.append]), together=2) == [0.0, 0.0, 0.0]
    assert told == []


@pytest.mark.parametrize("how", ["listener", "signal"])
def test_trainings_that_were_interrupted_go_on(tmp_path: Path, how: str, alone: list[list[dict[str, Any]]]):
    stops: list[float] = []

    def stop(share: float) -> None:
        if share > 0.5 and not stops:  # a second signal would end the process
            stops.append(share)
            if how == "listener":
                raise Stopped(signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.8)  # the main thread listens twice a second

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Stopped) as stopped:
        train_together(works(tmp_path, [stop]), together=2)
    assert stopped.value.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    first = tmp_path / CELLS[0].key / "run"
    assert (first / "config.json").exists()
    assert not (first / "result.json").exists()
    shares: list[float] = []
    seconds = train_together(works(tmp_path, [shares.append]), together=3)
    assert shares[0] > 0.5  # it did not begin anew
    assert seconds[0] > 0.0
    for one, rows in zip(CELLS, alone, strict=True):
        assert told_alike(computed(tmp_path, one).rows) == rows


@pytest.mark.parametrize("together", [1, 2])
def test_a_signal_in_the_last_evaluation_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: int, alone: list[list[dict[str, Any]]]
):
    signalled: list[int] = []

    def evaluating(share: Share, done: int, of: int) -> None:
        if share._training.steps == 300 and not signalled:  # a second signal would end the process
            signalled.append(done)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.8)  # the main thread listens twice a second

    monkeypatch.setattr(Share, "evaluating", evaluating)
    with pytest.raises(Stopped) as stopped:
        train_together(works(tmp_path, cells=CELLS[:1]), together=together)
    assert (stopped.value.number, len(signalled)) == (signal.SIGTERM, 1)
    shares: list[float] = []
    train_together(works(tmp_path, [shares.append], CELLS[:1]), together=together)
    assert shares == []  # only the evaluation was left
    assert told_alike(computed(tmp_path, CELLS[0]).rows) == alone[0]


def test_another_device_is_refused_and_nothing_is_lost(tmp_path: Path):
    def stop(share: float) -> None:
        raise Stopped(signal.SIGINT)

    with pytest.raises(Stopped):
        train_together(works(tmp_path, [stop, stop], CELLS[:2]), together=2)
    elsewhere = [
        (settings, Work(folder=work.folder, device="cuda")) for settings, work in works(tmp_path, cells=CELLS[:2])
    ]
    with pytest.raises(ValueError, match="begun on cpu, and cuda was asked for"):
        train_together(elsewhere, together=2)
    assert (tmp_path / CELLS[0].key / "run" / "config.json").exists()


def test_a_failure_is_told_when_the_others_are_over(tmp_path: Path):
    broken = cell("dqn", 0, env="NoSuchThing-v0")
    outcomes = train_together(works(tmp_path, cells=(broken, *CELLS[:2])), together=2)
    assert isinstance(outcomes[0], Exception)
    assert "NoSuchThing" in str(outcomes[0])
    assert all(isinstance(outcome, float) for outcome in outcomes[1:])
    for one in CELLS[:2]:
        assert (tmp_path / one.key / "run" / "result.json").exists()


def test_a_computer_keeps_the_others_before_it_tells_of_a_failure(tmp_path: Path):
    broken = cell("dqn", 0, env="NoSuchThing-v0")
    store = Store(root=tmp_path)
    with pytest.raises(ValueError, match="NoSuchThing"):
        Computer(store=store, together=2).compute((broken, *CELLS[:2]))
    assert all(store.read(one) is not None for one in CELLS[:2])
    assert store.read(broken) is None


def test_a_computer_says_what_has_to_be_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def lacking(cells: Sequence[tuple[Any, Work]], together: int) -> list[float | Exception]:
        return [ValueError("This needs a game: pip install svrl[game].") for _ in cells]

    kind = dataclasses.replace(CELLS[0].kind, together=lacking)
    cells = [dataclasses.replace(one, kind=kind) for one in CELLS[:2]]
    done = Computer(store=Store(root=tmp_path), together=2).compute(cells)
    assert (done.done, done.lacking) == ([], {"This needs a game: pip install svrl[game].": cells})


def test_a_computer_keeps_cells_that_were_trained_together(tmp_path: Path, alone: list[list[dict[str, Any]]]):
    store = Store(root=tmp_path)
    done = Computer(store=store, together=2, command="svrl paper run cartpole").compute(CELLS)
    assert [one.key for one in done.done] == [one.key for one in CELLS]
    for one, rows in zip(CELLS, alone, strict=True):
        kept = store.read(one)
        assert kept is not None
        assert told_alike(kept.rows) == rows
        assert kept.provenance["seconds"] > 0.0
        assert kept.provenance["command"] == "svrl paper run cartpole"
        assert not store.begun(one)
