"""What a figure's file adds to its picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from svrl.paper.catalogue import FIGURES, load_experiment
from svrl.paper.page import caption, write_figure
from svrl.paper.table import committed_table


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
