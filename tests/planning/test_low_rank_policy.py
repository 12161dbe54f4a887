"""Policies from a part of a matrix: exact where the matrix has the rank that is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from svrl.matrix import FactorALS, SoftImpute
from svrl.planning.policy import low_rank_policy

from .oracles import Dense, low_rank_model, small_grid


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def optimal(dense: Dense) -> Tensor:
    return torch.from_numpy(dense.backup(dense.optimum()))


def test_a_matrix_of_low_rank_gives_back_its_policy():
    dense = Dense.of(low_rank_model())
    q = optimal(dense)
    found = low_rank_policy(q, seeded(), observe=0.4, estimator=FactorALS(rank=3, ridge=1e-4, tolerance=1e-9))
    assert float((found.q - q).abs().max()) < 1e-2
    assert torch.equal(found.policy, found.q.argmax(1))
    # Peaks between two actions are near ties: the policy is the same up to what those are worth.
    assert float((found.policy == q.argmax(1)).double().mean()) > 0.95
    assert dense.loss(found.policy) < 1e-3
    assert found.observe == 0.4
    assert int(found.estimate.rank) == 3


def test_all_entries_are_the_greedy_policy():
    q = optimal(Dense.of(small_grid())).float()
    found = low_rank_policy(q, seeded(), observe=1.0)
    assert torch.equal(found.q, q)
    assert torch.equal(found.policy, q.argmax(1))


def test_the_authors_rule_is_the_default_and_keeps_observed_entries():
    dense = Dense.of(low_rank_model())
    q = optimal(dense)
    plain = low_rank_policy(q, seeded(1))
    same = low_rank_policy(
        q, seeded(1), estimator=SoftImpute(ratio=1 / 50, tolerance=1e-3, max_steps=100, output="fill")
    )
    assert torch.equal(plain.q, same.q)
    kept = plain.q == q.float()
    assert float(kept.double().mean()) == pytest.approx(0.5, abs=0.05)
    assert dense.loss(plain.policy) < 0.5 * dense.loss(np.zeros(len(q), int))


def test_a_matrix_without_structure_is_not_recovered():
    q = torch.randn(60, 40, generator=seeded(3), dtype=torch.float64)
    found = low_rank_policy(q, seeded(), observe=0.4, estimator=FactorALS(rank=3))
    assert float((found.policy == q.argmax(1)).double().mean()) < 0.5


def test_a_generator_decides_what_is_kept():
    q = optimal(Dense.of(low_rank_model()))
    one, same, other = (low_rank_policy(q, seeded(seed)) for seed in (4, 4, 5))
    assert torch.equal(one.q, same.q)
    assert not torch.equal(one.q, other.q)


def test_an_empty_row_is_named():
    with pytest.raises(ValueError, match="row"):
        low_rank_policy(torch.ones(50, 4), seeded(), observe=0.1)


@pytest.mark.parametrize("observe", [0.0, 1.5])
def test_a_share_must_be_one(observe: float):
    with pytest.raises(ValueError, match="probability"):
        low_rank_policy(torch.ones(5, 4), seeded(), observe=observe)
