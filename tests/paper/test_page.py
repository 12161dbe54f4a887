"""The report: what it says, that it loads nothing, and that text is never markup. And what a figure's file adds."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from svrl.paper.catalogue import FIGURES, load_experiment
from svrl.paper.judging import Library
from svrl.paper.page import VERDICTS, caption, figure_labels, figures_of, render_page, write_figure
from svrl.paper.table import committed_table

from .sample_report import IMAGES, NASTY, sample_report

VOID = {"meta", "link", "img"}


@pytest.mark.parametrize("inches", [3.0, 7.0])
def test_a_long_caption_does_not_widen_the_picture(tmp_path: Path, inches: float) -> None:
    figure = next(figure for figure in FIGURES if figure.id == "ways")
    evidence = load_experiment(figure.experiment).evidence("short", (committed_table(),))
    assert evidence is not None
    evidence = replace(evidence, words="many games and seeds and steps " * 9)
    picture = Figure(figsize=(inches, 2.0), layout="constrained")
    picture.subplots().plot([0, 1])
    path = write_figure(picture, figure, evidence, tmp_path, "svg")
    lines = picture.texts[-1].get_text().splitlines()
    assert len(lines) > 1
    assert " ".join(lines) == caption(figure, evidence).replace("  ", " ")
    assert picture.get_tightbbox().width <= 1.05 * inches
    assert path == tmp_path / "ways-short.svg"


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
def library(tmp_path_factory) -> Library:
    return sample_report(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def text(library: Library) -> str:
    return render_page(library, "laptop")


@pytest.fixture(scope="module")
def document(text: str) -> Reader:
    return Reader(text)


def test_figures_of_the_paper_have_numbers_and_additions_titles(library):
    one, _, ours = library.experiments
    mixed = replace(one, says=dict.fromkeys(("fig3", "table1", "noise"), "words"))
    assert [figure_labels(some) for some in (one, ours, mixed)] == [
        "Figures 3, 10",
        "planning from a noisy simulator",
        "Figure 3, Table 1, planning from a noisy simulator",
    ]


def test_everything_is_there(library, document):
    judged = library.judge("laptop")
    ids = Counter(found["id"] for _, found in document.elements if found.get("id"))
    assert set(ids.values()) == {1}
    wanted = {f"claim-{one.claim.name}" for one in judged}
    words = " ".join(" ".join(document.words).split())
    for one in judged:
        claim, found = one.claim, one.finding
        assert all(said in words for said in (claim.says, claim.paper, claim.test, found.ours, found.note))
    for experiment in library.experiments:
        wanted |= {f"experiment-{experiment.name}", *experiment.says}
        assert f"svrl paper run {experiment.name} --scale laptop" in words
        for figure in figures_of(experiment):
            assert experiment.says[figure.id] in words
            for evidence in library.exhibits(experiment, "laptop", figure.id):
                assert caption(figure, evidence) in words
                assert f"svrl paper run {figure.id} --scale {evidence.scale}" in words
                assert f"{len(evidence.runs)} run" in words
    assert wanted <= set(ids)
    assert "svrl paper run fig10 --scale full" in words  # how to make what is missing
    images = [found for tag, found in document.elements if tag == "img"]
    assert len(images) == IMAGES
    assert images[0]["alt"].startswith("Figure 3, laptop scale, run here: ")
    for found in images:  # each is a whole SVG
        kind, _, picture = found["src"].partition(",")
        assert kind == "data:image/svg+xml"
        assert ElementTree.fromstring(unquote(picture)).tag.endswith("svg")
    assert len(document.having("class", "other")) == 1  # the second scale of figure 6 is folded


def test_claims_of_the_paper_and_of_additions_are_counted_apart(text):
    assert text.count('<div class="shares"') == 2
    counts = "1 reproduced, 1 reproduced under another definition, 1 not reproduced, 1 not run at this scale."
    assert f"4 claims of the paper: {counts}" in text
    assert "1 claim of our additions: 1 reproduced." in text


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


def test_text_is_never_markup(tmp_path):
    made = render_page(sample_report(tmp_path, nasty=True), "laptop")
    document = Reader(made)
    assert sum(tag == "script" for tag, _ in document.elements) == 1  # ours
    assert "<script>alert" not in made
    assert "".join(document.words).count(NASTY.replace("`", "")) >= 7
    assert "<code>a &lt; b</code>" in made
    assert not [name for _, found in document.elements for name in found if name.startswith("on")]
    nothing = Reader(render_page(Library((), ()), '"><img src=x onerror=alert(1)>'))
    assert nothing.having("id", "claims"), "a page of nothing is a page"
    assert not [tag for tag, _ in nothing.elements if tag == "img"]


def test_each_verdict_has_a_filter_a_mark_and_a_style(document):
    filters = [found["data-filter"] for _, found in document.elements if "data-filter" in found]
    assert filters == ["", "reproduced", "otherwise", "failed", "unrun"]  # where there is a claim
    verdicts = [found["data-verdict"] for found in document.having("class", "claim")]
    assert verdicts == ["reproduced", "otherwise", "unrun", "failed", "reproduced"]
    classes, marks = zip(*VERDICTS.values(), strict=True)
    assert len(set(classes)) == len(set(marks)) == len(VERDICTS)
    styles = files("svrl.paper").joinpath("page.html").read_text(encoding="utf-8")
    for word in classes:
        assert re.search(rf"^[^{{}}]*\.{word}\b[^{{}}]*{{[^}}]*\bcolor: var", styles, re.MULTILINE), word


def test_an_addition_is_not_put_into_the_papers_mouth(text):
    paper, ours = text.split('id="experiment-noisy_simulator"')
    assert "<h4>The paper</h4>" in paper
    assert "<h4>Why it is here</h4>" in ours
    assert "<h4>The paper</h4>" not in ours


def test_the_same_page_is_the_same_text(library, text):
    assert render_page(library, "laptop") == text
