"""How the tables of docs/evidence.md show a number over seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 20_000


def mean_and_ends(values: Sequence[float], form: str = "{:.2f}") -> str:
    """Mean and its 95% percentile bootstrap over seeds."""
    drawn = np.random.default_rng(0).choice(np.array(values), (RESAMPLES, len(values))).mean(1)
    mean, low, high = (form.format(value) for value in (np.mean(values), *np.quantile(drawn, (0.025, 0.975))))
    return f"{mean} [{low}, {high}]"


def ends(found: tuple[float, float] | None) -> str:
    """An interval behind its number; nothing where there is none."""
    return "" if found is None else f" [{found[0]:.2f}, {found[1]:.2f}]"
