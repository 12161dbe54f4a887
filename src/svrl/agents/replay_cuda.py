"""The replay memory on a GPU: what sampling reads, at places that never change, and how steps get there.

(Everything here also works in RAM, where nothing is recorded, so that it can be tried without a GPU.)

A step of N environments is one row of numbers for each and its newest frame. They are written to memory that the
GPU can read by itself, copied there without waiting, and scattered by a graph of small launches. The host
may be several steps ahead of the GPU, so there are several places to write to, used in turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from svrl.agents.cuda_graph import CudaGraph, GpuEvent, pinned

if TYPE_CHECKING:
    from svrl.agents.replay import Replay

NUMBERS = (
    "at",
    "next_at",
    "next_age",
    "listed_at",
    "slot",
    "action",
    "reward",
    "terminal",
    "life_lost",
    "tails",
    "ends",
)
"""What a step says about each environment; `reward` holds the bits of a float64."""
PLACES = 4
"""Steps that the host may be ahead."""


@dataclass(frozen=True, kw_only=True)
class HostSide:
    """What sampling reads, as tensors that share the memory of the arrays: the twin on the CPU.

    Attributes:
        order, ages, tails, ends: As in `Replay`.
        words: The frames (N * M, words of a frame), as wide integers.
    """

    order: Tensor
    ages: Tensor
    tails: Tensor
    ends: Tensor
    words: Tensor

    @classmethod
    def of(cls, replay: Replay) -> HostSide:
        """Views of a memory in RAM."""
        arrays = (replay.order, replay.ages, replay.tails, replay.ends)
        order, ages, tails, ends = (torch.from_numpy(array) for array in arrays)
        return cls(order=order, ages=ages, tails=tails, ends=ends, words=as_words(replay.frames))


class GpuSide:
    """The same on a GPU, and what is on its way there."""

    def __init__(self, replay: Replay) -> None:
        layout, device = replay.layout, replay.device
        self._replay = replay
        self.order = torch.empty(replay.order.shape, dtype=torch.int64, device=device)
        self.ages = torch.empty(replay.ages.shape, dtype=torch.uint8, device=device)
        self._envs = torch.empty((2, layout.n_envs), dtype=torch.int64, device=device)
        self.tails, self.ends = self._envs
        self.words = as_words(replay.frames)
        self._numbers = torch.zeros((len(NUMBERS), layout.n_envs), dtype=torch.int64, device=device)
        self._frames = torch.zeros((layout.n_envs, layout.frame_bytes), dtype=torch.uint8, device=device)
        self._places = [_Place(self._numbers, self._frames) for _ in range(PLACES)]
        self._turn = 0
        self._scatter = CudaGraph(self._scatter_step, device, repeatable=True)
        self.load(replay)

    def load(self, replay: Replay) -> None:
        """Send everything, after the memory was filled from a file."""
        self.order.copy_(torch.from_numpy(replay.order))
        self.ages.copy_(torch.from_numpy(replay.ages))
        self.place_lanes(replay.tails, replay.ends)

    def place_lanes(self, tails: np.ndarray, ends: np.ndarray) -> None:
        """Send where each environment begins and what can be drawn."""
        self._envs.copy_(sent(np.stack((tails, ends)), self._envs.device))

    def write_frames(self, places: np.ndarray, rows: np.ndarray, ages: np.ndarray) -> None:
        """Write the newest frames of observations (K, bytes) and ages (K,) to rows `places`."""
        device = self.words.device
        at = sent(places, device)
        newest = np.ascontiguousarray(rows[:, -self._replay.layout.frame_bytes :])
        self.words.index_copy_(0, at, as_words(sent(newest, device), self.words.dtype))
        self.ages.view(-1).index_copy_(0, at, sent(ages, device))

    def append(self, *, frames: np.ndarray, **numbers: Any) -> None:
        """One step of every environment: observations (N, bytes) and the arrays (N,) that NUMBERS names."""
        place = self._places[self._turn]
        self._turn = (self._turn + 1) % PLACES
        place.send(frames[:, -self._replay.layout.frame_bytes :], numbers, self._numbers, self._frames)
        self._scatter()

    def release(self) -> None:
        """Let go of the graph."""
        self._scatter.release()

    def _scatter_step(self) -> None:
        replay = self._replay
        at, next_at, next_age, listed_at, slot, action, reward, terminal, life_lost = self._numbers[:9]
        replay.actions.index_copy_(0, at, action.int())
        replay.rewards.index_copy_(0, at, reward.view(torch.float64).float())
        replay.terminal.index_copy_(0, at, terminal.bool())
        replay.life_lost.index_copy_(0, at, life_lost.bool())
        self.order.view(-1).index_copy_(0, listed_at, slot)
        self.words.index_copy_(0, next_at, as_words(self._frames, self.words.dtype))
        self.ages.view(-1).index_copy_(0, next_at, next_age.to(torch.uint8))
        self._envs.copy_(self._numbers[9:])


class _Place:
    """Memory of the host that the GPU reads from while the host goes on."""

    def __init__(self, numbers: Tensor, frames: Tensor) -> None:
        self._numbers, self._frames = (pinned(torch.zeros_like(one, device="cpu"), one) for one in (numbers, frames))
        self._fetched = GpuEvent(numbers.device)

    def send(self, frames: np.ndarray, numbers: dict[str, Any], to_numbers: Tensor, to_frames: Tensor) -> None:
        self._fetched.synchronize()  # done long ago, unless the host is far ahead
        here = self._numbers.numpy()
        for k, name in enumerate(NUMBERS):
            here[k] = numbers[name]
        np.copyto(self._frames.numpy(), frames)
        to_numbers.copy_(self._numbers, non_blocking=True)
        to_frames.copy_(self._frames, non_blocking=True)
        self._fetched.record()


def as_words(frames: Tensor, kind: torch.dtype | None = None) -> Tensor:
    """Frames (K, bytes) as rows of the widest integers that divide them: fewer and wider reads."""
    if kind is None:
        kind = next(one for one in (torch.int64, torch.int32, torch.uint8) if not frames.shape[-1] % one.itemsize)
    return frames.view(kind)


def sent(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy on the device. Pinned memory lets the host go on at once; torch keeps it until the copy is done."""
    here = torch.from_numpy(array)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.clone()
