"""The page on the paper: what it says, that it loads nothing, and that text is never markup."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from tests.reporting.sample_page import NASTY, addition, planning, sample_page

from svrl.paper.catalogue import load_all
from svrl.reporting.page import VERDICTS, Page, figure_labels, minutes_text, render_html

VOID = {"meta", "link", "img"}


def test_names_of_the_paper_can_be_addresses_and_are_unique():
    experiments = load_all()
    claims = [claim.name for experiment in experiments for claim in experiment.claims]
    for names in ([experiment.name for experiment in experiments], claims):
        assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) for name in names)
        assert len(set(names)) == len(names)


def test_claims_of_the_paper_and_of_additions_are_counted_apart():
    first, *rest = sample_page().sections
    ours = dataclasses.replace(first, claims=tuple(dataclasses.replace(claim, section="") for claim in first.claims))
    made = render_html(dataclasses.replace(sample_page(), sections=(ours, *rest)))
    assert made.count('<div class="shares"') == 2
    assert (
        "3 claims of our additions: 1 reproduced, 1 reproduced under another definition, 1 not run at this scale."
    ) in made
    assert "1 claim of the paper: 1 not reproduced." in made


def test_times_are_rough():
    times = {0.2: "less than a minute", 1.0: "about 1 minute", 120.0: "about 2 hours", 2e6: "about 1,389 days"}
    assert {minutes: minutes_text(minutes) for minutes in times} == times


def test_figures_of_the_paper_have_numbers_and_additions_titles():
    section, ours = planning(), addition()
    table = dataclasses.replace(section.figures[0], id="table1", label="Table 1")
    mixed = dataclasses.replace(section, figures=(section.figures[0], table, *ours.figures))
    assert [figure_labels(one) for one in (section, ours, mixed)] == [
        "Figures 3, 10",
        "how fast the error falls",
        "Figure 3, Table 1, how fast the error falls",
    ]


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
    claims = [claim for section in page.sections for claim in section.claims]
    ids = Counter(found["id"] for _, found in document.elements if found.get("id"))
    assert set(ids.values()) == {1}
    wanted = {f"claim-{claim.name}" for claim in claims} | {f"experiment-{one.name}" for one in page.sections}
    assert wanted | {entry.id for section in page.sections for entry in section.figures} <= set(ids)
    words = " ".join(" ".join(document.words).split())
    for claim in claims:
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
    classes, marks = zip(*VERDICTS.values(), strict=True)
    assert len(set(classes)) == len(set(marks)) == len(VERDICTS)
    styles = files("svrl.reporting").joinpath("page.html").read_text(encoding="utf-8")
    for word in classes:
        assert re.search(rf"^[^{{}}]*\.{word}\b[^{{}}]*{{[^}}]*\bcolor: var", styles, re.MULTILINE), word


def test_an_addition_is_not_put_into_the_papers_mouth(text):
    paper, ours = text.split('id="experiment-toy_rank"')
    assert "<h4>The paper</h4>" in paper
    assert "<h4>Why it is here</h4>" in ours
    assert "<h4>The paper</h4>" not in ours


def test_the_same_page_is_the_same_text(page, text):
    assert render_html(page) == render_html(sample_page()) == text
