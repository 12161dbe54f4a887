"""Matrices on disk: .npy, .npz and .csv, with NaN or an empty cell for a missing entry."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from svrl.cli.answers import BadInputError, nearest

if TYPE_CHECKING:
    import numpy as np

ENDINGS = (".npy", ".npz", ".csv")
COPIES = 8
"""What a completion holds at a time, in sizes of its matrix: 10 to 17 were measured with soft-impute."""
LARGE = 1 << 29
"""Bytes that every machine has."""
MISSING = frozenset({"", "nan", "na", "null", "none"})


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
    if path.is_dir():
        raise BadInputError(f"{path} is a folder; give a file that ends in {', '.join(ENDINGS)}.")
    if not path.is_file():
        raise BadInputError(f"{path} is not a regular file; give one that ends in {', '.join(ENDINGS)}.")
    try:
        if path.stat().st_size == 0:
            raise BadInputError(f"{path} is empty.")
        _refuse_large(path, path.stat().st_size)
        matrix = _read_csv(path) if path.suffix.lower() == ".csv" else _read_numpy(path)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror or error}.") from error
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
    import numpy as np

    try:
        loaded = np.load(path, allow_pickle=False)
    except OSError as error:
        if error.errno is not None:
            raise
        raise BadInputError(f"{path} is not a NumPy file: {error}.") from error
    except (ValueError, EOFError, ImportError) as error:
        raise BadInputError(f"{path} is not a NumPy file of numbers, or is damaged.") from error
    except Exception as error:  # a damaged archive fails in as many ways as zip has parts
        raise BadInputError(f"{path} is damaged: {error}.") from error
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        names = list(loaded.files)
        name = "matrix" if "matrix" in names else names[0] if len(names) == 1 else None
        if name is None:
            raise BadInputError(
                f"{path} holds {len(names)} arrays ({', '.join(names) or 'none'}); name one of them 'matrix'."
            )
        _refuse_large(
            path, sum(one.file_size for one in loaded.zip.infolist() if one.filename in (name, f"{name}.npy"))
        )
        try:
            array: np.ndarray = loaded[name]
        except Exception as error:
            raise BadInputError(f"Array {name!r} of {path} cannot be read: {error}.") from error
        return array


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
