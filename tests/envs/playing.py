"""Playing at random, comparing the steps, and saving a state."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from svrl.envs.vector import Step, VectorEnv, step
from svrl.runtime.arrays import read_arrays, write_arrays


def played(env: VectorEnv, steps: int, seed: int = 0) -> list[Step]:
    rng = np.random.default_rng(seed)
    return [step(env, rng.integers(env.spec.n_actions, size=env.count)) for _ in range(steps)]


def assert_equal(one: list[Step], other: list[Step]) -> None:
    for first, second in zip(one, other, strict=True):
        for name, left, right in zip(Step._fields, first, second, strict=True):
            np.testing.assert_array_equal(left, right, err_msg=name)


def through_a_file(state: object) -> object:
    """As a checkpoint stores it."""
    with tempfile.TemporaryDirectory() as folder:
        write_arrays(Path(folder) / "state", state)
        return read_arrays(Path(folder) / "state")
