"""Calls for other processes, light enough to be carried out at once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


class Unsendable(Exception):
    """Has something that no pipe takes."""

    def __init__(self) -> None:
        super().__init__("cannot be sent")
        self.what = lambda: None


def square_and_process(x: int) -> tuple[int, int]:
    return x * x, os.getpid()


def fail(error: type[BaseException]) -> None:
    raise error


def end_oneself(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def finish(folder: Path, seconds: float) -> None:
    (folder / "begun").touch()
    time.sleep(seconds)
    (folder / "finished").touch()


def go_on_for_ever(folder: Path) -> None:
    """Until it is told; then it leaves a mark, and takes its time."""
    try:
        (folder / f"begun-{os.getpid()}").touch()
        time.sleep(600)
    except KeyboardInterrupt:
        time.sleep(0.3)
        (folder / f"interrupted-{os.getpid()}").touch()
        raise


def save_when_told(folder: Path) -> str:
    """As a training does: takes note of the signal, saves, and ends by itself."""
    came: list[int] = []
    earlier = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    (folder / f"begun-{os.getpid()}").touch()
    while not came:
        time.sleep(0.05)
    (folder / f"saved-{os.getpid()}").touch()
    signal.signal(signal.SIGTERM, earlier)
    return "saved"


def deaf(folder: Path) -> None:
    """Does not stop when it is told."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    (folder / f"begun-{os.getpid()}").touch()
    time.sleep(600)
