"""What runs on a GPU, in plain torch on the CPU: copies are real copies, so that nothing is shared by accident."""

from __future__ import annotations

import pytest
import torch

from svrl.agents.replay import Replay
from svrl.agents.replay_cuda import GpuSide
from svrl.agents.replay_io import restore, segments, standing

from .replay_oracle import Counting, spec_of


def on_device(stack: int, n_envs: int) -> Replay:
    memory = Replay(spec_of(stack), n_envs=n_envs, capacity=40)
    memory._on_host = False
    memory._side = GpuSide(memory)
    return memory


@pytest.mark.parametrize("end", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("stack", [1, 4])
def test_both_ways_store_and_draw_the_same(stack: int, n_envs: int, end: float):
    host, device = Replay(spec_of(stack), n_envs=n_envs, capacity=40), on_device(stack, n_envs)
    env = Counting(spec_of(stack), n_envs, 2, end)
    memories = [host, device]
    for number in range(120):
        if number % 50 == 0:
            start = env.reset()
            for memory in memories:
                memory.begin(start)
        actions, step = env.step()
        for memory in memories:
            memory.append(actions, step)
        if number == 70:
            loaded = on_device(stack, n_envs)
            restore(loaded, standing(device), segments(device))
            memories.append(loaded)
        batches = [memory.sample(6, torch.Generator().manual_seed(number)) for memory in memories]
        for other in batches[1:]:
            assert all(torch.equal(one, two) for one, two in zip(batches[0], other, strict=True))
