"""Verdicts that several experiments share.

At a budget that settles a claim, the paper's where the claim is the paper's, what passes its test is reproduced and
what fails is not. A smaller budget settles nothing, one way or the other, but what was found there is said: supported
so far if the test is passed, contradicted so far if the whole interval lies beyond its limit, else undecided so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from svrl.paper.claim import Finding, Verdict
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.gains import Gain, Interval, shown
from svrl.paper.training_cells.reading import share_at_most, title_of, values
from svrl.stats import interval_if_several

SHORT, FULL = "short", "full"
ATARI_SCALES = (SHORT, FULL)
"""At which claims on Atari are looked at: below them nothing is learned. Only the last settles them."""
EVERY_SCALE = ("smoke", "laptop", SHORT, FULL)
"""Of claims that need no run."""
_FEW_SEEDS = "Too few seeds for an interval."


def settled(
    evidence: Evidence,
    holds: bool,
    *,
    ours: str,
    value: float | None,
    ends: Interval | None,
    note: str = "",
    otherwise: str = "",
    limit: float | None = None,
    side: int = 1,
    within: float = 0.0,
    budgets: Sequence[str] = (FULL,),
) -> Finding:
    """A finding on something random.

    Args:
        evidence: What it was judged from.
        holds: Whether the test was passed.
        ours: Our value in words; empty if there is none.
        value: The same as a number.
        ends: Its interval; without one nothing is called reproduced.
        note: What else to say.
        otherwise: Under which other definition it holds, if it does under none of the paper's.
        limit: Of the test; of a failure whose interval has it inside the note says so.
        side: Where the value must lie: 1 above the limit, -1 below it, 0 at it.
        within: How far from the limit a value is still at it.
        budgets: Scales that settle the claim.
    """
    holds = holds and ends is not None
    notes = [note, otherwise]
    if ends is None and ours:
        notes.append(_FEW_SEEDS)
    if not holds and ends is not None and limit is not None and ends[0] <= limit + within and ends[1] >= limit - within:
        where = f"covers {limit:g}" if not within else f"reaches into {limit - within:g} to {limit + within:g}"
        notes.append(f"The interval {where}: open either way.")
    if evidence.scale not in budgets:
        if not ours:
            return Finding(verdict=Verdict.NOT_RUN, note=_joined((_nothing(evidence), *notes)))
        verdict = _so_far(holds, ends, limit, side, within)
        settles = f"Only the budget {FULL} settles it." if budgets else "Only all of its environments settle it."
        notes.insert(0, f"With {evidence.words}. {settles}")
    elif holds:
        verdict = Verdict.REPRODUCED
    else:
        verdict = Verdict.OTHERWISE if otherwise and ends is not None else Verdict.NOT_REPRODUCED
    return Finding(verdict=verdict, ours=ours, value=value, interval=ends, note=_joined(notes))


def _so_far(supported: bool, ends: Interval | None, limit: float | None, side: int, within: float) -> Verdict:
    """What a smaller budget says."""
    if supported:
        return Verdict.SUPPORTED
    if ends is None or limit is None:
        return Verdict.UNDECIDED
    below, above = ends[1] < limit - within, ends[0] > limit + within
    return Verdict.CONTRADICTED if (below and side >= 0) or (above and side <= 0) else Verdict.UNDECIDED


def nothing_yet(evidence: Evidence) -> Finding:
    """That none of the games of a claim is there."""
    return Finding(verdict=Verdict.NOT_RUN, note=_nothing(evidence))


def _nothing(evidence: Evidence) -> str:
    return f"Nothing that could be compared yet; there is: {evidence.words}."


def _joined(notes: Sequence[str]) -> str:
    return " ".join(part for part in notes if part)


def improved(
    evidence: Evidence,
    gain: Gain,
    note: str = "",
    budgets: Sequence[str] = (FULL,),
    outright: str = "All structured runs beat all plain ones",
) -> Finding:
    """Whether an arm improves on another: the interval of the probability of improvement lies above one half.

    Args:
        evidence: What it was judged from.
        gain: Of the arm over the other.
        note: What else to say.
        budgets: Scales that settle the claim.
        outright: What is said where every run of the arm beats every one of the other.
    """
    ends = gain.improvement_interval
    holds = ends is not None and ends[0] > 0.5
    if ends == (1.0, 1.0):
        note = f"{note} {outright}, of {gain.seeds} seeds.".strip()
    return settled(
        evidence, holds, ours=str(gain), value=gain.improvement, ends=ends, note=note, limit=0.5, budgets=budgets
    )


def mostly_low(
    evidence: Evidence,
    arm: str,
    envs: Sequence[str],
    limit: int,
    *,
    expected: int,
    centred: bool = False,
    budgets: Sequence[str] = (FULL,),
) -> Finding:
    """Whether most batches have a rank of at most `limit`, judged where the fewest have.

    With fewer environments than expected it may fail, and cannot hold. The note has the share by the other definition:
    with row means taken out, or with them where `centred` judges without.
    """
    if not envs:
        return nothing_yet(evidence)
    shares, others = (
        values(evidence, arm, envs, partial(share_at_most, rank=limit, centred=out)) for out in (centred, not centred)
    )
    worst = min(range(len(envs)), key=lambda at: float(shares[at].mean()))
    share, ends = float(shares[worst].mean()), _of_a_share(interval_if_several(shares[worst]))
    least = min(float(seeds.mean()) for seeds in others)
    other = "left in" if centred else "taken out"
    return settled(
        evidence,
        len(envs) == expected and ends is not None and ends[0] > 0.5,
        ours=f"{share:.0%}{shown(ends)} of the batches in {title_of(envs[worst])}, where they are fewest"
        + (f" of {len(envs)} of {expected} environments" if len(envs) < expected else ""),
        value=share,
        ends=ends,
        note=f"With row means {other} it is {least:.0%} where they are fewest.",
        limit=0.5,
        budgets=budgets,
    )


def _of_a_share(ends: Interval | None) -> Interval | None:
    """Within 0 and 1, which Student's t does not know of."""
    return None if ends is None else (max(ends[0], 0.0), min(ends[1], 1.0))


def counted(names: Sequence[str]) -> str:
    """Names with commas, or "none"."""
    return ", ".join(names) or "none"
