"""Figures as files, and the report on the paper: one file of HTML that needs nothing beside it.

A policy in the report's head forbids the browser to load anything: style, program and pictures are inside. Without the
program everything can be read; with it claims are filtered and commands copied. What the browser prints, on paper or as
a PDF, has everything open and no buttons. Text is plain, and `words` in backticks are code.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from svrl import __version__
from svrl.paper.catalogue import ADDITIONS, FIGURES, PaperFigure
from svrl.paper.claim import Evidence, Verdict
from svrl.paper.experiment import Experiment
from svrl.paper.judging import Judged, Library
from svrl.plots.style import save_figure, svg_text
from svrl.runtime.files import writing
from svrl.runtime.names import duration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERDICTS = dict(
    zip(
        Verdict,
        (
            ("reproduced", "●"),
            ("otherwise", "◐"),
            ("failed", "✕"),
            ("supported", "△"),
            ("contradicted", "▽"),
            ("undecided", "◇"),
            ("unrun", "○"),
        ),
        strict=True,
    )
)
"""The class of a verdict in the page, and a sign for those who do not see colours."""
TITLE = "Reproducing Harnessing Structures for Value-Based Planning and Reinforcement Learning"
SUBTITLE = (
    "Every figure and table of Yang, Zhang, Xu and Katabi (ICLR 2020) beside what svrl measures, and every claim with "
    "its verdict."
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_SMALLER = {
    "smoke": "Made at smoke scale, in seconds: it shows that everything works, and proves nothing.",
    "laptop": "Made at laptop scale; full scale is larger.",
}
_LETTERS = 20
"""Of a caption in an inch: a longer line would widen the picture, with white on both sides of its panels."""


# Figures as files.


def caption(figure: PaperFigure, evidence: Evidence) -> str:
    """What was spent, and that it was less than the paper did where it was."""
    symbol = evidence.words[1:2] == " "  # p = .2 stays as it is
    words = evidence.words if symbol else _capital(evidence.words)
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
    name = figure.id
    if evidence.scale != "full":
        name += f"-{evidence.scale}"
        below = _hold_legends(picture) - 0.02
        words = textwrap.fill(caption(figure, evidence), int(_LETTERS * picture.get_figwidth()))
        picture.text(0.5, below, words, ha="center", va="top", fontsize=6, color="#707070")
    folder.mkdir(parents=True, exist_ok=True)
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


# The report.


def render_page(library: Library, scale: str, progress: Callable[[str], None] = lambda _: None) -> str:
    """The whole document at a scale.

    Args:
        library: Experiments and what is kept of them.
        scale: That figures are drawn at first; larger budgets that are kept stand beside.
        progress: Told the name of every figure before it is drawn.
    """
    judged = library.judge(scale)
    counts = _counts(judged)
    paper, ours = ([one for one in library.experiments if _is_addition(one) is whose] for whose in (False, True))
    of_paper, of_ours = ([one for one in judged if one.is_addition is whose] for whose in (False, True))
    return Template((files("svrl.paper") / "page.html").read_text(encoding="utf-8")).substitute(
        title=_plain(TITLE),
        subtitle=_plain(SUBTITLE),
        scale=_plain(scale),
        made=datetime.now(UTC).date().isoformat(),
        version=_plain(__version__),
        policy=_plain(_POLICY),
        notes=_notes(_what_was_run(library, scale, judged)),
        shares=_shares(of_paper, "of the paper") + _shares(of_ours, "of our additions"),
        filters=_filter("", "", len(judged), "claims")
        + "".join(_filter(*VERDICTS[verdict], count, verdict) for verdict, count in counts.items()),
        claims="\n".join(map(_row, judged)),
        contents=_contents("The paper", paper) + _contents("Additions", ours),
        sections="\n".join(_section(library, one, scale, judged, progress) for one in library.experiments),
    )


def figures_of(experiment: Experiment) -> list[PaperFigure]:
    """All that an experiment draws, in the order of the paper."""
    return [figure for figure in FIGURES if figure.id in experiment.says]


def figure_labels(experiment: Experiment) -> str:
    """What an experiment draws: "Figures 3, 10, Table 1"; an addition has no number, only a title."""
    labels = [figure.title if figure.is_addition else figure.label for figure in figures_of(experiment)]
    numbers = [label.removeprefix("Figure ") for label in labels if label.startswith("Figure ")]
    figures = [f"Figure{'s' * (len(numbers) > 1)} {', '.join(numbers)}"] if numbers else []
    return ", ".join([*figures, *(label for label in labels if not label.startswith("Figure "))])


def _is_addition(experiment: Experiment) -> bool:
    return set(experiment.says) <= ADDITIONS


def _plain(text: str) -> str:
    """Text for an element or a quoted attribute. All that is not markup of ours passes through here."""
    return html.escape(text, quote=True)


def _rich(text: str) -> str:
    """Text for an element, where `words` in backticks are code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _plain(text))


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _counts(judged: Iterable[Judged]) -> dict[Verdict, int]:
    """How many claims came to each verdict, the best first; without those that none came to."""
    counts = Counter(one.finding.verdict for one in judged)
    return {verdict: counts[verdict] for verdict in Verdict if counts[verdict]}


