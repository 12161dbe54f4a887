"""The replay buffer stores every frame once, and draws transitions uniformly or by their priorities.

Each of the N environments has a ring of slots, numbered absolutely from 0. The slot of a state holds its newest frame
and, after the step, action, reward and flags. At the end of an episode the final frame gets its own slot, which is
never drawn. So the state after slot s is always slot s + 1, and a transition is the window of frames
s - stack + 1 .. s + 1. The age of a slot says how many of them belong to its episode; frames before the first are
zero.

Each environment lists the slots that can be drawn in order, and drops the oldest before any frame of its window is
overwritten. A draw u, uniform over all listed slots, picks environment and slot by cumulative counts: no draw is
rejected, and a GPU never waits. u is a 62-bit number modulo the count, with a bias below 1e-12.

A batch is ready for a target R + discount * max Q(next state). With n steps (`Returns`)

    R = r_0 + gamma r_1 + .. + gamma^(m-1) r_(m-1)        discount = gamma^m, or 0 where the bootstrap ends

and m = n, or fewer if the episode ends or is truncated before, and at the newest states.

Priorities (Schaul et al., 2016) are p = (|TD error| + 1e-6)^alpha, and the buffer draws a transition with probability
p / sum of all p; new ones get the largest p so far. On a CPU a sum tree finds them, on a GPU a cumulative sum.

Final frames cost slots. There are 1/32 more slots than transitions for stacked frames and 1/8 more otherwise, where
episodes tend to be shorter. If episodes have fewer than 32, or 8, steps on average, the buffer holds fewer transitions
than its capacity: with episodes of L steps L / (L + 1) of its slots, at worst 9/16 of the capacity, or 1/2 with stacks.

On a CPU numba draws (`svrl.agents.replay_kernel`). On a GPU, which then holds the frames and everything that sampling
reads, torch draws, in a way that can be part of a CUDA graph. The host writes a step to pinned memory and copies it
without waiting, and a graph of small launches scatters it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from svrl.agents import replay_kernel as kernel
from svrl.agents.config import AgentConfig
from svrl.agents.cuda_graph import CudaGraph, GpuEvent, pinned
from svrl.envs.vector import EnvSpec, Step
from svrl.runtime.device import free_bytes

DRAWS = 1 << 62
STACKED_FINALS, SINGLE_FINALS = 32, 8
"""Transitions per extra slot for a final frame."""
SMALLEST_ERROR = 1e-6
"""Added to a TD error, so that every transition can be drawn."""
AHEAD = 4
"""Steps that the host may be ahead of a GPU."""


class Batch(NamedTuple):
    """Transitions drawn from the buffer.

    Attributes:
        windows: (B, F, *frame_shape), in the environment's type: the frames of the state and of the next one, which
            share all but one for single steps (F = stack + 1) and none for several (F = 2 stack).
        actions: (B,), int64.
        rewards: (B,), float32: R, see the module.
        discounts: (B,), float32: the factor of the next state's value, 0 where the bootstrap ends.
        action_masks: (B, A), bool: the valid actions in the next state; None if every action is always valid.
        leaves: (B,), int64: positions of their priorities; None for uniform draws.
        weights: (B,), float32: importance weights (number of transitions * probability)^-beta; None for uniform draws.
        stack: Frames in an observation.
    """

    windows: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    action_masks: Tensor | None = None
    leaves: Tensor | None = None
    weights: Tensor | None = None
    stack: int = 1

    @property
    def observations(self) -> Tensor:
        """The states, (B, *observation_shape); a view."""
        return self.windows[:, 0] if self.stack == 1 else self.windows[:, : self.stack]

    @property
    def next_observations(self) -> Tensor:
        """The next states, (B, *observation_shape); a view."""
        return self.windows[:, -1] if self.stack == 1 else self.windows[:, -self.stack :]

    def each(self, function: Callable[[Tensor], Tensor]) -> Batch:
        """Apply a function to each tensor of the batch."""
        return Batch(*(function(part) if isinstance(part, Tensor) else part for part in self))  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Returns:
    """How rewards of several steps become one.

    Attributes:
        n_steps: Most steps.
        gamma: Discount factor.
        clip_rewards: Take the sign of each reward.
        life_loss_ends: A lost life ends the bootstrap.
    """

    n_steps: int = 1
    gamma: float = 1.0
    clip_rewards: bool = False
    life_loss_ends: bool = False

    @classmethod
    def of(cls, config: AgentConfig) -> Returns:
        """The returns of a configuration."""
        return cls(**{entry.name: getattr(config, entry.name) for entry in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The sizes of a buffer.

    Attributes:
        frame_shape, dtype, stack: As in EnvSpec.
        n_envs: N.
        per_env: C, the most transitions per environment.
        slots: M, the frames per environment.
    """

    frame_shape: tuple[int, ...]
    dtype: str
    stack: int
    n_envs: int
    per_env: int
    slots: int

    @classmethod
    def of(cls, spec: EnvSpec, *, n_envs: int, capacity: int) -> Layout:
        """Lay out `capacity` transitions, rounded down to a multiple of `n_envs`."""
        refuse_few_transitions(n_envs, capacity)
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

    @cached_property
    def frame_bytes(self) -> int:
        """Bytes of a frame."""
        return math.prod(self.frame_shape) * np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the full buffer: frames; action, reward, age and two flags per slot; order, heads, tails, ends."""
        per_slot = self.frame_bytes + 4 + 4 + 1 + 1 + 1
        return self.n_envs * (self.slots * per_slot + 8 * self.per_env + 3 * 8)


class Replay:
    """The newest transitions of N environments.

    Attributes:
        layout: Its sizes.
        device: Its device.
        made: Transitions of each environment so far, including those dropped.
        heads: (N,), the slot of each environment's current state; -1 before `begin`.
        tails: (N,), the number of each environment's oldest transition that can be drawn.
        ends: (N,), cumulative counts of transitions that can be drawn.
        order: (N, C), slot of transition number t at t modulo C.
        ages: (N, M), frames of the same episode before a slot's own, at most stack - 1.
        frames: (N * M, bytes of a frame), on the device.
        actions, rewards, terminal, life_lost: (N * M,), on the device.
        masks: (N * M, A bits as bytes), on the device: valid actions of the states; None if all are always valid.
        returns: How rewards of several steps become one.
        priorities: Priorities of the transitions; None for uniform draws.
    """

    def __init__(
        self,
        spec: EnvSpec,
        *,
        n_envs: int,
        capacity: int,
        device: str | torch.device = "cpu",
        returns: Returns = Returns(),  # noqa: B008 (frozen)
        priority_alpha: float = 0.0,
    ) -> None:
        self.layout = layout = Layout.of(spec, n_envs=n_envs, capacity=capacity)
        self.device = torch.device(device)
        self.returns = returns
        _refuse_too_much(layout, self.device)
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
        self.masks: Tensor | None = None
        self._n_actions = spec.n_actions
        self.priorities: Priorities | None = None
        if priority_alpha > 0.0:
            self.priorities = Priorities(n_envs * layout.per_env, priority_alpha, self.device)
        self._at, self._final_at, self._next_at = np.zeros((3, n_envs), np.int64)
        self._gpu: _OnGpu | None = None
        self._arrays: tuple[np.ndarray, ...] = ()
        if self.device.type == "cpu":
            kept = (self.frames, self.actions, self.rewards, self.terminal, self.life_lost)
            self._arrays = tuple(tensor.numpy() for tensor in kept)
        else:
            self._gpu = _OnGpu(self)
        # The batch to overwrite, and its NumPy views, which cost a tenth of a draw to create.
        self._reused: tuple[Tensor, tuple[np.ndarray, ...]] | None = None

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return int(self.ends[-1])

    def begin(self, observations: np.ndarray, action_masks: np.ndarray | None = None) -> None:
        """Begin an episode in every environment, with observations (N, *observation_shape) and masks (N, A) if any.

        Call it at the start, and after an interruption that lost the environments: their earlier states become final
        frames.
        """
        frames = self._newest(observations)
        self._open_slots(np.zeros(self.layout.n_envs, np.bool_), begins=True)
        if action_masks is not None and self.masks is None:
            self.add_masks()
        self._write_masks(self._next_at, action_masks)
        if self._gpu is None:
            self._arrays[0][self._next_at] = frames
        else:
            self._gpu.write_frames(self._next_at, frames, np.zeros(len(frames), np.uint8))
            self._gpu.place(self.tails, self.ends)

    def append(self, actions: np.ndarray, step: Step) -> None:
        """Store one step of every environment: actions (N,) and their results."""
        if self.heads[0] < 0:
            raise ValueError("The replay buffer has no state to continue from. Call begin(observations) first.")
        n_envs, ended = self.layout.n_envs, step.ended
        actions = np.asarray(actions)
        if actions.shape != (n_envs,) or step.rewards.shape != (n_envs,):
            raise ValueError(
                f"A step of {n_envs} environments has {n_envs} actions and rewards, "
                f"got shapes {actions.shape} and {step.rewards.shape}."
            )
        frames = self._newest(step.observations)
        over = np.flatnonzero(ended)
        finals = self._newest(step.final_observations)[over] if len(over) else None
        self._open_slots(ended, begins=False)
        listed = self.made % self.layout.per_env
        self.made += 1
        if self.masks is not None:
            self._write_masks(self._next_at, step.action_masks)
            if len(over) and step.final_masks is not None:
                self._write_masks(self._final_at[over], step.final_masks[over])
        if self.priorities is not None:
            self.priorities.open(np.arange(n_envs) * self.layout.per_env + listed)
        if self._gpu is None:
            outcome = (actions, step.rewards, step.terminal, step.life_lost)
            for kept, given in zip(self._arrays[1:], outcome, strict=True):
                kept[self._at] = given
            self._arrays[0][self._next_at] = frames
            if finals is not None:
                self._arrays[0][self._final_at[over]] = finals
            return
        ages = self.ages.reshape(-1)
        if finals is not None:
            self._gpu.write_frames(self._final_at[over], finals, ages[self._final_at[over]])
        numbers = (
            self._at,
            self._next_at,
            ages[self._next_at],
            np.arange(n_envs) * self.layout.per_env + listed,
            self.order[:, listed],
            actions,
            step.rewards.astype(np.float64).view(np.int64),  # the bits of the reward
            step.terminal,
            step.life_lost,
            self.tails,
            self.ends,
        )
        self._gpu.append(frames, numbers)

    def sample(
        self, count: int, generator: torch.Generator, out: Batch | None = None, *, beta: float | None = None
    ) -> Batch:
        """Draw `count` transitions with replacement.

        Args:
            count: B.
            generator: A generator on the buffer's device.
            beta: Exponent of the importance weights: draw by priorities; None draws uniformly.
            out: A batch of the same size that you no longer need: on the CPU it is overwritten, which saves
                allocating memory. A batch of another size does not change.
        """
        if not len(self):
            raise ValueError("The replay buffer holds no transition to draw. Append some steps first.")
        draws, leaves, weights = self.draw(count, generator, beta)
        batch = self._sample_kernel(draws, out) if self._gpu is None else self.gather(draws)
        return batch if leaves is None else batch._replace(leaves=leaves, weights=weights)

    def draw(
        self, count: int, generator: torch.Generator, beta: float | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Choose transitions for `sample`: draws for `gather`, and leaves and weights of a `Batch`, each (B,)."""
        if beta is None or self.priorities is None:
            return torch.randint(DRAWS, (count,), generator=generator, device=self.device), None, None
        leaves, probability = self.priorities.draw(count, generator)
        env, place = leaves // self.layout.per_env, leaves % self.layout.per_env
        number = self.made - 1 - (self.made - 1 - place) % self.layout.per_env
        tails, ends = (
            (torch.from_numpy(self.tails), torch.from_numpy(self.ends))
            if self._gpu is None
            else (self._gpu.tails, self._gpu.ends)
        )
        draws = torch.nn.functional.pad(ends[:-1], (1, 0))[env] + number - tails[env]
        return draws, leaves, (len(self) * probability).pow(-beta).float()

    def add_masks(self) -> None:
        """Make room for masks; without it every action is valid in every state.

        Raises:
            ValueError: If they do not fit into memory.
        """
        rows, width = self.layout.n_envs * self.layout.slots, -(-self._n_actions // 8)
        if rows * width > (free := free_bytes(self.device)):
            raise ValueError(
                f"Masks of {self._n_actions:,} actions for the replay buffer take {rows * width / 1e9:.1f} GB, and "
                f"{free / 1e9:.1f} GB are free. Lower buffer_size."
            )
        self.masks = self._zeros((rows, width), np.uint8)

    def close(self) -> None:
        """Free the graphs on a GPU."""
        if self._gpu is not None:
            self._gpu.release()

    def synchronise(self) -> None:
        """Update everything that sampling reads, after ages, order and tails were restored."""
        np.cumsum(self.made - self.tails, out=self.ends)
        self._reused = None
        if self._gpu is not None:
            self._gpu.load(self)

    def gather(self, draws: Tensor) -> Batch:
        """Gather the transitions that draws (B,), int64, pick, in plain torch, on a GPU.

        It never waits, and everything that it reads keeps its address, so it can be part of a CUDA graph.
        """
        assert self._gpu is not None
        layout, gpu = self.layout, self._gpu
        index = draws % gpu.ends[-1]
        env = torch.searchsorted(gpu.ends, index, right=True)
        index = index - torch.nn.functional.pad(gpu.ends[:-1], (1, 0))[env]
        number = gpu.tails[env] + index
        slot = gpu.order[env, number % layout.per_env]
        row = env * layout.slots + slot % layout.slots
        rewards, discounts, head = self._followed(env, number, slot)
        if self.returns.n_steps == 1:
            windows = self._frames_of(env, slot, 1 - layout.stack, 2)
        else:
            both = (self._frames_of(env, one, 1 - layout.stack, 1) for one in (slot, head))
            windows = torch.cat(tuple(both), 1)
        windows = windows.view(torch.uint8)
        kind = torch.uint8 if layout.dtype == "uint8" else torch.float32
        masks = None
        if self.masks is not None:
            masks = _unpacked(self.masks[env * layout.slots + head % layout.slots], self._n_actions)
        return Batch(
            windows=windows.view(kind).view(*windows.shape[:2], *layout.frame_shape),
            actions=self.actions[row].long(),
            rewards=rewards,
            discounts=discounts,
            action_masks=masks,
            stack=layout.stack,
        )

    def _followed(self, env: Tensor, number: Tensor, slot: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """R, discounts and the slots of the next states, each (B,), of transitions in plain torch."""
        assert self._gpu is not None
        layout, gpu, rule = self.layout, self._gpu, self.returns
        made = gpu.tails + torch.diff(gpu.ends, prepend=gpu.ends.new_zeros(1))
        total = factor = head = alive = torch.empty(0)
        for k in range(rule.n_steps):
            row = env * layout.slots + (slot + k) % layout.slots
            reward = self.rewards[row].sign() if rule.clip_rewards else self.rewards[row]
            stop = self.terminal[row] | self.life_lost[row] if rule.life_loss_ends else self.terminal[row]
            kept = rule.gamma * (~stop).float()
            if k == 0:
                total, factor, head, alive = reward, kept, slot + 1, ~stop
            else:
                total = torch.where(alive, total + factor * reward, total)
                factor = torch.where(alive, factor * kept, factor)
                head = torch.where(alive, slot + k + 1, head)
                alive = alive & ~stop
            following = number + k + 1
            if k + 1 < rule.n_steps:
                in_next_slot = gpu.order[env, following % layout.per_env] == slot + k + 1
                alive = alive & (following < made[env]) & in_next_slot
        return total, factor, head

    def _frames_of(self, env: Tensor, slot: Tensor, first: int, last: int) -> Tensor:
        """Frames `first` .. `last` - 1 from slots (B,) on, as words (B, frames, words); zero before an episode."""
        assert self._gpu is not None
        layout, gpu = self.layout, self._gpu
        reach = torch.arange(first, last, device=self.device)
        places = env[:, None] * layout.slots + (slot[:, None] + reach) % layout.slots
        frames = gpu.words.index_select(0, places.flatten()).view(*places.shape, -1)
        outside = -reach > gpu.ages[env, slot % layout.slots][:, None].long()
        return frames.masked_fill_(outside[..., None], 0)

    def _sample_kernel(self, draws: Tensor, out: Batch | None = None) -> Batch:
        """Gather the same transitions on a CPU."""
        if out is None or len(out.actions) != len(draws):
            out = self._new_batch(len(draws))
        if self._reused is None or self._reused[0] is not out.windows:
            windows, *rest = (part.numpy() for part in (out.windows, out.actions, out.rewards, out.discounts))
            next_rows = np.empty(len(draws), np.int64)
            self._reused = (out.windows, (windows.reshape(len(windows), -1).view(np.uint8), *rest, next_rows))
        rule, where = self.returns, (self.tails, self.ends, self.order, self.ages)
        how = (rule.n_steps, rule.gamma, rule.clip_rewards, rule.life_loss_ends)
        kernel.sample_windows(draws.numpy(), *how, *where, *self._arrays, *self._reused[1])
        if self.masks is None:
            return out
        return out._replace(action_masks=_unpacked(self.masks[self._reused[1][-1]], self._n_actions))

    def _new_batch(self, count: int) -> Batch:
        """Create an empty batch. NumPy creates small arrays several times faster than torch."""
        layout = self.layout
        width = layout.stack + (1 if self.returns.n_steps == 1 else layout.stack)
        windows = np.empty((count, width, *layout.frame_shape), layout.dtype)
        actions, rewards, discounts = (np.empty(count, kind) for kind in (np.int64, np.float32, np.float32))
        arrays = {"windows": windows, "actions": actions, "rewards": rewards, "discounts": discounts}
        return Batch(stack=layout.stack, **{name: torch.from_numpy(array) for name, array in arrays.items()})

    def _write_masks(self, rows: np.ndarray, masks: np.ndarray | None) -> None:
        """Store masks (K, A) of the states in `rows`."""
        if self.masks is None:
            return
        if masks is None:
            raise ValueError("The environments gave masks of valid actions before and gave none now.")
        packed = np.packbits(masks, axis=1, bitorder="little")
        self.masks.index_copy_(0, _sent(rows, self.device), _sent(packed, self.device))

    def _open_slots(self, ended: np.ndarray, *, begins: bool) -> None:
        books = (self.heads, self.tails, self.ends, self.order, self.ages)
        rows = (self._at, self._final_at, self._next_at)
        before = None if self.priorities is None else self.tails.copy()
        kernel.open_slots(begins, ended, self.layout.stack - 1, self.made, *books, *rows)
        if self.priorities is not None and before is not None and (gone := self.tails - before).any():
            numbers = [np.arange(first, last) for first, last in zip(before, self.tails, strict=True)]
            env = np.repeat(np.arange(len(gone)), gone)
            self.priorities.drop(env * self.layout.per_env + np.concatenate(numbers) % self.layout.per_env)

    def _newest(self, observations: np.ndarray) -> np.ndarray:
        """The newest frame of each observation, (N, bytes of a frame)."""
        layout = self.layout
        stacked = layout.frame_shape if layout.stack == 1 else (layout.stack, *layout.frame_shape)
        if observations.shape != (layout.n_envs, *stacked):
            raise ValueError(
                f"The replay buffer is for observations of shape {(layout.n_envs, *stacked)}, got {observations.shape}."
            )
        flat = np.ascontiguousarray(observations, layout.dtype).reshape(layout.n_envs, -1)
        return flat.view(np.uint8)[:, -layout.frame_bytes :]

    def _zeros(self, shape: tuple[int, ...], dtype: type) -> Tensor:
        if self.device.type == "cpu":  # NumPy's zeros cost nothing until they are written to, unlike torch's
            return torch.from_numpy(np.zeros(shape, dtype))
        kind = torch.from_numpy(np.zeros(0, dtype)).dtype
        return torch.zeros(shape, dtype=kind, device=self.device)


class _OnGpu:
    """The data that sampling reads on a GPU, at constant addresses, and how steps get there.

    It also works in RAM, without recording, so that tests need no GPU.

    Attributes:
        order, ages, tails, ends: As in `Replay`.
        words: The frames (N * M, words of a frame), as wide integers.
    """

    def __init__(self, replay: Replay) -> None:
        layout, device = replay.layout, replay.device
        self._replay = replay
        self.order = torch.empty(replay.order.shape, dtype=torch.int64, device=device)
        self.ages = torch.empty(replay.ages.shape, dtype=torch.uint8, device=device)
        self._envs = torch.empty((2, layout.n_envs), dtype=torch.int64, device=device)
        self.tails, self.ends = self._envs
        self.words = _as_words(replay.frames)
        self._numbers = torch.zeros((11, layout.n_envs), dtype=torch.int64, device=device)
        self._frames = torch.zeros((layout.n_envs, layout.frame_bytes), dtype=torch.uint8, device=device)
        # Pinned memory that the GPU reads while the host continues, used in turns.
        self._sources = [(_on_host(self._numbers), _on_host(self._frames), GpuEvent(device)) for _ in range(AHEAD)]
        self._turn = 0
        self._scatter = CudaGraph(self._scatter_step, device, repeatable=True)
        self.load(replay)

    def load(self, replay: Replay) -> None:
        """Send everything, after filling the buffer from files."""
        self.order.copy_(torch.from_numpy(replay.order))
        self.ages.copy_(torch.from_numpy(replay.ages))
        self.place(replay.tails, replay.ends)

    def place(self, tails: np.ndarray, ends: np.ndarray) -> None:
        """Send which transitions can be drawn."""
        self._envs.copy_(self._sent(np.stack((tails, ends))))

    def write_frames(self, rows: np.ndarray, frames: np.ndarray, ages: np.ndarray) -> None:
        """Write frames (K, bytes) and their ages (K,) to `rows`."""
        at = self._sent(rows)
        self.words.index_copy_(0, at, _as_words(self._sent(np.ascontiguousarray(frames)), self.words.dtype))
        self.ages.view(-1).index_copy_(0, at, self._sent(ages))

    def append(self, frames: np.ndarray, numbers: Sequence[np.ndarray]) -> None:
        """Store one step of every environment: frames (N, bytes) and the numbers (N,) that `_scatter_step` names."""
        here, shown, fetched = self._sources[self._turn]
        self._turn = (self._turn + 1) % AHEAD
        fetched.synchronize()  # done long ago, unless the host is far ahead
        for row, given in zip(here.numpy(), numbers, strict=True):
            row[:] = given
        np.copyto(shown.numpy(), frames)
        self._numbers.copy_(here, non_blocking=True)
        self._frames.copy_(shown, non_blocking=True)
        fetched.record()
        self._scatter()

    def release(self) -> None:
        """Release the graph."""
        self._scatter.release()

    def _scatter_step(self) -> None:
        replay = self._replay
        at, next_at, next_age, listed_at, slot, action, reward, terminal, life_lost = self._numbers[:9]
        replay.actions.index_copy_(0, at, action.int())
        replay.rewards.index_copy_(0, at, reward.view(torch.float64).float())
        replay.terminal.index_copy_(0, at, terminal.bool())
        replay.life_lost.index_copy_(0, at, life_lost.bool())
        self.order.view(-1).index_copy_(0, listed_at, slot)
        self.words.index_copy_(0, next_at, _as_words(self._frames, self.words.dtype))
        self.ages.view(-1).index_copy_(0, next_at, next_age.to(torch.uint8))
        self._envs.copy_(self._numbers[9:])  # tails and ends

    def _sent(self, array: np.ndarray) -> Tensor:
        return _sent(array, self._envs.device)


def _sent(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy on the device. Pinned memory lets the host go on at once; torch keeps it until the copy is done."""
    here = torch.from_numpy(array)
    return here.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else here.clone()


def _on_host(there: Tensor) -> Tensor:
    """Zeros of the same shape in RAM, pinned if the tensor is on a GPU."""
    return pinned(torch.zeros_like(there, device="cpu"), there)


def _as_words(frames: Tensor, kind: torch.dtype | None = None) -> Tensor:
    """Frames (K, bytes) as rows of the widest integers that divide them: fewer and wider reads."""
    if kind is None:
        kind = next(one for one in (torch.int64, torch.int32, torch.uint8) if not frames.shape[-1] % one.itemsize)
    return frames.view(kind)


def _unpacked(packed: Tensor, n_actions: int) -> Tensor:
    """Masks (B, A), bool, from their bits."""
    bits = packed[..., None] >> torch.arange(8, dtype=torch.uint8, device=packed.device) & 1
    return bits.flatten(1)[:, :n_actions].bool()


class Priorities:
    """Priorities of transitions: a number p for each leaf; leaf env * C + t % C is transition t of an environment.

    Args:
        size: Number of leaves.
        alpha: Exponent of the TD error.
        device: Device of the draws. A CPU keeps a sum tree, a GPU only the numbers, whose cumulative sum it computes.
    """

    def __init__(self, size: int, alpha: float, device: torch.device) -> None:
        self.alpha, self.device, self.size = alpha, device, size
        self._largest = torch.ones((), dtype=torch.float64, device=device)
        leaves = 1 << max(size - 1, 1).bit_length()
        self._tree = np.zeros(2 * leaves if device.type == "cpu" else 0, np.float64)
        if device.type == "cpu":
            self._values = torch.from_numpy(self._tree[leaves : leaves + size])
        else:
            self._values = torch.zeros(size, dtype=torch.float64, device=device)

    def open(self, leaves: np.ndarray) -> None:
        """New transitions at leaves (K,): they get the largest p so far."""
        self._set(_sent(leaves, self.device), self._largest.expand(len(leaves)))

    def drop(self, leaves: np.ndarray) -> None:
        """Transitions that can no longer be drawn."""
        self._set(_sent(leaves, self.device), torch.zeros(len(leaves), dtype=torch.float64, device=self.device))

    def update(self, leaves: Tensor, errors: Tensor) -> None:
        """Set the priorities of drawn transitions from new absolute TD errors (B,)."""
        p = (errors.detach().to(self.device).double() + SMALLEST_ERROR).pow(self.alpha)
        self._largest = torch.maximum(self._largest, p.max())
        self._set(leaves, p)

    def draw(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw leaves (B,), with replacement, and return them with their probabilities (B,), float64."""
        shares = torch.rand(count, dtype=torch.float64, generator=generator, device=self.device)
        if self.device.type == "cpu":
            leaves = torch.empty(count, dtype=torch.int64)
            kernel.find_leaves(self._tree, shares.numpy(), leaves.numpy())
            return leaves, self._values[leaves] / self._tree[1]
        sums = self._values.cumsum(0)
        leaves = torch.searchsorted(sums, shares * sums[-1], right=True).clamp(max=self.size - 1)
        # A parallel sum may end on a leaf that holds nothing; its weight must stay a number.
        return leaves, (self._values[leaves] / sums[-1]).clamp(min=torch.finfo(torch.float64).tiny)

    def state(self) -> dict[str, np.ndarray]:
        """What `restore` takes, as arrays."""
        return {"values": self._values.cpu().numpy().copy(), "largest": self._largest.cpu().numpy()}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Back to a saved state.

        Raises:
            ValueError: If it is of another size, or holds numbers that are no priorities.
        """
        values = np.asarray(saved["values"])
        if values.shape != (self.size,) or not (np.isfinite(values) & (values >= 0)).all():
            raise ValueError("The saved priorities do not fit the replay buffer.")
        self._largest = torch.as_tensor(saved["largest"]).to(self.device)
        self._set(torch.arange(self.size, device=self.device), torch.as_tensor(values).to(self.device))

    def _set(self, leaves: Tensor, values: Tensor) -> None:
        if self.device.type == "cpu":
            kernel.set_leaves(self._tree, leaves.numpy(), values.numpy())
        else:
            self._values[leaves] = values


def refuse_few_transitions(n_envs: int, capacity: int) -> None:
    """Raise ValueError if a replay buffer has less than one transition for each environment."""
    if capacity < n_envs:
        raise ValueError(
            f"A replay buffer for {n_envs} environments must hold at least {n_envs} transitions, got {capacity}. "
            "Raise buffer_size or lower n_envs."
        )


def _refuse_too_much(layout: Layout, device: torch.device) -> None:
    free = free_bytes(device)
    if layout.nbytes > free:
        where = "of RAM" if device.type == "cpu" else f"on {device}"
        raise ValueError(
            f"A replay buffer of {layout.n_envs * layout.per_env:,} transitions takes {layout.nbytes / 1e9:.1f} GB, "
            f"and {free / 1e9:.1f} GB {where} are free. Lower buffer_size to about "
            f"{int(0.9 * free / layout.nbytes * layout.n_envs * layout.per_env):,}."
        )
