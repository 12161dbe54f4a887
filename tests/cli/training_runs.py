"""Runs of a few hundred steps: how to make, stop and compare them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from svrl.cli.train import TrainProgress
from svrl.runtime.rows import read_rows

SMOKE = ("train", "CartPole-v1", "--preset", "smoke", "--device", "cpu", "--hidden", 32, "--threads", 1)
ROWS = ("episodes.jsonl", "learning.jsonl", "evaluations.jsonl")


def names(path: Path) -> set[str]:
    return {file.name for file in path.iterdir()}


def weights(run: Path) -> dict[str, np.ndarray]:
    with np.load(run / "agent.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def assert_same_run(one: Path, other: Path) -> None:
    """Agents and rows are equal, to the last bit."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert np.array_equal(array, second[name]), name
    for name in ROWS:
        assert read_rows(one / name) == read_rows(other / name), name


def interrupting(after: int, act: Callable[[], None]) -> Callable[[TrainProgress], None]:
    """A progress bar that does something after so many calls."""
    calls = 0

    def call(self: TrainProgress) -> None:
        nonlocal calls
        calls += 1
        if calls == after:
            act()

    return call


def sending(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def unexplained(value: object, name: str = "") -> list[str]:
    """Names of fields that are None, or not finite, without a reason beside them."""
    if isinstance(value, list):
        return [bad for item in value for bad in unexplained(item, name)]
    if not isinstance(value, dict):
        return [name] if isinstance(value, float) and not math.isfinite(value) else []
    found = []
    for key, item in value.items():
        reasons = {f"{key}_reason", "rank_reason" if key.startswith("rank_") else f"{key}_reason"}
        if item is None and not reasons & set(value):
            found.append(f"{name}.{key}")
        found += unexplained(item, f"{name}.{key}")
    return found
