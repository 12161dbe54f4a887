from __future__ import annotations

import numpy as np

from svrl.reporting.terminal import heat_map


def test_without_colour_more_is_more_ink_and_missing_is_blank():
    matrix = np.array([[0.0, 0.5, 1.0, np.nan]] * 2)
    assert heat_map(matrix, low=0, high=1, colour=False).plain.rstrip("\n") == ".+@ ".rstrip()


def test_with_colour_two_rows_share_a_line():
    text = heat_map(np.random.default_rng(0).random((5, 7)), low=0, high=1)
    lines = text.plain.split("\n")
    assert len(lines) == 3
    assert all(len(line) == 7 for line in lines)


def test_large_matrices_are_thinned():
    lines = heat_map(np.zeros((500, 300)), low=0, high=1, width=20, height=10).plain.split("\n")
    assert len(lines) == 5
    assert len(lines[0]) == 20
