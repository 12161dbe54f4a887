"""The replay memory's loops, as numba kernels; `Replay` says what slots, ages and orders are.

Slots are numbered absolutely in each environment, from 0 and without end; slot k lies at k modulo the number
of slots. Frames are rows of bytes, so that one kernel serves every type of observation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svrl.runtime.jit import njit

COMPILE: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
STREAMS, CHUNK = 8, 512


@njit(inline="always", **COMPILE)
def _forget(env: int, head: int, made: int, room: int, tails: Any, order: Any, ages: Any) -> None:
    """Let go of an environment's oldest transitions, so that `head` can be its open slot and `room` more can be listed.

    A transition goes as soon as the first frame of its window does. Those first frames never go backwards from one
    transition to the next, so that the oldest go first.
    """
    per_env, slots = order.shape[1], ages.shape[1]
    oldest = max(tails[env], made + room - per_env)
    while oldest < made:
        slot = order[env, oldest % per_env]
        if slot - ages[env, slot % slots] > head - slots:
            break
        oldest += 1
    tails[env] = oldest


@njit(**COMPILE)
def begin_lanes(made: int, heads: Any, tails: Any, ends: Any, order: Any, ages: Any, next_at: Any) -> None:
    """Open a new slot in every environment for the first frame of an episode; the one that was open keeps its frame.

    Args:
        made: Transitions that each environment has seen so far.
        heads: (N,), the open slot of each environment, -1 before the first; changed.
        tails: (N,), the number of the oldest transition that can be sampled; changed.
        ends: (N,), cumulative counts of transitions that can be sampled; changed.
        order: (N, C), slots of the transitions, number t at t modulo C.
        ages: (N, M), frames of the same episode before a slot's own, as far as a stack needs them; changed.
        next_at: (N,), out: row of the new slot among all N * M.
    """
    slots = ages.shape[1]
    total = 0
    for env in range(len(heads)):
        head = heads[env] + 1
        _forget(env, head, made, 0, tails, order, ages)
        heads[env] = head
        ages[env, head % slots] = 0
        next_at[env] = env * slots + head % slots
        total += made - tails[env]
        ends[env] = total


@njit(**COMPILE)
def advance_lanes(
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
    """List the open slots as transitions and open the slots after them, with one more for a final frame.

    Args:
        ended: (N,), bool: the episode is over.
        most: What ages are cut off at.
        made: As for `begin_lanes`; so are the arrays without a text here.
        heads, tails, ends, order, ages: Changed.
        at: (N,), out: row of the slot that the action was taken in.
        final_at: (N,), out: row for the final frame, -1 where the episode goes on.
        next_at: (N,), out: row of the slot that is open now.
    """
    per_env, slots = order.shape[1], ages.shape[1]
    total = 0
    for env in range(len(heads)):
        slot = heads[env]
        head = slot + 1 + (1 if ended[env] else 0)
        _forget(env, head, made, 1, tails, order, ages)
        base = env * slots
        order[env, made % per_env] = slot
        age = ages[env, slot % slots]
        ages[env, (slot + 1) % slots] = min(age + 1, most)
        at[env] = base + slot % slots
        final_at[env] = -1
        if ended[env]:
            final_at[env] = base + (slot + 1) % slots
            ages[env, head % slots] = 0
        next_at[env] = base + head % slots
        heads[env] = head
        total += made + 1 - tails[env]
        ends[env] = total


@njit(inline="always", **COMPILE)
def _copy(source: Any, target: Any) -> None:
    """Copy one row of bytes to another. As views with their own length the loop becomes wide moves."""
    for k in range(len(source)):
        target[k] = source[k]


@njit(**COMPILE)
def store_frames(rows: Any, observations: Any, frames: Any) -> None:
    """Copy the newest frame of each observation (N, bytes) to its row of frames; rows of -1 are passed over."""
    start = observations.shape[1] - frames.shape[1]
    for env in range(len(rows)):
        if rows[env] >= 0:
            _copy(observations[env, start:], frames[rows[env]])


@njit(**COMPILE)
def store_outcomes(
    at: Any,
    actions: Any,
    rewards: Any,
    terminal: Any,
    life_lost: Any,
    kept_actions: Any,
    kept_rewards: Any,
    kept_terminal: Any,
    kept_life_lost: Any,
) -> None:
    """Write what an action led to, (N,) each, to the rows `at`."""
    for env in range(len(at)):
        row = at[env]
        kept_actions[row] = actions[env]
        kept_rewards[row] = rewards[env]
        kept_terminal[row] = terminal[env]
        kept_life_lost[row] = life_lost[env]


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
        env = np.searchsorted(ends, index, side="right")
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
