"""One tidy table of all runs: what is in its rows, in which order, and what stays on disk when it fails."""

from __future__ import annotations

import csv
import json
import sys

import pytest
from tests.runs.stores_by_hand import begin, end, finish, plan, sweep_of, training, write_rows

from svrl.runs.export import export
from svrl.runs.store import this_version

HEAD = ["run", "svrl", "kind", "env", "arm", "seed"]


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def trained(tmp_path):
    """Two batch sizes with two seeds, the last waiting."""
    specs = [training(batch_size=size, seed=seed) for size in (64, 32) for seed in (1, 0)]
    store = sweep_of(tmp_path / "store", specs)
    evaluation = {"mean": 2.5, "ci_low": None, "scores": [2.0, 3.0]}
    finish(store, specs[0], 1.5, structured=False, hidden=[64, 64], evaluation=evaluation)
    finish(store, specs[1], None, structured=False, score_last_100_reason='no game, "yet"')
    begin(store, specs[2], [7, 8])
    return store, specs


def test_results_are_flat_typed_and_in_the_order_of_the_sweep(trained, tmp_path):
    store, specs = trained
    done = export(store, specs, tmp_path / "all.csv")
    rows = table(tmp_path / "all.csv")
    assert [row["run"] for row in rows] == [specs[0].id, specs[1].id]
    assert list(rows[0])[:7] == [*HEAD, "batch_size"]
    assert list(rows[0]) == done["columns"]
    assert (done["rows"], done["runs"]) == (2, 2)
    first = rows[0]
    assert first["svrl"] == this_version()
    assert (first["kind"], first["env"], first["arm"]) == ("train", "CartPole-v1", "dqn")
    assert (first["seed"], first["batch_size"], first["steps"], first["score_last_100"]) == ("1", "64", "1000", "1.5")
    assert (first["evaluation_mean"], first["evaluation_ci_low"]) == ("2.5", "")
    assert (first["evaluation_scores"], first["hidden"]) == ("[2.0, 3.0]", "[64, 64]")
    assert first["structured"] == "false"
    assert rows[1]["score_last_100"] == rows[1]["evaluation_mean"] == ""
    assert rows[1]["score_last_100_reason"] == 'no game, "yet"'
    assert "elsewhere" not in (tmp_path / "all.csv").read_text()  # where a run was made says nothing


def test_runs_without_a_row_are_counted_by_their_states(trained, tmp_path):
    store, specs = trained
    assert export(store, specs, tmp_path / "all.csv")["left_out"] == {"stopped": 1, "waiting": 1}
    end(store, specs[2].id, "failed", reason="no")
    assert export(store, specs, tmp_path / "all.csv")["left_out"] == {"failed": 1, "waiting": 1}
    # What was played before it failed is there.
    games = export(store, specs, tmp_path / "games.csv", rows="episodes")
    assert (games["runs"], games["left_out"]) == (2, {"done": 1, "waiting": 1})
    assert export(store, specs[:2], tmp_path / "all.csv")["left_out"] == {}


def test_a_column_with_the_name_of_a_setting_is_told_apart(tmp_path):
    specs = [training(arm="sv-dqn", p=share) for share in (0.7, 0.9)] + [training()]
    store = sweep_of(tmp_path / "store", specs)
    for spec in specs:
        begin(store, spec)
        write_rows(store, spec.id, "learning.jsonl", [{"steps": 100, "p": 0.65, "loss": None}])
    export(store, specs, tmp_path / "l.csv", rows="learning")
    rows = table(tmp_path / "l.csv")
    assert [row["p"] for row in rows] == ["0.7", "0.9", ""]  # the plain agent observes nothing
    assert {row["learning_p"] for row in rows} == {"0.65"}


