from __future__ import annotations

import ast
import math
import os
import resource
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from svrl.runtime.arrays import arrays_checksum, read_arrays, write_arrays
from svrl.runtime.rows import RowLog, last_rows, read_rows

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
DTYPES = hnp.boolean_dtypes() | hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | hnp.floating_dtypes()
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
TREES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


def assert_same(got: Any, wanted: Any) -> None:
    assert type(got) is type(wanted)
    if isinstance(wanted, dict):
        assert list(got) == list(wanted)
        for key in wanted:
            assert_same(got[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other)
    elif isinstance(wanted, np.ndarray):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        assert got.tobytes() == wanted.tobytes()
    elif isinstance(wanted, float):
        assert repr(got) == repr(wanted)
    else:
        assert got == wanted


@settings(max_examples=40, deadline=None)
@given(tree=TREES)
def test_what_was_written_comes_back(tmp_path_factory: pytest.TempPathFactory, tree: Any):
    path = tmp_path_factory.mktemp("arrays") / "tree.npz"
    write_arrays(path, tree)
    assert_same(read_arrays(path), tree)


def test_awkward_values(tmp_path: Path):
    path = tmp_path / "no-ending"
    weight = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    tree = {
        "a/b\\..\0\n": 1,
        "tree": 2,
        "0": np.arange(3),
        "\ud800": "\udfff",
        7: 10**9000,
        -1: [math.nan, math.inf, -math.inf, -0.0],
        "": {},
    }
    others = {"fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "tensor": weight.T, "count": np.int64(3)}
    write_arrays(path, {**tree, **others})
    got = read_arrays(path)
    assert np.array_equal(got.pop("fortran"), others["fortran"])
    assert np.array_equal(got.pop("tensor"), weight.detach().numpy().T)
    assert_same(got.pop("count"), 3)
    assert_same(got, tree)
    assert [entry.name for entry in tmp_path.iterdir()] == ["no-ending"]
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (object(), r"the tree\['a'\]\[1\] is object"),
        (np.array([object()]), r"the tree\['a'\]\[1\] is an array of object"),
        ({1.5: 0}, r"the tree\['a'\]\[1\] has the key 1.5"),
        (torch.zeros(1, dtype=torch.bfloat16), r"no type for torch.bfloat16"),
    ],
)
def test_what_cannot_be_written_is_named(tmp_path: Path, value: object, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        write_arrays(tmp_path / "a.npz", {"a": [0, value]})
    assert list(tmp_path.iterdir()) == []


def test_every_flipped_byte_is_found_or_harmless(tmp_path: Path):
    tree = {"numbers": np.arange(5), "text": "words", "nested": [1.5, None]}
    path = tmp_path / "a.npz"
    write_arrays(path, tree)
    whole = path.read_bytes()
    found = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert_same(read_arrays(path), tree)
        except ValueError as error:
            assert "damaged" in str(error)  # noqa: PT017
            found += 1
    assert found > len(whole) // 2


def test_every_truncation_is_found(tmp_path: Path):
    path = tmp_path / "a.npz"
    write_arrays(path, {"numbers": np.arange(5)})
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="damaged"):
            read_arrays(path)
        with pytest.raises(ValueError, match="damaged"):
            arrays_checksum(path)


def test_what_write_arrays_did_not_write_is_refused(tmp_path: Path):
    np.savez(tmp_path / "pickle.npz", tree=np.array([print], dtype=object))
    np.savez(tmp_path / "other.npz", other=np.zeros(3))
    with zipfile.ZipFile(tmp_path / "nonsense.npz", "w") as archive:
        archive.writestr("tree.npy", b"nonsense")
    write_arrays(tmp_path / "sound", {"x": np.zeros(1_000_000)})
    with zipfile.ZipFile(tmp_path / "sound") as sound:  # archives that unpack to more than their size
        for name, kind in (("small.npz", zipfile.ZIP_DEFLATED), ("again.npz", zipfile.ZIP_STORED)):
            with zipfile.ZipFile(tmp_path / name, "w", kind) as archive:
                archive.writestr("0.npy", sound.read("0.npy"))
                tree = np.frombuffer(b'[{"array": 0}, {"array": 0}]', np.uint8)
                with archive.open("tree.npy", "w") as file:
                    np.save(file, tree)  # which names an array twice
    for path in tmp_path.glob("*.npz"):
        with pytest.raises(ValueError, match="damaged, or was not written by svrl"):
            read_arrays(path)


@pytest.mark.parametrize("read", [read_arrays, arrays_checksum, read_rows, lambda path: last_rows(path, 1), RowLog])
def test_only_regular_files_are_read(tmp_path: Path, read: Any):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(ValueError, match=f"{name} is not a regular file"):
            read(tmp_path / name)


def test_the_checksum_stands_for_the_content(tmp_path: Path):
    write_arrays(tmp_path / "a.npz", {"x": np.arange(4)})
    write_arrays(tmp_path / "b.npz", {"x": np.arange(4)})
    write_arrays(tmp_path / "c.npz", {"x": np.array([0, 1, 2, 4])})
    first, again, other = (arrays_checksum(tmp_path / f"{name}.npz") for name in "abc")
    assert first == again != other


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path):
    path = tmp_path / "a.npz"
    write_arrays(path, "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))  # writes beyond fail, as on a full disk
    try:
        with pytest.raises(OSError, match="too large"):
            write_arrays(path, np.zeros(1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read_arrays(path) == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


def test_headers_are_parsed_by_one_thread_at_a_time(tmp_path, monkeypatch):
    """Two at once sometimes fail in some versions of CPython, and a sound file would seem to be damaged."""
    parse, inside, most = ast.literal_eval, [], []

    def slow(text):
        inside.append(text)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()
        return parse(text)

    write_arrays(tmp_path / "a.npz", {"a": np.arange(5), "b": [np.ones((2, 3))]})
    monkeypatch.setattr(ast, "literal_eval", slow)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(read_arrays, [tmp_path / "a.npz"] * 6))
    assert len(most) >= 3 * 6
    assert max(most) == 1
