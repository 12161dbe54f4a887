"""What the commands of svrl paper do: list, compute, draw, and write the page."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svrl.cli.answers import BadInputError, progress_line, say
from svrl.cli.paper_progress import CellProgress
from svrl.paper.catalogue import PaperFigure, chosen, load_all, load_experiment
from svrl.paper.cell import Cell
from svrl.paper.judging import Library
from svrl.paper.page import build_page, write_figure
from svrl.paper.running import Computer
from svrl.paper.store import COMMITTED, Reader, Store
from svrl.paper.table import committed_table
from svrl.reporting.page.content import Page
from svrl.runtime.device import usable_cores
from svrl.runtime.files import writing

TOGETHER = 4
"""Trainings that share a GPU by default."""


@dataclass(frozen=True, kw_only=True)
class PaperWork:
    """One scale, and where things are kept.

    Attributes:
        scale: smoke, laptop, short or full.
        store: Folder of the user's own cells.
    """

    scale: str
    store: Path

    def __post_init__(self) -> None:
        if self.store.exists() and not self.store.is_dir():
            raise BadInputError(f"--store {self.store} is a file. Give a folder.")

    @property
    def own(self) -> Store:
        """The user's own cells."""
        return Store(root=self.store)

    @property
    def stores(self) -> tuple[Reader, ...]:
        """The user's own cells, then those that ship with svrl."""
        return (self.own, committed_table())

    @property
    def counting(self) -> tuple[Reader, ...]:
        """Where a cell that is kept need not be computed: what takes hours is read, what a laptop can do is done."""
        return self.stores if self.scale in ("short", "full") else self.stores[:1]

    def library(self) -> Library:
        """All experiments and what is kept of them."""
        return Library(tuple(load_all()), self.stores)

    def listed(self) -> list[dict[str, Any]]:
        """Every figure, what it costs at this scale, what is kept of it, and what ships with svrl."""
        rows = []
        for figure in chosen([]):
            experiment = load_experiment(figure.experiment)
            budget = experiment.budget_of(figure.id, self.scale)
            needed = experiment.cells(self.scale, figure.id) if budget else []
            cells = len(needed)
            missing, unknown = (
                len(experiment.missing(self.scale, stores, figure.id)) if budget else 0
                for stores in (self.counting, (committed_table(),))
            )
            rows.append(
                {
                    "figure": figure.id,
                    "section": figure.section,
                    "experiment": figure.experiment,
                    "title": figure.title,
                    "scale": self.scale,
                    "minutes": round(sum(cell.weight for cell in needed) / 2, 2),
                    "cells": cells,
                    "kept": cells - missing,
                    "shipped": cells - unknown,
                    "needs": sorted({cell.kind.extra for cell in needed if cell.kind.extra}),
                }
            )
        return rows

    def missing(self, figures: Sequence[PaperFigure]) -> list[Cell]:
        """Cells that figures need at this scale and that have to be computed."""
        found: dict[str, Cell] = {}
        for figure in figures:
            experiment = load_experiment(figure.experiment)
            if experiment.budget_of(figure.id, self.scale):
                found |= {cell.key: cell for cell in experiment.missing(self.scale, self.counting, figure.id)}
        return list(found.values())

    def compute(
        self,
        figures: Sequence[PaperFigure],
        *,
        device: str,
        jobs: int | None,
        command: str,
        together: int | None = None,
        only: Mapping[str, Sequence[str]] | None = None,
    ) -> list[str]:
        """Compute what is missing and keep it.

        Args:
            figures: Whose cells.
            device: "cpu", "cuda" or "cuda:1".
            jobs: Processes at a time; None takes one at smoke scale, else one a core.
            command: As it makes the cells again, for their provenance.
            together: Trainings at a time in one process; None takes 4 on a card and 1 elsewhere.
            only: Settings that cells must have, those of their agents included, and the values, as text, of which each
                must have one.

        Returns:
            Sentences on what cannot be computed here, for want of a package.
        """
        cells = self._fitting(self.missing(figures), figures, only or {})
        if not cells:
            return []
        refuse_unwritable(self.store)
        count = min(jobs or (1 if self.scale == "smoke" else usable_cores()), len(cells))
        begun = sum(self.own.begun(cell) for cell in cells)
        going = f", {begun} of them begun before" if begun else ""
        minutes = sum(cell.weight for cell in cells) / count
        about = "at most about" if begun else "about"  # nobody knows how far those are
        time = f"{about} {minutes:,.0f} min" if minutes >= 1.5 else "a minute or so"
        time = f", {time} with --jobs {count}" if device == "cpu" else ""  # nobody knows how fast the card is
        say(f"{self.scale} scale: {len(cells)} cells to compute{going}{time}.")
        progress = CellProgress(cells)
        together = together or (1 if device == "cpu" else TOGETHER)
        command += f" --device {device}" if device != "cpu" else ""
        command += f" --together {together}" if together > 1 else ""
        computer = Computer(
            store=self.own,
            device=device,
            jobs=count,
            together=together,
            command=f"{command} --jobs {count}",
        )
        with progress.shown():
            computed = computer.compute(cells, progress)
        for sentence, lacking in computed.lacking.items():
            say(f"Not run ({len(lacking)} cells): {sentence}")
        return list(computed.lacking)

    def _fitting(
        self, cells: list[Cell], figures: Sequence[PaperFigure], only: Mapping[str, Sequence[str]]
    ) -> list[Cell]:
        """Cells with these settings; a name or a value that no cell of the figures has is refused."""
        for name, values in only.items():
            known = {told[name] for told in map(settings_as_text, self._all_cells(figures)) if name in told}
            for value in values:
                if value not in known:
                    some = f"There are {', '.join(sorted(known)[:8])}." if known else "None has such a setting."
                    raise BadInputError(f"No cell of these figures at {self.scale} scale has {name}={value}. {some}")
        return [cell for cell in cells if fits(cell, only)]

    def _all_cells(self, figures: Sequence[PaperFigure]) -> Iterator[Cell]:
        for name in dict.fromkeys(figure.experiment for figure in figures):
            budget = load_experiment(name).budgets.get(self.scale)
            yield from budget.cells if budget else ()

    def draw(self, figures: Sequence[PaperFigure], folder: Path, ending: str) -> dict[str, Path]:
        """Write the figures whose cells are all kept; where each is."""
        written = {}
        for figure in figures:
            experiment = load_experiment(figure.experiment)
            if experiment.budget_of(figure.id, self.scale) is None:
                say(f"{figure.id} is not drawn at {self.scale} scale.")
                continue
            evidence = experiment.evidence(self.scale, self.stores, figure.id)
            if evidence is not None and experiment.drawn_from(figure.id, evidence):
                picture = experiment.draw(figure.id, evidence)
                written[figure.id] = write_figure(picture, figure, evidence, folder, ending)
        return written

    def page(self, folder: Path, form: str) -> Path:
        """Write the page from what is kept; where it is."""
        refuse_unwritable(folder)
        library = self.library()
        notes = tell_of_outdated(library)
        with progress_line() as line:
            task = line.add_task("drawing")
            page = build_page(
                library, self.scale, notes=notes, progress=lambda name: line.update(task, description=name)
            )
            line.update(task, description="writing")
            return _written(page, folder, form)


