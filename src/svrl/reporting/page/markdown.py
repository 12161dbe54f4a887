"""The report as pages of Markdown: index.md with all claims, a page an experiment, pictures in figures/.

Links are relative and lead to headings that a page has by their words, so they hold under MkDocs and on a host
of repositories alike. Files of an older report that this one does not have are left where they are.
"""

from __future__ import annotations

import re
from pathlib import Path

from svrl.plots.style import svg_text
from svrl.reporting.page.content import (
    MARKS,
    ClaimRow,
    Exhibit,
    FigureEntry,
    Page,
    Section,
    apart,
    capital,
    command_of,
    counts_text,
    figure_labels,
    labels_of,
    minutes_text,
    place_text,
    runs_text,
    says_title,
    sentence,
)
from svrl.runtime.files import writing

FIGURES = "figures"
NONE = "none yet"


def write_markdown(page: Page, folder: Path) -> None:
    """Write all pages and pictures into a folder, which is made if it is missing."""
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    labels = labels_of(page.sections)
    for section in page.sections:
        for entry in section.figures:
            for exhibit, name in zip(entry.exhibits, figure_files(entry), strict=True):
                _write(folder / FIGURES / name, svg_text(exhibit.figure))
        _write(folder / f"{section.name}.md", _section(section, labels))
    _write(folder / "index.md", _index(page, labels))


def figure_files(entry: FigureEntry) -> list[str]:
    """Names of the files of a figure's exhibits: ID-SCALE.svg; a second one of a scale has a number."""
    names: list[str] = []
    for exhibit in entry.exhibits:
        stem = f"{entry.id}-{re.sub(r'[^a-z0-9]+', '-', exhibit.scale.lower()).strip('-') or 'exhibit'}"
        name, at = f"{stem}.svg", 2
        while name in names:
            name, at = f"{stem}-{at}.svg", at + 1
        names.append(name)
    return names


def escaped(text: str) -> str:
    """Text on one line that Markdown shows as it is; `words` in backticks stay code."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    # Every second part is code; a bar would end a cell even there.
    return "".join(
        part.replace("|", "\\|") if at % 2 else re.sub(r"([\\`*_{}\[\]<>#|$~])", r"\\\1", part)
        for at, part in enumerate(parts)
    )


def _write(path: Path, text: str) -> None:
    with writing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _index(page: Page, labels: dict[str, str]) -> str:
    blocks = [
        f"# {escaped(page.title)}",
        escaped(page.subtitle),
        f"svrl {escaped(page.version)}, {escaped(page.scale)} scale, {escaped(page.made)}.",
        *map(escaped, page.notes),
        "## Claims",
        *(counts_text(claims, whose) for whose, claims in apart(page.claims).items()),
        "" if page.claims else "There are no claims.",
        _claims_table(page, labels) if page.claims else "",
        "## Experiments",
        "\n".join(_experiment_line(section) for section in page.sections),
    ]
    return _joined(blocks)


def _claims_table(page: Page, labels: dict[str, str]) -> str:
    lines = ["| Verdict | The paper says | Paper | Ours | Where |", "| --- | --- | --- | --- | --- |"]
    for section in page.sections:
        for claim in section.claims:
            cells = (
                f"{MARKS[claim.verdict]} {claim.verdict}",
                f"[{escaped(claim.says)}]({section.name}.md#{claim.name.lower().replace('.', '')})",
                escaped(claim.paper),
                escaped(claim.ours or NONE),
                escaped(place_text(claim, labels)),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _experiment_line(section: Section) -> str:
    kind = "addition" if section.addition else ""
    about = ", ".join(part for part in (kind, figure_labels(section), minutes_text(section.minutes)) if part)
    return f"- [{escaped(capital(section.title))}]({section.name}.md): {escaped(about)}"


def _section(section: Section, labels: dict[str, str]) -> str:
    blocks = [
        f"# {escaped(capital(section.title))}",
        "This is an addition: it is not in the paper." if section.addition else "",
        *map(escaped, section.notes),
        runs_text(section),
        _code(section.command),
    ]
    for entry in section.figures:
        blocks += _figure(section, entry)
    if section.claims:
        blocks.append("## Claims")
    for claim in section.claims:
        blocks += _claim(claim, labels)
    blocks.append("[All claims](index.md)")
    return _joined(blocks)


def _figure(section: Section, entry: FigureEntry) -> list[str]:
    first = says_title(section, entry)
    blocks = [f"## {escaped(entry.label)}: {escaped(entry.title)}", f"**{first}.** {escaped(entry.says)}"]
    for exhibit, name in zip(entry.exhibits, figure_files(entry), strict=True):
        blocks += _exhibit(entry, exhibit, name)
    if not entry.exhibits:
        blocks += ["There is no picture of it yet. This makes it:", _code(command_of(section, entry))]
    return blocks


def _exhibit(entry: FigureEntry, exhibit: Exhibit, name: str) -> list[str]:
    lines = (f"Source: {exhibit.source}", *exhibit.provenance)
    return [
        f"![{escaped(entry.label)}, {escaped(exhibit.label)}]({FIGURES}/{name})",
        f"*{escaped(sentence(exhibit.label))}* {escaped(exhibit.caption)}",
        _code(exhibit.command),
        "\n".join(f"- {escaped(line)}" for line in lines),
    ]


def _claim(claim: ClaimRow, labels: dict[str, str]) -> list[str]:
    lines = [
        ("Paper", escaped(claim.paper)),
        ("Ours", escaped(claim.ours or NONE)),
        ("Tested by", escaped(claim.test)),
        ("Note", escaped(claim.note)),
        ("Where", escaped(place_text(claim, labels))),
    ]
    return [
        f"### {escaped(claim.name)}",
        f"{MARKS[claim.verdict]} **{claim.verdict}**: {escaped(claim.says)}",
        "\n".join(f"- {name}: {text}" for name, text in lines if text),
    ]


def _code(command: str) -> str:
    return f"```bash\n{command}\n```" if command else ""


def _joined(blocks: list[str]) -> str:
    return "\n\n".join(block for block in blocks if block) + "\n"
