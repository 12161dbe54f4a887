"""The page on the paper: what it says, as HTML and as Markdown."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import markdown
import pytest
from tests.reporting.page.sample_page import NASTY, addition, exhibit, learning, planning, sample_page

from svrl.paper.catalogue import load_all
from svrl.reporting.page.content import (
    MARKS,
    VERDICTS,
    ClaimRow,
    Page,
    apart,
    counts_text,
    figure_labels,
    minutes_text,
    runs_text,
    says_title,
    sentence,
    verdict_counts,
)
from svrl.reporting.page.html import STYLES, render_html
from svrl.reporting.page.markdown import escaped, figure_files, write_markdown

VOID = {"meta", "link", "img"}

# What it says.


def test_names_of_the_paper_can_be_addresses_and_are_unique():
    experiments = load_all()
    claims = [claim.name for experiment in experiments for claim in experiment.claims]
    for names in ([experiment.name for experiment in experiments], claims):
        assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) for name in names)
        # Addresses of headings have neither capitals nor points, and some file systems no capitals.
        assert len({name.lower().replace(".", "") for name in names}) == len(names)


def test_claims_are_counted_by_verdict_in_the_order_of_the_experiments():
    assert [claim.name for claim in sample_page().claims] == ["svp-fifth", "svp-rank", "svp-time", "sv-better"]
    assert verdict_counts(()) == dict.fromkeys(VERDICTS, 0)
    assert verdict_counts(planning().claims) == dict(zip(VERDICTS, (1, 1, 0, 0, 0, 0, 1), strict=True))


def test_claims_of_the_paper_and_of_additions_are_counted_apart():
    words = {"name": "x", "figure": "fig1", "says": "x", "paper": "x", "test": "x", "verdict": "reproduced"}
    mine, other = (ClaimRow(**words, section=section) for section in ("3.3", ""))
    groups = apart((mine, other, mine))
    assert {whose: len(some) for whose, some in groups.items()} == {"of the paper": 2, "of our additions": 1}
    assert counts_text(groups["of the paper"], "of the paper") == "2 claims of the paper: 2 reproduced."
    assert apart(()) == {}
    first, *rest = sample_page().sections
    ours = dataclasses.replace(first, claims=tuple(dataclasses.replace(claim, section="") for claim in first.claims))
    made = render_html(dataclasses.replace(sample_page(), sections=(ours, *rest)))
    assert made.count('<div class="shares"') == 2
    assert "3 claims of our additions: 1 reproduced, " in made
    assert "1 claim of the paper: 1 not reproduced." in made


def test_words():
    times = {0.0: "", 0.2: "less than a minute", 1.0: "about 1 minute", 120.0: "about 2 hours", 2e6: "about 1,389 days"}
    assert {minutes: minutes_text(minutes) for minutes in times} == times
    assert runs_text(planning()) == "All of it, about 38 minutes on two cores:"
    assert runs_text(dataclasses.replace(planning(), minutes=0.0)) == "All of it:"
    assert [sentence(words) for words in ("laptop scale", "Done.")] == ["Laptop scale.", "Done."]


def test_figures_of_the_paper_have_numbers_and_additions_titles():
    section, ours = planning(), addition()
    table = dataclasses.replace(section.figures[0], id="table1", label="Table 1")
    mixed = dataclasses.replace(section, figures=(section.figures[0], table, *ours.figures))
    assert [figure_labels(one) for one in (section, ours, mixed)] == [
        "Figures 3, 10",
        "how fast the error falls",
        "Figure 3, Table 1, how fast the error falls",
    ]
    assert says_title(section, section.figures[0]) == "The paper"
    assert says_title(section, ours.figures[0]) == "Why it is here"
    assert says_title(dataclasses.replace(section, addition=True), section.figures[0]) == "Why it is here"


# HTML.


class Reader(HTMLParser):
    """All elements of a document, their attributes and text; complains where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    def having(self, name: str, value: str) -> list[dict[str, str]]:
        return [found for _, found in self.elements if value in found.get(name, "").split()]


@pytest.fixture(scope="module")
def page() -> Page:
    return sample_page()


@pytest.fixture(scope="module")
def text(page: Page) -> str:
    return render_html(page)


@pytest.fixture(scope="module")
def document(text: str) -> Reader:
    return Reader(text)


def test_everything_is_there(page, document):
    ids = Counter(found["id"] for _, found in document.elements if found.get("id"))
    assert set(ids.values()) == {1}
    wanted = {f"claim-{claim.name}" for claim in page.claims} | {f"experiment-{one.name}" for one in page.sections}
    assert wanted | {entry.id for section in page.sections for entry in section.figures} <= set(ids)
    words = " ".join(" ".join(document.words).split())
    for claim in page.claims:
        assert all(said in words for said in (claim.says, claim.paper, claim.test, claim.ours, claim.note))
    for section in page.sections:
        assert section.command in words
        for entry in section.figures:
            assert entry.says in words
            for one in entry.exhibits:
                assert all(said in words for said in (one.caption, one.command, *one.provenance))
    assert "svrl paper run fig10 --scale full" in words  # how to make what is missing
    images = [found for tag, found in document.elements if tag == "img"]
    assert len(images) == 4
    assert images[0]["alt"].startswith("Figure 3, laptop scale, committed: ")
    for found in images:  # each is a whole SVG
        kind, _, picture = found["src"].partition(",")
        assert kind == "data:image/svg+xml"
        assert ElementTree.fromstring(unquote(picture)).tag.endswith("svg")
    assert len(document.having("class", "other")) == 1  # the second scale of figure 6 is folded