def _what_was_run(library: Library, scale: str, judged: list[Judged]) -> Iterable[str]:
    """What a reader has to know before counting verdicts."""
    measured = [one for one in judged if one.evidence and one.finding.ours]
    known = {one.experiment.name for one in measured}
    if unjudged := [one.name for one in library.experiments if one.claims and one.name not in known]:
        yield f"Not run at a scale that could be judged: {', '.join(unjudged)}."
    others = Counter(one.scale for one in measured if one.scale != scale)
    if others and scale != "smoke":
        told = ", ".join(f"{count} at {name} scale" for name, count in others.most_common())
        yield f"Where not all of that scale is kept, claims are judged from the largest budget that is: {told}."
    if scale == "smoke":
        yield "Smoke scale shows that everything works; verdicts come from the larger budgets that are committed."


def _notes(texts: Iterable[str]) -> str:
    return "\n".join(f'<p class="note">{_rich(text)}</p>' for text in texts)


def _command(command: str) -> str:
    """A command with a button that copies it."""
    return (
        f'<div class="command"><pre tabindex="0" aria-label="Command"><code>{_plain(command)}</code></pre>'
        '<button type="button" class="copy" hidden>Copy</button></div>'
    )


def _badge(verdict: Verdict) -> str:
    """A verdict as a sign and its words."""
    style, mark = VERDICTS[verdict]
    return f'<span class="badge {style}"><span aria-hidden="true">{mark}</span> {verdict}</span>'


def _shares(judged: Sequence[Judged], whose: str) -> str:
    """How many claims came to what, in words and as a bar; nothing if there are none."""
    counts = _counts(judged)
    words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    bars = (f'<span class="{VERDICTS[one][0]}" style="flex-grow: {count}"></span>' for one, count in counts.items())
    return (
        f"<p>{len(judged)} claim{'s' * (len(judged) != 1)} {whose}: {words}.</p>\n"
        f'<div class="shares" aria-hidden="true">{"".join(bars)}</div>\n'
        if counts
        else ""
    )


def _filter(style: str, mark: str, count: int, words: str) -> str:
    return (
        f'<button type="button" class="filter {style}" data-filter="{style}" aria-pressed="{str(not style).lower()}">'
        f'<span aria-hidden="true">{mark}</span> <b>{count}</b> {words}</button>'
    )


