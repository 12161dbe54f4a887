from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tests.reporting.page.sample_page import sample_page

from svrl.reporting.page.content import Page
from svrl.reporting.page.pdf import write_pdf
from svrl.reporting.page.pdf_text import WIDTH, Block, _wide, tall, wrapped


def sheets(path: Path) -> list[tuple[float, float]]:
    """Width and height of each page, in points."""
    boxes = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", path.read_bytes())
    return [(float(width), float(height)) for width, height in boxes]


@pytest.fixture(scope="module")
def page() -> Page:
    """The one that was written as `book`."""
    return sample_page()


@pytest.fixture(scope="module")
def book(page, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.pdf"
    write_pdf(page, path)
    return path


def test_it_is_a_pdf_with_a_page_a_picture(book):
    data = book.read_bytes()
    assert data.startswith(b"%PDF")
    assert data.rstrip().endswith(b"%%EOF")
    assert len(sheets(book)) == 1 + 1 + 4  # title, claims, pictures
    assert re.search(rb"/Count 6\b", data)


def test_all_pages_have_the_shape_of_a4(book):
    for width, height in sheets(book):
        assert height / width == pytest.approx(297 / 210, rel=2e-3)
        assert width >= 595


def test_many_claims_take_many_pages(tmp_path):
    page = sample_page()
    claim = page.claims[1]
    many = tuple(dataclasses.replace(claim, name=f"claim-{at}") for at in range(60))
    section = dataclasses.replace(page.sections[0], figures=(), claims=many)
    write_pdf(dataclasses.replace(page, sections=(section,)), tmp_path / "many.pdf")
    assert 4 <= len(sheets(tmp_path / "many.pdf")) <= 8


@pytest.mark.usefixtures("book")
def test_figures_are_left_as_they_were(page):
    def measured(some: Page) -> list[tuple[int, tuple[float, ...]]]:
        figures = [exhibit.figure for part in some.sections for entry in part.figures for exhibit in entry.exhibits]
        return [(len(figure.texts), tuple(figure.get_size_inches())) for figure in figures]

    assert measured(page) == measured(sample_page())


def test_a_long_text_does_not_push_the_picture_off_its_page(tmp_path):
    page = sample_page()
    section = page.sections[2]
    entry = section.figures[0]
    exhibit = dataclasses.replace(entry.exhibits[0], provenance=("a line of some length",) * 200)
    wordy = dataclasses.replace(entry, says="many words " * 900, exhibits=(exhibit,))
    only = dataclasses.replace(page, sections=(dataclasses.replace(section, figures=(wordy,)),))
    write_pdf(only, tmp_path / "wordy.pdf")
    assert len(sheets(tmp_path / "wordy.pdf")) == 2
    assert all(width < 2 * 595 for width, _ in sheets(tmp_path / "wordy.pdf"))


def test_the_same_page_is_the_same_file(book, tmp_path):
    write_pdf(sample_page(), tmp_path / "again.pdf")
    assert (tmp_path / "again.pdf").read_bytes() == book.read_bytes()


def test_awkward_text_and_no_text_can_be_set(tmp_path):
    write_pdf(sample_page(nasty=True), tmp_path / "nasty.pdf")
    empty = Page(title="t", subtitle="s", scale="smoke", sections=(), made="2026-01-01", version="0")
    write_pdf(empty, tmp_path / "empty.pdf")
    assert len(sheets(tmp_path / "empty.pdf")) == 1


def test_lines_fit_and_no_word_is_lost():
    text = "a few words of several lengths, interspersed with averyveryverylongwordthatfitsnoline " * 3
    lines = wrapped(text, 1.0, 9.0)
    assert all(_wide(line, False, False) * 9.0 <= 72.0 for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert wrapped("", 1.0, 9.0) == []


def test_heights_add_up():
    one = Block(text="word", size=10.0, before=3.0, after=5.0)
    assert one.tall == pytest.approx((3 + 1.35 * 10 + 5) / 72)
    assert tall([one, one]) == pytest.approx(2 * one.tall)
    assert Block(text="word " * 100, size=10.0, width=WIDTH).tall > 5 * 1.35 * 10 / 72
