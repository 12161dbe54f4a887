"""The benchmark of the replay memory: both sides were given the same. Nothing here is about speed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from svrl.agents.replay import Replay, next_observations, observations
from svrl.benchmarks import replay as benchmark
from svrl.benchmarks.peers import MissingPeerError

pytest.importorskip("stable_baselines3")


@pytest.mark.slow
def test_everything_is_measured():
    rows = list(benchmark.measure_replay(quick=True))
    assert [(row.unit, row.peer_name) for row in rows] == [("us", "Stable-Baselines3")] * 6 + [("GB", "limit")]
    assert all(row.ours > 0.0 and row.peer > 0.0 for row in rows)
    assert rows[-1].ratio > 1.0


@pytest.mark.parametrize("lanes", [1, 3])
def test_both_hold_the_same_transitions(lanes: int):
    ours = Replay(benchmark.SPEC, lanes=lanes, capacity=100 * lanes)
    theirs = benchmark._theirs(benchmark._peer(), 100 * lanes, lanes)
    benchmark._fill(ours, theirs, 100)
    mine = ours._sample_kernel(torch.arange(len(ours)))
    for lane in range(lanes):
        # Theirs is a ring that has just wrapped by one.
        order = (np.arange(100) + 1) % 100
        part = slice(lane * 100, (lane + 1) * 100)
        # The first three windows of the episode are padded with zeros here; the benchmark's stacks never are.
        assert np.array_equal(observations(mine)[part].numpy()[3:], theirs.observations[order, lane][3:])
        assert np.array_equal(next_observations(mine)[part].numpy()[3:], theirs.next_observations[order, lane][3:])
        assert np.array_equal(mine.actions[part].numpy(), theirs.actions[order, lane, 0])
        assert np.allclose(mine.rewards[part].numpy(), theirs.rewards[order, lane])


def test_a_missing_peer_is_answered_by_the_command_to_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.buffers", None)
    with pytest.raises(MissingPeerError, match=r"pip install 'svrl\[bench\]'"):
        list(benchmark.measure_replay(quick=True))
