"""Planning on a card against the CPU: both must have worked on the same problem. Nothing here is about speed."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from svrl.benchmarks.planning_device import copy_bandwidth, measure_planning_device
from svrl.benchmarks.rows import Row

NEEDS_CUDA = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=NEEDS_CUDA)])
def measured(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[Row]]]:
    with pytest.MonkeyPatch.context() as patch:
        # One core: torch's threads would wait for each other on a machine that has other work.
        patch.setattr(os, "sched_getaffinity", lambda process: {0})
        yield request.param, list(measure_planning_device(quick=True, device=request.param))


def test_everything_is_measured_against_the_cpu(measured: tuple[str, list[Row]]):
    device, rows = measured
    cpu = "CPU, 1 thread"
    assert [(row.name, row.peer_name) for row in rows] == [
        (f"400x100 full sweep on {device}", cpu),
        (f"400x100 full sweep on {device}, against its floor", "the table's bytes over copy bandwidth"),
        (f"400x100 iteration of cross on {device}", cpu),
        (f"400x100 iteration of svp on {device}", cpu),
    ]
    assert all(row.unit == "s" and row.ours > 0.0 and row.peer > 0.0 for row in rows)
    assert [row.note["threads"] for row in rows if row.peer_name == cpu] == [1, 1, 1]


def test_sweeps_agree(measured: tuple[str, list[Row]]):
    device, rows = measured
    # Values of size 5 in single precision; sines and cosines of two devices differ in their last bit.
    assert rows[0].note["sup_distance"] <= (0.0 if device == "cpu" else 1e-4)


def test_the_floor_is_the_compact_table_over_the_bandwidth(measured: tuple[str, list[Row]]):
    sweep, floor = measured[1][:2]
    assert floor.note["table_bytes"] == 400 * 100 * 16  # int32 cell, two fractions, a reward
    assert floor.peer == floor.note["table_bytes"] / floor.note["bytes_per_second"]
    assert floor.ours == sweep.ours


def test_an_iteration_is_no_shorter_than_its_parts(measured: tuple[str, list[Row]]):
    for row in measured[1][2:]:
        for who in ("ours", "peer"):
            parts = [row.note[f"{who}_{part}_s"] for part in ("backup", "estimate")]
            assert all(part > 0.0 for part in parts)
            assert max(parts) < getattr(row, who)


def test_a_copy_moves_its_bytes_twice(monkeypatch: pytest.MonkeyPatch):
    # A clock of half a second a copy: a thousand bytes read and as many written are 4000 a second.
    def half(work: object) -> float:
        work()  # type: ignore[operator]
        return 0.5

    monkeypatch.setattr("svrl.benchmarks.planning_device.seconds", half)
    assert copy_bandwidth(1000, torch.device("cpu")) == 4000.0


def test_threads_are_given_back_when_a_reader_leaves(monkeypatch: pytest.MonkeyPatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(before + 1)))
    rows = measure_planning_device(quick=True, device="cpu")
    assert next(rows).note["threads"] == before + 1
    assert torch.get_num_threads() == before + 1
    rows.close()  # type: ignore[attr-defined]
    assert torch.get_num_threads() == before


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_card_is_named():
    with pytest.raises(ValueError, match="Planning on cuda needs a CUDA device"):
        next(measure_planning_device(quick=True, device="cuda"))
