"""All runs of a sweep as one tidy table, CSV or Parquet by the ending of the file.

Every row begins with what its run is: run (its id), code, kind, env or task, arm, seed, and the settings that vary
within the sweep. Then come the columns of result.json, one row a finished run, or those of one of the files of rows.
Rows stand in the order of the sweep, columns in the order in which they first come.

Objects inside are flattened, so that the mean of the evaluation is evaluation_mean. Lists become JSON text. What a
column repeats of the run is left out: run, out, env, task, arm and seed of a result. A column that has the name of a
setting, and may mean something else, gets the name of its table before it, as in learning_observe.

Numbers stay numbers: a column is whole numbers, numbers, true or false, or text; one that mixes kinds is text. What is
missing is empty in CSV and null in Parquet. Files are read twice, first for the columns, so that one run at a time is
in memory.
"""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from svrl.runs.atomic import writing
from svrl.sweeps.run_spec import SUBJECT, RunSpec
from svrl.sweeps.states import STATES, State, state_of
from svrl.sweeps.store import Store
from svrl.sweeps.variants import specs_of, value_of, varied

RowsOf = Literal["results", "episodes", "learning", "evaluations", "trace"]
FILES: dict[str, str] = {
    "episodes": "episodes.jsonl",
    "learning": "learning.jsonl",
    "evaluations": "evaluations.jsonl",
    "trace": "rows.jsonl",
}
"""Where the rows of each kind are; trace is of plans."""
ENDINGS = (".csv", ".parquet")
_PREFIX = {"results": "result", "episodes": "episode", "learning": "learning", "evaluations": "evaluation"}
_REPEATED = ("run", "out", "env", "task", "arm", "seed")
_MISSING = 'Parquet needs pyarrow: pip install "svrl[parquet]". Or write a .csv.'

Row = dict[str, Any]
Sink = Callable[[list[Row]], None]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written.

    Attributes:
        rows: How many.
        runs: Of how many runs; those without a row are not among them.
        columns: Their names, in order.
        left_out: The runs without a row, by their states.
    """

    rows: int
    runs: int
    columns: tuple[str, ...]
    left_out: Mapping[State, int] = field(default_factory=dict)


def export(store: Store, runs: Sequence[str], path: Path, rows: RowsOf = "results") -> Exported:
    """Write a table of the runs.

    Args:
        store: Where they are.
        runs: Their ids, in the order of the table.
        path: A file that ends with .csv or .parquet; one that is there is replaced when the new one is whole.
        rows: results for one row a finished run, episodes, learning or evaluations of trainings, trace of plans.

    Raises:
        ValueError: If something asked for is not known, if pyarrow is missing, if there is no row at all, or if a run
            went back to a checkpoint between the two readings.
    """
    if rows not in get_args(RowsOf):
        raise ValueError(f"There are rows of {', '.join(get_args(RowsOf))}; got {rows!r}.")
    if path.suffix not in ENDINGS:
        raise ValueError(f"A table ends with {' or '.join(ENDINGS)}, got {path.name!r}.")
    if path.suffix == ".parquet":
        _pyarrow()
    specs = {run: spec for run, spec in specs_of(store, runs).items() if spec is not None}
    names = varied(specs.values())
    kinds: dict[str, str] = {}
    lengths = {run: _note_kinds(kinds, _rows_of(store, run, spec, names, rows)) for run, spec in specs.items()}
    total = sum(lengths.values())
    if total == 0:
        raise ValueError(f"None of {len(runs):,} runs has {rows} yet, so there is nothing to write.")
    open_sink = _csv_sink if path.suffix == ".csv" else _parquet_sink
    with writing(path) as temporary, open_sink(temporary, kinds) as write:
        for run, spec in specs.items():
            if lengths[run]:
                # A run that goes on may have more by now, which the next export has.
                found = list(_rows_of(store, run, spec, names, rows))[: lengths[run]]
                if len(found) < lengths[run]:
                    raise ValueError(f"{spec.label} went back to a checkpoint while it was read. Export again.")
                write([_fitting(row, kinds, spec) for row in found])
    missing = [run for run in dict.fromkeys(runs) if not lengths.get(run)]
    glance = store.looked_at(missing)
    without = [state_of(glance, run) for run in missing]
    return Exported(
        rows=total,
        runs=sum(length > 0 for length in lengths.values()),
        columns=tuple(kinds),
        left_out={state: without.count(state) for state in STATES if state in without},
    )


def _rows_of(store: Store, run: str, spec: RunSpec, names: Sequence[str], rows: RowsOf) -> Iterator[Row]:
    head: Row = {"run": run, "code": store.code, "kind": spec.kind}
    head |= {SUBJECT[spec.kind]: spec.subject, "arm": spec.arm, "seed": spec.seed}
    head |= {name: _cell(value_of(spec, name)) for name in names}
    if rows == "results":
        result = store.result(run)
        found = [] if result is None else [result]
    else:
        found = store.rows(run, FILES[rows])
    for row in found:
        yield head | _renamed(_flat(row), head, rows)


def _renamed(row: Row, head: Row, rows: RowsOf) -> Row:
    """Without what the head says already, and told apart from it."""
    if rows == "results":
        row = {name: value for name, value in row.items() if name not in _REPEATED}
    return {f"{_PREFIX.get(rows, rows)}_{name}" if name in head else name: value for name, value in row.items()}


def _flat(row: Mapping[str, Any], before: str = "") -> Row:
    found: Row = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{name}_")
        else:
            found[f"{before}{name}"] = _cell(value)
    return found


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


def _note_kinds(kinds: dict[str, str], rows: Iterator[Row]) -> int:
    """Learn the columns of more rows, and what is in each; how many rows there are."""
    count = 0
    for row in rows:
        count += 1
        for name, value in row.items():
            kinds[name] = _joined(kinds.get(name, ""), _kind(value))
    return count


def _kind(value: Any) -> str:
    """Empty for what is missing."""
    if value is None:
        return ""
    return {bool: "bool", int: "int", float: "float"}.get(type(value), "text")


def _joined(one: str, other: str) -> str:
    """What holds values of both kinds."""
    if one == other or "" in (one, other):
        return one or other
    return "float" if {one, other} == {"int", "float"} else "mixed"


def _fitting(row: Row, kinds: Mapping[str, str], spec: RunSpec) -> Row:
    """The row with all columns, each value of its column's kind."""
    fitted: Row = {}
    for name, kind in kinds.items():
        value = row.get(name)
        if value is not None and kind == "mixed":
            value = value if isinstance(value, str) else json.dumps(value)
        elif value is not None and kind == "float":
            value = float(value)
        elif value is not None and _kind(value) != kind:
            raise ValueError(f"{name} of {spec.label} changed while it was read. Export again.")
        fitted[name] = value
    return fitted


@contextmanager
def _csv_sink(path: Path, kinds: Mapping[str, str]) -> Iterator[Sink]:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(kinds)

        def write(rows: list[Row]) -> None:
            table.writerows([_as_text(value) for value in row.values()] for row in rows)

        yield write


def _as_text(value: Any) -> Any:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def _parquet_sink(path: Path, kinds: Mapping[str, str]) -> AbstractContextManager[Sink]:
    arrow, parquet = _pyarrow()
    types = {"int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_()}
    schema = arrow.schema([(name, types.get(kind, arrow.string())) for name, kind in kinds.items()])

    @contextmanager
    def opened() -> Iterator[Sink]:
        with parquet.ParquetWriter(str(path), schema) as file:
            yield lambda rows: file.write_table(arrow.Table.from_pylist(rows, schema=schema))

    return opened()


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ValueError(_MISSING) from error
