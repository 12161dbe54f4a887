"""Every figure and table of the paper, our additions after them, and what a user may call them by.

The table is plain data. An experiment is imported only when it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svrl.paper.experiment import Experiment

ALL = "all"


@dataclass(frozen=True)
class PaperFigure:
    """One entry.

    Attributes:
        id: "fig1", "table1", or the name of an addition.
        experiment: The file of `svrl.paper.experiments` that makes it.
        section: Of the paper where it stands; empty for additions.
        title: What is in it.
    """

    id: str
    experiment: str
    section: str
    title: str

    @property
    def is_addition(self) -> bool:
        """Ours, not the paper's."""
        return not self.section

    @property
    def label(self) -> str:
        """As it is called in a sentence: "Figure 3", "Table 1", "Addition"."""
        if self.is_addition:
            return "Addition"
        word = "Figure" if self.id.startswith("fig") else "Table"
        return f"{word} {self.id.removeprefix('fig').removeprefix('table')}"


FIGURES = tuple(
    PaperFigure(*entry)
    for entry in (
        ("fig1", "toy_rank", "2", "rank and error of Q during value iteration on a toy MDP"),
        ("fig2", "diagrams", "3.2", "diagram of SVP"),
        ("fig3", "control_svp", "3.3", "inverted pendulum: SVP policies and metric against p"),
        ("fig4", "atari_rank", "4.1", "rank of the learned Q on four games"),
        ("fig5", "diagrams", "4.2", "diagram of SV-RL"),
        ("fig6", "atari_learning", "4.3", "DQN, double and dueling DQN on four games, with and without structure"),
        ("fig7", "atari_diagnosis", "5", "rank against gain on four games"),
        ("fig8", "control_low_rank_policy", "C.1", "inverted pendulum: policy from half of Q*"),
        ("fig9", "control_low_rank_policy", "C.1", "inverted pendulum: what that policy does over time"),
        ("fig10", "control_svp", "C.1", "inverted pendulum: what SVP policies do over time"),
        ("fig11", "control_low_rank_policy", "C.2", "mountain car: policy from half of Q*"),
        ("fig12", "control_low_rank_policy", "C.2", "mountain car: what that policy does over time"),
        ("fig13", "control_svp", "C.2", "mountain car: SVP policies and metric against p"),
        ("fig14", "control_svp", "C.2", "mountain car: what SVP policies do over time"),
        ("fig15", "control_low_rank_policy", "C.3", "double integrator: policy from half of Q*"),
        ("fig16", "control_low_rank_policy", "C.3", "double integrator: what that policy does over time"),
        ("fig17", "control_svp", "C.3", "double integrator: SVP policies and metric against p"),
        ("fig18", "control_svp", "C.3", "double integrator: what SVP policies do over time"),
        ("fig19", "control_low_rank_policy", "C.4", "cart-pole: policy from half of Q*"),
        ("fig20", "control_low_rank_policy", "C.4", "cart-pole: what that policy does over time"),
        ("fig21", "control_svp", "C.4", "cart-pole: SVP policies and metric against p"),
        ("fig22", "control_svp", "C.4", "cart-pole: what SVP policies do over time"),
        ("fig23", "atari_learning", "E", "DQN on the 57 games, part A"),
        ("fig24", "atari_learning", "E", "DQN on the 57 games, part B"),
        ("fig25", "atari_learning", "E", "DQN on the 57 games, part C"),
        ("fig26", "atari_learning", "E", "DQN on the 57 games, part D"),
        ("fig27", "atari_learning", "E", "double DQN on 16 games"),
        ("fig28", "atari_learning", "E", "dueling DQN on 16 games"),
        ("fig29", "control_discretisation", "G.1", "policies on three grids"),
        ("table1", "control_discretisation", "G.1", "rank and metric on three grids"),
        ("fig30", "atari_batch_size", "G.2", "batch sizes on a game of low and one of high rank"),
        ("baselines", "control_svp", "", "SVP beside the baselines of planning"),
        ("noise", "noisy_simulator", "", "planning from a noisy simulator"),
        ("values", "atari_diagnosis", "", "values against returns, and what estimation does"),
        ("minatar", "minatar_learning", "", "learning and rank on MinAtar"),
        ("control", "control_learning", "", "learning with many actions, where the best Q is known"),
        ("ways", "control_ways", "", "ways to add structure, one setting at a time"),
        ("heads", "head_learning", "", "low-rank and additive heads for many actions"),
        ("cartpole", "cartpole_learning", "", "learning and rank on CartPole"),
    )
)
"""Of the paper first, in the order of their numbers but for Table 1."""
ADDITIONS = frozenset(figure.id for figure in FIGURES if figure.is_addition)


def experiment_names() -> list[str]:
    """Every experiment once, in the order of its first figure."""
    return list(dict.fromkeys(figure.experiment for figure in FIGURES))


@cache
def load_experiment(name: str) -> Experiment:
    """The experiment in the file `name`, which is imported only now."""
    return importlib.import_module(f"svrl.paper.experiments.{name}").EXPERIMENT


def load_all() -> list[Experiment]:
    """Every experiment, in the order of the paper."""
    return [load_experiment(name) for name in experiment_names()]


def chosen(names: Iterable[str]) -> list[PaperFigure]:
    """Figures by what a user calls them: fig3, 3, table1, control_svp, all. No name is all of them.

    Raises:
        ValueError: If a name is unknown; the sentence has the nearest ones.
    """
    wanted = {figure.id for name in names or (ALL,) for figure in _named(name)}
    return [figure for figure in FIGURES if figure.id in wanted]


def _named(name: str) -> list[PaperFigure]:
    plain = name.strip().lower().replace("-", "_").replace(" ", "").replace("figure", "fig")
    plain = f"fig{plain}" if plain.isdigit() else plain
    found = [figure for figure in FIGURES if plain in (ALL, figure.id, figure.experiment)]
    if found:
        return found
    known = [figure.id for figure in FIGURES] + experiment_names()
    near = difflib.get_close_matches(plain, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else "The paper has fig1 to fig30 and table1."
    raise ValueError(f"There is no figure or experiment {name!r}. {hint} svrl paper list shows all.")
