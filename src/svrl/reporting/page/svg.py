"""A matplotlib figure as SVG that can stand in the text of a page, on light and on dark ground.

What is changed after matplotlib has written it:
- Ground: white behind the figure and its panels is left out; other white becomes the colour of the page,
  white letters stay white. Panels with a colour of their own keep it.
- Ink: black, said or by default, and greys nearly as dark become `currentColor`. Other colours stay, so whoever
  writes on a coloured ground that stays the same in the dark takes a dark colour that is no grey.
- Ids and references to them get a prefix, because several figures share one document.
- Series: an id made by `svrl.plots.style.tag` becomes data-series="NAME", which may repeat.
- Size: the viewBox alone; outlines are shortened.
- Dates are left out: the same figure is the same text.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.text import Text

from svrl.plots.style import PREFIX, STYLE, tag
from svrl.reporting.page.layout import settle
from svrl.reporting.page.svg_path import short_path

INK = "currentColor"
PAPER = "var(--paper, #ffffff)"
_WHITE = re.compile(r"#fff(?:fff)?\b|\bwhite\b")
# Up to #5f5f5f, which could not be read on dark ground.
_BLACK = re.compile(r"#([0-5])\1\1\b|#([0-5][0-9a-f])\2\2\b|\bblack\b")


@dataclass(frozen=True, kw_only=True)
class Series:
    """Parts of a figure that are shown and hidden together.

    Attributes:
        name: As in data-series.
        label: As the legend has it.
        colour: Of its first stroke or area.
    """

    name: str
    label: str
    colour: str


@dataclass(frozen=True, kw_only=True)
class InlineSvg:
    """A figure to be put into a page.

    Attributes:
        markup: The svg element.
        series: In the order they are drawn.
        width: In points, as matplotlib has it.
    """

    markup: str
    series: tuple[Series, ...]
    width: float


def svg_file(figure: Figure) -> str:
    """The figure as a file of its own: white ground, no date."""
    settle(figure)
    text = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def inline_svg(figure: Figure, *, prefix: str, title: str) -> InlineSvg:
    """The figure as an element of a page.

    Args:
        figure: Drawn by matplotlib.
        prefix: Unique in the page; all ids begin with it.
        title: What a screen reader says.
    """
    root = ElementTree.fromstring(svg_file(figure))
    _without_namespaces(root)
    _clear_ground(root)
    _recolour(root)
    names = _series_from_ids(root)
    _prefix_ids(root, prefix)
    for path in root.iter("path"):
        path.set("d", short_path(path.get("d", "")))
    width = float(root.attrib["viewBox"].split()[2])
    _dress(root, prefix, title, width)
    labels = _labels(figure)
    series = tuple(
        Series(name=name, label=labels.get(name, name.replace("-", " ")), colour=colour)
        for name, colour in names.items()
    )
    return InlineSvg(markup=ElementTree.tostring(root, encoding="unicode"), series=series, width=width)


def _without_namespaces(root: ElementTree.Element) -> None:
    """Tags and attributes as HTML has them; what is only for other readers goes."""
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        for name in list(element.attrib):
            if "}" in name:
                element.attrib[name.rpartition("}")[2]] = element.attrib.pop(name)
        if element.text and not element.text.strip():
            element.text = None
        element.tail = None


def _clear_ground(root: ElementTree.Element) -> None:
    """The first patch of the figure and of each panel is its ground; where it is white, nothing is painted."""
    for group in root.iter("g"):
        if not re.match(r"(figure|axes)_\d+$", group.get("id", "")):
            continue
        ground = group.find("g")
        if ground is not None and ground.get("id", "").startswith("patch_"):
            for path in ground.iter("path"):
                path.set("style", re.sub(r"fill: #ffffff", "fill: none", path.get("style", "")))


def _recolour(root: ElementTree.Element) -> None:
    for element in root.iter():
        for name in ("style", "fill", "stroke"):
            value = element.get(name)
            if value is None:
                continue
            value = _BLACK.sub(INK, value)
            element.set(name, value if element.tag == "g" else _WHITE.sub(PAPER, value))


def _series_from_ids(root: ElementTree.Element) -> dict[str, str]:
    """Mark series by an attribute instead of an id; their colours by name."""
    found: dict[str, str] = {}
    for element in root.iter():
        name = element.get("id", "")
        if name.startswith(PREFIX):
            del element.attrib["id"]
            name = name.removeprefix(PREFIX)
            element.set("data-series", name)
            colour = _first_colour(element)
            if found.get(name, INK) == INK:
                found[name] = colour
    return found


def _first_colour(element: ElementTree.Element) -> str:
    for part in element.iter():
        for kind in ("stroke", "fill"):
            match = re.search(rf"\b{kind}: (#[0-9a-f]+)", part.get("style", ""))
            if match:
                return match[1]
    return INK


def _prefix_ids(root: ElementTree.Element, prefix: str) -> None:
    for element in root.iter():
        for name, value in element.attrib.items():
            if name == "id":
                element.set(name, prefix + value)
            elif name == "href" and value.startswith("#"):
                element.set(name, f"#{prefix}{value[1:]}")
            elif "url(#" in value:
                element.set(name, value.replace("url(#", f"url(#{prefix}"))


def _dress(root: ElementTree.Element, prefix: str, title: str, width: float) -> None:
    """The attributes of the element itself, in an order that does not depend on matplotlib's."""
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update(
        {
            "viewBox": box,
            "role": "img",
            "aria-labelledby": f"{prefix}title",
            "fill": INK,
            "stroke-linejoin": "round",
            "style": f"--points: {width:.0f}",
        }
    )
    words = ElementTree.Element("title", {"id": f"{prefix}title"})
    words.text = title
    root.insert(0, words)


def _labels(figure: Figure) -> dict[str, str]:
    """Names of series to what the figure itself calls them, in a legend or beside a curve."""
    found: dict[str, str] = {}
    for artist in figure.findobj(Artist):
        words = artist.get_text() if isinstance(artist, Text) else str(artist.get_label())
        if words and not words.startswith("_"):
            found.setdefault(_name(words), re.sub(r"[$\\{}]", "", words))
    return found


def _name(words: str) -> str:
    probe = Artist()
    tag(probe, words)
    return str(probe.get_gid()).removeprefix(PREFIX)
