"""svrl complete: fill in the missing entries of a matrix in a file."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from svrl.cli.answers import (
    BadInputError,
    answering,
    check_picture,
    nearest,
    print_json,
    say,
    writing_to,
)
from svrl.cli.flags import Json, Seed
from svrl.cli.progress import Bars

if TYPE_CHECKING:
    import numpy as np

    from svrl.matrix.estimate import Estimate, Estimator
    from svrl.matrix.observed import Observed

_ITERATES = {"centre": "centre", "tolerance": "tolerance", "max_steps": "max_steps"}
METHODS: dict[str, dict[str, str]] = {
    "soft-impute": {"shrinkage": "shrinkage", **_ITERATES},
    "factor-als": {"rank": "rank", "shrinkage": "ridge", **_ITERATES},
    "hard-impute": {"rank": "rank", **_ITERATES},
    "usvt": {},
    "nuclear-norm": _ITERATES,
    "row-mean": {},
}
"""Every method, with the options it takes and what its record calls them."""
CENTRES = ("none", "mean", "midrange", "row")
ENDINGS = (".npy", ".npz", ".csv")
COPIES = 8
"""What a completion holds at a time, in sizes of its matrix: 10 to 17 were measured with soft-impute."""
LARGE = 1 << 29
"""Bytes that every machine has."""
MISSING = frozenset({"", "nan", "na", "null", "none"})


def complete(
    source: Annotated[Path, typer.Argument(metavar="IN", help="Matrix in .npy, .npz or .csv; NaN = missing.")],
    out: Annotated[Path, typer.Option(metavar="OUT", help="Where to write the completed matrix.")],
    method: Annotated[
        str, typer.Option(help=f"One of {', '.join(METHODS)}.", autocompletion=lambda: list(METHODS))
    ] = "factor-als",
    rank: Annotated[
        int | None, typer.Option(help="Rank for factor-als (default: chosen by held-out error) and hard-impute.")
    ] = None,
    shrinkage: Annotated[
        float | None, typer.Option(help="Nuclear-norm weight, in units of the values (soft-impute, factor-als).")
    ] = None,
    centre: Annotated[
        str, typer.Option(help=f"What to take out first: {', '.join(CENTRES)}.", autocompletion=lambda: list(CENTRES))
    ] = "none",
    keep_observed: Annotated[
        bool, typer.Option("--keep-observed/--smooth-observed", help="Copy the observed entries to the result, or not.")
    ] = True,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Accept rows and columns with no observed entry.")
    ] = False,
    tolerance: Annotated[float | None, typer.Option(help="Relative change at which the iteration stops.")] = None,
    max_steps: Annotated[int | None, typer.Option(help="Most iterations.")] = None,
    seed: Seed = 0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Picture of before, after and spectrum (.png, .pdf, .svg, .jpg)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fill in the missing entries of a matrix.

    Prints the rank that was found and the error on 5% of the observed entries, which are hidden for that before the
    final fit. OUT is written only when everything has worked.
    """
    with answering(), ExitStack() as files:
        import numpy as np

        from svrl.matrix.arrays import as_array

        _check_places(source, out, plot)
        target = files.enter_context(writing_to("--out", out))
        picture = None if plot is None else files.enter_context(writing_to("--plot", plot))
        bars = files.enter_context(Bars())
        bars.stage("reading")
        matrix = read_matrix(source)
        observed = _observe(matrix, allow_empty)
        _check_numbers(rank, shrinkage, centre, matrix.shape)
        given = {
            "rank": rank,
            "shrinkage": shrinkage,
            "centre": None if centre == "none" else centre,
            "tolerance": tolerance,
            "max_steps": max_steps,
        }
        estimator = build_estimator(method, keep_observed, given)
        row, estimate = _run(estimator, observed, seed, bars)
        bars.stage("writing")
        completed = as_array(estimate.matrix)
        if not np.isfinite(completed).all():
            raise BadInputError(f"The result is not finite, so nothing was written. {estimate.outcome.value}")
        write_matrix(target, completed, out.suffix.lower())
        if picture is not None:
            from svrl.plots.rank import draw_completion

            draw_completion(matrix, completed, picture, rank=row["rank"])
        row = {"source": str(source), "out": str(out), "method": method, "seed": seed, **row}
    if as_json:
        print_json(row)
    else:
        _print_table(row, plot)


