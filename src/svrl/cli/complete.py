"""svrl complete: fill in the missing entries of a matrix in a file."""

from __future__ import annotations

import csv
import dataclasses
import time
import zipfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svrl.cli.answers import NOTHING_WRITTEN, PICTURES, answer, check_ending, say, stopping, tell, writing_to
from svrl.cli.flags import Json, Seed, one_of
from svrl.cli.progress import Bars
from svrl.runs.plan_run import ESTIMATORS

if TYPE_CHECKING:
    import numpy as np

    from svrl.matrix.estimate import Estimate, Estimator
    from svrl.matrix.observed import Observed

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
        str, typer.Option(help=f"One of {', '.join(ESTIMATORS)}.", **one_of("method", ESTIMATORS))
    ] = "factor-als",
    rank: Annotated[
        int | None, typer.Option(help="Rank for factor-als (default: chosen by held-out error) and hard-impute.")
    ] = None,
    shrinkage: Annotated[
        float | None, typer.Option(help="Nuclear-norm weight, in units of the values (soft-impute, factor-als).")
    ] = None,
    centre: Annotated[
        str, typer.Option(help=f"What to take out first: {', '.join(CENTRES)}.", **one_of("centre", CENTRES))
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
    import numpy as np

    from svrl.matrix.arrays import as_array
    from svrl.matrix.observed import Observed

    for path in (out, plot):
        if path is not None and path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{path} is the input itself; write the result somewhere else.")
    with stopping(NOTHING_WRITTEN), ExitStack() as files:
        target = files.enter_context(writing_to(out, ENDINGS))
        picture = None if plot is None else files.enter_context(writing_to(plot, PICTURES))
        bars = files.enter_context(Bars())
        bars.stage("reading")
        matrix = read_matrix(source)
        observed = Observed.from_nan(matrix, allow_empty=allow_empty)
        if rank is not None and not 1 <= rank <= min(matrix.shape):
            raise ValueError(
                f"--rank must lie between 1 and the shorter side of the matrix, {min(matrix.shape)}; got {rank}."
            )
        given = {"rank": rank, "shrinkage": shrinkage, "tolerance": tolerance, "max_steps": max_steps}
        estimator = build_estimator(method, keep_observed, given | {"centre": None if centre == "none" else centre})
        row, estimate = _run(estimator, observed, seed, bars)
        bars.stage("writing")
        completed = as_array(estimate.matrix)
        if not np.isfinite(completed).all():
            raise ValueError(f"The result is not finite, so nothing was written. {estimate.outcome.value}")
        write_matrix(target, completed, out.suffix.lower())
        if picture is not None:
            from svrl.plots.rank import draw_completion

            draw_completion(matrix, completed, picture, rank=row["rank"])
    row = {"source": str(source), "out": str(out), "method": method, "seed": seed, **row}
    answer(row, as_json, lambda row: _print(row, plot))


def build_estimator(method: str, keep_observed: bool, given: Mapping[str, Any]) -> Estimator:
    """The estimator that the options describe; `given` holds those that the user set, None for the others."""
    from svrl.matrix import ESTIMATORS as CATALOGUE

    if method == "hard-impute" and given["rank"] is None:
        raise ValueError("hard-impute needs a --rank; factor-als chooses one by itself.")
    takes = {name: _takes(make) for name, make in CATALOGUE.items()}
    options: dict[str, Any] = {"output": "fill" if keep_observed else "estimate"}
    for name, value in given.items():
        if value is not None and name not in takes[method]:
            owners = ", ".join(other for other, names in takes.items() if name in names)
            raise ValueError(f"{method} has no --{name.replace('_', '-')}; it belongs to {owners}.")
        if value is not None:
            options[takes[method][name]] = value
    return CATALOGUE[method](**options)


def _takes(estimator: Any) -> dict[str, str]:
    """The options that an estimator takes, with what its record calls them: the shrinkage of factors is a ridge."""
    names = {field.name: field.name for field in dataclasses.fields(estimator)}
    return names | ({"shrinkage": "ridge"} if "ridge" in names else {})


def _run(estimator: Estimator, observed: Observed, seed: int, bars: Bars) -> tuple[dict[str, Any], Estimate]:
    import torch

    from svrl.matrix.estimate import held_out_error

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


def _print(row: dict[str, Any], plot: Path | None) -> None:
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
    tell(*(f"{name:<15} {text}" for name, text in lines.items()))
    if row["outcome"]:
        say(f"Note: {row['outcome']}")


# Matrices on disk: .npy, .npz and .csv, with NaN or an empty cell for a missing entry.


def read_matrix(path: Path) -> np.ndarray:
    """Read one matrix (m, n) of float32 or float64; whole numbers become float64.

    Raises:
        ValueError: With one sentence, for anything that is not such a matrix.
    """
    import numpy as np

    check_ending(path, ENDINGS)
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file." if path.exists() else f"There is no file {path}.")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty.")
    _refuse_large(path)
    matrix = _read_csv(path) if path.suffix.lower() == ".csv" else _read_numpy(path)
    if matrix.ndim != 2:
        raise ValueError(f"{path} holds an array of shape {matrix.shape}; a matrix has two axes, rows and columns.")
    if 0 in matrix.shape:
        raise ValueError(f"{path} holds a matrix of shape {matrix.shape}, which has no entry.")
    if matrix.dtype.kind in "iu":
        return matrix.astype(np.float64)
    if matrix.dtype.kind != "f":
        raise ValueError(f"{path} holds {matrix.dtype} entries; convert them to float32 or float64.")
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
            if "matrix" in names or len(names) == 1:
                array: np.ndarray = loaded["matrix" if "matrix" in names else names[0]]
                return array
    except Exception as error:  # a damaged file fails in as many ways as zip and NumPy have parts
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path} is not a NumPy file of numbers, or is damaged.") from error
    raise ValueError(f"{path} holds {len(names)} arrays ({', '.join(names) or 'none'}); name one of them 'matrix'.")


def _refuse_large(path: Path) -> None:
    """Refuse a matrix, before it is read, if it cannot be completed in the memory that is left."""
    from svrl.runtime.device import free_ram

    size = path.stat().st_size
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(one.file_size for one in archive.infolist())
    if size * COPIES >= LARGE and size * COPIES > (free := free_ram()):
        raise ValueError(
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
                        raise ValueError(
                            f"Line {number} of {path} has {len(cells)} cells, but the first line has {len(rows[0])}."
                        )
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a text file of comma-separated numbers: {error}.") from error
    if not rows:
        raise ValueError(f"{path} is empty.")
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
        raise ValueError(
            f"Line {line}, column {column} of {path} is {text!r}, not a number; "
            f"leave a missing entry empty or write NaN.{hint}"
        ) from None
