"""How the tables of docs/evidence.md show a number over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from svrl.stats import bootstrap_interval

RESAMPLES = 20_000


def mean_and_ends(values: Sequence[float], form: str = "{:.2f}") -> str:
    """Mean and its 95% percentile bootstrap over seeds."""
    both = bootstrap_interval(values, resamples=RESAMPLES)
    mean, low, high = (form.format(value) for value in (np.mean(values), *both))
    return f"{mean} [{low}, {high}]"


def ends(found: tuple[float, float] | None) -> str:
    """An interval behind its number; nothing where there is none."""
    return "" if found is None else f" [{found[0]:.2f}, {found[1]:.2f}]"
