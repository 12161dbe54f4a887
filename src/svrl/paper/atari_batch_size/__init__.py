"""Figure 30: does a larger batch help structure on a game of high rank?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from svrl.paper.atari_batch_size.claims import CLAIMS, got, sizes_of
from svrl.paper.atari_batch_size.settings import BUDGETS, ENVS
from svrl.paper.evidence import Evidence
from svrl.paper.experiment import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _draw(figure: str, evidence: Evidence) -> Figure:
    from svrl.paper.atari_batch_size.figure import draw

    return draw(figure, evidence)


EXPERIMENT = Experiment(
    name="atari_batch_size",
    title="batch size on Atari",
    figures=("fig30",),
    says={
        "fig30": "On Seaquest, of high rank, structure is worse at a batch size of 32; the gap shrinks with the size "
        "and is gone at 128. On Frostbite, of low rank, structure is better at 32, 64 and 128."
    },
    budgets=BUDGETS,
    draw=_draw,
    got=got,
    claims=CLAIMS,
    shows=lambda figure, evidence: any(sizes_of(evidence, env) for env in ENVS),
    notes=("Whatever the batch size of training, ranks are those of batches of 32 states.",),
)
