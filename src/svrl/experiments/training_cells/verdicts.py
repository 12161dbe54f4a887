"""Verdicts that several experiments share.

At the paper's budget a claim that holds is reproduced. At the smaller budget `short` what holds is its direction:
another definition, and the note says so. What does not hold is not reproduced at either, with the budget in the note.
"""

from __future__ import annotations

from collections.abc import Sequence

from svrl.experiments.paper.claim import Finding, Verdict
from svrl.experiments.paper.evidence import Evidence
from svrl.experiments.training_cells.gains import Gain, Interval, mean_interval, shown
from svrl.experiments.training_cells.reading import share_at_most, title_of, values

SHORT, FULL = "short", "full"
ATARI_SCALES = (SHORT, FULL)
"""At which claims on Atari are judged: below them nothing is learned."""
EVERY_SCALE = ("smoke", "laptop", SHORT, FULL)
"""Of claims that need no run."""
_ONE_SEED = "One seed has no interval."


def settled(
    evidence: Evidence,
    holds: bool,
    *,
    ours: str,
    value: float,
    ends: Interval | None,
    note: str = "",
    otherwise: str = "",
) -> Finding:
    """A finding on something random.

    Args:
        evidence: What it was judged from.
        holds: Whether the test was passed.
        ours: Our value in words.
        value: The same as a number.
        ends: Its interval; without one nothing is called reproduced.
        note: What else to say.
        otherwise: Under which other definition it holds, if it does under none of the paper's.
    """
    notes = [note, otherwise]
    verdict = Verdict.NOT_REPRODUCED
    if ends is None:
        notes.append(_ONE_SEED)
    elif holds and evidence.scale != SHORT:
        verdict = Verdict.REPRODUCED
    elif holds or otherwise:
        verdict = Verdict.OTHERWISE
    if evidence.scale == SHORT:
        word = "The direction only" if holds else "At a smaller budget"
        notes.append(f"{word}: {evidence.words}; the paper's program takes 15,000,000 agent steps.")
    return Finding(
        verdict=verdict, ours=ours, value=value, interval=ends, note=" ".join(part for part in notes if part)
    )


def improved(evidence: Evidence, gain: Gain, note: str = "") -> Finding:
    """Whether structure improves scores: the interval of the probability of improvement lies above one half."""
    ends = gain.improvement_interval
    holds = ends is not None and ends[0] > 0.5
    if ends is not None and ends[0] <= 0.5 <= ends[1]:
        note = f"{note} The interval covers 0.5: undecided.".strip()
    if ends == (1.0, 1.0):
        note = f"{note} All structured runs beat all plain ones, of {gain.seeds} seeds.".strip()
    return settled(evidence, holds, ours=str(gain), value=gain.improvement, ends=ends, note=note)


def mostly_low(evidence: Evidence, arm: str, envs: Sequence[str], limit: int) -> Finding:
    """Whether most batches have a rank of at most `limit`, judged where the fewest have."""
    shares = values(evidence, arm, envs, lambda kept: share_at_most(kept, limit))
    centred = values(evidence, arm, envs, lambda kept: share_at_most(kept, limit, centred=True))
    worst = min(range(len(envs)), key=lambda at: float(shares[at].mean()))
    share, ends = float(shares[worst].mean()), mean_interval(shares[worst])
    least = min(float(seeds.mean()) for seeds in centred)
    return settled(
        evidence,
        ends is not None and ends[0] > 0.5,
        ours=f"{share:.0%}{shown(ends)} of the batches in {title_of(envs[worst])}, where they are fewest",
        value=share,
        ends=ends,
        note=f"With row means taken out it is {least:.0%} where they are fewest.",
    )


def counted(names: Sequence[str]) -> str:
    """Names with commas, or "none"."""
    return ", ".join(names) or "none"
