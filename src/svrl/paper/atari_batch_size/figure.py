"""Figure 30: a row a game, a column a batch size."""

from __future__ import annotations

import matplotlib as mpl
from matplotlib.figure import Figure

from svrl.paper.atari_batch_size.claims import sizes_of
from svrl.paper.atari_batch_size.settings import ENVS
from svrl.paper.evidence import Evidence
from svrl.paper.store import Kept
from svrl.paper.training_cells.atari import ARMS_OF
from svrl.paper.training_cells.figure import SCORE, draw_curves, empty_figure, legend_below, lettered, say
from svrl.paper.training_cells.reading import title_of, trainings
from svrl.plots.style import STYLE


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """The games and sizes that there are."""
    envs = [env for env in ENVS if sizes_of(evidence, env)]
    if not envs:
        return empty_figure(Figure(figsize=(5.6, 1.4), layout="constrained"), "none of these games is in this budget")
    sizes = sorted({size for env in envs for size in sizes_of(evidence, env)})
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.5 * len(sizes) + 0.8, 2.0 * len(envs) + 0.6), layout="constrained")
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
        lettered(list(panels.flat))
        legend_below(figure, list(panels.flat))
    return figure


def _groups(evidence: Evidence, env: str, size: int) -> dict[str, list[Kept]]:
    """Trainings of a panel by arm, of those arms that there are."""
    found = {arm: trainings(evidence, env=env, arm=arm, batch_size=size) for arm in ARMS_OF["dqn"]}
    return {arm: cells for arm, cells in found.items() if cells}
