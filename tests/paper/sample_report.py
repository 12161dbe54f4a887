"""A small library: figures that are made at one scale, at two and at none, and claims of several verdicts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.judging import Library
from svrl.plots.style import CYCLE, MAP, tag
from svrl.runs.local import run_locally
from svrl.runs.store import Store

from .small_experiment import run

NASTY = "<script>alert(\"x\")</script> & 'quotes' | `a < b` Q* and V*, $p$ of _n_ [x](y)"
IMAGES = 4


def draw(name: str, evidence: Evidence) -> Figure:
    """Tagged lines with bands, and a rasterized map with a colour bar."""
    steps = np.linspace(0.0, 10.0, 60)
    made = Figure(figsize=(7.2, 2.9), layout="constrained")
    left, right = made.subplots(1, 2)
    for at, (label, colour) in enumerate(zip(("DQN", "SV-DQN"), CYCLE, strict=False)):
        heights = (1 + 0.25 * at) * (1 - np.exp(-steps / 2)) + 0.03 * np.sin(7 * steps + at)
        tag(left.plot(steps, heights, color=colour, label=label), label)
        tag(left.fill_between(steps, heights - 0.1, heights + 0.1, color=colour, alpha=0.2, linewidth=0), label)
    left.legend(loc="lower right")
    image = right.pcolormesh(np.sin(np.add.outer(steps, steps)), cmap=MAP, rasterized=True)
    made.colorbar(image, ax=right, label="torque (N m)", pad=0.02)
    return made


def claim(name: str, found: Finding, figure: str = "fig3", section: str = "3.3", **words: Any) -> Claim:
    """A claim that came to this."""
    known = {"says": f"{name} keeps the pendulum up.", "paper": "about equal", "test": "At most 1.1 times the optimum."}
    return Claim(name=name, figure=figure, section=section, judge=lambda _: found, **(known | words))


def sample_report(folder: Path, *, nasty: bool = False) -> Library:
    """The library, with its runs computed below this folder."""
    laptop = Budget(runs=(run(1), run(2)), words="2 squares")
    full = Budget(runs=(run(3),), words="a large square")
    not_kept = Budget(runs=(run(4),), words="never run")
    fifth = Finding(verdict=Verdict.REPRODUCED, ours="1.02 times (0.98 to 1.07)", interval=(0.98, 1.07))
    rank = Finding(verdict=Verdict.OTHERWISE, ours="7", interval=(6.0, 8.0), note="The sum would give 12.")
    worse = Finding(verdict=Verdict.NOT_REPRODUCED, ours="-1,240 (-3,051 to 571)")
    experiment = partial(Experiment, picture=draw)
    planning = experiment(
        name="control_svp",
        title="structured planning on control tasks",
        says={"fig3": "Maps are alike.", "fig10": "So are paths."},
        budgets={"laptop": Budget(**{**vars(laptop), "needs": lambda figure, run: figure == "fig3"}), "full": not_kept},
        claims=(
            claim("svp-fifth", fifth),
            claim("svp-rank", rank, test="The rank is 7."),
            claim("svp-time", fifth, figure="fig10", section="C.1"),
        ),
        notes=("All tasks share one planner; a sweep of all pairs is one backup of `S x A` entries.",),
    )
    better = claim("sv-better", worse, figure="fig6", section="4.3")
    awkward = Finding(verdict=Verdict.NOT_REPRODUCED, ours=NASTY, note=NASTY)
    said = dict.fromkeys(("says", "paper", "test"), NASTY)
    learning = experiment(
        name="atari_learning",
        title=NASTY if nasty else "learning on Atari games",
        says={"fig6": NASTY if nasty else "Structure is better."},
        budgets={"laptop": laptop, "full": full},
        claims=(better, *([claim("awkward-at-0.1", awkward, figure="fig6", **said)] if nasty else [])),
    )
    ours = experiment(
        name="noisy_simulator",
        title="a noisy problem",
        says={"noise": "Nobody looked."},
        budgets={"laptop": laptop},
        claims=(claim("noise-pays", fifth, figure="noise", section=""),),
    )
    store = Store(root=folder)
    run_locally([*laptop.runs, *full.runs], store.address, here=True)
    return Library((planning, learning, ours), (store,))
