"""Experiments by name, and what a user may call them by."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from functools import cache

from svrl.paper.experiment import Experiment
from svrl.paper.figure_map import FIGURES, PaperFigure, experiment_names

ALL = "all"


@cache
def load_experiment(name: str) -> Experiment:
    """The experiment in the folder `name`, which is imported only now."""
    return importlib.import_module(f"svrl.paper.{name}").EXPERIMENT


def load_all() -> list[Experiment]:
    """Every experiment, in the order of the paper."""
    return [load_experiment(name) for name in experiment_names()]


def chosen(names: Iterable[str]) -> list[PaperFigure]:
    """Figures by what a user calls them: fig3, 3, table1, control_svp, all. No name is all of them.

    Raises:
        ValueError: If a name is unknown; the sentence has the nearest ones.
    """
    wanted: dict[str, None] = {}
    for name in names or (ALL,):
        for figure in _named(name):
            wanted[figure.id] = None
    return [figure for figure in FIGURES if figure.id in wanted]


def _named(name: str) -> list[PaperFigure]:
    plain = name.strip().lower().replace("-", "_").replace(" ", "").replace("figure", "fig")
    if plain == ALL:
        return list(FIGURES)
    plain = f"fig{plain}" if plain.isdigit() else plain
    found = [figure for figure in FIGURES if plain in (figure.id, figure.experiment)]
    if found:
        return found
    known = [figure.id for figure in FIGURES] + experiment_names()
    near = difflib.get_close_matches(plain, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else "The paper has fig1 to fig30 and table1."
    raise ValueError(f"There is no figure or experiment {name!r}. {hint} svrl paper list shows all.")
