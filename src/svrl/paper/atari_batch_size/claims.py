"""What the paper says about batch sizes, and what we find."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from svrl.paper.atari_batch_size.settings import ENVS, FROSTBITE, SEAQUEST, SIZES
from svrl.paper.claim import Claim, Finding
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.atari import PAIR
from svrl.paper.training_cells.gains import (
    MARGIN,
    Interval,
    Transform,
    can_tell,
    percent,
    relative_gains,
    shown_percent,
)
from svrl.paper.training_cells.reading import envs_of, title_of, values
from svrl.paper.training_cells.verdicts import ATARI_SCALES, nothing_yet, settled
from svrl.stats import stratified_interval


def got(figure: str, evidence: Evidence) -> str:
    """Gains by game and size, and what is missing."""
    found, panels = [], 0
    for env in ENVS:
        sizes = sizes_of(evidence, env)
        panels += len(sizes)
        if sizes:
            gains = gains_of(evidence, env, sizes)
            told = ", ".join(f"{percent(gain)} at {size}" for size, gain in zip(sizes, gains, strict=True))
            found.append(f"{title_of(env)} {told}")
    expected = len(ENVS) * len(SIZES)
    missing = f" This budget has {panels} of its {expected} panels." if panels < expected else ""
    return f"Relative gain of structure by batch size: {'; '.join(found)}.{missing}"


def sizes_of(evidence: Evidence, env: str) -> tuple[int, ...]:
    """Batch sizes that both arms were trained with."""
    return tuple(size for size in SIZES if envs_of(evidence, (env,), PAIR, size))


def gains_of(evidence: Evidence, env: str, sizes: tuple[int, ...]) -> np.ndarray:
    """(sizes,): relative gain at each batch size."""
    return relative_gains(*_scores(evidence, env, sizes), [env] * len(sizes))


def judge_shrinks(evidence: Evidence) -> Finding:
    """Seaquest: worse at 32, and less so at 128; 64 may be missing."""
    sizes = sizes_of(evidence, SEAQUEST)
    if not {SIZES[0], SIZES[-1]} <= set(sizes):
        return nothing_yet(evidence)
    gains = gains_of(evidence, SEAQUEST, sizes)
    change = float(gains[-1] - gains[0])
    ends = _ends(evidence, SEAQUEST, sizes, lambda found: found[..., -1] - found[..., 0])
    rising = bool((np.diff(gains) >= 0).all())
    holds = bool(gains[0] < 0) and rising and ends is not None and ends[0] > 0
    return settled(
        evidence,
        holds,
        ours=f"{_told(gains, sizes)}; from 32 to 128 {percent(change)}{shown_percent(ends)}",
        value=change,
        ends=ends,
        note="" if gains[0] < 0 else "There is no loss at 32 that could shrink.",
        limit=0.0,
    )


def judge_vanishes(evidence: Evidence) -> Finding:
    """Seaquest: no difference at 128."""
    if SIZES[-1] not in sizes_of(evidence, SEAQUEST):
        return nothing_yet(evidence)
    gains = gains_of(evidence, SEAQUEST, SIZES[-1:])
    ends = _ends(evidence, SEAQUEST, SIZES[-1:], lambda found: found[..., -1])
    holds = ends is not None and -MARGIN <= ends[0] <= ends[1] <= MARGIN
    ours = f"{percent(gains[-1])}{shown_percent(ends)}"
    return settled(evidence, holds, ours=ours, value=float(gains[-1]), ends=ends, limit=0.0, side=0, within=MARGIN)


def judge_frostbite(evidence: Evidence) -> Finding:
    """Frostbite: better at all sizes, so also where the gain is least."""
    sizes = sizes_of(evidence, FROSTBITE)
    if not sizes:
        return nothing_yet(evidence)
    gains = gains_of(evidence, FROSTBITE, sizes)
    ends = _ends(evidence, FROSTBITE, sizes, lambda found: found.min(-1))
    holds = sizes == SIZES and ends is not None and ends[0] > 0
    ours = _told(gains, sizes) + (f"; least{shown_percent(ends)}" if ends else "")
    return settled(evidence, holds, ours=ours, value=float(gains.min()), ends=ends, limit=0.0)


def _told(gains: np.ndarray, sizes: tuple[int, ...]) -> str:
    return ", ".join(f"{percent(gain)} at {size}" for size, gain in zip(sizes, gains, strict=True))


def _scores(evidence: Evidence, env: str, sizes: tuple[int, ...]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """For plain and structured, the scores (seeds,) at each size."""
    plain, structured = ([values(evidence, arm, (env,), batch_size=size)[0] for size in sizes] for arm in PAIR)
    return plain, structured


def _ends(evidence: Evidence, env: str, sizes: tuple[int, ...], statistic: Transform) -> Interval | None:
    plain, structured = _scores(evidence, env, sizes)
    if not can_tell(plain, structured):
        return None
    panels = [env] * len(sizes)
    return stratified_interval(lambda x, y: statistic(relative_gains(x, y, panels)), plain, structured)


def _claim(name: str, says: str, paper: str, test: str, judge: Callable[[Evidence], Finding]) -> Claim:
    return Claim(
        name=name,
        figure="fig30",
        section="G.2",
        says=says,
        paper=paper,
        test=test,
        judge=judge,
        scales=ATARI_SCALES,
    )


CLAIMS = (
    _claim(
        "seaquest-gap-shrinks",
        "On Seaquest structure loses at a batch size of 32, and the loss shrinks as batches grow.",
        "worse at 32, less so at 64, gone at 128",
        "Relative gains at 32, 64 and 128; reproduced if the first is a loss, they do not fall, and the interval of "
        "the last less the first lies above 0.",
        judge_shrinks,
    ),
    _claim(
        "seaquest-gap-vanishes",
        "On Seaquest structure makes no difference at a batch size of 128.",
        "the same",
        "Relative gain at 128; reproduced if its whole interval is within 10% of none. One that covers 0 and is wider "
        "leaves it undecided, and so do three seeds of each arm.",
        judge_vanishes,
    ),
    _claim(
        "frostbite-gains-at-all-sizes",
        "On Frostbite structure is better at all batch sizes.",
        "better at 32, 64 and 128",
        "The least of the three relative gains; reproduced if its interval lies above 0.",
        judge_frostbite,
    ),
)
