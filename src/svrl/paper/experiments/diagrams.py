"""The diagrams of SVP and SV-RL. Nothing in them is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from svrl.paper.claim import Evidence
from svrl.paper.experiment import SCALES, Budget, Experiment
from svrl.plots.style import BLUE, GREY, MISSING, ORANGE, new_figure, tag

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROWS, COLUMNS = 6, 5
Q = np.outer(np.linspace(0.2, 1.0, ROWS), np.array([0.5, 0.9, 0.7, 0.3, 1.0]))
"""A matrix of rank 1 for the pictures."""
SEEN = np.add.outer(3 * np.arange(ROWS), 2 * np.arange(COLUMNS)) % 5 < 2


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """One of the diagrams; nothing in them was measured."""
    return _svp() if figure_id == "fig2" else _svrl()


def _svp() -> Figure:
    figure = new_figure(9.0, 2.9)
    panel = _empty(figure.subplots(), (0.0, 12.4), (-0.9, 3.1))
    every = np.ones_like(SEEN)
    _matrix(panel, 0.0, 0.35, every, "$Q_t$", "whole matrix")
    _matrix(panel, 5.1, 0.35, SEEN, "observed backups", "observed")
    _matrix(panel, 10.2, 0.35, every, "$Q_{t+1}$", "whole matrix")
    _box(panel, 2.55, 0.95, 1.9, 0.9, "back up each pair\nwith probability p", BLUE, "backups")
    _box(panel, 7.65, 0.95, 1.9, 0.9, "matrix\nestimation", ORANGE, "matrix estimation")
    for start, end in ((2.05, 2.5), (4.5, 5.05), (7.15, 7.6), (9.6, 10.15)):
        _arrow(panel, (start, 1.4), (end, 1.4))
    panel.text(3.5, 0.72, r"$r + \gamma\,\mathrm{E}[\max_{a'} Q_t(s', a')]$", ha="center", va="top", fontsize=9)
    panel.text(8.6, 0.72, "the others from\nlow rank", ha="center", va="top", fontsize=8.5)
    _arrow(panel, (11.15, 0.25), (1.3, 0.25), curve=-0.12)
    panel.text(6.15, -0.5, "next iteration", ha="center", va="top", fontsize=8.5, color=GREY)
    panel.text(-0.08, 1.45, "states", rotation=90, ha="right", va="center", fontsize=7.5, color=GREY)
    panel.text(0.1, 0.29, "actions", ha="left", va="top", fontsize=7.5, color=GREY)
    return figure


def _svrl() -> Figure:
    figure = new_figure(9.0, 4.4)
    panels = figure.subplots(2, 1)
    for panel, structured in zip(panels, (False, True), strict=True):
        _empty(panel, (-0.1, 13.4), (-0.2, 2.9))
        panel.set_title("(b) SV-RL" if structured else "(a) value-based RL")
        _update(panel, structured)
    return figure


def _update(panel: Axes, structured: bool) -> None:
    """From the replay buffer to the gradient step; with structure two more parts on the way to the targets."""
    name = "SV-RL" if structured else "value-based RL"
    _box(panel, 0.0, 0.8, 1.75, 1.0, "replay buffer:\nbatch of B", GREY, name)
    _box(panel, 2.25, 0.8, 1.75, 1.0, "target network\nat next states", GREY, name)
    _matrix(panel, 4.6, 0.45, np.ones_like(SEEN), r"$\hat Q$,  B x A", name, size=0.28)
    if structured:
        _matrix(panel, 6.7, 0.45, SEEN, "observed", name, size=0.28)
        _box(panel, 8.55, 0.8, 1.35, 1.0, "matrix\nestimation", ORANGE, "matrix estimation")
        _box(panel, 10.35, 0.8, 2.95, 1.0, "$y = r + \\gamma\\,\\max_{a'} Q^{\\dagger}$\ngradient step", BLUE, name)
        places = [(1.75, 2.2), (4.0, 4.55), (6.05, 6.65), (8.15, 8.5), (9.9, 10.3)]
    else:
        _box(panel, 10.35, 0.8, 2.95, 1.0, "$y = r + \\gamma\\,\\max_{a'} \\hat Q$\ngradient step", BLUE, name)
        places = [(1.75, 2.2), (4.0, 4.55), (6.05, 10.3)]
    for start, end in places:
        _arrow(panel, (start, 1.3), (end, 1.3))


def _empty(panel: Axes, x: tuple[float, float], y: tuple[float, float]) -> Axes:
    panel.set(xlim=x, ylim=y, aspect="equal")
    panel.axis("off")
    return panel


def _matrix(panel: Axes, x: float, y: float, seen: np.ndarray, title: str, series: str, *, size: float = 0.37) -> None:
    """Small cells from the lower left corner (x, y); those not seen are grey."""
    import matplotlib as mpl

    shades = np.where(seen[:, :, None], mpl.colormaps["Blues"](0.25 + 0.65 * Q), mpl.colors.to_rgba(MISSING))
    places = x + size * np.arange(COLUMNS + 1), y + size * np.arange(ROWS, -1, -1)
    cells = panel.pcolormesh(*places, shades, edgecolors="white", linewidth=0.8)
    words = panel.text(x + size * COLUMNS / 2, y + size * ROWS + 0.1, title, ha="center", va="bottom", fontsize=9)
    tag([cells, words], series)


def _box(panel: Axes, x: float, y: float, width: float, height: float, text: str, colour: str, series: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    look: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "linewidth": 1.4}
    shape = FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0.02,rounding_size=0.12", **look)
    words = panel.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8.5)
    tag([panel.add_patch(shape), words], series)


def _arrow(panel: Axes, start: tuple[float, float], end: tuple[float, float], *, curve: float = 0.0) -> None:
    look = {"color": "#333333", "linewidth": 1.0, "mutation_scale": 9, "shrinkA": 2, "shrinkB": 2}
    panel.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "connectionstyle": f"arc3,rad={curve}", **look})


EXPERIMENT = Experiment(
    name="diagrams",
    title="diagrams of SVP and SV-RL",
    says={
        "fig2": "In each iteration SVP backs up a random part of the pairs and recovers the rest of Q by estimation.",
        "fig5": "SV-RL keeps a part of the batch's next-state values, completes the rest, and forms targets from it; "
        "nothing else changes.",
    },
    budgets=dict.fromkeys(SCALES, Budget(runs=(), words="nothing to run")),
    picture=draw,
    claims=(),
)
