"""svrl complete: fill in the missing entries of a matrix in a file."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from svrl.cli.answers import BadInputError, answering, nearest, print_json, progress_line
from svrl.cli.matrix_files import check_ending, read_matrix, write_matrix

if TYPE_CHECKING:
    import numpy as np

    from svrl.matrix.estimate import Estimate, Estimator
    from svrl.matrix.observed import Observed

METHODS = ("soft-impute", "factor-als", "hard-impute", "usvt", "nuclear-norm", "row-mean")
CENTRES = ("none", "mean", "midrange", "row")
PICTURES = (".png", ".pdf", ".svg", ".jpg")


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
    seed: Annotated[int, typer.Option(help="Seed for what is drawn at random.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Picture of before, after and spectrum (.png, .pdf, .svg, .jpg)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")] = False,
) -> None:
    """Fill in the missing entries of a matrix.

    Prints the rank that was found and the error on 5% of the observed entries, hidden for that
    purpose before the final fit. OUT is written only when everything has worked.
    """
    with answering(), ExitStack() as files:
        from svrl.matrix.arrays import as_array

        _check_places(source, out, plot)
        targets = {path: _claim(path, files) for path in (out, plot) if path is not None}
        progress = files.enter_context(progress_line())
        task = progress.add_task("reading")
        matrix = read_matrix(source)
        observed = _observe(matrix, allow_empty)
        estimator = build_estimator(method, rank, shrinkage, centre, keep_observed)
        row, estimate = _run(estimator, observed, seed, lambda text: progress.update(task, description=text))
        progress.update(task, description="writing")
        completed = as_array(estimate.matrix)
        write_matrix(targets[out], completed, out.suffix)
        if plot is not None:
            from svrl.reporting.completion_figure import draw_completion

            draw_completion(matrix, completed, targets[plot], rank=row["rank"])
        row = {"source": str(source), "out": str(out), "method": method, "seed": seed, **row}
    if as_json:
        print_json(row)
    else:
        _print_table(row, plot)


def build_estimator(
    method: str, rank: int | None, shrinkage: float | None, centre: str, keep_observed: bool
) -> Estimator:
    """The estimator that the options describe; options that it does not have are refused."""
    from svrl.matrix.catalogue import ESTIMATORS

    if method not in METHODS:
        raise nearest("method", method, METHODS)
    if centre not in CENTRES:
        raise nearest("centre", centre, CENTRES)
    options: dict[str, Any] = {"output": "fill" if keep_observed else "estimate"}
    if rank is not None:
        if method not in ("factor-als", "hard-impute"):
            raise BadInputError(f"{method} finds its own rank; use --rank with factor-als or hard-impute.")
        options["rank"] = rank
    elif method == "hard-impute":
        raise BadInputError("hard-impute needs a --rank; factor-als chooses one by itself.")
    if shrinkage is not None:
        if method not in ("soft-impute", "factor-als"):
            raise BadInputError(f"{method} has no shrinkage; use --shrinkage with soft-impute or factor-als.")
        options["shrinkage" if method == "soft-impute" else "ridge"] = shrinkage
    if centre != "none":
        if method in ("usvt", "row-mean"):
            raise BadInputError(f"{method} does its own centring; leave --centre out.")
        options["centre"] = centre
    try:
        return ESTIMATORS[method](**options)
    except ValueError as error:
        raise BadInputError(str(error)) from error


def _check_places(source: Path, out: Path, plot: Path | None) -> None:
    check_ending(source)
    check_ending(out)
    if plot is not None and plot.suffix not in PICTURES:
        raise nearest("picture format", plot.suffix or plot.name, PICTURES)
    for path in (out, plot):
        if path is not None and path.exists() and source.exists() and path.samefile(source):
            raise BadInputError(f"{path} is the input itself; write the result somewhere else.")


def _claim(path: Path, files: ExitStack) -> Path:
    """A temporary file beside `path`, made before any work, so that a locked folder is found out first."""
    from svrl.runs.atomic import writing

    if path.is_dir():
        raise BadInputError(f"{path} is a folder; give a file name.")
    try:
        return files.enter_context(writing(path))
    except OSError as error:
        raise BadInputError(f"{path} cannot be written: {error.strerror or error}.") from error


def _observe(matrix: np.ndarray, allow_empty: bool) -> Observed:
    from svrl.matrix.observed import Observed

    try:
        return Observed.from_nan(matrix, allow_empty=allow_empty)
    except ValueError as error:
        raise BadInputError(str(error).replace("pass allow_empty=True", "pass --allow-empty")) from error


def _run(estimator: Estimator, observed: Observed, seed: int, say: Any) -> tuple[dict[str, Any], Estimate]:
    import torch

    from svrl.matrix.held_out import held_out_error

    say("judging on hidden entries")
    error = held_out_error(estimator, observed, generator=torch.Generator().manual_seed(seed))
    say("completing")
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
        table.add_row(name, text)
    console = Console()
    console.print(table)
    if row["outcome"]:
        Console(stderr=True).print(f"Note: {row['outcome']}", highlight=False)
