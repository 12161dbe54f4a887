"""The replay buffer in pieces that never change, so that saving it again costs only what is new.

A slot is complete once the next one is open, and then keeps what it holds until it is overwritten. A segment is the
complete slots first .. last - 1 of each environment, one environment after another, numbered absolutely. What is left
is small: where each environment stands, and its open slot. Both together give back a buffer that draws the same
batches and grows in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from svrl.agents.replay import Replay

PIECE_BYTES = 1 << 28
"""Bytes of frames in one segment: the most that saving and loading need beside the buffer."""

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
        rows = _rows(replay, first, last)
        places = torch.from_numpy(rows).to(replay.device)
        drawable = []
        for env, (begin, end) in enumerate(zip(first, last, strict=True)):
            numbers = np.arange(replay.tails[env], replay.made)
            drawable.append(np.isin(np.arange(begin, end), replay.order[env, numbers % replay.layout.per_env]))
        yield {
            "first": first,
            "last": last,
            **{name: getattr(replay, name).index_select(0, places).cpu().numpy() for name in OUTCOMES},
            "ages": replay.ages.reshape(-1)[rows],
            "drawable": np.concatenate(drawable),
        }
        first = last


def positions(replay: Replay) -> dict[str, Any]:
    """All that segments do not hold: the layout, where each environment stands, and its open slot's frame and age."""
    rows = _rows(replay, replay.heads, replay.heads + 1)
    return {
        "layout": asdict(replay.layout),
        "made": replay.made,
        "heads": replay.heads.copy(),
        "tails": replay.tails.copy(),
        "open_ages": replay.ages.reshape(-1)[rows],
        "open_frames": replay.frames[torch.from_numpy(rows).to(replay.device)].cpu().numpy(),
    }


def refuse_another_layout(replay: Replay, saved: Mapping[str, Any]) -> None:
    """Raise ValueError, with what differs, unless the buffer is laid out as the one that was saved."""
    now = asdict(replay.layout)
    changed = [f"{name} was {was} and is {now.get(name)}" for name, was in saved["layout"].items() if was != now[name]]
    if changed:
        raise ValueError(
            f"The saved replay buffer is laid out otherwise: {', '.join(changed)}. "
            "Use the same environment, buffer_size and n_envs."
        )


def restore(replay: Replay, saved: Mapping[str, Any], pieces: Iterable[Mapping[str, Any]]) -> None:
    """Fill a buffer of the same layout from what `positions` and `segments` gave, the segments in their order.

    Raises:
        ValueError: If what was saved is incomplete or contradicts itself.
    """
    layout, made, heads, tails = replay.layout, int(saved["made"]), saved["heads"], saved["tails"]
    counts = made - tails
    # The kernels trust these numbers, and files may come from strangers.
    if not ((heads >= -1) & (tails >= 0) & (counts >= 0) & (counts <= layout.per_env)).all():
        raise ValueError(_CONTRADICTION)
    reached = None
    drawable: list[list[np.ndarray]] = [[np.zeros(0, np.int64)] for _ in counts]
    for piece in pieces:
        reached = piece["last"]
        _write(replay, _rows(replay, piece["first"], reached), piece["ages"], {name: piece[name] for name in OUTCOMES})
        lengths = np.cumsum(reached - piece["first"])[:-1]
        for env, flags in enumerate(np.split(piece["drawable"], lengths)):
            drawable[env].append(piece["first"][env] + np.flatnonzero(flags))
    if reached is not None and (reached != heads).any():
        raise ValueError("The saved replay buffer lacks its newest segment.")
    slots = [np.concatenate(parts) for parts in drawable]
    for env, (found, count) in enumerate(zip(slots, counts, strict=True)):
        if len(found) < count:
            raise ValueError(
                f"The saved replay buffer has {len(found)} of the {count} transitions of environment {env}."
            )
    _write(replay, _rows(replay, heads, heads + 1), saved["open_ages"], {"frames": saved["open_frames"]})
    for env, found in enumerate(slots):  # of the slots that can be drawn the newest are listed
        numbers = np.arange(tails[env], made)
        replay.order[env, numbers % layout.per_env] = found[len(found) - len(numbers) :]
    replay.made = made
    replay.tails[:], replay.heads[:] = tails, heads
    replay.synchronise()


_CONTRADICTION = "The saved replay buffer contradicts itself."


def _write(replay: Replay, rows: np.ndarray, ages: np.ndarray, kept: Mapping[str, np.ndarray]) -> None:
    if len(ages) and ages.max() >= replay.layout.stack:
        raise ValueError(_CONTRADICTION)
    places = torch.from_numpy(rows).to(replay.device)
    for name, values in kept.items():
        getattr(replay, name).index_copy_(0, places, torch.from_numpy(values).to(replay.device))
    replay.ages.reshape(-1)[rows] = ages


def _rows(replay: Replay, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Rows, among all N * M, of the slots first .. last - 1 of each environment."""
    slots = replay.layout.slots
    envs = (env * slots + np.arange(first[env], last[env]) % slots for env in range(len(first)))
    return np.concatenate(list(envs))
