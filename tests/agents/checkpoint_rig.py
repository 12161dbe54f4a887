"""A memory that grows and is saved, and ways to damage what was saved."""

from __future__ import annotations

from pathlib import Path

import torch

from svrl.agents.checkpoint import Checkpoints
from svrl.agents.replay import Replay
from svrl.runtime.arrays import read_arrays

from .replay_oracle import Counting, all_of, spec_of


class Rig:
    """A memory that grows, and what saves it. The state is the number of steps."""

    def __init__(self, folder: Path, *, stack: int = 4, n_envs: int = 2, capacity: int = 40, end: float = 0.1) -> None:
        self.spec, self.n_envs, self.capacity = spec_of(stack), n_envs, capacity
        self.env = Counting(self.spec, n_envs, 0, end)
        self.replay = self.empty()
        self.replay.begin(self.env.reset())
        self.checkpoints = Checkpoints(folder)

    def empty(self) -> Replay:
        return Replay(self.spec, n_envs=self.n_envs, capacity=self.capacity)

    def step(self, count: int, *others: Replay) -> None:
        for _ in range(count):
            actions, step = self.env.step()
            for memory in (self.replay, *others):
                memory.append(actions, step)

    def save(self) -> None:
        self.checkpoints.save({"steps": self.replay.made}, self.replay)


def assert_equal_memories(one: Replay, other: Replay) -> None:
    assert len(one) == len(other)
    assert all_of(one) == all_of(other)
    if len(one):
        drawn = [memory.sample(40, torch.Generator().manual_seed(7)) for memory in (one, other)]
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(*drawn, strict=True))


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def listed(path: Path) -> list[str]:
    return [entry["name"] for entry in read_arrays(path)["segments"]]


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = data.index(b"\x93NUMPY") + 128  # where the numbers of the first entry begin
    data[middle] ^= 0xFF
    path.write_bytes(bytes(data))


def empty(path: Path) -> None:
    path.write_bytes(b"")
