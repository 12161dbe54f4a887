from __future__ import annotations

import dataclasses
import re
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from tests.reporting.page.sample_page import NASTY, sample_page

from svrl.reporting.page.content import MARKS, VERDICTS, Page
from svrl.reporting.page.html import STYLES, render_html
from svrl.reporting.page.markdown import write_markdown

VOID = {"meta", "link", "img"}


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

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.words.append(data)

    def having(self, name: str, value: str) -> list[tuple[str, dict[str, str]]]:
        return [(tag, found) for tag, found in self.elements if value in found.get(name, "").split()]


@pytest.fixture(scope="module")
def page() -> Page:
    return sample_page()


@pytest.fixture(scope="module")
def text(page: Page) -> str:
    return render_html(page)


@pytest.fixture(scope="module")
def document(text: str) -> Reader:
    return Reader(text)


def test_every_claim_and_figure_is_there(page, document):
    ids = {found.get("id") for _, found in document.elements}
    for claim in page.claims:
        assert f"claim-{claim.name}" in ids
    for section in page.sections:
        assert f"experiment-{section.name}" in ids
        assert {entry.id for entry in section.figures} <= ids
    pictures = sum(len(entry.exhibits) for section in page.sections for entry in section.figures)
    images = [found for tag, found in document.elements if tag == "img"]
    assert len(images) == pictures == 4
    assert images[0]["alt"].startswith("Figure 3, laptop scale, committed: ")
    for found in images:  # each is a whole SVG
        kind, _, text = found["src"].partition(",")
        assert kind == "data:image/svg+xml"
        assert ElementTree.fromstring(unquote(text)).tag.endswith("svg")


def test_everything_that_is_said_is_shown(page, document):
    words = " ".join(" ".join(document.words).split())
    for claim in page.claims:
        for said in (claim.says, claim.paper, claim.test, claim.ours, claim.note):
            assert said in words
    for section in page.sections:
        assert section.command in words
        for entry in section.figures:
            assert {entry.says in words, entry.got in words} == {True}
            for exhibit in entry.exhibits:
                assert exhibit.caption in words
                assert exhibit.command in words
                assert all(line in words for line in exhibit.provenance)
    assert "-1,240 (-3,051 to 571)" in words
    assert "svrl paper run fig10 --scale full" in words  # how to make what is missing


def test_a_figure_without_a_command_is_made_by_that_of_its_experiment(page):
    section = page.sections[0]
    bare = dataclasses.replace(section.figures[1], command="")
    alone = dataclasses.replace(section, figures=(bare,), claims=())
    made = render_html(dataclasses.replace(page, sections=(alone,)))
    assert made.count("<code>svrl paper run control_svp</code>") == 2


def test_ids_are_unique_and_links_lead_somewhere(document):
    ids = Counter(found["id"] for _, found in document.elements if found.get("id"))
    assert [name for name, count in ids.items() if count > 1] == []
    for _, found in document.elements:
        if found.get("href", "").startswith("#"):
            assert found["href"][1:] in ids
        for name in ("aria-controls", "aria-labelledby"):
            assert set(found.get(name, "").split()) <= set(ids)


def test_nothing_is_loaded(text, document):
    for tag, found in document.elements:
        for name in ("src", "href", "srcset", "poster", "data", "action"):
            assert found.get(name, "#").startswith(("#", "data:")), (tag, name, found[name])
    around = re.sub(r'src="data:[^"]*"', "", text)
    assert not re.search(r"@import|url\(\s*['\"]?(?!#|data:)|https?://|fetch\(|XMLHttpRequest|import\(", around)
    policy = [found["content"] for _, found in document.having("http-equiv", "Content-Security-Policy")]
    assert len(policy) == 1
    assert policy[0].startswith("default-src 'none'")


def test_text_is_never_markup():
    made = render_html(sample_page(nasty=True))
    document = Reader(made)
    assert sum(tag == "script" for tag, _ in document.elements) == 1  # ours
    assert "<script>alert" not in made
    words = "".join(document.words)
    assert words.count(NASTY.replace("`", "")) >= 7
    assert "<code>a &lt; b</code>" in made


def test_attributes_cannot_be_left():
    page = dataclasses.replace(sample_page(), sections=())
    made = Reader(render_html(dataclasses.replace(page, subtitle='"><img src=x onerror=alert(1)>')))
    assert made.having("id", "claims")
    assert not [tag for tag, _ in made.elements if tag == "img"]
    assert not [name for _, found in made.elements for name in found if name.startswith("on")]


def test_filters_count_the_verdicts(document):
    filters = [found["data-filter"] for tag, found in document.elements if "data-filter" in found]
    assert filters == ["", "reproduced", "otherwise", "failed", "unrun"]  # where there is a claim
    verdicts = [found["data-verdict"] for _, found in document.having("class", "claim")]
    assert verdicts == ["reproduced", "otherwise", "unrun", "failed"]


def test_additions_have_a_bar_of_their_own():
    first, *rest = sample_page().sections
    ours = dataclasses.replace(first, claims=tuple(dataclasses.replace(claim, section="") for claim in first.claims))
    made = render_html(dataclasses.replace(sample_page(), sections=(ours, *rest)))
    assert made.count('<div class="shares"') == 2
    assert "3 claims of our additions: 1 reproduced, " in made
    assert "1 claim of the paper: 1 not reproduced." in made


def test_what_was_found_so_far_has_its_badge_and_its_count():
    page = sample_page()
    found = ("supported so far", "contradicted so far", "undecided so far", "undecided so far")
    claims = [dataclasses.replace(claim, verdict=verdict) for claim, verdict in zip(page.claims, found, strict=True)]
    sections = (
        dataclasses.replace(page.sections[0], figures=(), claims=tuple(claims[:3])),
        dataclasses.replace(page.sections[1], figures=(), claims=tuple(claims[3:])),
    )
    document = Reader(render_html(dataclasses.replace(page, sections=sections)))
    verdicts = [found["data-verdict"] for _, found in document.having("class", "claim")]
    assert verdicts == ["supported", "contradicted", "undecided", "undecided"]
    words = re.sub(r"\s+", " ", " ".join(document.words))
    for told in ("1 supported so far", "1 contradicted so far", "2 undecided so far"):
        assert told in words


def test_further_scales_of_a_figure_are_folded_below_the_first(document):
    assert len(document.having("class", "other")) == 1  # figure 6 has two


def test_verdicts_are_told_apart_without_colours_and_have_a_style_each():
    assert len(set(MARKS.values())) == len(set(STYLES.values())) == len(VERDICTS)
    styles = files("svrl.reporting.page").joinpath("page.css").read_text(encoding="utf-8")
    for word in STYLES.values():
        assert re.search(rf"^[^{{}}]*\.{word}\b[^{{}}]*{{[^}}]*\bcolor: var", styles, re.MULTILINE), word


def test_an_addition_is_not_put_into_the_papers_mouth(text):
    paper, addition = text.split('id="experiment-toy_rank"')
    assert "<h4>The paper</h4>" in paper
    assert "<h4>Why it is here</h4>" in addition
    assert "<h4>The paper</h4>" not in addition


def test_the_same_page_is_the_same_text(text):
    assert render_html(sample_page()) == text


def test_other_renderings_in_between_change_nothing(text, tmp_path):
    page = sample_page()
    write_markdown(page, tmp_path)
    assert render_html(page) == text


def test_a_page_of_nothing_is_a_page():
    empty = Page(title="t", subtitle="s", scale="smoke", sections=(), made="2026-01-01", version="0")
    assert Reader(render_html(empty)).having("id", "claims")
