"""What the page shows: experiments, figures and claims as the plain data that `svrl.reporting.page` renders."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svrl import __version__
from svrl.paper.catalogue import FIGURES, PaperFigure
from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiment import Experiment
from svrl.paper.judging import Judged, Library
from svrl.reporting.page import ClaimRow, Exhibit, FigureEntry, Page, Section
from svrl.runtime.files import writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Figures as files.

_SMALLER = {
    "smoke": "Made at smoke scale, in seconds: it shows that everything works, and proves nothing.",
    "laptop": "Made at laptop scale; full scale is larger.",
}
_LETTERS = 20
"""Of a caption in an inch: a longer line would widen the picture, with white on both sides of its panels."""


def caption(figure: PaperFigure, evidence: Evidence) -> str:
    """What was spent, and that it was less than the paper did where it was."""
    symbol = evidence.words[1:2] == " "  # p = .2 stays as it is
    words = evidence.words if symbol else evidence.words[:1].upper() + evidence.words[1:]
    if evidence.scale == "full":
        return f"{words}."
    small = _SMALLER.get(evidence.scale, f"Made with the budget '{evidence.scale}', smaller than the paper's.")
    return f"{words}. {small}" if not figure.is_addition else f"{words}. Made at {evidence.scale} scale."


def write_figure(picture: Figure, figure: PaperFigure, evidence: Evidence, folder: Path, ending: str) -> Path:
    """Write folder/fig1.svg; of a scale below the paper's as fig1-smoke.svg and with its caption in the picture.

    So nobody mistakes one for the other.

    Returns:
        Where it is.
    """
    from svrl.plots.style import save_figure

    scale = evidence.scale
    if scale != "full":
        below = _hold_legends(picture) - 0.02
        words = textwrap.fill(caption(figure, evidence), int(_LETTERS * picture.get_figwidth()))
        picture.text(0.5, below, words, ha="center", va="top", fontsize=6, color="#707070")

    folder.mkdir(parents=True, exist_ok=True)
    name = figure.id if scale == "full" else f"{figure.id}-{scale}"
    path = folder / f"{name}.{ending}"
    with writing(path) as temporary:
        save_figure(picture, temporary)
    return path


def _hold_legends(picture: Figure) -> float:
    """Tie legends below the panels to the first panel; the lower end of all that is drawn, where the figure's is 0.

    A figure that is cut to what is in it has its lower edge under the caption, and would take such legends along.
    """
    picture.draw_without_rendering()
    for legend in picture.legends:
        corner = legend.get_window_extent().p0
        frame = picture.axes[0].transAxes
        legend.borderaxespad = 0.0
        legend.set_loc("lower left")
        legend.set_bbox_to_anchor(tuple(frame.inverted().transform(corner)), frame)
    picture.draw_without_rendering()
    return float(picture.get_tightbbox().y0 / picture.get_figheight())


TITLE = "Reproducing Harnessing Structures for Value-Based Planning and Reinforcement Learning"
SUBTITLE = (
    "Every figure and table of Yang, Zhang, Xu and Katabi (ICLR 2020) beside what svrl measures, and every claim with "
    "its verdict."
)


def build_page(
    library: Library, scale: str, *, notes: Iterable[str] = (), progress: Callable[[str], None] = lambda _: None
) -> Page:
    """The whole page at a scale.

    Args:
        library: Experiments and what is kept of them.
        scale: That figures are drawn at first; larger budgets that are kept stand beside.
        notes: For the reader, a sentence each.
        progress: Told the name of every figure before it is drawn.
    """
    judged = library.judge(scale)
    sections = tuple(_section(library, experiment, scale, judged, progress) for experiment in library.experiments)
    return Page(
        title=TITLE,
        subtitle=SUBTITLE,
        scale=scale,
        sections=sections,
        made=datetime.now(UTC).date().isoformat(),
        version=__version__,
        notes=(*_what_was_run(library, scale, judged), *notes),
    )


def _what_was_run(library: Library, scale: str, judged: list[Judged]) -> Iterable[str]:
    """What a reader has to know before counting verdicts."""
    unjudged = [
        found.name
        for found in library.experiments
        if found.claims
        and not any(one.experiment == found.name and one.evidence and one.finding.ours for one in judged)
    ]
    if unjudged:
        yield f"Not run at a scale that could be judged: {', '.join(unjudged)}."
    others = Counter(found.scale for found in judged if found.evidence and found.finding.ours and found.scale != scale)
    if others and scale != "smoke":
        told = ", ".join(f"{count} at {name} scale" for name, count in others.most_common())
        yield f"Where not all of that scale is kept, claims are judged from the largest budget that is: {told}."
    if scale == "smoke":
        yield "Smoke scale shows that everything works; verdicts come from the larger budgets that are committed."


def claim_row(judged: Judged) -> ClaimRow:
    """A claim as the page shows it."""
    claim, found = judged.claim, judged.finding
    return ClaimRow(
        name=claim.name,
        section=claim.section,
        figure=claim.figure,
        says=claim.says,
        paper=claim.paper,
        test=claim.test,
        ours=found.ours,
        verdict=str(found.verdict),
        note=found.note,
        scale=judged.evidence.scale if judged.evidence else "",
        source="" if judged.source == "none" else judged.source,
    )


def _section(
    library: Library, experiment: Experiment, scale: str, judged: list[Judged], progress: Callable[[str], None]
) -> Section:
    figures = [figure for figure in FIGURES if figure.experiment == experiment.name]
    own = [found for found in judged if found.experiment == experiment.name]
    judged_from = {
        found.scale for found in own if found.finding.verdict is not Verdict.NOT_RUN and not found.claim.printed
    }
    budget = experiment.budgets.get(scale)
    return Section(
        name=experiment.name,
        title=experiment.title,
        addition=all(figure.is_addition for figure in figures),
        figures=tuple(_entry(library, experiment, figure, judged_from, scale, progress) for figure in figures),
        claims=tuple(claim_row(found) for found in own),
        command=f"svrl paper run {experiment.name} --scale {scale}",
        minutes=budget.minutes if budget else 0.0,
        notes=experiment.notes,
    )


def _entry(
    library: Library,
    experiment: Experiment,
    figure: PaperFigure,
    judged_from: set[str],
    scale: str,
    progress: Callable[[str], None],
) -> FigureEntry:
    progress(figure.id)
    usable = library.exhibits(experiment, scale, figure.id)
    if len(usable) > 1 and (usable[0].scale == "smoke" or usable[0].scale not in judged_from):
        # What was asked for comes first, unless no claim was judged from it and something larger is kept.
        usable = [*usable[1:], usable[0]]
    return FigureEntry(
        id=figure.id,
        label=figure.label,
        title=figure.title,
        says=experiment.says[figure.id],
        exhibits=tuple(_exhibit(experiment, figure, evidence) for evidence in usable),
        command=f"svrl paper run {figure.id} --scale {_drawable(experiment, figure, scale)}",
    )


def _drawable(experiment: Experiment, figure: PaperFigure, scale: str) -> str:
    """The asked scale if the figure is drawn there, else the full one."""
    return scale if experiment.budget_of(figure.id, scale) is not None else "full"


def _exhibit(experiment: Experiment, figure: PaperFigure, evidence: Evidence) -> Exhibit:
    source = {"here": "run here", "committed": "committed rows"}.get(evidence.source, "run here and committed rows")
    budget = experiment.budget_of(figure.id, evidence.scale)
    return Exhibit(
        label=f"{evidence.scale} scale, {source}",
        caption=caption(figure, evidence),
        figure=experiment.draw(figure.id, evidence),
        # What grows by pieces is drawn from what is kept: to run the figure would be to train all of it.
        command=f"svrl paper report --scale {evidence.scale}"
        if budget is not None and budget.piece_of is not None
        else f"svrl paper run {figure.id} --scale {evidence.scale}",
        provenance=tuple(_provenance(evidence)),
    )


def _provenance(evidence: Evidence) -> Iterable[str]:
    """Where the rows come from, one line a distinct origin."""
    origins: dict[tuple[str, ...], list[float]] = {}
    for run in evidence.runs:
        told = run.provenance
        words = [f"svrl {told.get('svrl', '?')}"]
        words += [f"commit {told['commit']}"] if told.get("commit") else []
        words += [f"torch {told.get('torch', '?')}", f"Python {told.get('python', '?')}", str(told.get("machine", ""))]
        words += [str(told.get("ended", ""))[:10], str(told.get("command", ""))]
        words += [_trained(told["trained"])] if told.get("trained") else []
        seconds = float(told.get("seconds", 0.0))
        origins.setdefault(tuple(word for word in words if word), []).append(seconds)
    for origin, times in origins.items():
        count = f"{len(times)} run{'s' if len(times) > 1 else ''}"
        yield f"{count}, {_duration(sum(times))}: {', '.join(origin)}"
    seeds = sorted({run.settings["seed"] for run in evidence.runs if isinstance(run.settings.get("seed"), int)})
    if seeds:
        yield f"seeds {_span(seeds)}"


def _trained(told: Mapping[str, Any]) -> str:
    """Where the agent of a run was trained, if that was elsewhere than its study."""
    commit = f", commit {told['commit']}" if told.get("commit") else ""
    return f"agents trained before on {told['machine']} with torch {told['torch']}{commit}"


def _span(seeds: list[int]) -> str:
    whole = len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
