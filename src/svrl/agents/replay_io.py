"""The replay memory in pieces that never change, so that saving it again costs only what is new.

A slot is complete once the next one is open, and what it holds never changes before it is overwritten. A
segment is the complete slots first .. last - 1 of each environment, one environment after another, numbered
absolutely. What is left is small: where each environment stands, and its open slot. Both together give back a
memory that draws the same batches, and goes on in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from svrl.agents.replay import Replay

PIECE_BYTES = 1 << 28
"""Bytes of frames in one segment; the most that saving and loading need beside the memory."""

OUTCOMES = ("frames", "actions", "rewards", "terminal", "life_lost")


def needed_from(replay: Replay) -> np.ndarray:
    """(N,): the oldest slot of each environment that a transition still needs; the open one where there is none."""
    oldest = replay.heads.copy()
    for env in np.flatnonzero(replay.tails < replay.made):
        slot = replay.order[env, replay.tails[env] % replay.layout.per_env]
        oldest[env] = slot - replay.ages[env, slot % replay.layout.slots]
    return oldest


def segments(replay: Replay, since: np.ndarray | None = None) -> Iterator[dict[str, Any]]:
    """The complete slots from `since` (N,) on, or all that are needed, in pieces of bounded size.

    Each piece is a tree of arrays: `first` and `last` (N,), and for the K slots in between, one environment after
    another, `frames` (K, bytes), `actions`, `rewards`, `terminal`, `life_lost`, `ages`, and `drawable`: not a final
    frame.
    """
    first = np.maximum(needed_from(replay), 0)
    if since is not None:
        first = np.maximum(first, since)
    span = max(1, PIECE_BYTES // (replay.layout.n_envs * replay.layout.frame_bytes))
    while (first < replay.heads).any():
        last = np.minimum(first + span, replay.heads)
        yield _segment(replay, first, last)
        first = last


def _segment(replay: Replay, first: np.ndarray, last: np.ndarray) -> dict[str, Any]:
    rows = _rows(replay, first, last)
    places = torch.from_numpy(rows).to(replay.device)
    kept = {name: getattr(replay, name).index_select(0, places).cpu().numpy() for name in OUTCOMES}
    drawable = [np.isin(np.arange(first[env], last[env]), _listed(replay, env)) for env in range(len(first))]
    return {
        "first": first,
        "last": last,
        **kept,
        "ages": replay.ages.reshape(-1)[rows],
        "drawable": np.concatenate(drawable),
    }


def _rows(replay: Replay, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    slots = replay.layout.slots
    envs = (env * slots + np.arange(first[env], last[env]) % slots for env in range(len(first)))
    return np.concatenate(list(envs))


def _listed(replay: Replay, env: int) -> np.ndarray:
    """Slots of an environment's transitions that can be drawn, oldest first."""
    numbers = np.arange(replay.tails[env], replay.made)
    return replay.order[env, numbers % replay.layout.per_env]


def standing(replay: Replay) -> dict[str, Any]:
    """All that segments do not hold: the layout, where each environment stands, and its open slot's frame and age."""
    envs, slots = np.arange(replay.layout.n_envs), replay.layout.slots
    opened = replay.heads % slots
    return {
        "layout": asdict(replay.layout),
        "made": replay.made,
        "heads": replay.heads.copy(),
        "tails": replay.tails.copy(),
        "open_ages": replay.ages[envs, opened],
        "open_frames": replay.frames[torch.from_numpy(envs * slots + opened).to(replay.device)].cpu().numpy(),
    }


def refuse_another_layout(replay: Replay, stands: Mapping[str, Any]) -> None:
    """Raise unless the memory is laid out as the one that was saved.

    Raises:
        ValueError: The sentence says what differs.
    """
    now = asdict(replay.layout)
    changed = [f"{name} was {was} and is {now.get(name)}" for name, was in stands["layout"].items() if was != now[name]]
    if changed:
        raise ValueError(
            f"The saved replay memory is laid out otherwise: {', '.join(changed)}. "
            "Use the same environment, buffer_size and n_envs."
        )


def restore(replay: Replay, stands: Mapping[str, Any], pieces: Iterable[Mapping[str, Any]]) -> None:
    """Fill a memory from what `standing` and `segments` gave, the segments in their order.

    Raises:
        ValueError: If the memory is laid out otherwise, or if what was saved is incomplete or contradicts itself.
    """
    refuse_another_layout(replay, stands)
    counts = _saved_counts(replay, stands)
    reached: np.ndarray | None = None
    listed: list[list[np.ndarray]] = [[np.zeros(0, np.int64)] for _ in counts]
    for piece in pieces:
        reached = piece["last"]
        _write_piece(replay, piece)
        for env, slots in enumerate(_drawable_slots(piece)):
            listed[env].append(slots)
    if reached is not None and (reached != stands["heads"]).any():
        raise ValueError("The saved replay memory lacks its newest segment.")
    drawable = [np.concatenate(parts) for parts in listed]
    for env, (found, count) in enumerate(zip(drawable, counts, strict=True)):
        if len(found) < count:
            raise ValueError(
                f"The saved replay memory has {len(found)} of the {count} transitions of environment {env}."
            )
    _stand_where_it_stood(replay, stands, drawable)


def _drawable_slots(piece: Mapping[str, Any]) -> Iterator[np.ndarray]:
    """Of each environment, the slots of a segment that can be drawn."""
    begin = 0
    for first, last in zip(piece["first"], piece["last"], strict=True):
        end = begin + last - first
        yield first + np.flatnonzero(piece["drawable"][begin:end])
        begin = end


def _saved_counts(replay: Replay, stands: Mapping[str, Any]) -> np.ndarray:
    """(N,), transitions of each environment that could be drawn when it was saved."""
    counts: np.ndarray = int(stands["made"]) - stands["tails"]
    possible = (stands["heads"] >= -1) & (stands["tails"] >= 0) & (counts >= 0) & (counts <= replay.layout.per_env)
    if not possible.all():
        raise ValueError("The saved replay memory contradicts itself.")
    return counts


def _stand_where_it_stood(replay: Replay, stands: Mapping[str, Any], slots: list[np.ndarray]) -> None:
    """Stand where the saved buffer stood. Each environment lists the newest of `slots`, as many as it listed."""
    layout, made, heads = replay.layout, int(stands["made"]), stands["heads"]
    rows = np.arange(layout.n_envs) * layout.slots + heads % layout.slots
    replay.ages.reshape(-1)[rows] = _ages(replay, stands["open_ages"])
    replay.frames[torch.from_numpy(rows).to(replay.device)] = torch.from_numpy(stands["open_frames"]).to(replay.device)
    for env, found in enumerate(slots):
        oldest = int(stands["tails"][env])
        numbers = np.arange(oldest, made)
        replay.order[env, numbers % layout.per_env] = found[len(found) - len(numbers) :]
        replay.tails[env] = oldest
    replay.made = made
    replay.heads[:] = heads
    replay.synchronise()


def _write_piece(replay: Replay, piece: Mapping[str, Any]) -> None:
    rows = _rows(replay, piece["first"], piece["last"])
    places = torch.from_numpy(rows).to(replay.device)
    for name in OUTCOMES:
        getattr(replay, name).index_copy_(0, places, torch.from_numpy(piece[name]).to(replay.device))
    replay.ages.reshape(-1)[rows] = _ages(replay, piece["ages"])


def _ages(replay: Replay, ages: np.ndarray) -> np.ndarray:
    """The kernels trust ages, and files may come from strangers."""
    if len(ages) and ages.max() >= replay.layout.stack:
        raise ValueError("The saved replay memory contradicts itself.")
    return ages
