from __future__ import annotations

import re

import numpy as np
import pytest

from svrl.reporting.page.svg_path import short_path

NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)")


def corners(outline: str) -> list[tuple[float, float]]:
    """The points of straight lines, by the rules of SVG: M is absolute, l relative, z returns."""
    found: list[tuple[float, float]] = []
    here = start = (0.0, 0.0)
    for letter, rest in re.findall(r"([MLlz])([^MLlz]*)", outline):
        numbers = [float(word) for word in NUMBER.findall(rest)]
        for x, y in zip(numbers[::2], numbers[1::2], strict=True):
            here = (here[0] + x, here[1] + y) if letter == "l" else (x, y)
            found.append(here)
            start = here if letter == "M" else start
        here = start if letter == "z" else here
    return found


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("M 10 20 \nL 10.5 19.75 \n", "M10 20l.5-.25"),
        ("M 10 20 \nL 9.5 20.75 \nL 9 21 \n", "M10 20l-.5 .75-.5 .25"),
        ("M 0 0 \nL 12 0.001 \nz\nM 1 1 \nL 2 2 \n", "M0 0l12 0zM1 1l1 1"),
        ("M 1.23456 2 \nQ 3.00001 4 -5.678 6 \nz\n", "M 1.23 2 Q 3 4 -5.68 6 z"),
        ("", ""),
    ],
)
def test_outlines_by_hand(long, short):
    assert short_path(long) == short


def test_errors_do_not_add_up():
    rng = np.random.default_rng(0)
    points = 500 * rng.standard_normal((2000, 2)).round(6)
    pieces = [f"{'M' if at % 50 == 0 else 'L'} {x:f} {y:f} \n" for at, (x, y) in enumerate(points)]
    pieces.insert(50, "z\n")
    short = short_path("".join(pieces))
    assert len(short) < 0.75 * len("".join(pieces))
    assert np.abs(np.array(corners(short)) - points).max() <= 0.005 + 1e-8
