"""What is said while kernels are compiled."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from svrl.matrix import compiling
from svrl.matrix.compiling import SENTENCE

COMPILES = """
import numpy as np
from svrl.matrix import compiling
compiling.AFTER = 0.001
from svrl.mdp.grid_kernel import backup_at
zeros = np.zeros(9)
index = np.zeros(1, np.int64)
for real in (np.float32, np.float64):
    backup_at(
        np.zeros(1, np.int32), zeros[:2, None], zeros, zeros[:1], np.zeros(9, real), np.arange(4), 0.9, index, 0, 1,
        np.zeros(1)
    )
"""


def said(cache: Path) -> list[str]:
    """What a process says whose kernels are kept in this folder."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILES],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()


def test_it_is_said_once_and_not_again_once_kernels_are_kept(tmp_path):
    assert said(tmp_path) == [SENTENCE]
    assert said(tmp_path) == []


def of(module: str) -> Any:
    """What numba tells of a function."""
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


@pytest.mark.parametrize(
    ("module", "after", "seconds", "number"),
    [("svrl.mdp.grid_kernel", 0.01, 0.3, 1), ("svrl.mdp.grid_kernel", 0.2, 0.0, 0), ("theirs", 0.01, 0.3, 0)],
    ids=["a long wait", "a short one", "somebody else's kernel"],
)
def test_only_long_waits_for_kernels_of_ones_own_are_told(monkeypatch, caplog, module, after, seconds, number):
    monkeypatch.setattr(compiling, "AFTER", after)
    teller = compiling._Teller()
    with caplog.at_level(logging.WARNING, logger="svrl"):
        for _ in range(2):
            teller.on_start(of(module))
            teller.on_start(of(module))  # a function that it calls
            teller.on_end(of(module))
            time.sleep(seconds)
            teller.on_end(of(module))
        time.sleep(0.3)
    assert [record.getMessage() for record in caplog.records] == [SENTENCE] * number
