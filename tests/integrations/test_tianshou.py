"""Tianshou with structure, against the library itself."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("tianshou", reason="Tianshou is missing; make test-integrations installs it")

from tests.integrations.tianshou_rig import (
    ACTIONS,
    BATCH,
    OURS,
    WIDTH,
    algorithm_of,
    memory,
    returns_of,
    same,
    updated,
    values_of,
)
from tianshou.algorithm import C51, DQN, QRDQN
from tianshou.data import Batch, ReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step

from svrl import StructuredTargets
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


def test_actions_that_are_not_allowed_are_not_chosen() -> None:
    rng = np.random.default_rng(0)
    ours = algorithm_of(DQN, StructuredDQN, structure=StructuredTargets(p=0.5, next_value_from="network"))
    buffer = ReplayBuffer(BATCH)
    for _ in range(BATCH):
        obs = {"obs": rng.normal(size=WIDTH).astype(np.float32), "mask": np.arange(ACTIONS) < 2}
        buffer.add(Batch(obs=obs, act=0, rew=0.0, obs_next=obs, terminated=False, truncated=False, info={}))
    indices = np.arange(BATCH)
    values = values_of(ours, buffer[indices].obs_next.obs, online=True)
    chosen = structured(values, 0.5, updates=0)[:, :2].argmax(1)
    expected = 0.9 * values[torch.arange(BATCH), chosen]  # both networks are the same at the beginning
    torch.testing.assert_close(returns_of(ours, buffer, indices).flatten().float(), expected)


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
