"""Masks by counting (`svrl.integrations.pytorch.observed_entries`), against a reference in whole numbers of Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.integrations.pytorch import observed_entries

WORD = 2**64


def mixed(x: int) -> int:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % WORD
    return x ^ (x >> 31)


def reference(count: int, p: float, seed: int, updates: int) -> list[bool]:
    key = mixed(updates % WORD ^ (seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % WORD)
    return [(mixed(entry ^ key) % 2**24) / 2**24 < p for entry in range(count)]


def masks(count: int, p: float = 0.5, size: int = 4096, seed: int = 0) -> np.ndarray:
    """Of updates in a row, (count, size), as -1 and 1."""
    rows = [observed_entries((size,), p, seed=seed, updates=update).numpy() for update in range(count)]
    return 2.0 * np.stack(rows) - 1.0


def test_the_reference_is_splitmix64() -> None:
    """The first outputs of the published generator for the seed 1234567: mixed multiples of the golden gamma."""
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [mixed((1234567 + (k + 1) * 0x9E3779B97F4A7C15) % WORD) for k in range(4)] == known


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize(("seed", "updates"), [(0, 0), (0, 1), (1, 0), (-5, 3), (2**63 - 1, 10**12), (2**70, 2**62)])
def test_every_bit_is_the_references(p: float, seed: int, updates: int) -> None:
    found = observed_entries((32, 18), p, seed=seed, updates=updates)
    assert found.dtype == torch.bool
    assert found.flatten().tolist() == reference(576, p, seed, updates)


def test_neighbouring_updates_seeds_and_entries_are_independent() -> None:
    seeds = [masks(40, seed=seed) for seed in range(3)]
    rows = np.concatenate(seeds)
    apart = (rows @ rows.T / rows.shape[1])[~np.eye(len(rows), dtype=bool)]
    assert np.abs(apart).max() < 5 / np.sqrt(rows.shape[1])
    assert abs(apart.std() * np.sqrt(rows.shape[1]) - 1) < 0.1
    for lag in (1, 2, 3, 16, 18, 64):
        assert abs((rows[:, lag:] * rows[:, :-lag]).mean()) < 5 / np.sqrt(rows[:, lag:].size)