def build_estimator(method: str, keep_observed: bool, given: Mapping[str, Any]) -> Estimator:
    """The estimator that the options describe; `given` holds those that the user set, None for the others."""
    from svrl.matrix.catalogue import ESTIMATORS

    if method not in METHODS:
        raise nearest("method", method, METHODS)
    takes = METHODS[method]
    options: dict[str, Any] = {"output": "fill" if keep_observed else "estimate"}
    for name, value in given.items():
        if value is None:
            continue
        if name not in takes:
            owners = ", ".join(other for other, names in METHODS.items() if name in names)
            raise BadInputError(f"{method} has no --{name.replace('_', '-')}; it belongs to {owners}.")
        options[takes[name]] = value
    if method == "hard-impute" and "rank" not in options:
        raise BadInputError("hard-impute needs a --rank; factor-als chooses one by itself.")
    try:
        return ESTIMATORS[method](**options)
    except ValueError as error:
        raise BadInputError(str(error)) from error


def _check_numbers(rank: int | None, shrinkage: float | None, centre: str, shape: tuple[int, ...]) -> None:
    if centre not in CENTRES:
        raise nearest("centre", centre, CENTRES)
    if rank is not None and not 1 <= rank <= min(shape):
        raise BadInputError(f"--rank must lie between 1 and the shorter side of the matrix, {min(shape)}; got {rank}.")
    if shrinkage is not None and not 0 < shrinkage < math.inf:
        raise BadInputError(f"--shrinkage must be above 0 and finite, got {shrinkage}.")


def _check_places(source: Path, out: Path, plot: Path | None) -> None:
    check_ending(source)
    check_ending(out)
    if plot is not None:
        check_picture(plot)
    for path in (out, plot):
        if path is not None and path.exists() and source.exists() and path.samefile(source):
            raise BadInputError(f"{path} is the input itself; write the result somewhere else.")


def _observe(matrix: np.ndarray, allow_empty: bool) -> Observed:
    from svrl.matrix.observed import Observed

    try:
        return Observed.from_nan(matrix, allow_empty=allow_empty)
    except ValueError as error:
        sentence = str(error).replace("pass allow_empty=True", "pass --allow-empty")
        sentence = sentence.replace("Mark it as missing in the mask", "Write NaN if it is missing")
        raise BadInputError(sentence) from error


def _run(estimator: Estimator, observed: Observed, seed: int, bars: Bars) -> tuple[dict[str, Any], Estimate]:
    import torch

    from svrl.matrix.held_out import held_out_error

    bars.stage("judging on hidden entries")
    error = held_out_error(estimator, observed, generator=torch.Generator().manual_seed(seed))
    bars.stage("completing")
    began = time.perf_counter()
    estimate = estimator(observed, generator=torch.Generator().manual_seed(seed))
    seconds = time.perf_counter() - began
    row = {
        "shape": list(observed.shape),
        "observed_fraction": observed.fraction,
        "rank": int(estimate.rank),
        "iterations": int(estimate.iterations),
        "converged": estimate.converged,
        "outcome": estimate.outcome.value,
        "held_out_error": error,
        "seconds": seconds,
        "estimator": repr(estimator),
    }
    if error is None:
        row["held_out_reason"] = "too few observed entries to hide any"
    if estimate.shrinkage is not None:
        row["shrinkage"] = float(estimate.shrinkage)
    return row, estimate


def _print_table(row: dict[str, Any], plot: Path | None) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    error = row["held_out_error"]
    lines = {
        "shape": " x ".join(map(str, row["shape"])),
        "observed": f"{row['observed_fraction']:.1%}",
        "method": row["method"],
        "rank": str(row["rank"]),
        "iterations": str(row["iterations"]) + ("" if row["converged"] else " (not converged)"),
        "held-out error": row.get("held_out_reason") if error is None else f"{error:.2e} (relative, 5% hidden)",
        "seconds": f"{row['seconds']:.3f}",
        "written": row["out"] + (f" and {plot}" if plot is not None else ""),
    }
    for name, text in lines.items():
        table.add_row(name, Text(text))
    console = Console()
    console.print(table)
    if row["outcome"]:
        say(f"Note: {row['outcome']}")


# Matrices on disk: .npy, .npz and .csv, with NaN or an empty cell for a missing entry.


def check_ending(path: Path) -> None:
    """Refuse an ending that is not one of ours."""
    if path.suffix.lower() not in ENDINGS:
        raise nearest("file format", path.suffix or path.name, ENDINGS)


