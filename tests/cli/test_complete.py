from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from svrl import FactorALS, RowMean
from svrl.matrix import ESTIMATORS, Outcome


def save(path: Path, array: object) -> Path:
    np.save(path, np.asarray(array))
    return path


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv"])
def test_reads_and_writes_each_format(svrl, tmp_path, holes, truth, ending):
    matrix = np.load(holes)
    source = tmp_path / f"in{ending}"
    if ending == ".npz":
        np.savez(source, anything=matrix)
    elif ending == ".csv":
        source.write_text("\n".join(",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in matrix))
    else:
        np.save(source, matrix)
    out = tmp_path / f"out{ending}"
    result = svrl("complete", source, "--out", out)
    assert result.exit_code == 0, result.stderr
    found = np.loadtxt(out, delimiter=",") if ending == ".csv" else np.load(out)
    found = found["matrix"] if ending == ".npz" else found
    assert np.linalg.norm(found - truth) < 1e-2 * np.linalg.norm(truth)
    seen = ~np.isnan(matrix)
    assert np.array_equal(found[seen], matrix[seen])
    for word in ("40 x 25", "rank", "iterations", "held-out error", "seconds"):
        assert word in result.stdout


@pytest.mark.parametrize("method", ESTIMATORS)
def test_json_of_every_method(svrl_json, tmp_path, holes, method):
    extra = ["--rank", 3] if method == "hard-impute" else []
    row = svrl_json("complete", holes, "--out", tmp_path / "o.npy", "--method", method, *extra)
    keys = {"shape", "observed_fraction", "method", "rank", "iterations", "converged", "held_out_error", "seconds"}
    assert keys <= set(row)
    assert row["shape"] == [40, 25]
    assert row["method"] == method
    assert 0.5 < row["observed_fraction"] < 0.7
    # Half the methods recover a rank-3 matrix; none may do worse than guessing zeros.
    assert row["held_out_error"] < (0.05 if method in ("factor-als", "nuclear-norm", "hard-impute") else 1.3)


def test_options_reach_the_estimator(svrl_json, tmp_path, holes):
    out = tmp_path / "o.npy"
    options = ("--method", "soft-impute", "--shrinkage", 0.7, "--centre", "row", "--smooth-observed")
    row = svrl_json("complete", holes, "--out", out, *options)
    assert "shrinkage=0.7" in row["estimator"]
    assert row["shrinkage"] == 0.7
    assert "centre='row'" in row["estimator"]
    seen = ~np.isnan(np.load(holes))
    assert not np.array_equal(np.load(out)[seen], np.load(holes)[seen])


def bad_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Name -> (file, words its one sentence must contain)."""
    nan = np.nan
    text = {
        "empty csv": ("", "is empty"),
        "blank csv": ("\n\n", "is empty"),
        "text in numbers": ("1,2\n3,abc\n", "Line 2, column 2"),
        "header": ("a,b\n1,2\n", "Remove the header line"),
        "ragged": ("1,2\n3\n", "Line 2"),
        "not text": ("\x00\x01", "not"),
    }
    arrays = {
        "all NaN": (np.full((4, 3), nan), "No entry is observed"),
        "infinite": ([[1.0, np.inf], [2.0, nan]], "(0, 1)"),
        "1-D": (np.arange(5.0), "two axes"),
        "3-D": (np.zeros((2, 2, 2)), "two axes"),
        "no rows": (np.zeros((0, 3)), "no entry"),
        "complex": (np.ones((2, 2), complex), "complex128"),
        "words": (np.array([["a", "b"]]), "entries"),
        "empty row": ([[1.0, 2.0], [nan, nan]], "--allow-empty"),
    }
    files = {}
    for name, (content, words) in text.items():
        path = folder / f"{name}.csv"
        path.write_text(content)
        files[name] = path, words
    for name, (array, words) in arrays.items():
        files[name] = save(folder / f"{name}.npy", array), words
    np.save(folder / "objects.npy", np.array([{}, 1], object), allow_pickle=True)
    np.savez(folder / "two.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))
    (folder / "damaged.npz").write_bytes(b"PK\x03\x04 not a zip")
    (folder / "damaged.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (folder / "nothing.npy").write_bytes(b"")
    (folder / "folder.npy").mkdir()
    os.mkfifo(folder / "pipe.npy")
    files |= {
        "objects": (folder / "objects.npy", "objects.npy"),
        "two arrays": (folder / "two.npz", "matrix"),
        "damaged zip": (folder / "damaged.npz", "damaged"),
        "damaged array": (folder / "damaged.npy", "damaged"),
        "empty file": (folder / "nothing.npy", "is empty"),
        "a pipe": (folder / "pipe.npy", "is not a regular file"),
        "a folder": (folder / "folder.npy", "folder"),
        "missing": (folder / "missing.npy", "There is no file"),
        "unknown ending": (folder / "a.npx", ".npz"),
    }
    return files


def test_bad_files_get_one_sentence_and_lose_nothing(svrl, tmp_path):
    out = save(tmp_path / "out.npy", np.eye(2))
    (tmp_path / "in").mkdir()
    for name, (path, words) in bad_files(tmp_path / "in").items():
        result = svrl("complete", path, "--out", out)
        assert result.exit_code == 2, name
        assert result.stdout == "", name
        assert words in result.stderr, (name, result.stderr)
        assert result.stderr.count("\n") == 1, (name, result.stderr)
        assert "Traceback" not in result.stderr, name
        assert np.array_equal(np.load(out), np.eye(2)), name
        assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.npy"], name


def test_a_small_archive_of_a_large_matrix_is_refused_before_it_is_unpacked(svrl, tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "small.npz", matrix=np.zeros((1000, 1000)))
    monkeypatch.setattr("svrl.cli.complete.LARGE", 0)
    monkeypatch.setattr("svrl.runtime.device.free_ram", lambda: 8e6)
    result = svrl("complete", tmp_path / "small.npz", "--out", tmp_path / "o.npy")
    assert result.exit_code == 2
    assert "small.npz holds 0.0 GB when it is unpacked" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_numbers_at_the_edge_of_the_range_are_completed(svrl_json, tmp_path, holes, truth, scale):
    source = save(tmp_path / "edge.npy", np.load(holes) * scale)
    row = svrl_json("complete", source, "--out", tmp_path / "o.npy", "--plot", tmp_path / "p.png")
    assert row["rank"] == 3
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert 0 < row["held_out_error"] < 0.05
    assert np.linalg.norm(np.load(tmp_path / "o.npy") / scale - truth) < 1e-2 * np.linalg.norm(truth)


def test_a_result_that_is_not_finite_is_not_written(svrl, tmp_path, holes, monkeypatch):
    def overflow(_, observed, **__):
        estimate = RowMean()(observed)
        return replace(estimate, dense=np.full_like(estimate.matrix, np.nan), code=np.array(Outcome.NOT_FINITE.code))

    monkeypatch.setattr(FactorALS, "__call__", overflow)
    result = svrl("complete", holes, "--out", tmp_path / "o.npy")
    assert result.exit_code == 2
    assert "nothing was written" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["holes.npy"]


def test_ctrl_c_leaves_the_old_result(tmp_path):
    rng = np.random.default_rng(0)
    source = save(tmp_path / "big.npy", np.where(rng.random((1500, 1200)) < 0.5, rng.random((1500, 1200)), np.nan))
    out = save(tmp_path / "out.npy", np.eye(2))
    command = [sys.executable, "-m", "svrl", "complete", source, "--out", out, "--method", "nuclear-norm"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    while process.poll() is None and not list(tmp_path.glob(".out-*")):
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == 130, stderr
    assert b"Stopped; nothing was written." in stderr
    assert np.array_equal(np.load(out), np.eye(2))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["big.npy", "out.npy"]
