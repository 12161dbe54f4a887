from __future__ import annotations

import json

import numpy as np
import pytest

from svrl import __version__
from svrl.paper.cell import Cell, CellResult, Kind
from svrl.paper.store import Store, read_first

from .small_experiment import SQUARE, Committed, cell, square

TOLD = {"svrl": __version__, "seconds": 1.0}
RESULT = CellResult(rows=[{"a": 1, "b": [1.5, None]}, {"a": 2}], arrays={"path": np.arange(3.0)})


@pytest.fixture
def store(tmp_path):
    return Store(root=tmp_path / "cells")


def test_a_cell_comes_back_as_it_was_kept(store):
    assert store.read(cell(3)) is None
    store.write(cell(3), RESULT, TOLD)
    kept = store.read(cell(3))
    assert kept.rows == RESULT.rows
    assert kept.settings == {"x": 3}
    assert kept.provenance == TOLD
    assert kept.source == "here"
    np.testing.assert_array_equal(kept.arrays["path"], RESULT.arrays["path"])


def test_a_changed_setting_touches_only_the_cells_that_have_it(store):
    store.write(cell(3), RESULT, TOLD)
    assert store.read(cell(4)) is None
    assert store.read(cell(3, more=None)) is None
    assert cell(3).key == Cell(kind=SQUARE, settings={"x": 3}, weight=9.0).key
    assert len({cell(3).key, cell(4).key, cell(3, y=1).key}) == 3


def test_order_of_settings_and_tuples_do_not_matter(store):
    one = Cell(kind=SQUARE, settings={"x": 1, "grid": (2, 3)})
    other = Cell(kind=SQUARE, settings={"grid": [2, 3], "x": 1})
    assert one.key == other.key
    store.write(one, RESULT, TOLD)
    assert store.read(other) is not None


def test_another_version_is_not_used_and_counted(store):
    store.write(cell(3), RESULT, TOLD)
    newer = Kind(name="square", version=2, compute=square)
    assert store.read(cell(3, kind=newer)) is None
    assert store.outdated({"square": newer}) == 1
    assert store.outdated({"square": SQUARE}) == 0


def test_cells_of_another_svrl_are_left_out(store):
    store.write(cell(3), RESULT, {**TOLD, "svrl": "0.0.1"})
    assert store.read(cell(3)) is None
    assert store.outdated({"square": SQUARE}) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rows": []}'])
def test_a_damaged_file_is_named(store, text):
    store.write(cell(3), RESULT, TOLD)
    path = next(store.root.rglob("*.json"))
    path.write_text(text)
    with pytest.raises(ValueError, match=r"\.json is damaged\. Delete it"):
        store.read(cell(3))


def test_a_file_changed_by_hand_is_refused(store):
    store.write(cell(3), RESULT, TOLD)
    path = next(store.root.rglob("*.json"))
    path.write_text(path.read_text().replace('"x": 3', '"x": 4'))
    with pytest.raises(ValueError, match="does not hold what its name says"):
        store.read(cell(3))


def test_missing_arrays_are_named(store):
    store.write(cell(3), RESULT, TOLD)
    next(store.root.rglob("*.npz")).unlink()
    with pytest.raises(ValueError, match=r"npz is missing"):
        store.read(cell(3))


def test_rows_are_one_a_line_and_valid_json(store):
    store.write(cell(3), RESULT, TOLD)
    store.write(cell(4), CellResult(rows=[]), TOLD)
    text = store._file(cell(3)).read_text()
    assert '\n  {"a": 2}\n' in text
    assert json.loads(store._file(cell(4)).read_text())["rows"] == []


def test_what_is_not_finite_has_its_reason(store):
    store.write(cell(3), CellResult(rows=[{"loss": float("nan")}]), TOLD)
    assert store.read(cell(3)).rows == [{"loss": None, "loss_reason": "not finite: nan"}]


def test_the_first_store_that_has_it_is_read(store, tmp_path):
    other = Committed(root=tmp_path / "other")
    other.write(cell(3), RESULT, TOLD)
    assert read_first(cell(3), (store, other)).source == "committed"
    store.write(cell(3), RESULT, TOLD)
    assert read_first(cell(3), (store, other)).source == "here"
    assert read_first(cell(4), (store, other)) is None
