"""Invalid actions: never observed, never chosen."""

import pytest
import torch

from svrl import AUTHORS_WAY, Observed, SoftImpute, StructuredTargets
from svrl.agents.targets import next_values

WAYS = {"ours": StructuredTargets(), "authors": AUTHORS_WAY}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_mask_of_all_actions_is_no_mask(way):
    q = torch.randn(3, 32, 6, generator=torch.Generator().manual_seed(0))
    plain = way(q, torch.Generator().manual_seed(1))
    masked = way(q, torch.Generator().manual_seed(1), action_mask=torch.ones_like(q, dtype=torch.bool))
    assert torch.equal(plain.matrix, masked.matrix)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_values_of_invalid_actions_change_nothing(way):
    draws = torch.Generator().manual_seed(0)
    q, valid = torch.randn(32, 6, generator=draws), torch.rand(32, 6, generator=draws) < 0.7
    valid[:, 2] = True
    valid[5] = False  # a terminal state
    q += 10.0
    one = way(q, torch.Generator().manual_seed(1), action_mask=valid)
    for other in (1e4 * q, torch.full_like(q, -torch.inf)):
        wild = torch.where(valid, q, other)
        found = way(wild, torch.Generator().manual_seed(1), action_mask=valid)
        assert torch.equal(one.matrix[valid], found.matrix[valid])
        assert torch.equal(found.matrix[~valid], wild[~valid])
    without = torch.arange(32) != 5
    mask = way.draw(q.shape, torch.Generator().manual_seed(1))
    alone = way.complete(q[without], mask[without], valid[without])
    torch.testing.assert_close(one.matrix[without], alone.matrix, rtol=1e-4, atol=1e-4)


def test_what_is_completed_is_what_the_estimator_says_without_the_invalid_entries():
    draws = torch.Generator().manual_seed(0)
    q, valid = torch.randn(32, 6, generator=draws).double(), torch.rand(32, 6, generator=draws) < 0.7
    valid[:, 2] = True
    estimator = SoftImpute(ratio=0.02, tolerance=1e-6, max_steps=100)
    way = StructuredTargets(p=1.0, estimator=estimator, scale="none")
    found = way(q, torch.Generator().manual_seed(1), action_mask=valid)
    torch.testing.assert_close(found.estimate, estimator(Observed.from_nan(q.masked_fill(~valid, torch.nan))).matrix)


@pytest.mark.parametrize("kind", ["dqn", "double"])
@pytest.mark.parametrize("value", ["completed", "network"])
@pytest.mark.parametrize("structured", [False, True])
def test_the_best_valid_action_is_chosen(kind, value, structured):
    draws = torch.Generator().manual_seed(0)
    target, online, completed = torch.randn(3, 200, 5, generator=draws)
    valid = torch.rand(200, 5, generator=draws) < 0.5
    valid[:, 0] = True
    given = {
        "online_q": online if kind == "double" else None,
        "completed": completed if structured else None,
        "next_value_from": value,
    }
    got = next_values(kind, target, **given, action_mask=valid)
    for row in range(200):
        keep = valid[row].nonzero().squeeze(-1)
        part = {name: one[row : row + 1, keep] if torch.is_tensor(one) else one for name, one in given.items()}
        assert got[row] == next_values(kind, target[row : row + 1, keep], **part)


@pytest.mark.parametrize("completed", [None, torch.ones(2, 3)])
def test_a_terminal_state_without_a_valid_action_has_a_finite_value(completed):
    values = next_values("dqn", torch.ones(2, 3), completed=completed, action_mask=torch.zeros(2, 3, dtype=torch.bool))
    assert bool(torch.isfinite(values).all())
