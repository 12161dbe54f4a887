"""The replay memory: every frame is stored once, and every transition is equally likely to be drawn.

Each of the N environments has a ring of slots, numbered absolutely from 0. The slot of a state
holds its newest frame and, once the environment has answered, action, reward and flags. Where an episode
ends the final frame gets a slot of its own, which is never drawn. So the state after slot s is always
slot s + 1, and a transition is the window of frames s - stack + 1 .. s + 1. The age of a slot says how
many of them belong to its episode; those before its first frame are zero.

An environment lists the slots that can be drawn in their order, and drops the oldest before any frame of its window
is overwritten. A draw u, uniform over all that are listed, picks environment and slot by cumulative counts: there is
nothing to reject, and nothing to wait for on a GPU. u is a 62-bit number modulo the count, whose bias is
below 1e-12.

Final frames cost slots. There are 1/32 more slots than transitions for stacked frames and 1/8 more otherwise, where
episodes tend to be shorter. With episodes of fewer than 32, or 8, steps on average the memory holds fewer
transitions than it was asked to: of episodes of L steps it holds L / (L + 1) of its slots, at worst 9/16 of
what was asked for, or 1/2 with stacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from svrl.agents import replay_kernel as kernel
from svrl.agents.replay_cuda import GpuSide, HostSide
from svrl.envs.vector import EnvSpec, Step
from svrl.runtime.memory import free_bytes

DRAWS = 1 << 62
STACKED_FINALS, SINGLE_FINALS = 32, 8
"""Transitions for which there is one more slot, for a final frame."""


class Batch(NamedTuple):
    """Transitions drawn from the memory.

    Attributes:
        windows: (B, stack + 1, *frame_shape), in the environment's type: the frames of the state and the one after.
            `observations` and `next_observations` are views of it.
        actions: (B,), int64.
        rewards: (B,), float32, as the environment gave them.
        terminal: (B,), bool: nothing comes after.
        life_lost: (B,), bool.
    """

    windows: torch.Tensor
    actions: torch.Tensor
    rewards: torch.Tensor
    terminal: torch.Tensor
    life_lost: torch.Tensor


def observations(batch: Batch) -> torch.Tensor:
    """What was acted on, (B, *observation_shape); a view."""
    return batch.windows[:, 0] if batch.windows.shape[1] == 2 else batch.windows[:, :-1]


def next_observations(batch: Batch) -> torch.Tensor:
    """What the actions led to, (B, *observation_shape); a view."""
    return batch.windows[:, 1] if batch.windows.shape[1] == 2 else batch.windows[:, 1:]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How the memory is laid out.

    Attributes:
        frame_shape, dtype, stack: As in EnvSpec.
        n_envs: N.
        per_env: C, the most transitions that an environment holds.
        slots: M, frames of an environment.
    """

    frame_shape: tuple[int, ...]
    dtype: str
    stack: int
    n_envs: int
    per_env: int
    slots: int

    @classmethod
    def of(cls, spec: EnvSpec, *, n_envs: int, capacity: int) -> Layout:
        """Room for `capacity` transitions, rounded down to a multiple of the n_envs."""
        if n_envs < 1:
            raise ValueError(f"A replay memory needs at least one environment, got {n_envs}.")
        refuse_few_transitions(n_envs, capacity)
        if spec.stack > 255:
            raise ValueError(f"At most 255 frames can be stacked, got {spec.stack}.")
        per_env = capacity // n_envs
        finals = per_env // (SINGLE_FINALS if spec.stack == 1 else STACKED_FINALS)
        return cls(
            frame_shape=tuple(spec.frame_shape),
            dtype=spec.dtype,
            stack=spec.stack,
            n_envs=n_envs,
            per_env=per_env,
            slots=per_env + finals + spec.stack + 2,
        )

    @property
    def frame_bytes(self) -> int:
        """Bytes of a frame."""
        return int(np.prod(self.frame_shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of it all: frames; action, reward, age and two flags a slot; the order, and three numbers each."""
        per_slot = self.frame_bytes + 4 + 4 + 1 + 1 + 1
        return self.n_envs * (self.slots * per_slot + 8 * self.per_env + 3 * 8)


class Replay:
    """The newest transitions of N environments.

    Attributes:
        layout: How it is laid out.
        device: Where it is.
        made: Transitions that each environment has seen so far, those long gone included.
        heads: (N,), the slot of each environment's present state; -1 before `begin`.
        tails: (N,), the number of each environment's oldest transition that can be drawn.
        ends: (N,), cumulative counts of transitions that can be drawn.
        order: (N, C), slot of transition number t at t modulo C.
        ages: (N, M), frames of the same episode before a slot's own, at most stack - 1.
        frames: (N * M, bytes of a frame), on the device.
        actions, rewards, terminal, life_lost: (N * M,), on the device.
    """

    def __init__(self, spec: EnvSpec, *, n_envs: int, capacity: int, device: str | torch.device = "cpu") -> None:
        self.layout = layout = Layout.of(spec, n_envs=n_envs, capacity=capacity)
        self.device = torch.device(device)
        self._on_host = self.device.type == "cpu"
        _refuse_too_much(layout, self.device)
        # NumPy's zeros cost nothing until they are written to, unlike torch's.
        self.made = 0
        self.heads = np.full(n_envs, -1, np.int64)
        self.tails = np.zeros(n_envs, np.int64)
        self.ends = np.zeros(n_envs, np.int64)
        self.order = np.zeros((n_envs, layout.per_env), np.int64)
        self.ages = np.zeros((n_envs, layout.slots), np.uint8)
        rows = n_envs * layout.slots
        self.frames = self._zeros((rows, layout.frame_bytes), np.uint8)
        self.actions = self._zeros((rows,), np.int32)
        self.rewards = self._zeros((rows,), np.float32)
        self.terminal = self._zeros((rows,), np.bool_)
        self.life_lost = self._zeros((rows,), np.bool_)
        self._at, self._final_at, self._next_at = np.zeros((3, n_envs), np.int64)
        self._side: HostSide | GpuSide
        # The batch that is written over, and its NumPy views, which cost a tenth of a draw to make.
        self._reused: tuple[Batch, tuple[np.ndarray, ...]] | None = None
        self._link()

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return int(self.ends[-1])

    @property
    def nbytes(self) -> int:
        """Bytes on the device when the memory is full."""
        return self.layout.nbytes

    def begin(self, observations: np.ndarray) -> None:
        """An episode begins in every environment, with observations (N, *observation_shape).

        Called at the start, and after an interruption that the environments did not survive: the states that they
        were in then become final frames.
        """
        rows = self._bytes(observations)
        kernel.begin_lanes(self.made, self.heads, self.tails, self.ends, self.order, self.ages, self._next_at)
        if self._on_host:
            kernel.store_frames(self._next_at, rows, self._frames)
        else:
            assert isinstance(self._side, GpuSide)
            self._side.write_frames(self._next_at, rows, np.zeros(len(rows), np.uint8))
            self._side.place_lanes(self.tails, self.ends)

    def append(self, actions: np.ndarray, step: Step) -> None:
        """Remember one step of every environment: actions (N,) and what they led to."""
        if self.heads[0] < 0:
            raise ValueError("The replay memory has no state to go on from. Call begin(observations) first.")
        n_envs, ended = self.layout.n_envs, step.ended
        actions = np.asarray(actions)
        if actions.shape != (n_envs,) or step.rewards.shape != (n_envs,):
            raise ValueError(
                f"A step of {n_envs} environments has {n_envs} actions and rewards, "
                f"got shapes {actions.shape} and {step.rewards.shape}."
            )
        rows = self._bytes(step.observations)
        finals = self._bytes(step.final_observations) if ended.any() else rows
        kernel.advance_lanes(
            ended,
            self.layout.stack - 1,
            self.made,
            self.heads,
            self.tails,
            self.ends,
            self.order,
            self.ages,
            self._at,
            self._final_at,
            self._next_at,
        )
        self.made += 1
        if self._on_host:
            outcome = (actions, step.rewards, step.terminal, step.life_lost)
            kernel.store_outcomes(self._at, *outcome, *self._outcomes)
            kernel.store_frames(self._next_at, rows, self._frames)
            if finals is not rows:
                kernel.store_frames(self._final_at, finals, self._frames)
        else:
            self._append_on_gpu(actions, step, rows, finals)

    def sample(self, count: int, generator: torch.Generator, out: Batch | None = None) -> Batch:
        """Draw `count` transitions with replacement, all equally likely.

        Args:
            count: B.
            generator: On the memory's device.
            out: A batch of the same size that is of no more use: on the CPU it is written over, which saves finding
                new memory. A batch of another size is left alone.
        """
        if not len(self):
            raise ValueError("The replay memory holds no transition to draw. Append some steps first.")
        try:
            draws = torch.randint(DRAWS, (count,), generator=generator, device=self.device)
        except RuntimeError as error:
            if generator.device.type == self.device.type:
                raise
            raise ValueError(
                f"The replay memory is on {self.device.type} and the generator on {generator.device.type}. "
                f"Make the generator with torch.Generator({self.device.type!r})."
            ) from error
        return self._sample_kernel(draws, out) if self._on_host else self.gather(draws)

    def close(self) -> None:
        """Let go of what is held on a GPU beside the memory itself."""
        if isinstance(self._side, GpuSide):
            self._side.release()

    def synchronise(self) -> None:
        """Make everything that sampling reads agree with ages, order, tails and ends, after they were restored."""
        np.cumsum(self.made - self.tails, out=self.ends)
        self._link()

    def _sample_kernel(self, draws: torch.Tensor, out: Batch | None = None) -> Batch:
        if out is None or len(out.actions) != len(draws):
            out, views = self._new_batch(len(draws))
        else:
            if self._reused is None or self._reused[0] is not out:
                self._reused = (out, _views(*(part.numpy() for part in out)))
            views = self._reused[1]
        where = (self.tails, self.ends, self.order, self.ages)
        kernel.sample_windows(draws.numpy(), *where, self._frames, *self._outcomes, *views)
        return out

    def _new_batch(self, count: int) -> tuple[Batch, tuple[np.ndarray, ...]]:
        """A batch to be filled. It is NumPy's, which makes small arrays several times faster than torch."""
        layout = self.layout
        windows = np.empty((count, layout.stack + 1, *layout.frame_shape), layout.dtype)
        arrays = (windows, *(np.empty(count, kind) for kind in (np.int64, np.float32, np.bool_, np.bool_)))
        return Batch(*map(torch.from_numpy, arrays)), _views(*arrays)

    def gather(self, draws: torch.Tensor) -> Batch:
        """The transitions that draws (B,), int64, pick: the kernel's twin in plain torch, and what runs on a GPU.

        Nothing in it waits, and everything that it reads stays where it is, so that it can be part of a CUDA graph.
        """
        layout, side = self.layout, self._side
        index = draws % side.ends[-1]
        env = torch.searchsorted(side.ends, index, right=True)
        index = index - torch.nn.functional.pad(side.ends[:-1], (1, 0))[env]
        slot = side.order[env, (side.tails[env] + index) % layout.per_env]
        row = env * layout.slots + slot % layout.slots
        reach = torch.arange(1 - layout.stack, 2, device=self.device)
        places = env[:, None] * layout.slots + (slot[:, None] + reach) % layout.slots
        windows = side.words.index_select(0, places.flatten()).view(*places.shape, -1)
        outside = -reach > side.ages.flatten()[row][:, None].long()
        windows = windows.masked_fill_(outside[..., None], 0)
        return Batch(
            windows=self._shaped(windows.view(torch.uint8)),
            actions=self.actions[row].long(),
            rewards=self.rewards[row],
            terminal=self.terminal[row],
            life_lost=self.life_lost[row],
        )

    def _append_on_gpu(self, actions: np.ndarray, step: Step, rows: np.ndarray, finals: np.ndarray) -> None:
        assert isinstance(self._side, GpuSide)
        ages, latest = self.ages.reshape(-1), self.made - 1
        if finals is not rows:
            over = np.flatnonzero(step.ended)
            places = self._final_at[over]
            self._side.write_frames(places, finals[over], ages[places])
        listed = latest % self.layout.per_env
        self._side.append(
            frames=rows,
            at=self._at,
            next_at=self._next_at,
            next_age=ages[self._next_at],
            listed_at=np.arange(self.layout.n_envs) * self.layout.per_env + listed,
            slot=self.order[:, listed],
            action=actions,
            reward=step.rewards.astype(np.float64).view(np.int64),
            terminal=step.terminal,
            life_lost=step.life_lost,
            tails=self.tails,
            ends=self.ends,
        )

    def _link(self) -> None:
        """Everything for the kernel (NumPy) and for its twin (torch); on a GPU what has changed is sent there."""
        if self._on_host:
            self._frames = self.frames.numpy()
            kept = (self.actions, self.rewards, self.terminal, self.life_lost)
            self._outcomes = tuple(tensor.numpy() for tensor in kept)
            self._side = HostSide.of(self)
        elif not hasattr(self, "_side"):
            self._side = GpuSide(self)
        else:
            assert isinstance(self._side, GpuSide)
            self._side.load(self)

    def _zeros(self, shape: tuple[int, ...], dtype: type) -> torch.Tensor:
        if self._on_host:
            return torch.from_numpy(np.zeros(shape, dtype))
        kind = torch.from_numpy(np.zeros(0, dtype)).dtype
        return torch.zeros(shape, dtype=kind, device=self.device)

    def _bytes(self, observations: np.ndarray) -> np.ndarray:
        """Observations as (N, bytes of one)."""
        layout = self.layout
        expected = layout.frame_shape if layout.stack == 1 else (layout.stack, *layout.frame_shape)
        if observations.shape != (layout.n_envs, *expected):
            raise ValueError(
                f"The replay memory was made for observations of shape {(layout.n_envs, *expected)}, "
                f"got {observations.shape}."
            )
        flat = np.ascontiguousarray(observations, layout.dtype).reshape(layout.n_envs, -1)
        return flat.view(np.uint8)

    def _shaped(self, windows: torch.Tensor) -> torch.Tensor:
        """Bytes as frames, (B, stack + 1, *frame_shape)."""
        layout = self.layout
        kind = torch.uint8 if layout.dtype == "uint8" else torch.float32
        return windows.view(kind).view(len(windows), layout.stack + 1, *layout.frame_shape)


def _views(windows: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray, ...]:
    """A batch as the kernel takes it, windows as (B, bytes)."""
    return (windows.reshape(len(windows), -1).view(np.uint8), *rest)


def refuse_few_transitions(n_envs: int, capacity: int) -> None:
    """Refuse a replay memory of fewer transitions than one for each environment."""
    if capacity < n_envs:
        raise ValueError(
            f"A replay memory for {n_envs} environments holds at least {n_envs} transitions, got {capacity}. "
            "Raise replay or lower envs."
        )


def _refuse_too_much(layout: Layout, device: torch.device) -> None:
    free = free_bytes(device)
    if layout.nbytes > free:
        where = "of RAM" if device.type == "cpu" else f"on {device}"
        raise ValueError(
            f"A replay memory of {layout.n_envs * layout.per_env:,} transitions takes {layout.nbytes / 1e9:.1f} GB, "
            f"and {free / 1e9:.1f} GB {where} are free. Lower replay to about "
            f"{int(0.9 * free / layout.nbytes * layout.n_envs * layout.per_env):,}."
        )