def settings_as_text(cell: Cell) -> dict[str, str]:
    """What `--where` may ask of a cell: its settings, and what they imply, those of an agent's preset say."""
    return {name: str(value) for name, value in {**cell.kind.implied(cell.settings), **cell.settings}.items()}


def fits(cell: Cell, only: Mapping[str, Sequence[str]]) -> bool:
    """Whether a cell has one of the wanted values of every wanted setting."""
    told = settings_as_text(cell)
    return all(told.get(name) in values for name, values in only.items())


def tell_of_outdated(library: Library) -> list[str]:
    """Say, and return, that cells of another version lie in the stores and are not used."""
    kinds = {name: kind for experiment in library.experiments for name, kind in experiment.kinds().items()}
    told = []
    for store in library.stores:
        count = store.outdated(kinds)
        if count:
            where = "ship with svrl" if store.source == COMMITTED else f"lie in {store.root}"
            told.append(f"{count} cells that {where} are of another version and are left out.")
    for sentence in told:
        say(sentence)
    return told


def refuse_unwritable(folder: Path) -> None:
    """Find out before any work that a folder cannot be written to."""
    place = folder
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise BadInputError(f"{place} is a file, so nothing can be written to {folder}. Give another folder.")
    if not os.access(place, os.W_OK):
        raise BadInputError(f"{place} cannot be written to. Give another folder.")


def _written(page: Page, folder: Path, form: str) -> Path:
    """Write a page as html or md."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"index.{form}"
    if form == "md":
        from svrl.reporting.page.markdown import write_markdown

        write_markdown(page, folder)
    else:
        from svrl.reporting.page.html import render_html

        text = render_html(page)
        with writing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return path
