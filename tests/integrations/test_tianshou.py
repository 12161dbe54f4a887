"""Tianshou with structure, against the library itself."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("tianshou", reason="Tianshou is missing; make test-integrations installs it")

from tests.integrations.ladder import Ladder
from tests.integrations.tianshou_rig import (
    ACTIONS,
    BATCH,
    OURS,
    SPACE,
    WIDTH,
    algorithm_of,
    memory,
    returns_of,
    same,
    updated,
    values_of,
)
from tianshou.algorithm import C51, DQN, QRDQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.torch_utils import policy_within_training_step

from svrl import StructuredTargets
from svrl.heads import LowRankHead, ridge_in_backward, ridge_of
from svrl.integrations.pytorch import structured, structured_quantiles, structured_values
from svrl.integrations.target_hook import ranks_of
from svrl.integrations.tianshou import (
    StructuredC51,
    StructuredDQN,
    StructuredQRDQN,
)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("value", ["completed", "network"])
@pytest.mark.parametrize("frequency", [0, 4])
def test_returns_are_those_of_the_table(double: bool, value: Any, frequency: int) -> None:
    rule = StructuredTargets(p=0.6, next_value_from=value)
    ours = algorithm_of(DQN, StructuredDQN, structure=rule, seed=3, is_double=double, target_update_freq=frequency)
    buffer = memory()
    updated(ours, buffer, 6)
    indices = np.arange(20, 20 + BATCH)
    whole = buffer[indices]
    target, online = (values_of(ours, whole.obs_next, online=flag) for flag in (False, True))
    worth = structured_values(target, rule, online_q=online if double else None, seed=3, updates=6)
    expected = whole.rew + 0.9 * worth.double().numpy() * ~whole.terminated
    np.testing.assert_allclose(returns_of(ours, buffer, indices).flatten().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("value", ["completed", "network"])
def test_quantiles_move_with_their_means(value: Any) -> None:
    rule = StructuredTargets(p=0.6, next_value_from=value)
    ours = algorithm_of(QRDQN, StructuredQRDQN, structure=rule, seed=1)
    buffer = memory()
    updated(ours, buffer, 6)
    indices = np.arange(11, 19)
    target, online = (values_of(ours, buffer[indices].obs_next, online=flag) for flag in (False, True))
    if value == "completed":
        chosen = online.mean(2).argmax(1)
        quantiles = structured_quantiles(target.transpose(1, 2), seed=1, updates=6, rule=rule).transpose(1, 2)
        assert not torch.equal(quantiles, target)
    else:
        chosen = structured(online.mean(2), seed=1, updates=6, rule=rule).argmax(1)
        quantiles = target
    expected = buffer[indices].rew[:, None] + 0.9 * quantiles[torch.arange(8), chosen].numpy()
    np.testing.assert_allclose(returns_of(ours, buffer, indices).numpy(), expected, rtol=1e-5)


def test_completed_expected_values_choose_among_distributions() -> None:
    # Half of the entries are hidden, so that a choice differs from the network's in some row.
    plain, ours = algorithm_of(C51), algorithm_of(C51, StructuredC51, structure=0.5)
    buffer, indices = memory(), np.arange(BATCH)
    batch = ours._preprocess_batch(buffer[indices], buffer, indices)
    expected_values = ours.policy.compute_q_value(values_of(ours, batch.obs_next, online=True), None)
    chosen = structured(expected_values, 0.5, updates=0).argmax(1)
    with torch.no_grad():
        theirs, mine = plain._target_dist(batch), ours._target_dist(batch)
    moved = chosen != expected_values.argmax(1)
    assert 0 < int(moved.sum()) < BATCH
    torch.testing.assert_close(mine[~moved], theirs[~moved])
    assert not torch.equal(mine[moved], theirs[moved])
    torch.testing.assert_close(mine.sum(1), torch.ones(BATCH))


def masked_memory(*, all_valid: bool = False) -> ReplayBuffer:
    """`memory()` with masks; the last next state, a terminal one, has no valid action."""
    plain, rng = memory(), np.random.default_rng(1)
    valid = (rng.random((2, len(plain), ACTIONS)) < 0.5) | all_valid
    valid[..., 2] = True
    buffer = ReplayBuffer(len(plain))
    for k in range(len(plain)):
        one = plain[k]
        if k == len(plain) - 1 and not all_valid:
            valid[1, k], one.terminated, one.truncated = False, True, False
        one.obs, one.obs_next = Batch(obs=one.obs, mask=valid[0, k]), Batch(obs=one.obs_next, mask=valid[1, k])
        buffer.add(one)
    return buffer


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("value", ["completed", "network"])
@pytest.mark.parametrize("frequency", [0, 4])
def test_invalid_actions_are_neither_observed_nor_chosen(double: bool, value: Any, frequency: int) -> None:
    rule = StructuredTargets(p=0.6, next_value_from=value)
    ours = algorithm_of(DQN, StructuredDQN, structure=rule, seed=3, is_double=double, target_update_freq=frequency)
    buffer = masked_memory()
    updated(ours, buffer, 6)
    indices = np.arange(64 - BATCH, 64)
    whole = buffer[indices]
    target, online = (values_of(ours, whole.obs_next.obs, online=flag) for flag in (False, True))
    worth = structured_values(
        target,
        rule,
        online_q=online if double else None,
        seed=3,
        updates=6,
        action_mask=torch.as_tensor(whole.obs_next.mask),
    )
    expected = whole.rew + 0.9 * worth.double().numpy() * ~whole.terminated
    np.testing.assert_allclose(returns_of(ours, buffer, indices).flatten().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", OURS)
def test_a_mask_of_all_actions_is_no_mask(kind: type) -> None:
    plain, masked = (algorithm_of(kind, OURS[kind], structure=0.5) for _ in range(2))
    updated(plain, memory(), 10)
    updated(masked, masked_memory(all_valid=True), 10)
    assert same(plain, masked)


class Masked(Ladder):
    def observed(self, rung: np.ndarray, valid: np.ndarray) -> Any:
        return {"obs": rung, "mask": valid}


@pytest.mark.parametrize("kind", OURS)
@pytest.mark.parametrize("value", ["completed", "network"])
def test_a_training_with_masks_makes_no_invalid_move(kind: type, value: Any) -> None:
    def trained(cls: type, **settings: Any) -> Any:
        np.random.seed(0)  # noqa: NPY002 - the library draws from it
        algorithm, env = algorithm_of(kind, cls, **settings), Masked()
        algorithm.policy.set_eps_training(0.5)
        buffer = VectorReplayBuffer(400, 1)
        collector = Collector(algorithm, DummyVectorEnv([lambda: env]), buffer, exploration_noise=True)
        collector.reset(gym_reset_kwargs={"seed": 0})
        with policy_within_training_step(algorithm.policy):
            for _ in range(10):
                collector.collect(n_step=20)
                algorithm.update(buffer=buffer, sample_size=BATCH)
        assert env.moves == 200
        return algorithm

    whole, half = (StructuredTargets(p=p, next_value_from=value) for p in (1.0, 0.5))
    plain, whole, ours = trained(kind), trained(OURS[kind], structure=whole), trained(OURS[kind], structure=half)
    assert same(plain, whole)
    assert not same(plain, ours)


def test_a_pickle_and_a_copy_draw_on_by_themselves(tmp_path: Any) -> None:
    first = algorithm_of(DQN, StructuredDQN, structure=0.5, target_update_freq=0)
    updated(first, memory(), 7)
    torch.save(first, tmp_path / "whole.pt")  # what the library's high-level interface does
    whole, twin = torch.load(tmp_path / "whole.pt", weights_only=False), copy.deepcopy(first)
    for algorithm in (first, whole, twin):
        updated(algorithm, memory(), 7)
        assert int(algorithm.structure_updates) == 14
        assert same(algorithm, first)


def test_a_library_that_asks_in_another_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = algorithm_of(DQN, StructuredDQN)
    monkeypatch.setattr(DQN, "_target_q", lambda self, buffer, indices: torch.zeros(len(indices)))
    with pytest.raises(RuntimeError, match="made an update with 0 completed matrices in place of 1"):
        updated(ours, memory(), 1)


def test_an_interrupted_update_does_not_hide_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    ours = algorithm_of(DQN, StructuredDQN, structure=0.5)
    with monkeypatch.context() as patch:
        patch.setattr(ours.optim, "step", interrupt)
        with pytest.raises(KeyboardInterrupt):
            updated(ours, memory(), 1)
    assert int(ours.structure_updates) == 0
    updated(ours, memory(), 2)
    assert int(ours.structure_updates) == 2


@pytest.mark.parametrize("kind", [DQN, C51])
def test_structure_can_be_changed(kind: type) -> None:
    straight, changed = algorithm_of(kind, OURS[kind], structure=0.5), algorithm_of(kind, OURS[kind], structure=None)
    changed.structure = 0.5
    updated(straight, memory(), 5)
    updated(changed, memory(), 5)
    assert same(straight, changed)
    assert int(changed.structure_updates) == 5
    plain = algorithm_of(kind)
    ended = algorithm_of(kind, OURS[kind], structure=0.5)
    ended.structure = None
    updated(plain, memory(), 5)
    updated(ended, memory(), 5)
    assert same(plain, ended)
    assert list(plain.state_dict()) == list(algorithm_of(kind, OURS[kind], structure=None).state_dict())


def test_ranks_are_those_of_the_target_network_before_completion() -> None:
    ours = algorithm_of(DQN, StructuredDQN, structure=0.5)
    buffer = memory(BATCH)
    with policy_within_training_step(ours.policy):
        expected = ranks_of(values_of(ours, buffer[np.arange(BATCH)].obs_next, online=False))
        ours.update(buffer=buffer, sample_size=0)  # all of it, in order
    assert ours.ranks == expected
    with pytest.raises(ValueError, match="1 or more, got 0"):
        algorithm_of(DQN, StructuredDQN, rank_every=0)


@pytest.mark.parametrize("kind", [DQN, StructuredDQN])
def test_a_ridge_in_backward_is_the_ridge_in_the_loss(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_head() -> Any:
        torch.manual_seed(0)
        net = Net(state_shape=WIDTH, hidden_sizes=[16])
        net.model = nn.Sequential(net.model, LowRankHead(16, SPACE.n, rank=4, ridge=0.1))
        policy = DiscreteQLearningPolicy(model=net, action_space=SPACE)
        return kind(policy=policy, optim=AdamOptimizerFactory(lr=1e-2), gamma=0.9, target_update_freq=4)

    plain, other, ours = with_head(), with_head(), with_head()
    ridge_in_backward(ours.policy.model)
    step = other.optim.step

    def with_ridge(loss: Tensor) -> None:
        step(loss + ridge_of(other.policy.model))

    monkeypatch.setattr(other.optim, "step", with_ridge)
    for algorithm in (plain, other, ours):
        updated(algorithm, memory(), 10)
    torch.testing.assert_close(ours.state_dict(), other.state_dict())
    assert not same(plain, ours)
