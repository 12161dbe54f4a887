"""Figure 30: does a larger batch help structure on a game of high rank?"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiment import Experiment
from svrl.paper.experiments.gains import MARGIN, Panels, signed, signed_ends
from svrl.paper.experiments.training_figures import draw_grid, groups_of
from svrl.paper.experiments.trainings import ARMS_OF, ATARI_SCALES, PAIR, atari_budget, env_names, on_atari, title_of
from svrl.paper.verdicts import nothing_yet, settled
from svrl.plots.style import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAMES = ("frostbite", "seaquest")
FROSTBITE, SEAQUEST = ENVS = env_names(GAMES)
SIZES = (32, 64, 128)
BUDGETS = {
    **{
        scale: atari_budget(scale, on_atari(scale, GAMES[:1]), "Frostbite with batches of 32")
        for scale in ("smoke", "laptop")
    },
    "short": atari_budget(
        "short",
        on_atari("short", GAMES, ARMS_OF["dqn"])
        + sum((on_atari("short", GAMES[::-1], ARMS_OF["dqn"], batch_size=size) for size in (128, 64)), ()),
    ),
    "full": atari_budget(
        "full",
        on_atari("full", GAMES) + sum((on_atari("full", GAMES, batch_size=size) for size in SIZES[1:]), ()),
        "Frostbite and Seaquest, batches of 32, 64 and 128",
    ),
}


def of_batches(evidence: Evidence, size: int) -> Evidence:
    """The trainings with batches of this size."""
    runs = (kept for kept in evidence.runs if kept.settings["overrides"].get("batch_size", 32) == size)
    return replace(evidence, runs=tuple(runs))


def panels_of(evidence: Evidence, env: str) -> tuple[tuple[int, ...], Panels]:
    """Batch sizes that both arms were trained with, and a panel of each."""
    found = {size: Panels.of(of_batches(evidence, size), *PAIR, (env,)) for size in SIZES}
    return tuple(size for size, panel in found.items() if panel), sum(found.values(), Panels())


def judge_shrinks(evidence: Evidence) -> Finding:
    """Seaquest: worse at 32, and less so at 128; 64 may be missing."""
    sizes, panels = panels_of(evidence, SEAQUEST)
    if not {SIZES[0], SIZES[-1]} <= set(sizes):
        return nothing_yet(evidence)
    gains = panels.gains
    change, ends = panels.over_seeds(lambda found: found[..., -1] - found[..., 0])
    return settled(
        evidence,
        bool(gains[0] < 0 and (np.diff(gains) >= 0).all() and ends is not None and ends[0] > 0),
        ours=f"{_told(sizes, gains)}; from 32 to 128 {signed(change)}{signed_ends(ends)}",
        value=change,
        ends=ends,
        note="" if gains[0] < 0 else "There is no loss at 32 that could shrink.",
        limit=0.0,
    )


def judge_vanishes(evidence: Evidence) -> Finding:
    """Seaquest: no difference at 128."""
    panel = Panels.of(of_batches(evidence, SIZES[-1]), *PAIR, (SEAQUEST,))
    if not panel:
        return nothing_yet(evidence)
    gain, ends = panel.over_seeds(lambda found: found[..., -1])
    ours = f"{signed(gain)}{signed_ends(ends)}"
    return settled(evidence, ours=ours, value=gain, ends=ends, limit=0.0, side=0, within=MARGIN)


def judge_frostbite(evidence: Evidence) -> Finding:
    """Frostbite: better at all sizes, so also where the gain is least."""
    sizes, panels = panels_of(evidence, FROSTBITE)
    if not sizes:
        return nothing_yet(evidence)
    least, ends = panels.over_seeds(lambda found: found.min(-1))
    ours = _told(sizes, panels.gains) + (f"; least{signed_ends(ends)}" if ends else "")
    return settled(evidence, None if sizes == SIZES else False, ours=ours, value=least, ends=ends, limit=0.0)


def _told(sizes: tuple[int, ...], gains: np.ndarray) -> str:
    return ", ".join(f"{signed(gain)} at {size}" for size, gain in zip(sizes, gains, strict=True))


_claim = partial(Claim, figure="fig30", section="G.2", scales=ATARI_SCALES)
CLAIMS: tuple[Claim, ...] = (
    _claim(
        name="seaquest-gap-shrinks",
        says="On Seaquest structure loses at a batch size of 32, and the loss shrinks as batches grow.",
        paper="worse at 32, less so at 64, gone at 128",
        test="Relative gains at 32, 64 and 128; reproduced if the first is a loss, they do not fall, and the interval "
        "of the last less the first lies above 0.",
        judge=judge_shrinks,
    ),
    _claim(
        name="seaquest-gap-vanishes",
        says="On Seaquest structure makes no difference at a batch size of 128.",
        paper="the same",
        test="Relative gain at 128; reproduced if its whole interval is within 10% of none. One that covers 0 and is "
        "wider leaves it undecided, and so do three seeds of each arm.",
        judge=judge_vanishes,
    ),
    _claim(
        name="frostbite-gains-at-all-sizes",
        says="On Frostbite structure is better at all batch sizes.",
        paper="better at 32, 64 and 128",
        test="The least of the three relative gains; reproduced if its interval lies above 0.",
        judge=judge_frostbite,
    ),
)


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """A row a game, a column a batch size, of those that there are."""
    found = {(env, size): groups_of(of_batches(evidence, size), env, ARMS_OF["dqn"]) for env in ENVS for size in SIZES}
    envs = [env for env in ENVS if any(found[env, size] for size in SIZES)]
    sizes = [size for size in SIZES if any(found[env, size] for env in ENVS)]
    if not envs:
        return empty_figure("none of these games is in this budget")
    cells = [(f"{title_of(env)}, batches of {size}", found[env, size], "") for env in envs for size in sizes]
    return draw_grid(cells, len(sizes))


EXPERIMENT = Experiment(
    name="atari_batch_size",
    title="batch size on Atari",
    says={
        "fig30": "On Seaquest, of high rank, structure is worse at a batch size of 32; the gap shrinks with the size "
        "and is gone at 128. On Frostbite, of low rank, structure is better at 32, 64 and 128."
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
    notes=("Whatever the batch size of training, ranks are those of batches of 32 states.",),
)