def test_plans_have_traces_and_results(tmp_path):
    specs = [plan(p=share) for share in (0.2, 0.4)]
    store = sweep_of(tmp_path / "store", specs)
    for spec in specs:
        finish(store, spec, 0.1, problem={"task": "toy", "states": 1000}, p=spec.given["p"])
        write_rows(
            store, spec.id, "rows.jsonl", [{"iteration": 1, "residual": 0.5}, {"iteration": 2, "residual": 0.25}]
        )
    assert export(store, specs, tmp_path / "t.csv", rows="trace")["rows"] == 4
    assert [row["residual"] for row in table(tmp_path / "t.csv")] == ["0.5", "0.25"] * 2
    export(store, specs, tmp_path / "r.csv")
    assert {row["problem_states"] for row in table(tmp_path / "r.csv")} == {"1000"}
    assert [row["p"] for row in table(tmp_path / "r.csv")] == ["0.2", "0.4"]


def test_parquet_has_the_same_with_types(trained, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is missing: pip install svrl[parquet]")
    store, specs = trained
    done = export(store, specs, tmp_path / "all.parquet")
    found = parquet.read_table(tmp_path / "all.parquet")
    assert found.column_names == done["columns"]
    types = {name: str(kind) for name, kind in zip(found.schema.names, found.schema.types, strict=True)}
    assert (types["seed"], types["batch_size"], types["score_last_100"]) == ("int64", "int64", "double")
    assert (types["structured"], types["evaluation_scores"], types["run"]) == ("bool", "string", "string")
    rows = found.to_pylist()
    assert [row["run"] for row in rows] == [spec.id for spec in specs[:2]]
    assert [row["score_last_100"] for row in rows] == [1.5, None]
    games = export(store, specs, tmp_path / "games.parquet", rows="episodes")
    assert parquet.read_table(tmp_path / "games.parquet").num_rows == games["rows"] == 3


def test_parquet_without_pyarrow_says_what_to_install(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as it is where it was not installed
    store, specs = trained
    with pytest.raises(ValueError, match=r'pip install "svrl\[parquet\]"'):
        export(store, specs[:1], tmp_path / "all.parquet")
    assert not (tmp_path / "all.parquet").exists()


def test_what_cannot_be_written_is_refused_and_leaves_the_old_file(trained, tmp_path):
    store, specs = trained
    path = tmp_path / "all.csv"
    path.write_text("old")
    with pytest.raises(ValueError, match=r"None of 1 runs has results yet"):
        export(store, specs[3:4], path)
    with pytest.raises(ValueError, match=r"ends with \.csv, \.json or \.parquet, got 'all\.xlsx'"):
        export(store, specs[:1], tmp_path / "all.xlsx")
    assert path.read_text() == "old"
    with pytest.raises(OSError, match=r"gone/all\.csv"):
        export(store, specs[:1], tmp_path / "gone" / "all.csv")


def test_json_has_the_same_with_null(trained, tmp_path):
    store, specs = trained
    done = export(store, specs, tmp_path / "all.json")
    rows = json.loads((tmp_path / "all.json").read_text())
    assert [list(row) for row in rows] == [done["columns"]] * 2
    assert [row["score_last_100"] for row in rows] == [1.5, None]


def test_a_column_may_mix_kinds(tmp_path):
    specs = [training(seed=seed) for seed in range(3)]
    store = sweep_of(tmp_path / "store", specs)
    for spec, value in zip(specs, (1, "many", True), strict=True):
        finish(store, spec, 1.0, odd=value, number=spec.seed + (0.5 if spec.seed else 0))
    export(store, specs, tmp_path / "all.csv")
    rows = table(tmp_path / "all.csv")
    assert [row["odd"] for row in rows] == ["1", "many", "true"]
    assert [row["number"] for row in rows] == ["0", "1.5", "2.5"]
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is missing: pip install svrl[parquet]")
    export(store, specs, tmp_path / "all.parquet")
    rows = parquet.read_table(tmp_path / "all.parquet").to_pylist()
    assert [(row["odd"], row["number"]) for row in rows] == [("1", 0.0), ("many", 1.5), ("true", 2.5)]
