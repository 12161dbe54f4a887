from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.optimize import minimize

from svrl.plots.style import name_points, spread, svg_text, tag


def test_places_that_collide_make_room_to_both_sides_and_others_stay() -> None:
    assert np.array_equal(spread(np.array([3.0, -1.0, 1.0]), 1.0), [3.0, -1.0, 1.0])
    assert spread(np.array([0.0, 0.0, 5.0, 0.0]), 1.0) == pytest.approx([-1.0, 0.0, 5.0, 1.0])


@pytest.mark.parametrize("seed", range(5))
def test_nobody_is_moved_further_than_needed(seed: int) -> None:
    at = np.random.default_rng(seed).normal(size=6)
    found = spread(at, 0.5)
    order = np.argsort(at)
    apart = [{"type": "ineq", "fun": lambda x, i=i, j=j: x[j] - x[i] - 0.5} for i, j in pairwise(order)]
    best = minimize(lambda x: ((x - at) ** 2).sum(), found + 0.1, constraints=apart, tol=1e-12).x
    assert np.diff(found[order]).min() >= 0.5 - 1e-12
    assert found == pytest.approx(best, abs=1e-5)


def test_names_of_points_do_not_cover_each_other() -> None:
    figure = Figure(figsize=(3.0, 3.0))
    panel = figure.subplots()
    panel.set(xlim=(0, 10), ylim=(-1, 1))
    name_points(panel, np.ones(5), np.array([0.01, 0.0, -0.02, 0.9, 0.0]), list("abcde"), height=2.3)
    figure.draw_without_rendering()
    # an annotation reaches to its point, its text does not
    boxes = sorted((Text.get_window_extent(text) for text in panel.texts), key=lambda box: box.y0)
    assert all(lower.y1 <= upper.y0 + 1 for lower, upper in pairwise(boxes))


def test_the_same_figure_is_the_same_svg_and_series_are_named() -> None:
    figure = Figure(layout="constrained")
    tag(figure.subplots().plot([0, 1], label="SV-DQN, p = 0.2"), "SV-DQN, p = 0.2")
    text = svg_text(figure)
    assert text == svg_text(figure)
    assert 'id="series--sv-dqn-p-0-2"' in text
    assert "<dc:date>" not in text