def read_matrix(path: Path) -> np.ndarray:
    """Read one matrix (m, n) of float32 or float64; whole numbers become float64.

    Raises:
        BadInputError: With one sentence, for anything that is not such a matrix.
    """
    import numpy as np

    check_ending(path)
    if not path.exists():
        raise BadInputError(f"There is no file {path}.")
    if not path.is_file():
        raise BadInputError(f"{path} is not a regular file; give one that ends in {', '.join(ENDINGS)}.")
    if path.stat().st_size == 0:
        raise BadInputError(f"{path} is empty.")
    _refuse_large(path, path.stat().st_size)
    matrix = _read_csv(path) if path.suffix.lower() == ".csv" else _read_numpy(path)
    if matrix.ndim != 2:
        raise BadInputError(f"{path} holds an array of shape {matrix.shape}; a matrix has two axes, rows and columns.")
    if 0 in matrix.shape:
        raise BadInputError(f"{path} holds a matrix of shape {matrix.shape}, which has no entry.")
    if matrix.dtype.kind in "iu":
        return matrix.astype(np.float64)
    if matrix.dtype.kind != "f":
        raise BadInputError(f"{path} holds {matrix.dtype} entries; convert them to float32 or float64.")
    precise = np.float32 if matrix.dtype.itemsize <= 4 else np.float64
    return np.ascontiguousarray(matrix, dtype=precise)


def write_matrix(path: Path, matrix: np.ndarray, ending: str) -> None:
    """Write a matrix in the format of the ending."""
    import numpy as np

    if ending == ".npy":
        with path.open("wb") as file:
            np.save(file, matrix)
    elif ending == ".npz":
        with path.open("wb") as file:
            np.savez_compressed(file, matrix=matrix)
    else:
        np.savetxt(path, matrix, delimiter=",", fmt="%.9g" if matrix.dtype == np.float32 else "%.17g")


def _read_numpy(path: Path) -> np.ndarray:
    """The array of a .npy; of a .npz the only one, or that called matrix."""
    import numpy as np

    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            names = list(loaded.files)
            name = "matrix" if "matrix" in names else names[0] if len(names) == 1 else None
            if name is None:
                held = ", ".join(names) or "none"
                raise BadInputError(f"{path} holds {len(names)} arrays ({held}); name one of them 'matrix'.")
            parts = [one.file_size for one in loaded.zip.infolist() if one.filename in (name, f"{name}.npy")]
            _refuse_large(path, sum(parts))
            array: np.ndarray = loaded[name]
            return array
    except BadInputError:
        raise
    except Exception as error:  # a damaged file fails in as many ways as zip and NumPy have parts
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadInputError(f"{path} is not a NumPy file of numbers, or is damaged.") from error


def _refuse_large(path: Path, size: int) -> None:
    """Refuse a matrix of so many bytes, before it is read, if it cannot be completed in the memory that is left."""
    if size * COPIES < LARGE:
        return
    from svrl.agents.replay_room import free_ram

    free = free_ram()
    if size * COPIES > free:
        raise BadInputError(
            f"{path} holds {size / 1e9:.1f} GB when it is unpacked, completing it takes about {COPIES} times as much, "
            f"and {free / 1e9:.1f} GB of memory are free. Give a smaller matrix, or a machine with more memory."
        )


def _read_csv(path: Path) -> np.ndarray:
    import numpy as np

    rows: list[list[float]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for number, cells in enumerate(csv.reader(file), 1):
                if cells:
                    rows.append([_number(cell, path, number, at) for at, cell in enumerate(cells, 1)])
                    if len(cells) != len(rows[0]):
                        raise BadInputError(
                            f"Line {number} of {path} has {len(cells)} cells, but the first line has {len(rows[0])}."
                        )
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInputError(f"{path} is not a text file of comma-separated numbers: {error}.") from error
    if not rows:
        raise BadInputError(f"{path} is empty.")
    return np.array(rows)


def _number(cell: str, path: Path, line: int, column: int) -> float:
    text = cell.strip()
    if text.lower() in MISSING:
        return float("nan")
    try:
        return float(text)
    except ValueError:
        hint = " Remove the header line." if line == 1 else ""
        hint = " Separate cells by commas." if ";" in text or "\t" in text else hint
        raise BadInputError(
            f"Line {line}, column {column} of {path} is {text!r}, not a number; "
            f"leave a missing entry empty or write NaN.{hint}"
        ) from None
