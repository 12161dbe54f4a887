"""An experiment: which runs it needs at which scale, what it draws from them, what it claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svrl.paper.claim import Claim, Evidence
from svrl.plots.style import STYLE
from svrl.runs.spec import RunSpec
from svrl.runs.store import Reader, read_first

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALES = ("smoke", "laptop", "full")
"""Seconds; about an hour on two cores; the paper's budgets. Some experiments have the budget `short` beside them."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What an experiment spends at one scale.

    Attributes:
        runs: All that it needs; none for a diagram.
        words: The same for a caption: sizes, seeds, steps.
        needs: Whether a figure, by its name, reads a run; by default all figures read all runs. One that needs none of
            them is not drawn at this scale.
        piece_of: The name of what a run is a part of, for a budget that grows piece by piece: whatever pieces are
            complete are its evidence. None asks for all runs.
    """

    runs: tuple[RunSpec, ...]
    words: str
    needs: Callable[[str, RunSpec], bool] = lambda figure, run: True
    piece_of: Callable[[RunSpec], str] | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One experiment.

    Attributes:
        name: Of its file.
        title: A few words.
        says: What it draws, "fig3" or "table1", an addition by its own name; of each what the paper says, in our words,
            or why the addition is here.
        budgets: By scale, and perhaps one called short.
        picture: From a figure's name and evidence to a picture. It reads and never computes.
        claims: All of its claims.
        notes: For the page, a paragraph each.
    """

    name: str
    title: str
    says: Mapping[str, str]
    budgets: Mapping[str, Budget]
    picture: Callable[[str, Evidence], Figure]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...] = ()

    def evidence(self, scale: str, stores: tuple[Reader, ...], figure: str | None = None) -> Evidence | None:
        """What is kept for a scale, or of it for one figure; None unless that is complete, or a piece of it is."""
        budget = self.budgets.get(scale) if figure is None else self.budget_of(figure, scale)
        if budget is None:
            return None
        pieces = [budget.piece_of(run) if budget.piece_of else "" for run in self.runs(scale, figure)]
        found = [read_first(run, stores) for run in self.runs(scale, figure)]
        lacking = {piece for piece, kept in zip(pieces, found, strict=True) if kept is None}
        complete = [piece for piece in dict.fromkeys(pieces) if piece not in lacking]
        if pieces and not complete:
            return None
        words = f"{', '.join(complete)}: {budget.words}" if budget.piece_of else budget.words
        whole = (kept for piece, kept in zip(pieces, found, strict=True) if kept is not None and piece in complete)
        return Evidence(scale=scale, words=words, runs=tuple(whole))

    def runs(self, scale: str, figure: str | None = None) -> list[RunSpec]:
        """All runs of a scale, or those that a figure reads."""
        budget = self.budgets[scale]
        return [run for run in budget.runs if figure is None or budget.needs(figure, run)]

    def missing(self, scale: str, stores: tuple[Reader, ...], figure: str | None = None) -> list[RunSpec]:
        """Of these, the runs that no store has."""
        return [run for run in self.runs(scale, figure) if read_first(run, stores) is None]

    def budget_of(self, figure: str, scale: str) -> Budget | None:
        """The budget that a figure is drawn from at a scale; None if it is not drawn there."""
        budget = self.budgets.get(scale)
        return budget if budget and (self.runs(scale, figure) or not budget.runs) else None

    def draw(self, figure: str, evidence: Evidence) -> Figure:
        """A figure from evidence, in the look that all of them have. matplotlib is loaded only now."""
        import matplotlib as mpl

        with mpl.rc_context(STYLE):
            return self.picture(figure, evidence)
