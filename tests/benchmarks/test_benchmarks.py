"""Each benchmark runs, and all competitors have solved the same problem. Nothing here is about speed."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import benchmarks
from benchmarks import __main__ as program
from benchmarks import authors, integrations, matrix, planning, rows, train, update
from benchmarks.rows import Row
from svrl.agents.structured_targets import StructuredTargets
from svrl.matrix import SoftImpute
from svrl.mdp.grid import GridMDP
from svrl.mdp.tasks import inverted_pendulum

CPU = torch.device("cpu")
RESULTS = Path(__file__).parents[2] / "results"
TASK = inverted_pendulum(states=(9, 7), actions=11)
MODULES = {"sb3": "stable_baselines3", "sb3-contrib": "sb3_contrib", "rllib": "ray", "cleanrl": "torch"}
# Not pytest.importorskip: fancyimpute must be imported by `authors` alone, which translates a call of it.
NEEDS_FANCYIMPUTE = pytest.mark.skipif(importlib.util.find_spec("fancyimpute") is None, reason="needs fancyimpute")


def sane(measured: list[Row]) -> list[Row]:
    """The rows, if each has two numbers above 0 and a ratio."""
    assert measured
    for row in measured:
        assert row.ours > 0, row
        assert row.peer > 0, row
        assert row.ratio == row.peer / row.ours
    return measured


# What a row is, and the command.


ROW = Row(name="a thing", unit="us", ours=2.0, peer=50.0, peer_name="somebody", note={"steps": 3})


def test_a_row_is_written_with_its_ratio_and_the_median_of_the_best_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (ROW.as_json()["ratio"], ROW.as_json()["steps"]) == (25.0, 3)
    small = Row(name="a", unit="%", ours=-0.3, peer=5.0, peer_name="limit").as_json()
    assert small["ratio"] is None
    assert "not above 0" in small["why_no_ratio"]
    times = iter([3.0, 1.0, 5.0, 4.0, 9.0, 8.0])
    monkeypatch.setattr(rows, "timed", lambda work, clock: (next(times), work()))
    assert rows.median_seconds([(int,), (int,), (int,)], repeats=2) == [4.0]


def test_who_begins_changes_from_round_to_round() -> None:
    order: list[str] = []
    rows.in_turns([[lambda: order.append("a"), lambda: order.append("b")]] * 2, repeats=2)
    assert order == [*"aabb", *"bbaa"]


def test_the_command_prints_a_table_and_writes_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(matrix, "parts", lambda quick, device: {"a": lambda: [ROW] if quick and device == CPU else []})
    file = tmp_path / "rows.json"
    assert program.main(["matrix", "--quick", "--json", str(file)]) == 0
    told = capsys.readouterr()
    assert "25.00" in told.out
    assert "somebody" in told.out
    assert "a thing" in told.err
    written = json.loads(file.read_text())
    assert {"machine", "python", "seconds"} <= set(written)
    assert written["command"] == f"python -m benchmarks matrix --quick --json {file}"
    assert written["torch"] == torch.__version__
    assert "numpy" not in written["peers"]
    assert written["rows"] == [ROW.as_json()]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["matrix", "--device", "abacus"], "There is no device 'abacus'."),
        (["matrix", "--device", "cuda:99"], "cuda:99 is not available"),
        (["matrix", "--json", "nowhere/rows.json"], "the folder nowhere does not exist"),
    ],
)
def test_what_cannot_be_measured(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(words) == 2
    assert sentence in capsys.readouterr().err


def test_a_missing_peer_is_one_row_that_says_what_to_install_and_the_rest_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in ("fancyimpute", "mdpsolver", "quantecon"):
        monkeypatch.setitem(sys.modules, module, None)
    authors._fancyimpute.cache_clear()
    assert program.main(["matrix", "--quick"]) == 2, "nothing was measured"
    file = tmp_path / "rows.json"
    assert program.main(["matrix", "planning", "--quick", "--json", str(file)]) == 0
    found = json.loads(file.read_text())["rows"]
    assert [row["name"] for row in found if "missing" in row] == [
        "small matrices against fancyimpute",
        "a large matrix against fancyimpute",
        "a full sweep against QuantEcon",
        "the optimum against QuantEcon",
        "the optimum against mdpsolver",
    ]
    assert [row["peer_name"] for row in found if "missing" not in row] == ["SciPy CSR"]
    said = "Not measured: the optimum against mdpsolver. mdpsolver is missing. Run: pip install 'svrl[bench]'"
    assert said in capsys.readouterr().out


def test_rows_before_a_missing_package_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def part() -> Iterator[Row]:
        yield ROW
        integrations.LIBRARIES["torchrl"].updates()

    monkeypatch.setattr(integrations, "version", lambda package: None)
    monkeypatch.setattr(matrix, "parts", lambda quick, device: {"one": part, "other": lambda: [ROW]})
    found: list[Row] = []
    missing: dict[str, str] = {}
    program.measure("matrix", False, CPU, found, missing)
    assert found == [ROW, ROW]
    assert missing == {"one": "torchrl is missing. Run: pip install 'svrl[torchrl]'"}


def test_committed_rows_can_be_read() -> None:
    def all_rows(value: object) -> list[dict]:
        parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        found = [value] if isinstance(value, dict) and {"name", "ours", "peer"} <= set(value) else []
        return found + [row for part in parts for row in all_rows(part)]

    files = sorted(RESULTS.glob("bench_*.json"))
    assert files
    for file in files:
        found = all_rows(json.loads(file.read_text()))
        assert found, file
        for row in found:
            assert not row["ratio"] or math.isclose(row["ratio"], row["peer"] / row["ours"], rel_tol=1e-4), file


def test_every_benchmark_is_offered() -> None:
    folder = Path(benchmarks.__file__).parent
    measuring = {file.stem for file in folder.glob("*.py") if "\ndef parts(" in file.read_text()}
    assert set(program.BENCHMARKS) == measuring


# Matrices.


@NEEDS_FANCYIMPUTE
def test_matrix() -> None:
    small = sane([*matrix.measure_small(matrix.FAMILIES, (1, 3), 2, CPU)])
    notes = [row.note for row in small if "one matrix" in row.name]
    assert len(notes) == 4
    # At the same stopping rule ours must not be the less exact one.
    assert all(note["ours_distance_to_optimum"] <= note["peer_distance_to_optimum"] for note in notes)
    large = sane([*matrix.measure_large(120, 80)])
    assert [row.note["objective"] <= row.note["peer_objective"] for row in large] == [True, True]
    # The CPU stands in for the GPU.
    assert [row.note["relative_difference"] for row in sane([*matrix.measure_against_cpu([(60, 40)], CPU)])] == [0, 0]


@NEEDS_FANCYIMPUTE
def test_the_authors_values_are_those_of_structured_targets() -> None:
    rng = np.random.default_rng(0)
    q = (rng.standard_normal((32, 3)) @ rng.standard_normal((3, 18)) + 2).astype(np.float32)
    observed = torch.from_numpy(np.random.default_rng(1).random(q.shape) < 0.9)
    ours = StructuredTargets(scale="minmax", estimator=SoftImpute.authors()).complete(torch.from_numpy(q), observed)
    found = authors.complete_values(q, np.random.default_rng(1))
    assert found.dtype == np.float32
    assert np.abs(found - ours.matrix.numpy()).max() < 1e-4 * (q.max() - q.min())
    assert np.abs(found - q).max() > 1e-3
    assert np.array_equal(authors.complete_values(np.full((4, 3), 5.0), rng), np.full((4, 3), 5.0))


# Planning.


def test_planning() -> None:
    pytest.importorskip("quantecon")
    pytest.importorskip("mdpsolver")
    threads = torch.get_num_threads()
    with planning.one_thread():
        assert torch.get_num_threads() == 1
    sweeps = sane([row for name in planning.SWEEPS for row in planning.measure_sweep(TASK, name)])
    optima = sane([row for name in planning.SOLVERS for row in planning.measure_optimum(TASK, name)])
    assert torch.get_num_threads() == threads
    assert [row.peer_name for row in (*sweeps, *optima)] == ["QuantEcon", "SciPy CSR", "QuantEcon", "mdpsolver"]
    assert all(row.note["sup_distance"] <= 1e-13 for row in sweeps)
    for row in optima:
        assert max(row.note["ours_residual"], row.note["peer_residual"]) <= 1e-6
        assert row.note["sup_distance"] <= 20 * (row.note["ours_residual"] + row.note["peer_residual"])
        assert row.note["peer_solve_s"] == min(row.note["peer_all_solve_s"].values())


def test_the_planning_peers_get_the_same_problem() -> None:
    arrays, model = planning.pair_arrays(TASK), GridMDP(TASK)
    v = torch.linspace(-4.0, 3.0, 63, dtype=torch.float64)
    q = arrays.reward + arrays.gamma * (arrays.transitions @ v.numpy())
    assert np.abs(q.reshape(63, 11) - model.backup(v).numpy()).max() <= 1e-14
    assert np.allclose(arrays.transitions.sum(1), 1.0)


def test_planning_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "usable_cores", lambda: 1)
    found = sane(list(planning.measure_device(True, CPU)))
    assert [row.name for row in found] == [
        "400x100 full sweep on cpu",
        "400x100 iteration of cross on cpu",
        "400x100 iteration of svp on cpu",
    ]
    assert found[0].note["sup_distance"] == 0.0


# Updates and loops.


@NEEDS_FANCYIMPUTE
def test_update() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("stable_baselines3")
    assert all(0 < row.ours < row.peer < 100 for row in sane(list(update.measure_share(60, 1))))


@NEEDS_FANCYIMPUTE
def test_update_on_a_device() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("stable_baselines3")
    found = list(update.measure_device(CPU, agents=("dqn",), batches=(8,), burst=2, rounds=2, steps=8))
    assert [row.unit for row in found] == ["%", "us", "us"]
    assert len(found[0].note["shares"]) == 2
    sane(found[1:])


def test_train() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("stable_baselines3")
    found = sane([row for part in train.parts(True, CPU).values() for row in part()])
    assert [row.name for row in found] == ["whole DQN loop, CartPole-v1"] * 3 + ["whole DQN loop, atari/frostbite"]
    assert [row.peer_name for row in found[1:3]] == ["a loop in a single file", "svrl with structure"]


@NEEDS_FANCYIMPUTE
def test_train_on_a_device() -> None:
    pytest.importorskip("ale_py")
    pytest.importorskip("stable_baselines3")
    small = {"n_envs": 2, "start": 40, "warm": 48, "seconds_each": 0.05, "peer_steps": 8}
    found = sane([row for structured in (False, True) for row in train.measure_on_gpu(CPU, structured, **small)])
    assert ["sv-dqn" in row.name for row in found] == [False, False, True, True]
    assert [row.peer_name for row in found[::2]] == ["the emulator alone"] * 2


# Other integrations.


def test_what_structure_adds() -> None:
    def busy(length: float) -> None:
        began = time.process_time()
        while time.process_time() - began < length:
            pass

    made = integrations.Library("a library", "numpy", "bench", lambda: (lambda: busy(0.003), lambda: busy(0.004)))
    (row,) = integrations.measure_share(made, 9)
    assert row.ours == pytest.approx(100 / 3, abs=8)
    low, high = row.note["interval"]
    assert low <= row.ours <= high
    assert row.note["library"].startswith("numpy ")


@pytest.mark.parametrize("name", integrations.LIBRARIES)
def test_each_library_makes_updates(name: str) -> None:
    pytest.importorskip(MODULES.get(name, name), reason="make test or make test-integrations has it")
    (row,) = integrations.measure_share(integrations.LIBRARIES[name], 2)
    assert min(row.note["structured_us"], row.note["plain_us"]) > 1000  # a real update of a real network
