from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from svrl.paper.cell import Cell, Kind
from svrl.paper.running import Computer
from svrl.paper.store import Store

from . import small_experiment as small


class Heard:
    def __init__(self):
        self.calls = []

    def begins(self, cell):
        self.calls.append(("begins", cell.settings["x"]))

    def goes_on(self, cell, share):
        self.calls.append(("goes on", share))

    def ends(self, cell):
        self.calls.append(("ends", cell.settings["x"]))


def kind(compute):
    return Kind(name=compute.__name__, version=1, compute=compute)


@pytest.fixture
def store(tmp_path):
    return Store(root=tmp_path / "cells")


def test_cells_are_computed_once_each_and_kept(store):
    heard = Heard()
    computed = Computer(store=store, command="svrl paper run fig1").compute(
        [small.cell(2), small.cell(3), small.cell(2)], heard
    )
    assert [cell.settings["x"] for cell in computed.done] == [2, 3]
    assert heard.calls[:3] == [("begins", 2), ("goes on", 0.5), ("ends", 2)]
    kept = store.read(small.cell(3))
    assert kept.rows == [{"value": 9}]
    assert kept.provenance["command"] == "svrl paper run fig1"
    assert kept.provenance["torch"] == torch.__version__
    assert kept.provenance["seconds"] >= 0


@pytest.mark.slow  # the kinds that do their long part together are computed by two processes, too
def test_several_processes_keep_the_same_cells(store, tmp_path):
    cells = [small.cell(x) for x in range(5)]
    computed = Computer(store=store, jobs=2).compute(cells)
    assert {cell.settings["x"] for cell in computed.done} == set(range(5))
    alone = Store(root=tmp_path / "alone")
    Computer(store=alone).compute(cells)
    for cell in cells:
        assert store.read(cell).rows == alone.read(cell).rows


def test_an_interruption_keeps_what_is_done_and_the_rest_goes_on(store):
    cells = [small.cell(2), Cell(kind=kind(small.interrupted), settings={"x": 0}), small.cell(3)]
    with pytest.raises(KeyboardInterrupt):
        Computer(store=store).compute(cells)
    assert store.read(cells[0]) is not None
    assert store.begun(cells[1])
    assert store.read(cells[2]) is None
    Computer(store=store).compute(cells[1:])
    assert store.read(cells[1]).rows == [{"value": "done"}]
    assert not store.begun(cells[1])


def test_what_is_not_installed_is_said_and_the_rest_computed(store):
    cells = [Cell(kind=kind(small.lacking), settings={"x": 1}), small.cell(2)]
    computed = Computer(store=store).compute(cells)
    assert list(computed.lacking) == ["Games need more: pip install 'svrl[atari]'"]
    assert computed.done == [cells[1]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_bug_is_not_hidden(store, jobs):
    cells = [Cell(kind=kind(small.broken), settings={"x": x}) for x in range(2)]
    with pytest.raises(ZeroDivisionError):
        Computer(store=store, jobs=jobs).compute(cells)


def test_threads_of_torch_are_as_before(store):
    before = torch.get_num_threads()
    Computer(store=store).compute([small.cell(2)])
    assert torch.get_num_threads() == before


SCRIPT = """
from pathlib import Path
from svrl.paper.cell import Cell, Kind
from svrl.paper.running import Computer
from svrl.paper.store import Store
from svrl.runtime.stop_signals import Stopped
from paper import small_experiment as small

if __name__ == "__main__":
    kind = Kind(name="endless", version=1, compute=small.endless)
    cells = [Cell(kind=kind, settings={"x": x}) for x in range(4)]
    try:
        Computer(store=Store(root=Path("cells")), jobs=2).compute(cells)
    except (KeyboardInterrupt, Stopped):
        print("stopped")
"""


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_several_processes_stop_and_begin_nothing_new(tmp_path, number):
    (tmp_path / "run.py").write_text(SCRIPT)
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "run.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(list(tmp_path.rglob("begun"))) < 2:
        assert process.poll() is None
        time.sleep(0.1)
    # A terminal tells Ctrl-C to everybody; whoever ends a job tells its first process, and timeout(1) tells it twice.
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid, number)
        time.sleep(0.01)
        os.kill(process.pid, number)
    assert process.communicate()[0] == "stopped\n"
    assert len(list(tmp_path.rglob("begun"))) == len(list(tmp_path.rglob("ended"))) == 2
    assert list(tmp_path.rglob("*.json")) == []


def test_an_environment_that_lacks_its_package_is_said_too(store):
    def lacks(settings, work):
        raise ValueError('Atari needs ale-py: pip install "svrl[atari]"')

    computed = Computer(store=store).compute([Cell(kind=kind(lacks), settings={"x": 1}), small.cell(2)])
    assert list(computed.lacking) == ['Atari needs ale-py: pip install "svrl[atari]"']
    assert len(computed.done) == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_kinds_that_can_do_their_long_part_together(store, jobs):
    cells = [small.cell(1, small.IN_HALVES), small.cell(5), small.cell(2, small.IN_HALVES), small.cell(6)]
    heard = Heard()
    computed = Computer(store=store, jobs=jobs, together=3).compute(cells, heard)
    assert {cell.key for cell in computed.done} == {cell.key for cell in cells}
    found = [store.read(cell) for cell in cells]
    assert [kept.rows[0]["value"] for kept in found] == ["2 cells, 3 at a time", 25, "2 cells, 3 at a time", 36]
    # The time of the long part is that of its cell, and the others have only their own.
    seconds = [kept.provenance["seconds"] for kept in found]
    assert 1000.0 <= seconds[0] < 2000.0 <= seconds[2] < 3000.0
    assert max(seconds[1], seconds[3]) < 1000.0
    assert heard.calls[:3] == [("begins", 1), ("goes on", 0.75), ("goes on", 0.75)]
    assert sum(call[0] == "ends" for call in heard.calls) == 4
    assert not any(store.begun(cell) for cell in cells)


@pytest.mark.parametrize(("xs", "together"), [((1,), 4), ((1, 2, 3), 1)])
def test_a_single_cell_or_one_at_a_time_is_computed_as_before(store, xs, together):
    cells = [small.cell(x, small.IN_HALVES) for x in xs]
    Computer(store=store, together=together).compute([*cells, small.cell(9)])
    for cell in cells:
        kept = store.read(cell)
        assert kept.rows == [{"value": "alone"}]
        assert kept.provenance["seconds"] < 1000.0
    assert store.read(small.cell(9)).rows == [{"value": 81}]
