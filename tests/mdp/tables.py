"""Finite problems to test with, and the plainest ways to back them up and to solve them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from svrl.mdp.model import sparse_rows
from svrl.mdp.tabular import Products, TabularMDP


def random_table(seed: int, n_states: int = 7, n_actions: int = 3, share: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Dense transitions (S, A, S) with about `share` of the entries, and a reward for each, (S, A, S)."""
    rng = np.random.default_rng(seed)
    size = (n_states, n_actions, n_states)
    p = rng.random(size) * (rng.random(size) < share)
    np.put_along_axis(p, rng.integers(n_states, size=(n_states, n_actions, 1)), 0.5, axis=2)
    return p / p.sum(2, keepdims=True), rng.normal(size=size)


def csr(p: np.ndarray, index: type = np.int32) -> sp.csr_array:
    found = sp.csr_array(p.reshape(-1, p.shape[-1]))
    found.indices, found.indptr = found.indices.astype(index), found.indptr.astype(index)
    return found


def torch_csr(matrix: sp.csr_array) -> torch.Tensor:
    parts = (torch.from_numpy(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    return sparse_rows(*parts, matrix.shape)


def brute(p: np.ndarray, r: np.ndarray, gamma: float, v: np.ndarray, terminal: np.ndarray | None = None) -> np.ndarray:
    """Q (S, A) by loops, from rewards (S, A, S)."""
    n_states, n_actions, _ = p.shape
    dead = np.zeros(n_states, bool) if terminal is None else terminal
    q = np.zeros((n_states, n_actions))
    for s in range(n_states):
        for a in range(n_actions):
            for j in range(n_states):
                if not dead[s]:
                    q[s, a] += p[s, a, j] * (r[s, a, j] + gamma * (0.0 if dead[j] else v[j]))
    return q


def values(seed: int, size: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def solve(mdp: TabularMDP, accuracy: float = 1e-10) -> tuple[torch.Tensor, torch.Tensor]:
    """Value iteration until no value can be off by more than `accuracy`."""
    v = torch.zeros(mdp.n_states, dtype=torch.float64)
    while True:
        new, policy = mdp.improve(v)
        gap = float((new - v).abs().max()) * mdp.gamma / (1 - mdp.gamma)
        v = new
        if gap < accuracy:
            return v, policy


def by_products(mdp: TabularMDP) -> TabularMDP:
    """The same model with torch's sparse products in place of the kernels."""
    plain = copy.copy(mdp)
    plain._engine = Products(mdp._csr, mdp.entries.reward, mdp.gamma)
    return plain


def kinds() -> dict[str, Callable[[np.ndarray, np.ndarray], dict[str, Any]]]:
    return {
        "dense, NumPy": lambda p, r: {"transitions": p, "rewards": r},
        "dense, torch": lambda p, r: {"transitions": torch.tensor(p), "rewards": torch.tensor(r)},
        "CSR and pairs": lambda p, r: {"transitions": csr(p), "rewards": (p * r).sum(2)},
        "CSR and dense": lambda p, r: {"transitions": csr(p), "rewards": r},
        "CSR and CSR": lambda p, r: {"transitions": csr(p), "rewards": csr(np.where(p > 0, r, 0.0))},
        "CSR and fuller CSR": lambda p, r: {"transitions": csr(p), "rewards": csr(r)},
        "CSR and list": lambda p, r: {"transitions": csr(p), "rewards": r[p > 0]},
        "int64": lambda p, r: {"transitions": csr(p, np.int64), "rewards": r},
        "csr_matrix": lambda p, r: {"transitions": sp.csr_matrix(csr(p)), "rewards": r},
        "CSC": lambda p, r: {"transitions": csr(p).tocsc(), "rewards": r},
        "torch CSR": lambda p, r: {"transitions": torch_csr(csr(p)), "rewards": torch.tensor((p * r).sum(2))},
        "torch CSR twice": lambda p, r: {"transitions": torch_csr(csr(p)), "rewards": torch_csr(csr(r, np.int64))},
        "repeated columns": lambda p, r: {"transitions": repeated(csr(p)), "rewards": r},
        "read only": lambda p, r: {"transitions": read_only(csr(p)), "rewards": r},
    }


def repeated(matrix: sp.csr_array) -> sp.csr_array:
    """The same matrix with every entry in two halves, the columns of a row falling."""
    flipped = [slice(low, high) for low, high in pairwise(matrix.indptr)]
    indices = np.concatenate([np.repeat(matrix.indices[row][::-1], 2) for row in flipped])
    data = np.concatenate([np.repeat(matrix.data[row][::-1] / 2, 2) for row in flipped])
    return sp.csr_array((data, indices, 2 * matrix.indptr), shape=matrix.shape)


def read_only(matrix: sp.csr_array) -> sp.csr_array:
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix
