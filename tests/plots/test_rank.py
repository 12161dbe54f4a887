from __future__ import annotations

import numpy as np
import pytest

from svrl.plots.rank import draw_ranks

STUDY = {"energy": 0.99, "batch_size": 32, "histogram": [0, 30, 10, 0], "row_centred_histogram": [0, 10, 10, 20]}


def test_bars_are_shares_and_steps_their_sums():
    figure = draw_ranks(STUDY)
    bars, steps = figure.axes
    heights = [patch.get_height() for patch in bars.patches]
    assert heights == pytest.approx([0, 0.75, 0.25, 0, 0, 0.25, 0.25, 0.5])
    plain, centred = steps.get_lines()
    np.testing.assert_allclose(plain.get_ydata(), [0, 0.75, 1, 1])
    np.testing.assert_allclose(centred.get_ydata(), [0, 0.25, 0.5, 1])
    assert [text.get_text() for text in bars.get_legend().get_texts()] == ["as it is", "rows centred"]
    assert "0.99" in bars.get_xlabel()
    assert "32" in bars.get_title(loc="left")
