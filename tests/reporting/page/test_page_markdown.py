from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import markdown
import pytest
from tests.reporting.page.sample_page import NASTY, sample_page

from svrl.reporting.page.markdown import escaped, figure_files, write_markdown


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "docs"
    write_markdown(sample_page(nasty=True), path)
    return path


def headings(path: Path) -> set[str]:
    """Where links into a page can lead, as MkDocs has it."""
    made = markdown.markdown(path.read_text(), extensions=["toc", "tables", "fenced_code"])
    return set(re.findall(r'<h\d id="([^"]+)"', made))


def test_files_are_named_after_experiments_and_figures(folder):
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == [
        "atari_learning.md",
        "control_svp.md",
        "figures/fig3-laptop.svg",
        "figures/fig6-full.svg",
        "figures/fig6-laptop.svg",
        "figures/toy-laptop.svg",
        "index.md",
        "toy_rank.md",
    ]
    for path in (folder / "figures").iterdir():
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_links_resolve(folder):
    seen = 0
    for path in folder.glob("*.md"):
        made = markdown.markdown(path.read_text(), extensions=["toc", "tables", "fenced_code"])
        for link in re.findall(r'(?:href|src)="([^"]+)"', made):
            name, _, place = link.partition("#")
            target = folder / name if name else path
            assert target.is_file(), link
            assert not place or place in headings(target), link
            seen += 1
    assert seen >= 5 + 3 + 4 + 3  # claims, experiments, pictures, ways back


def test_the_table_has_every_claim(folder):
    rows = [line for line in (folder / "index.md").read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 5
    made = markdown.markdown((folder / "index.md").read_text(), extensions=["tables"])
    assert made.count("<tr>") == 6
    assert made.count("<td>") == 25


def test_text_is_never_markup(folder):
    made = markdown.markdown((folder / "atari_learning.md").read_text(), extensions=["toc", "tables", "fenced_code"])
    assert "<script" not in made
    assert "<code>a &lt; b</code>" in made
    assert "<em>n" not in made
    assert 'href="y"' not in made


def test_stars_and_bars_are_escaped():
    assert escaped("Q* and V*") == r"Q\* and V\*"
    assert escaped("a | b `c|d` _e_") == r"a \| b `c\|d` \_e\_"
    assert escaped("two\nlines") == "two lines"
    assert markdown.markdown(escaped(NASTY)).count("<em>") == 0


def test_two_exhibits_of_a_scale_have_two_files():
    entry = sample_page().sections[1].figures[0]
    same = dataclasses.replace(entry, exhibits=(entry.exhibits[0],) * 3)
    assert figure_files(same) == ["fig6-laptop.svg", "fig6-laptop-2.svg", "fig6-laptop-3.svg"]
    odd = dataclasses.replace(entry.exhibits[0], scale="GPU, 1/4 of it")
    assert figure_files(dataclasses.replace(entry, exhibits=(odd,))) == ["fig6-gpu-1-4-of-it.svg"]


def test_writing_again_changes_nothing(folder):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    write_markdown(sample_page(nasty=True), folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
