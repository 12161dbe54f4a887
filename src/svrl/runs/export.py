"""All runs of a sweep as one tidy table, CSV, JSON or Parquet by the ending of the file.

Every row begins with what its run is: run (its id), svrl (version and commit that computed it), kind, env or task, arm,
seed, and the settings that vary within the sweep. Then come the columns of result.json, one row a finished run, or
those of one of the files of rows. Rows stand in the order of the sweep, columns in the order in which they first come.

Objects are flattened, so that the mean of the evaluation is evaluation_mean; lists become JSON text. A column that has
the name of a setting, and may mean something else, gets the name of its table before it, as in learning_observe. What
is missing is empty in CSV and null elsewhere.
"""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from svrl.runs.spec import SUBJECT, RunSpec
from svrl.runs.status import value_of, varied
from svrl.runs.store import STATES, Store
from svrl.runtime.files import writing

RowsOf = Literal["results", "episodes", "learning", "evaluations", "trace"]
FILES: dict[str, str] = {
    "episodes": "episodes.jsonl",
    "learning": "learning.jsonl",
    "evaluations": "evaluations.jsonl",
    "trace": "rows.jsonl",
}
"""Where the rows of each kind are; trace is of plans."""
_PREFIX = {"results": "result", "episodes": "episode", "evaluations": "evaluation"}
"""What a column is called after whose name a setting has too."""
_REPEATED = ("run", "out", "env", "task", "arm", "seed")

Row = dict[str, Any]


def export(store: Store, specs: Sequence[RunSpec], path: Path, rows: RowsOf = "results") -> Row:
    """Write a table of runs.

    Args:
        store: Where they are.
        specs: The runs.
        path: The file; what is there is replaced when the new one is whole.
        rows: results for one row a finished run, episodes, learning or evaluations of trainings, trace of plans.

    Returns:
        What was written: how many rows of how many runs, the names of the columns, and under left_out how many runs
        have no row, by their states.

    Raises:
        ValueError: If the file is of another kind, if pyarrow is missing, or if there is no row at all.
    """
    if rows not in get_args(RowsOf):
        raise ValueError(f"There are rows of {', '.join(get_args(RowsOf))}; got {rows!r}.")
    if path.suffix not in (".csv", ".json", ".parquet"):
        raise ValueError(f"A table ends with .csv, .json or .parquet, got {path.name!r}.")
    write = _parquet() if path.suffix == ".parquet" else _json if path.suffix == ".json" else _csv
    names = varied(specs)
    found = {spec.id: list(_rows_of(store, spec, names, rows)) for spec in specs}
    table = [row for rows_of_run in found.values() for row in rows_of_run]
    if not table:
        raise ValueError(f"None of {len(specs):,} runs has {rows} yet, so there is nothing to write.")
    columns = list(dict.fromkeys(name for row in table for name in row))
    with writing(path) as temporary:
        write([{name: row.get(name) for name in columns} for row in table], temporary)
    without = [store.state(run) for run, its in found.items() if not its]
    left_out = {state: without.count(state) for state in STATES if state in without}
    return {"rows": len(table), "runs": len(found) - len(without), "columns": columns, "left_out": left_out}


def _rows_of(store: Store, spec: RunSpec, names: Sequence[str], rows: RowsOf) -> Iterator[Row]:
    if rows == "results":
        result = store.result(spec.id)
        found = [] if result is None else [{name: x for name, x in result.items() if name not in _REPEATED}]
    else:
        found = store.rows(spec.id, FILES[rows])
    if not found:
        return
    head: Row = {"run": spec.id, "svrl": store.version_of(spec.id)}
    head |= {"kind": spec.kind.name, SUBJECT[spec.kind.name]: spec.subject, "arm": spec.arm, "seed": spec.seed}
    head |= _flat({name: value_of(spec, name) for name in names})
    for row in found:
        yield head | {
            f"{_PREFIX.get(rows, rows)}_{name}" if name in head else name: value for name, value in _flat(row).items()
        }


def _flat(row: Mapping[str, Any], before: str = "") -> Row:
    found: Row = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}_")
        else:
            found[f"{before}{name}"] = json.dumps(value) if isinstance(value, list | tuple) else value
    return found


def _csv(table: Sequence[Row], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table[0])
        writer.writerows([str(x).lower() if isinstance(x, bool) else x for x in row.values()] for row in table)


def _json(table: Sequence[Row], path: Path) -> None:
    path.write_text(json.dumps(table, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _parquet() -> Callable[[Sequence[Row], Path], None]:
    """Writes Parquet, in which a column has one type: one that mixes others than numbers becomes text."""
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ValueError('Parquet needs pyarrow: pip install "svrl[parquet]". Or write a .csv or .json.') from error

    def write(table: Sequence[Row], path: Path) -> None:
        columns = {name: [row[name] for row in table] for name in table[0]}
        for name, values in columns.items():
            kinds = {type(value) for value in values if value is not None}
            if len(kinds) > 1 and kinds != {int, float}:
                columns[name] = [x if x is None or isinstance(x, str) else json.dumps(x) for x in values]
        parquet.write_table(arrow.table(columns), path)

    return write
