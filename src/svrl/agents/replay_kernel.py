"""The replay buffer's loops, as numba kernels; `svrl.agents.replay` says what slots, ages and orders are.

Slot k of an environment lies at k modulo the number of slots. Frames are rows of bytes, so that one kernel serves every
type of observation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svrl.runtime.kernels import njit

COMPILE: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
STREAMS, CHUNK = 8, 512


@njit(**COMPILE)
def open_slots(
    begins: bool,
    ended: Any,
    most: int,
    made: int,
    heads: Any,
    tails: Any,
    ends: Any,
    order: Any,
    ages: Any,
    at: Any,
    final_at: Any,
    next_at: Any,
) -> None:
    """Open a new slot in every environment, and list the one that was open as a transition unless episodes begin.

    Args:
        begins: An episode begins in every environment; a slot that was open keeps its frame as a final one.
        ended: (N,), bool: the episode is over, so that a final frame needs a slot between the two.
        most: What ages are cut off at.
        made: As in `Replay`, before this step.
        heads, tails, ends, order, ages: As in `Replay`; changed.
        at: (N,), out: row of the slot that the action was taken in, among all N * M.
        final_at: (N,), out: row for the final frame, where the episode ended.
        next_at: (N,), out: row of the slot that is open now.
    """
    per_env, slots = order.shape[1], ages.shape[1]
    total = 0
    for env in range(len(heads)):
        slot, base = heads[env], env * slots
        head = slot + 1 + (1 if ended[env] and not begins else 0)
        listed = made if begins else made + 1
        # A transition goes as soon as the first frame of its window does. Those first frames never go backwards from
        # one transition to the next, so the oldest go first.
        oldest = max(tails[env], listed - per_env)
        while oldest < made:
            first = order[env, oldest % per_env]
            if first - ages[env, first % slots] > head - slots:
                break
            oldest += 1
        tails[env] = oldest
        if begins:
            ages[env, head % slots] = 0
        else:
            order[env, made % per_env] = slot
            ages[env, (slot + 1) % slots] = min(ages[env, slot % slots] + 1, most)
            at[env] = base + slot % slots
            if ended[env]:
                final_at[env] = base + (slot + 1) % slots
                ages[env, head % slots] = 0
        next_at[env] = base + head % slots
        heads[env] = head
        total += listed - oldest
        ends[env] = total


@njit(inline="always", **COMPILE)
def _copy(source: Any, target: Any) -> None:
    """Copy one row of bytes to another. As views with their own length the loop becomes wide moves."""
    for k in range(len(source)):
        target[k] = source[k]


@njit(**COMPILE)
def sample_windows(
    draws: Any,
    tails: Any,
    ends: Any,
    order: Any,
    ages: Any,
    frames: Any,
    kept_actions: Any,
    kept_rewards: Any,
    kept_terminal: Any,
    kept_life_lost: Any,
    windows: Any,
    actions: Any,
    rewards: Any,
    terminal: Any,
    life_lost: Any,
) -> None:
    """Fill a batch: draws (B,) modulo the number of transitions say which; windows are (B, (stack + 1) * bytes)."""
    per_env, slots, size = order.shape[1], ages.shape[1], frames.shape[1]
    stack = windows.shape[1] // size - 1
    count = len(draws)
    envs, places = np.empty(count, np.int64), np.empty(count, np.int64)
    sources = np.empty((count, stack + 1), np.int64)
    # Small reads first: they wait for memory side by side, which they could not between long copies.
    for b in range(count):
        index = draws[b] % ends[-1]
        env, last = 0, len(ends) - 1  # the first environment whose count is above the index
        while env < last:
            middle = (env + last) // 2
            if ends[middle] > index:
                last = middle
            else:
                env = middle + 1
        if env > 0:
            index -= ends[env - 1]
        envs[b] = env
        places[b] = order[env, (tails[env] + index) % per_env] % slots
    for b in range(count):
        base, place = envs[b] * slots, places[b]
        actions[b] = kept_actions[base + place]
        rewards[b] = kept_rewards[base + place]
        terminal[b] = kept_terminal[base + place]
        life_lost[b] = kept_life_lost[base + place]
        missing = stack - 1 - np.int64(ages[envs[b], place])
        for k in range(stack + 1):
            sources[b, k] = -1 if k < missing else base + (place - stack + 1 + k) % slots
    # Several windows at a time, a little of each: a core has many more reads under way then.
    for group in range(0, count, STREAMS):
        for k in range(stack + 1):
            for start in range(0, size, CHUNK):
                stop = min(start + CHUNK, size)
                for b in range(group, min(group + STREAMS, count)):
                    target = windows[b, k * size + start : k * size + stop]
                    if sources[b, k] < 0:
                        target[:] = 0
                    else:
                        _copy(frames[sources[b, k], start:stop], target)
