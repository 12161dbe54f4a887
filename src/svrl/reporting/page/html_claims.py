"""The table of all claims, the counts of verdicts that filter it, and the claims of one experiment."""

from __future__ import annotations

from svrl.reporting.page.content import VERDICTS, ClaimRow, Page, Section
from svrl.reporting.page.html_text import plain, rich
from svrl.reporting.page.wording import MARKS, SHORT, interval_text, verdict_counts

_COLUMNS = (
    ("verdict", "Verdict"),
    ("claim", "The paper says"),
    ("paper", "Paper"),
    ("ours", "Ours"),
    ("place", "Where"),
)


def render_claims(page: Page, labels: dict[str, str]) -> str:
    """The front table of a page.

    Args:
        page: The whole report.
        labels: Ids of figures to what they are called.
    """
    places = {figure: at for at, figure in enumerate(labels)}
    heads = "".join(
        f'<th scope="col" data-column="{name}"><button type="button">{title}</button></th>' for name, title in _COLUMNS
    )
    bodies = [_body(claim, section, labels, places) for section in page.sections for claim in section.claims]
    return "\n".join(
        [
            '<section id="claims" aria-labelledby="claims-title">',
            '<h2 id="claims-title">Claims</h2>',
            _filters(page),
            '<div class="table-box">',
            '<table id="claims-table">',
            '<caption class="unseen">Every claim, what the paper has, what we got. A row opens to how it was '
            "tested.</caption>",
            f"<thead><tr>{heads}</tr></thead>",
            *bodies,
            "</table>",
            "</div>",
            '<p class="none-left" id="none-left" hidden>No claim has this verdict.</p>',
            "</section>",
        ]
    )


def badge(verdict: str) -> str:
    """A verdict as a sign and its words."""
    return (
        f'<span class="badge {SHORT[verdict]}"><span class="mark" aria-hidden="true">{MARKS[verdict]}</span>'
        f"{plain(verdict)}</span>"
    )


def render_claims_of(section: Section) -> str:
    """The claims of one experiment in short; each leads to its row in the front table."""
    if not section.claims:
        return ""
    items = [
        f'<li>{badge(claim.verdict)} <a href="#claim-{plain(claim.name)}">{rich(claim.says)}</a></li>'
        for claim in section.claims
    ]
    return "\n".join(['<h3 class="list-title">Claims</h3>', '<ul class="claims-of">', *items, "</ul>"])


def _filters(page: Page) -> str:
    counts = verdict_counts(page.claims)
    shares = "".join(
        f'<span class="{SHORT[verdict]}" style="flex-grow: {count}"></span>'
        for verdict, count in counts.items()
        if count
    )
    buttons = "".join(
        f'<button type="button" class="filter {SHORT[verdict]}" data-filter="{SHORT[verdict]}" aria-pressed="false">'
        f'<span class="mark" aria-hidden="true">{MARKS[verdict]}</span><b>{count}</b> {plain(verdict)}</button>'
        for verdict, count in counts.items()
    )
    every = (
        '<button type="button" class="filter" data-filter="" aria-pressed="true">'
        f"<b>{len(page.claims)}</b> claims</button>"
    )
    return (
        f'<div class="shares" aria-hidden="true">{shares}</div>\n'
        f'<div class="filters" role="group" aria-label="Show claims by verdict">{every}{buttons}</div>'
    )


def _body(claim: ClaimRow, section: Section, labels: dict[str, str], places: dict[str, int]) -> str:
    more = f"claim-{plain(claim.name)}-more"
    interval = interval_text(claim.interval)
    ours = rich(claim.ours) if claim.ours else '<span class="aside">none yet</span>'
    if interval:
        ours += f' <span class="interval">95%: {plain(interval)}</span>'
    keys = {
        "verdict": VERDICTS.index(claim.verdict),
        "place": places.get(claim.figure, len(places)),
    }
    target = claim.figure if claim.figure in labels else f"experiment-{section.name}"
    cells = (
        badge(claim.verdict),
        f'<button type="button" class="opener" aria-expanded="false" aria-controls="{more}">'
        f"{rich(claim.says)}</button>",
        rich(claim.paper),
        ours,
        f'<a href="#{plain(target)}">{plain(labels.get(claim.figure, claim.figure))}</a>'
        + (f' <span class="in-section">section {plain(claim.section)}</span>' if claim.section else ""),
    )
    row = "".join(
        f'<td data-column="{name}" data-title="{title}"'
        + (f' data-key="{keys[name]}"' if name in keys else "")
        + f'><div class="cell">{cell}</div></td>'
        for (name, title), cell in zip(_COLUMNS, cells, strict=True)
    )
    return (
        f'<tbody class="claim" id="claim-{plain(claim.name)}" data-verdict="{SHORT[claim.verdict]}">\n<tr>{row}</tr>\n'
        f'<tr class="more" id="{more}"><td colspan="{len(_COLUMNS)}">{_more(claim, section)}</td></tr>\n</tbody>'
    )


def _more(claim: ClaimRow, section: Section) -> str:
    evidence = ", ".join(word for word in (claim.scale and f"{claim.scale} scale", claim.source) if word)
    terms = (
        ("Tested by", rich(claim.test)),
        ("Note", rich(claim.note)),
        ("Evidence", plain(evidence)),
        ("Experiment", f'<a href="#experiment-{plain(section.name)}">{plain(section.title)}</a>'),
        ("Name", f"<code>{plain(claim.name)}</code>"),
    )
    pairs = "".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in terms if text)
    return f"<dl>{pairs}</dl>"