def test_links_lead_somewhere_and_nothing_is_loaded(text, document):
    ids = {found.get("id") for _, found in document.elements}
    for tag, found in document.elements:
        if found.get("href", "").startswith("#"):
            assert found["href"][1:] in ids
        assert set(found.get("aria-labelledby", "").split()) <= ids
        for name in ("src", "href", "srcset", "poster", "data", "action"):
            assert found.get(name, "#").startswith(("#", "data:")), (tag, name, found[name])
    around = re.sub(r'src="data:[^"]*"', "", text)
    assert not re.search(r"@import|url\(\s*['\"]?(?!#|data:)|https?://|fetch\(|XMLHttpRequest|import\(", around)
    (policy,) = document.having("http-equiv", "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'")


def test_text_is_never_markup_and_attributes_cannot_be_left():
    made = render_html(sample_page(nasty=True))
    document = Reader(made)
    assert sum(tag == "script" for tag, _ in document.elements) == 1  # ours
    assert "<script>alert" not in made
    assert "".join(document.words).count(NASTY.replace("`", "")) >= 7
    assert "<code>a &lt; b</code>" in made
    quoted = dataclasses.replace(sample_page(), sections=(), subtitle='"><img src=x onerror=alert(1)>')
    made = Reader(render_html(quoted))
    assert made.having("id", "claims"), "a page of nothing is a page"
    assert not [tag for tag, _ in made.elements if tag == "img"]
    assert not [name for _, found in made.elements for name in found if name.startswith("on")]


def test_each_verdict_has_a_filter_a_mark_and_a_style(document):
    filters = [found["data-filter"] for _, found in document.elements if "data-filter" in found]
    assert filters == ["", "reproduced", "otherwise", "failed", "unrun"]  # where there is a claim
    verdicts = [found["data-verdict"] for found in document.having("class", "claim")]
    assert verdicts == ["reproduced", "otherwise", "unrun", "failed"]
    assert len(set(MARKS.values())) == len(set(STYLES.values())) == len(VERDICTS)
    styles = files("svrl.reporting.page").joinpath("page.css").read_text(encoding="utf-8")
    for word in STYLES.values():
        assert re.search(rf"^[^{{}}]*\.{word}\b[^{{}}]*{{[^}}]*\bcolor: var", styles, re.MULTILINE), word


def test_an_addition_is_not_put_into_the_papers_mouth(text):
    paper, ours = text.split('id="experiment-toy_rank"')
    assert "<h4>The paper</h4>" in paper
    assert "<h4>Why it is here</h4>" in ours
    assert "<h4>The paper</h4>" not in ours


def test_the_same_page_is_the_same_text_whatever_is_rendered_in_between(page, text, tmp_path):
    write_markdown(page, tmp_path)
    assert render_html(page) == render_html(sample_page()) == text


# Markdown.


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "docs"
    write_markdown(sample_page(nasty=True), path)
    return path


def as_html(path: Path) -> str:
    return markdown.markdown(path.read_text(), extensions=["toc", "tables", "fenced_code"])


def test_files_are_named_after_experiments_and_figures_and_can_be_written_again(folder):
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    pictures = {f"figures/{name}.svg" for name in ("fig3-laptop", "fig6-full", "fig6-laptop", "toy-laptop")}
    assert set(files) == {"atari_learning.md", "control_svp.md", "index.md", "toy_rank.md", *pictures}
    for name in pictures:
        assert ElementTree.fromstring(files[name]).tag.endswith("svg")
    write_markdown(sample_page(nasty=True), folder)
    assert {name: (folder / name).read_bytes() for name in files} == files


def test_links_resolve(folder):
    seen = 0
    for path in folder.glob("*.md"):
        for link in re.findall(r'(?:href|src)="([^"]+)"', as_html(path)):
            name, _, place = link.partition("#")
            target = folder / name if name else path
            assert target.is_file(), link
            assert not place or place in re.findall(r'<h\d id="([^"]+)"', as_html(target)), link
            seen += 1
    assert seen >= 5 + 3 + 4 + 3  # claims, experiments, pictures, ways back


def test_the_table_has_every_claim_and_text_is_never_markup(folder):
    made = as_html(folder / "index.md")
    assert (made.count("<tr>"), made.count("<td>")) == (6, 25)
    made = as_html(folder / "atari_learning.md")
    assert "<code>a &lt; b</code>" in made
    assert not [mark for mark in ("<script", "<em>n", 'href="y"') if mark in made]
    assert escaped("a | b `c|d` _e_\nQ*") == r"a \| b `c\|d` \_e\_ Q\*"


def test_two_exhibits_of_a_scale_have_two_files():
    entry = learning().figures[0]
    same = dataclasses.replace(entry, exhibits=(exhibit(),) * 3)
    assert figure_files(same) == ["fig6-laptop.svg", "fig6-laptop-2.svg", "fig6-laptop-3.svg"]
    odd = dataclasses.replace(entry, exhibits=(exhibit("GPU, 1/4 of it"),))
    assert figure_files(odd) == ["fig6-gpu-1-4-of-it.svg"]