def _row(one: Judged) -> str:
    """A claim in the table, with how it was tested folded below it."""
    claim, found = one.claim, one.finding
    (figure,) = (figure for figure in FIGURES if figure.id == claim.figure)
    evidence = [f"{one.scale} scale"] * (one.evidence is not None) + [one.source] * (one.source != "none")
    terms = {
        "Tested by": _rich(claim.test),
        "Note": _rich(found.note),
        "Evidence": _plain(", ".join(evidence)),
        "Experiment": f'<a href="#experiment-{_plain(one.experiment.name)}">{_plain(one.experiment.title)}</a>',
        "Name": f"<code>{_plain(claim.name)}</code>",
    }
    more = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in terms.items() if text)
    place = f' <span class="aside">section {_plain(claim.section)}</span>' if claim.section else ""
    return f"""\
<tr class="claim" id="claim-{_plain(claim.name)}" data-verdict="{VERDICTS[found.verdict][0]}">
<td>{_badge(found.verdict)}</td>
<td><details><summary>{_rich(claim.says)}</summary><dl>{more}</dl></details></td>
<td data-title="Paper">{_rich(claim.paper)}</td>
<td data-title="Ours">{_rich(found.ours or "none yet")}</td>
<td data-title="Where"><a href="#{_plain(claim.figure)}">{_plain(figure.label)}</a>{place}</td>
</tr>"""


def _contents(title: str, experiments: list[Experiment]) -> str:
    items = "\n".join(
        f'<li><a href="#experiment-{_plain(one.name)}">{_plain(_capital(one.title))}</a> '
        f'<span class="aside">{_plain(_capital(figure_labels(one)))}</span></li>'
        for one in experiments
    )
    return f"<h3>{title}</h3>\n<ol>\n{items}\n</ol>\n" if experiments else ""


def _section(
    library: Library, experiment: Experiment, scale: str, judged: list[Judged], progress: Callable[[str], None]
) -> str:
    """An experiment with its command and its figures."""
    name = _plain(experiment.name)
    runs = experiment.runs(scale) if scale in experiment.budgets else []
    minutes = sum(run.minutes_in_all for run in runs) / 2
    own = [one for one in judged if one.experiment is experiment]
    figures = []
    for figure in figures_of(experiment):
        progress(figure.id)
        figures.append(_figure(library, experiment, figure, scale, own))
    return f"""\
<section class="experiment" id="experiment-{name}" aria-labelledby="experiment-{name}-title">
<p class="kicker">{"Addition" if _is_addition(experiment) else "Experiment"} · {name}</p>
<h2 id="experiment-{name}-title">{_plain(_capital(experiment.title))}</h2>
{_notes(experiment.notes)}
<p class="runs">All of it{f", about {duration(60 * minutes)} on two cores" if minutes > 0 else ""}:</p>
{_command(f"svrl paper run {experiment.name} --scale {scale}")}
{"".join(figures)}
<p class="back"><a href="#claims">Back to the claims</a></p>
</section>"""


def _figure(library: Library, experiment: Experiment, figure: PaperFigure, scale: str, judged: list[Judged]) -> str:
    """A figure: its first picture, the others folded, what the paper says, and its claims."""
    name = _plain(figure.id)
    usable = library.exhibits(experiment, scale, figure.id)
    from_scales = {one.scale for one in judged if one.finding.verdict is not Verdict.NOT_RUN and not one.claim.printed}
    if len(usable) > 1 and (usable[0].scale == "smoke" or usable[0].scale not in from_scales):
        # What was asked for comes first, unless no claim was judged from it and something larger is kept.
        usable = [*usable[1:], usable[0]]
    first, *others = [_exhibit(experiment, figure, evidence) for evidence in usable] or [
        '<p class="not-made">There is no picture of it yet. This makes it:</p>'
        + _command(f"svrl paper run {figure.id} --scale {scale if experiment.budget_of(figure.id, scale) else 'full'}")
    ]
    folded = "".join(
        f'<details class="other"><summary>{_capital(_label(evidence))}</summary>\n{picture}\n</details>'
        for evidence, picture in zip(usable[1:], others, strict=True)
    )
    claims = "\n".join(
        f'<li>{_badge(one.finding.verdict)} <a href="#claim-{_plain(one.claim.name)}">{_rich(one.claim.says)}</a></li>'
        for one in judged
        if one.claim.figure == figure.id
    )
    whose = "Why it is here" if figure.is_addition else "The paper"
    return f"""\
<article class="entry" id="{name}" aria-labelledby="{name}-title">
<h3 id="{name}-title">{_plain(figure.label)}. {_plain(_capital(figure.title))}</h3>
{first}
{folded}
<div class="says"><h4>{whose}</h4><p>{_rich(experiment.says[figure.id])}</p></div>
{f'<ul class="claims-of" aria-label="Claims">{claims}</ul>' if claims else ""}
</article>
"""


