"""Every figure and table of the paper in its order, the experiment that makes it, and our additions after them.

This is plain data: it is read before anything heavy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """One entry.

    Attributes:
        id: "fig1", "table1", or the name of an addition.
        experiment: The folder that makes it.
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


def _figure(number: int, experiment: str, section: str, title: str) -> PaperFigure:
    return PaperFigure(id=f"fig{number}", experiment=experiment, section=section, title=title)


_TASKS = (
    ("inverted pendulum", "C.1", (8, 9), (None, 10)),
    ("mountain car", "C.2", (11, 12), (13, 14)),
    ("double integrator", "C.3", (15, 16), (17, 18)),
    ("cart-pole", "C.4", (19, 20), (21, 22)),
)


def _control() -> list[PaperFigure]:
    found = []
    for task, section, (policy, path), (svp, svp_path) in _TASKS:
        found.append(_figure(policy, "control_low_rank_policy", section, f"{task}: policy from half of Q*"))
        found.append(_figure(path, "control_low_rank_policy", section, f"{task}: what that policy does over time"))
        if svp is not None:
            found.append(_figure(svp, "control_svp", section, f"{task}: SVP policies and metric against p"))
        found.append(_figure(svp_path, "control_svp", section, f"{task}: what SVP policies do over time"))
    return found


FIGURES: tuple[PaperFigure, ...] = (
    _figure(1, "toy_rank", "2", "rank and error of Q during value iteration on a toy MDP"),
    _figure(2, "diagrams", "3.2", "diagram of SVP"),
    _figure(3, "control_svp", "3.3", "inverted pendulum: SVP policies and metric against p"),
    _figure(4, "atari_rank", "4.1", "rank of the learned Q on four games"),
    _figure(5, "diagrams", "4.2", "diagram of SV-RL"),
    _figure(6, "atari_learning", "4.3", "DQN, double and dueling DQN on four games, with and without structure"),
    _figure(7, "atari_diagnosis", "5", "rank against gain on four games"),
    *_control(),
    *(_figure(22 + k, "atari_learning", "E", f"DQN on the 57 games, part {'ABCD'[k - 1]}") for k in range(1, 5)),
    _figure(27, "atari_learning", "E", "double DQN on 16 games"),
    _figure(28, "atari_learning", "E", "dueling DQN on 16 games"),
    _figure(29, "control_discretisation", "G.1", "policies on three grids"),
    PaperFigure(
        id="table1", experiment="control_discretisation", section="G.1", title="rank and metric on three grids"
    ),
    _figure(30, "atari_batch_size", "G.2", "batch sizes on a game of low and one of high rank"),
    PaperFigure(id="baselines", experiment="control_svp", section="", title="SVP beside the baselines of planning"),
    PaperFigure(id="noise", experiment="noisy_simulator", section="", title="planning from a noisy simulator"),
    PaperFigure(
        id="values", experiment="atari_diagnosis", section="", title="values against returns, and what estimation does"
    ),
    PaperFigure(id="minatar", experiment="minatar_learning", section="", title="learning and rank on MinAtar"),
    PaperFigure(
        id="control",
        experiment="control_learning",
        section="",
        title="learning with many actions, where the best Q is known",
    ),
    PaperFigure(id="ways", experiment="control_ways", section="", title="ways to add structure, one setting at a time"),
    PaperFigure(id="cartpole", experiment="cartpole_learning", section="", title="learning and rank on CartPole"),
)
"""Of the paper first, in the order of their numbers but for Table 1."""
ADDITIONS = frozenset(figure.id for figure in FIGURES if figure.is_addition)


def experiment_names() -> list[str]:
    """Every experiment once, in the order of its first figure."""
    return list(dict.fromkeys(figure.experiment for figure in FIGURES))
