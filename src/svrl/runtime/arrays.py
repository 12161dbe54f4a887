"""Arrays and plain values in one file, read back without running anything from it.

A tree is nested dicts, lists and tuples of NumPy arrays, torch tensors and JSON scalars. It becomes one .npz: an
entry for each array, named by its number, and the entry "tree", the structure as JSON text:

- None, booleans, text, whole numbers and finite floats are themselves; a list is a list;
- {"array": 3} is entry 3;
- {"dict": [[key, value], ...]} and {"tuple": [...]} keep keys of any characters, and whole numbers as keys;
- {"int": "-0x1f"} is a number beyond 64 bits, {"float": "nan"} one that JSON lacks.

Every entry carries a CRC, which reading checks. Tensors come back as NumPy arrays.
"""

from __future__ import annotations

import json
import math
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from svrl.runtime.files import open_regular, writing

STRUCTURE = "tree"
_READING = threading.Lock()
"""NumPy has Python parse an array's header. Before CPython 3.11.8 and 3.12.2 that sometimes fails if another thread
parses at the same time (gh-106905), and the checkpoint of one of several runs would seem to be damaged."""


def write_arrays(path: Path, tree: Any) -> None:
    """Write a tree atomically, as `svrl.runtime.files.writing` does.

    Raises:
        ValueError: If something in the tree cannot be written; the message says where it is.
    """
    arrays: list[np.ndarray] = []
    text = json.dumps(_encoded(tree, "the tree", arrays), allow_nan=False)
    entries = {str(number): array for number, array in enumerate(arrays)}
    entries[STRUCTURE] = np.frombuffer(text.encode("ascii"), np.uint8)
    with writing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **entries)  # type: ignore[arg-type]


def read_arrays(path: Path) -> Any:
    """Read a tree back.

    Raises:
        ValueError: If the file is damaged, or was not written by `write_arrays`.
        OSError: If it cannot be opened.
    """
    with open_regular(path) as file, _READING:
        try:
            # `write_arrays` neither compresses nor names an array twice, so what is read is no larger than the file.
            if sum(entry.file_size for entry in _entries(file)) > path.stat().st_size:
                raise ValueError("it unpacks to more than its size")
            with np.load(file, allow_pickle=False) as entries:
                structure = json.loads(entries[STRUCTURE].tobytes().decode("ascii"))
                unread = {name: name for name in entries.files}
                return _decoded(structure, lambda number: entries[unread.pop(str(number))])
        except Exception as error:  # a damaged archive fails in as many ways as it has parts
            raise ValueError(f"{path} is damaged, or was not written by svrl, and cannot be read.") from error


def arrays_checksum(path: Path) -> int:
    """A number that stands for the whole content, from the names and CRCs of the entries: no data are read.

    Raises:
        ValueError: If the file is damaged.
        OSError: If it cannot be opened.
    """
    with open_regular(path) as file:
        try:
            entries = [(entry.filename, entry.file_size, entry.CRC) for entry in _entries(file)]
        except Exception as error:
            raise ValueError(f"{path} is damaged and cannot be read.") from error
    return zlib.crc32(json.dumps(entries).encode("ascii"))


def _entries(file: BinaryIO) -> list[zipfile.ZipInfo]:
    """What an archive says about its entries. Rewinds the file."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    file.seek(0)
    return entries


def _encoded(value: Any, place: str, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else {"int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str | int) or isinstance(key, bool):
                raise ValueError(f"Keys are text or whole numbers, and {place} has the key {key!r}.")
        return {"dict": [[key, _encoded(inner, f"{place}[{key!r}]", arrays)] for key, inner in value.items()]}
    if isinstance(value, list | tuple):
        inside = [_encoded(inner, f"{place}[{number}]", arrays) for number, inner in enumerate(value)]
        return inside if isinstance(value, list) else {"tuple": inside}
    arrays.append(_as_array(value, place))
    return {"array": len(arrays) - 1}


def _as_array(value: Any, place: str) -> np.ndarray:
    if hasattr(value, "detach"):  # a tensor; torch need not be imported for it
        try:
            value = value.detach().cpu().numpy()
        except TypeError as error:
            raise ValueError(f"NumPy has no type for {value.dtype}, which {place} has. Convert it first.") from error
    if not isinstance(value, np.ndarray) or value.dtype.hasobject:
        kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"Arrays, tensors and plain values can be written, and {place} is {kind}.")
    return value


def _decoded(node: Any, array: Callable[[int], np.ndarray]) -> Any:
    if isinstance(node, list):
        return [_decoded(inner, array) for inner in node]
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    return _DECODERS[kind](content, array)


_DECODERS: dict[str, Callable[[Any, Callable[[int], np.ndarray]], Any]] = {
    "array": lambda content, array: array(content),
    "dict": lambda content, array: {key: _decoded(inner, array) for key, inner in content},
    "tuple": lambda content, array: tuple(_decoded(inner, array) for inner in content),
    "int": lambda content, _: int(content, 16),
    "float": lambda content, _: float(content),
}
