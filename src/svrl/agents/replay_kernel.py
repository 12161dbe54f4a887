"""The replay buffer's loops, as numba kernels; `svrl.agents.replay` explains slots, ages and orders.

Slot k of an environment lies at k modulo the number of slots. Frames are rows of bytes, so that one kernel handles
every type of observation.
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
    """Open a new slot in every environment, and list the previous one as a transition unless episodes begin.

    Args:
        begins: An episode begins in every environment; the previous slot keeps its frame as a final one.
        ended: (N,), bool: the episode is over, so that a final frame needs a slot between the two.
        most: Largest age.
        made: As in `Replay`, before this step.
        heads, tails, ends, order, ages: As in `Replay`; changed.
        at: (N,), out: row of the slot of the action, among all N * M.
        final_at: (N,), out: row for the final frame, if the episode ended.
        next_at: (N,), out: row of the newly opened slot.
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
    """Copy one row of bytes to another. With views of known length the loop becomes wide moves."""
    for k in range(len(source)):
        target[k] = source[k]


@njit(**COMPILE)
def sample_windows(
    draws: Any,
    n_steps: int,
    gamma: float,
    clip: bool,
    life_loss_ends: bool,
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
    discounts: Any,
    next_rows: Any,
) -> None:
    """Fill a batch with the transitions numbered draws (B,) modulo their count.

    Args:
        draws, tails, ends, order, ages, frames, kept_*: As in `Replay`.
        n_steps, gamma, clip, life_loss_ends: As in `Returns`.
        windows: (B, F * bytes), out: the `stack` frames of the state, then those of the next one that are not among
            them (one frame) or all `stack` of them (n_steps > 1).
        actions, rewards, discounts: (B,), out.
        next_rows: (B,), out: the row of the next state's newest frame, among all N * M.
    """
    per_env, slots, size = order.shape[1], ages.shape[1], frames.shape[1]
    width = windows.shape[1] // size
    stack = width - 1 if n_steps == 1 else width // 2
    count = len(draws)
    sources = np.empty((count, width), np.int64)
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
        before = ends[env - 1] if env > 0 else 0
        number, base = tails[env] + index - before, env * slots
        listed = tails[env] + ends[env] - before
        slot = order[env, number % per_env]
        actions[b] = kept_actions[base + slot % slots]
        total, factor = 0.0, 1.0
        for k in range(n_steps):
            row = base + (slot + k) % slots
            reward = np.float64(kept_rewards[row])
            if clip:
                reward = np.sign(reward)
            total += factor * reward
            factor *= gamma
            head = slot + k + 1
            if kept_terminal[row] or (life_loss_ends and kept_life_lost[row]):
                factor = 0.0
                break
            # The episode goes on if the next transition is listed in the next slot: a final frame is not.
            following = number + k + 1
            if following >= listed or order[env, following % per_env] != head:
                break
        rewards[b], discounts[b], next_rows[b] = total, factor, base + head % slots
        for k in range(stack):
            back = stack - 1 - k
            sources[b, k] = -1 if back > ages[env, slot % slots] else base + (slot - back) % slots
        for k in range(stack, width):
            back = width - 1 - k
            sources[b, k] = -1 if back > ages[env, head % slots] else base + (head - back) % slots
    # Several windows at a time, a little of each: a core then has many more reads in flight.
    for group in range(0, count, STREAMS):
        for k in range(width):
            for start in range(0, size, CHUNK):
                stop = min(start + CHUNK, size)
                for b in range(group, min(group + STREAMS, count)):
                    target = windows[b, k * size + start : k * size + stop]
                    if sources[b, k] < 0:
                        target[:] = 0
                    else:
                        _copy(frames[sources[b, k], start:stop], target)


@njit(**COMPILE)
def set_leaves(tree: Any, leaves: Any, values: Any) -> None:
    """Write leaves (K,) of a sum tree and the sums above them; node k has the children 2k and 2k + 1."""
    first = len(tree) // 2
    for k in range(len(leaves)):
        node = first + leaves[k]
        tree[node] = values[k]
        while node > 1:
            node //= 2
            tree[node] = tree[2 * node] + tree[2 * node + 1]


@njit(**COMPILE)
def find_leaves(tree: Any, shares: Any, leaves: Any) -> None:
    """Find the leaves (K,) at which the running sum passes shares (K,) of the total; never one that is 0."""
    first = len(tree) // 2
    for k in range(len(shares)):
        left, node = shares[k] * tree[1], 1
        while node < first:
            node *= 2
            if (left >= tree[node] or tree[node] == 0.0) and tree[node + 1] > 0.0:
                left -= tree[node]
                node += 1
        leaves[k] = node - first
