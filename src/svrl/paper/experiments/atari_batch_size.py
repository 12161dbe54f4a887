"""Figure 30: does a larger batch help structure on a game of high rank?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments import trainings
from svrl.paper.experiments.gains import MARGIN, Panels, signed, signed_ends
from svrl.paper.experiments.training_figures import SCORE, draw_curves
from svrl.paper.experiments.trainings import ARMS_OF, PAIR, WORDS, env_names, envs_of, pairs, title_of
from svrl.paper.verdicts import nothing_yet, settled
from svrl.plots.style import empty_figure, legend_below, letter, new_figure, say
from svrl.runs.spec import RunSpec
from svrl.runs.store import Kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAMES = ("frostbite", "seaquest")
FROSTBITE, SEAQUEST = ENVS = env_names(GAMES)
SIZES = (32, 64, 128)


def _larger(plan: trainings.TrainingPlan, games: Iterable[str], sizes: Iterable[int]) -> tuple[RunSpec, ...]:
    return tuple(run for size in sizes for run in plan.runs(env_names(games), PAIR, batch_size=size))


BUDGETS = {
    "smoke": Budget(
        runs=pairs(trainings.SMOKE, ("frostbite",)), words=f"Frostbite with batches of 32, {WORDS['smoke']}"
    ),
    "laptop": Budget(
        runs=pairs(trainings.LAPTOP, ("frostbite",)), words=f"Frostbite with batches of 32, {WORDS['laptop']}"
    ),
    "short": Budget(
        runs=trainings.short_budget(GAMES).runs
        + tuple(
            run
            for game, size in (("seaquest", 128), ("frostbite", 128), ("seaquest", 64), ("frostbite", 64))
            for run in trainings.SHORT.runs(env_names((game,)), ARMS_OF["dqn"], batch_size=size)
        ),
        words=WORDS["short"],
        piece_of=trainings.piece_of,
    ),
    "full": Budget(
        runs=(*pairs(trainings.FULL, GAMES), *_larger(trainings.FULL, GAMES, SIZES[1:])),
        words=f"Frostbite and Seaquest, batches of 32, 64 and 128, {WORDS['full']}",
    ),
}


def sizes_of(evidence: Evidence, env: str) -> tuple[int, ...]:
    """Batch sizes that both arms were trained with."""
    return tuple(size for size in SIZES if envs_of(evidence, (env,), PAIR, size))


def panels_of(evidence: Evidence, env: str) -> Panels:
    """A panel a batch size."""
    return sum((Panels.of(evidence, *PAIR, (env,), size) for size in SIZES), Panels((), (), ()))


def _told(panels: Panels, sizes: Sequence[int]) -> str:
    return ", ".join(f"{signed(gain)} at {size}" for size, gain in zip(sizes, panels.gains, strict=True))


def judge_shrinks(evidence: Evidence) -> Finding:
    """Seaquest: worse at 32, and less so at 128; 64 may be missing."""
    sizes, panels = sizes_of(evidence, SEAQUEST), panels_of(evidence, SEAQUEST)
    if not {SIZES[0], SIZES[-1]} <= set(sizes):
        return nothing_yet(evidence)
    gains = panels.gains
    change = float(gains[-1] - gains[0])
    ends = panels.ends(lambda found: found[..., -1] - found[..., 0])
    rising = bool((np.diff(gains) >= 0).all())
    return settled(
        evidence,
        bool(gains[0] < 0) and rising and ends is not None and ends[0] > 0,
        ours=f"{_told(panels, sizes)}; from 32 to 128 {signed(change)}{signed_ends(ends)}",
        value=change,
        ends=ends,
        note="" if gains[0] < 0 else "There is no loss at 32 that could shrink.",
        limit=0.0,
    )


def judge_vanishes(evidence: Evidence) -> Finding:
    """Seaquest: no difference at 128."""
    panel = Panels.of(evidence, *PAIR, (SEAQUEST,), SIZES[-1])
    if not len(panel):
        return nothing_yet(evidence)
    (gain,) = panel.gains
    ends = panel.ends(lambda found: found[..., -1])
    ours = f"{signed(gain)}{signed_ends(ends)}"
    return settled(evidence, ours=ours, value=float(gain), ends=ends, limit=0.0, side=0, within=MARGIN)


def judge_frostbite(evidence: Evidence) -> Finding:
    """Frostbite: better at all sizes, so also where the gain is least."""
    sizes, panels = sizes_of(evidence, FROSTBITE), panels_of(evidence, FROSTBITE)
    if not sizes:
        return nothing_yet(evidence)
    ends = panels.ends(lambda found: found.min(-1))
    holds = sizes == SIZES and ends is not None and ends[0] > 0
    ours = _told(panels, sizes) + (f"; least{signed_ends(ends)}" if ends else "")
    return settled(evidence, holds, ours=ours, value=float(panels.gains.min()), ends=ends, limit=0.0)


_claim = partial(Claim, figure="fig30", section="G.2", scales=trainings.ATARI_SCALES)
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
    """The games and sizes that there are."""
    envs = [env for env in ENVS if sizes_of(evidence, env)]
    if not envs:
        return empty_figure("none of these games is in this budget")
    sizes = sorted({size for env in envs for size in sizes_of(evidence, env)})
    figure = new_figure(2.5 * len(sizes) + 0.8, 2.0 * len(envs) + 0.6)
    panels = figure.subplots(len(envs), len(sizes), squeeze=False)
    for row, env in zip(panels, envs, strict=True):
        for panel, size in zip(row, sizes, strict=True):
            panel.set_title(f"{title_of(env)}, batches of {size}")
            if size in sizes_of(evidence, env):
                draw_curves(panel, _groups(evidence, env, size))
            else:
                say(panel, "not in this budget")
                panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(SCORE)
    for panel in panels[-1]:
        panel.set_xlabel("agent steps")
    letter(list(panels.flat))
    legend_below(figure, list(panels.flat))
    return figure


def _groups(evidence: Evidence, env: str, size: int) -> dict[str, list[Kept]]:
    """Trainings of a panel by arm, of those arms that there are."""
    found = {arm: trainings.of(evidence, env=env, arm=arm, batch_size=size) for arm in ARMS_OF["dqn"]}
    return {arm: runs for arm, runs in found.items() if runs}


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