def _label(evidence: Evidence) -> str:
    """A scale and a source: "laptop scale, committed rows"."""
    source = {"here": "run here", "committed": "committed rows"}.get(evidence.source, "run here and committed rows")
    return f"{_plain(evidence.scale)} scale, {source}"


def _exhibit(experiment: Experiment, figure: PaperFigure, evidence: Evidence) -> str:
    """A picture with its caption, the command that makes it, and where its rows come from."""
    budget = experiment.budget_of(figure.id, evidence.scale)
    # What grows by pieces is drawn from what is kept: to run the figure would be to train all of it.
    grows = budget is not None and budget.piece_of is not None
    command = f"svrl paper {'report' if grows else f'run {figure.id}'} --scale {evidence.scale}"
    label, picture = _label(evidence), experiment.draw(figure.id, evidence)
    return f"""\
<figure>
{_picture(picture, f"{figure.label}, {label}: {figure.title}")}
<figcaption><b>{_capital(label)}.</b> {_rich(caption(figure, evidence))}</figcaption>
</figure>
{_command(command)}
<details class="provenance"><summary>Provenance</summary>
<ul>{"".join(f"<li>{_rich(line)}</li>" for line in _provenance(evidence))}</ul></details>"""


def _picture(figure: Figure, title: str) -> str:
    """The figure as an image whose address is the SVG itself, with outlines to 0.01 points: they are most of a page."""
    text = svg_text(figure)
    points = re.search(r'width="([\d.]+)pt"', text)
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r' (?:d|x|y)="[^"]*"', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), text)
    address = quote(re.sub(r"\s+", " ", text).replace('"', "'"), safe=" !$'()*+,-./:;<=>?@[]^_`{|}~")
    width = float(points[1]) if points else 0.0
    return (
        f'<div class="picture"><img alt="{_plain(title)}" style="--points: {width:.0f}" '
        f'src="data:image/svg+xml,{address}"></div>'
    )


def _provenance(evidence: Evidence) -> Iterable[str]:
    """Where the rows come from, one line a distinct origin."""
    origins: dict[str, list[float]] = {}
    for run in evidence.runs:
        told: dict[str, Any] = {"svrl": "?", "torch": "?", "python": "?", **run.provenance}
        trained = told.get("trained") or {}  # where the agent of a run was trained, if elsewhere than its study
        words: list[str | None] = [
            f"svrl {told['svrl']}",
            _named("commit", told),
            f"torch {told['torch']}",
            f"Python {told['python']}",
        ]
        words += [told.get("machine"), str(told.get("ended", ""))[:10], told.get("command")]
        if trained:
            words += [f"agents trained before on {trained['machine']} with torch {trained['torch']}"]
            words += [_named("commit", trained)]
        origins.setdefault(", ".join(filter(None, words)), []).append(float(told.get("seconds", 0.0)))
    for origin, times in origins.items():
        yield f"{len(times)} run{'s' * (len(times) > 1)}, {duration(sum(times))}: {origin}"
    seeds = sorted({run.settings["seed"] for run in evidence.runs if isinstance(run.settings.get("seed"), int)})
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        yield f"seeds {seeds[0]} to {seeds[-1]}"
    elif seeds:
        yield f"seeds {', '.join(map(str, seeds))}"


def _named(name: str, told: dict[str, Any]) -> str:
    return f"{name} {told[name]}" if told.get(name) else ""
