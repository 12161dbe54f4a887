"""Playing at random, comparing what came of it, and a stand-in for a checkpoint."""

from __future__ import annotations

import json

import numpy as np

from svrl.envs.vector import Step, VectorEnv, step


def played(env: VectorEnv, steps: int, seed: int = 0) -> list[Step]:
    rng = np.random.default_rng(seed)
    return [step(env, rng.integers(env.spec.n_actions, size=env.count)) for _ in range(steps)]


def assert_equal(one: list[Step], other: list[Step]) -> None:
    for first, second in zip(one, other, strict=True):
        for name, left, right in zip(Step._fields, first, second, strict=True):
            np.testing.assert_array_equal(left, right, err_msg=name)


def through_a_file(written: object) -> object:
    """As a checkpoint would: arrays to one side, the rest through strict JSON."""
    arrays: list[np.ndarray] = []

    def out(part: object) -> object:
        if isinstance(part, np.ndarray):
            assert part.dtype.kind in "biuf"
            arrays.append(part.copy())
            return {"@": len(arrays) - 1}
        if isinstance(part, dict):
            assert all(type(key) is str for key in part)
            return {key: out(value) for key, value in part.items()}
        return [out(value) for value in part] if isinstance(part, list) else part

    def back(part: object) -> object:
        if isinstance(part, dict):
            return arrays[part["@"]] if "@" in part else {key: back(value) for key, value in part.items()}
        return [back(value) for value in part] if isinstance(part, list) else part

    return back(json.loads(json.dumps(out(written), allow_nan=False)))
