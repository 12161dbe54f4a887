from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from tests.reporting.page.sample_page import curves, heat_map, toy

from svrl.plots.style import MISSING, STYLE, tag
from svrl.reporting.page.svg import inline_svg, svg_file


def inlined(figure: Figure, prefix: str = "one-") -> ElementTree.Element:
    """What a page would hold, which must be well formed even without namespaces."""
    return ElementTree.fromstring(inline_svg(figure, prefix=prefix, title="a title").markup)


def plot(**look: object) -> Figure:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2, 2), layout="constrained")
        figure.subplots().plot([0, 1], [0, 1], **look)
    return figure


def paints(root: ElementTree.Element) -> str:
    """All that says a colour."""
    return " ".join(element.get(name, "") for element in root.iter() for name in ("style", "fill", "stroke"))


def test_black_becomes_ink_and_colours_stay():
    before = svg_file(curves())
    assert "#000000" in before  # or the test below would say nothing
    root = inlined(curves())
    assert not re.search(r"#000|black", paints(root))
    assert root.get("fill") == "currentColor"  # letters have no fill of their own
    assert "stroke: currentColor" in paints(root)
    assert {"#0072b2", "#d55e00"} <= set(re.findall(r"#[0-9a-f]{6}", paints(root)))


@pytest.mark.parametrize(
    ("colour", "becomes"),
    [
        ("#333333", "currentColor"),
        ("0.3", "currentColor"),
        ("#8A8A8A", "#8a8a8a"),
        ("#333344", "#333344"),
        ("#001000", "#001000"),
    ],
)
def test_dark_greys_are_ink_and_dark_colours_are_not(colour, becomes):
    figure = plot(color=colour, gid="line")
    line = next(group for group in inlined(figure).iter("g") if group.get("id") == "one-line")
    assert f"stroke: {becomes};" in paints(line)


def test_letters_without_a_colour_inherit_the_ink():
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2, 1))
        figure.text(0.1, 0.5, "word", color="black", gid="word")
    root = inlined(figure)
    word = next(group for group in root.iter("g") if group.get("id") == "one-word")
    painted = [element for element in word.iter() if "fill" in element.get("style", "") or element.get("fill")]
    assert all("currentColor" in (element.get("style") or element.get("fill", "")) for element in painted)


def test_white_ground_is_left_out():
    figure = plot(color="black")
    assert svg_file(figure).count("fill: #ffffff") == 2  # the figure's and the panel's
    root = inlined(figure)
    grounds = [group for group in root.iter("g") if re.fullmatch(r"one-patch_[12]", group.get("id", ""))]
    assert len(grounds) == 2
    for ground in grounds:
        assert [path.get("style") for path in ground.iter("path")] == ["fill: none"]


def test_a_coloured_ground_stays():
    figure = plot()
    figure.axes[0].set_facecolor(MISSING)
    assert f"fill: {MISSING.lower()}" in paints(inlined(figure))


def test_white_markers_take_the_colour_of_the_page_and_white_letters_stay():
    figure = toy()
    figure.axes[0].text(1, 0.5, "on a dark map", color="white", gid="on-a-map")
    root = inlined(figure)
    assert "fill: var(--paper, #ffffff)" in paints(root)
    letters = next(group for group in root.iter("g") if group.get("id") == "one-on-a-map")
    assert "fill: #ffffff" in paints(letters)
    assert "--paper" not in paints(letters)


def test_ids_and_references_have_the_prefix_and_meet():
    for figure in (curves(), heat_map(), toy()):
        root = inlined(figure)
        ids = [element.get("id") for element in root.iter() if element.get("id")]
        assert len(ids) == len(set(ids))
        assert all(name.startswith("one-") for name in ids)
        text = ElementTree.tostring(root, encoding="unicode")
        wanted = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', text)
        assert wanted
        assert {one or other for one, other in wanted} <= set(ids)


def test_pictures_stay_inside():
    links = [element.get("href", "") for element in inlined(heat_map()).iter("image")]
    assert links
    assert all(link.startswith("data:image/png;base64,") for link in links)


def test_series_are_marked_named_and_coloured():
    picture = inline_svg(curves(("DQN", "SV-DQN (ours), p = .2")), prefix="x-", title="")
    assert [(one.name, one.label, one.colour) for one in picture.series] == [
        ("dqn", "DQN", "#0072b2"),
        ("sv-dqn-ours-p-2", "SV-DQN (ours), p = .2", "#d55e00"),
    ]
    root = ElementTree.fromstring(picture.markup)
    parts = [element for element in root.iter() if element.get("data-series") == "dqn"]
    assert len(parts) == 4  # a line and a band in two panels
    assert "series--" not in picture.markup


def test_a_series_that_nothing_names_has_its_own_words():
    figure = plot(color="#123456")
    tag(figure.axes[0].get_lines(), "Two Words")
    assert [one.label for one in inline_svg(figure, prefix="", title="").series] == ["two words"]


def test_there_is_a_title_for_those_who_cannot_see_it():
    root = ElementTree.fromstring(inline_svg(plot(), prefix="x-", title="<Figure> & 3").markup)
    assert root.get("role") == "img"
    first = root[0]
    assert (first.tag, first.text, first.get("id")) == ("title", "<Figure> & 3", root.get("aria-labelledby"))


def test_the_size_is_left_to_the_page():
    picture = inline_svg(plot(), prefix="x-", title="")
    root = ElementTree.fromstring(picture.markup)
    assert root.get("width") is None
    assert root.get("height") is None
    assert float(root.get("viewBox", "").split()[2]) == picture.width > 0


def test_no_style_leaks_into_the_page():
    # matplotlib writes a rule for every element, which would hold for the whole document.
    assert "<style" in svg_file(curves())
    assert not [element for element in inlined(curves()).iter() if element.tag in ("style", "metadata", "script")]


def test_the_same_figure_is_the_same_text():
    assert inline_svg(curves(), prefix="x-", title="t") == inline_svg(curves(), prefix="x-", title="t")
    figure = heat_map()
    assert svg_file(figure) == svg_file(figure)
    assert "<dc:date>" not in svg_file(figure)
