"""Heads: their equations, the nuclear norm in their ridge, and a task that only their ties can learn."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from svrl.agents.config import CHOICES
from svrl.heads import (
    AdditiveHead,
    DuelingHead,
    LowRankHead,
    LowRankLinear,
    make_head,
    ridge_in_backward,
    ridge_of,
)

AXES = (2, 3, 4)


def features(count: int = 5, width: int = 7) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(0))


def centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


def test_low_rank_is_its_equation():
    head, x = LowRankHead(7, 24, rank=3), features()
    e, u, b = head.advantage.factors.weight, head.advantage.coordinates.weight, head.advantage.coordinates.bias
    wanted = x @ head.value.weight.T + head.value.bias + centred((x @ u.T + b) @ e.T)
    torch.testing.assert_close(head(x), wanted)
    assert torch.linalg.matrix_rank(centred(head(features(50))).double(), rtol=1e-5) == 3
    torch.testing.assert_close(head(x).mean(-1, keepdim=True), head.value(x))


@pytest.mark.parametrize("rank", [0, 3])
def test_additive_is_its_equation_action_by_action(rank):
    head, x = AdditiveHead(7, AXES, rank=rank), features()
    effects = head.effects(x).split(AXES, -1)
    rest = centred(head.rest(x)) if rank else torch.zeros(5, 24)
    q = head(x)
    for number, action in enumerate(itertools.product(*map(range, AXES))):
        wanted = head.value(x)[:, 0] + rest[:, number]
        for levels, level in zip(effects, action, strict=True):
            wanted = wanted + levels[:, level] - levels.mean(-1)
        torch.testing.assert_close(q[:, number], wanted)
    torch.testing.assert_close(q.mean(-1, keepdim=True), head.value(x))


def test_dueling_is_its_equation():
    head, x = DuelingHead(7, 24, width=16, layer_norm=True), features()
    value, advantage = head.activations(x).split(16, -1)
    torch.testing.assert_close(head(x), head.value(value) + centred(head.advantage(advantage)))


@pytest.mark.parametrize("kind", CHOICES["head"])
def test_any_head_ends_a_network(kind):
    head = make_head(kind, 7, 24, axes=AXES, width=16, rank=50)  # a rank above the number of actions is allowed
    q = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), head)(torch.randn(3, 4))
    assert q.shape == (3, 24)
    q.sum().backward()
    assert all(parameter.grad is not None for parameter in head.parameters())


def test_sizes_may_be_those_of_spaces():
    one, several = gymnasium.spaces.Discrete(6), gymnasium.spaces.MultiDiscrete([2, 3])
    for kind in CHOICES["head"]:
        assert make_head(kind, 7, one.n, axes=several.nvec)(features()).shape == (5, 6)


def test_half_of_the_least_ridge_of_all_factors_is_the_nuclear_norm():
    w = torch.randn(9, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    layer = LowRankLinear(6, 9, rank=6, ridge=1.0).double()
    left, values, right = torch.linalg.svd(w, full_matrices=False)
    with torch.no_grad():
        layer.factors.weight.copy_(left * values.sqrt())
        layer.coordinates.weight.copy_(values.sqrt()[:, None] * right)
        torch.testing.assert_close(layer.factors.weight @ layer.coordinates.weight, w)
        torch.testing.assert_close(ridge_of(layer) / 2, values.sum())
        other = torch.eye(6, dtype=torch.float64) + 0.3 * torch.randn(6, 6, dtype=torch.float64)
        layer.factors.weight.copy_(layer.factors.weight @ other)
        layer.coordinates.weight.copy_(torch.linalg.solve(other, layer.coordinates.weight))
        torch.testing.assert_close(layer.factors.weight @ layer.coordinates.weight, w)
        assert float(ridge_of(layer) / 2) > float(values.sum())


def test_the_ridge_is_the_sum_over_the_layers_that_have_one():
    network = nn.ModuleList([LowRankHead(7, 24, rank=3, ridge=0.5), AdditiveHead(7, AXES), LowRankHead(7, 9, ridge=0)])
    squares = sum(float((getattr(network[0].advantage, name).weight ** 2).sum()) for name in ("factors", "coordinates"))
    assert float(ridge_of(network)) == pytest.approx(0.5 * squares, rel=1e-6)
    assert float(ridge_of(nn.Linear(3, 3))) == 0.0


def test_a_ridge_in_backward_is_the_ridge_in_the_loss():
    one, other = LowRankHead(7, 24, rank=3, ridge=0.1), LowRankHead(7, 24, rank=3, ridge=0.1)
    other.load_state_dict(one.state_dict())
    ridge_in_backward(other)
    (one(features()).square().mean() + ridge_of(one)).backward()
    other(features()).square().mean().backward()
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize(("kind", "fits"), [("flat", False), ("additive", True), ("additive+low-rank", True)])
def test_an_additive_head_knows_the_actions_that_it_never_saw(kind, fits):
    torch.manual_seed(0)
    x = torch.randn(64, 7)
    truth = AdditiveHead(7, (5, 6))(x).detach()
    seen = torch.from_numpy(np.random.default_rng(0).permutation(30)[:20])
    head = make_head(kind, 7, 30, axes=(5, 6), rank=8, ridge=1e-3)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.02)
    for _ in range(800):
        optimiser.zero_grad()
        ((head(x) - truth)[:, seen].square().mean() + ridge_of(head)).backward()
        optimiser.step()
    unseen = [a for a in range(30) if a not in seen.tolist()]
    error = float((head(x) - truth)[:, unseen].detach().square().mean() / truth.var())
    assert (error < 0.02) == fits, error


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: make_head("lowrank", 7, 24), "There is no head 'lowrank'. Choose one of flat, dueling, low-rank"),
        (
            lambda: make_head("additive", 7, 24),
            "Head additive needs actions of two or more numbers.* The 24 actions have one",
        ),
        (lambda: make_head("additive", 7, 24, axes=(5, 5)), "as its axes have together, 5 x 5 = 25; got 24."),
        (lambda: AdditiveHead(7, ()), r"needs the levels of each axis of an action, such as \(3, 3, 3\); got \(\)"),
        (lambda: AdditiveHead(7, (3, 0)), "needs a whole number of at least 1 for axis 1, got 0"),
        (lambda: LowRankHead(7, 0), "needs a whole number of at least 1 for actions, got 0"),
        (lambda: LowRankHead(7, 3, rank=2.5), "needs a whole number of at least 1 for rank, got 2.5"),
        (lambda: LowRankHead(7, 3, ridge=-1.0), "needs a finite ridge of at least 0, got -1.0"),
        (lambda: make_head("flat", 7, 0), "needs a whole number of at least 1 for actions, got 0"),
        (lambda: DuelingHead(7, 3, width=0), "needs a whole number of at least 1 for width, got 0"),
    ],
)
def test_bad_input_is_answered(make, words):
    with pytest.raises(ValueError, match=words):
        make()
