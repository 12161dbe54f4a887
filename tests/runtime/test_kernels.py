"""What is said while kernels are compiled."""

import os
import subprocess
import sys
from pathlib import Path

from svrl.runtime.kernels import SENTENCE

OURS = """
import numpy as np
from svrl.mdp.grid_kernel import backup_at
zeros = np.zeros(9)
index = np.zeros(1, np.int64)
for real in (np.float32, np.float64):
    backup_at(
        np.zeros(1, np.int32), zeros[:2, None], zeros, np.zeros(9, real), np.arange(4), 0.9, index, 0, 1, np.zeros(1)
    )
"""
THEIRS = """
from svrl.runtime.kernels import njit
njit(lambda x: x + 1)(1)
"""


def said(program: str, cache: Path) -> list[str]:
    """What a process says whose kernels are kept in this folder."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()


def test_it_is_said_once_and_not_again_once_kernels_are_kept(tmp_path):
    assert said(OURS, tmp_path) == [SENTENCE]
    assert said(OURS, tmp_path) == []


def test_other_peoples_kernels_are_compiled_in_silence(tmp_path):
    assert said(THEIRS, tmp_path) == []
