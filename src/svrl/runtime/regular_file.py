"""Only regular files are read: a pipe would be waited for, and a device has no end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, in bytes.

    Raises:
        ValueError: If it is a pipe, a folder or a device.
        OSError: If it cannot be opened.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file, and nothing else is read.")
    return path.open("rb")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        ValueError: If it holds none; the sentence names the file.
        OSError: If it cannot be opened.
    """
    with open_regular(path) as file:
        text = file.read()
    try:
        value = json.loads(text, parse_constant=_number, parse_float=_number)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}.") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} is damaged: it holds no JSON object.")
    return value


def _number(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text} is no number of JSON")
    return float(text)
