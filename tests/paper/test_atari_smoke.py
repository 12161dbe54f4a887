"""Two trainings on Frostbite, of seconds, from which every figure of Atari that has the game is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from svrl.paper.claim import Evidence
from svrl.paper.experiment import Experiment
from svrl.paper.experiments.atari_batch_size import EXPERIMENT as BATCH_SIZE
from svrl.paper.experiments.atari_diagnosis import EXPERIMENT as DIAGNOSIS
from svrl.paper.experiments.atari_learning import EXPERIMENT as LEARNING
from svrl.paper.experiments.atari_rank import EXPERIMENT as RANK
from svrl.paper.experiments.trainings import SMOKE, pairs
from svrl.paper.running import Computer
from svrl.paper.store import Store
from svrl.plots.style import save_figure

from .hand_made_trainings import series_of

pytest.importorskip("ale_py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    store, cells = Store(root=tmp_path_factory.mktemp("store")), pairs(SMOKE, ("frostbite",))
    Computer(store=store).compute(cells)
    kept = [store.read(cell) for cell in cells]
    return Evidence(scale="smoke", words="", cells=tuple(each for each in kept if each is not None))


def test_the_trainings_are_those_of_the_budgets(trained: Evidence):
    assert [kept.settings["arm"] for kept in trained.cells] == ["dqn", "sv-dqn"]
    keys = {cell.key for cell in pairs(SMOKE, ("frostbite",))}
    for experiment in (LEARNING, DIAGNOSIS, BATCH_SIZE):
        assert keys <= {cell.key for cell in experiment.budgets["smoke"].cells}


@pytest.mark.parametrize(
    ("experiment", "figure", "series"),
    [
        (RANK, "fig4", {"histogram", "cumulative"}),
        (LEARNING, "fig6", {"plain", "structured"}),
        (LEARNING, "fig24", {"plain", "structured"}),
        (DIAGNOSIS, "fig7", {"plain", "structured"}),
        (BATCH_SIZE, "fig30", {"plain", "structured"}),
    ],
)
def test_every_figure_is_drawn(
    trained: Evidence, tmp_path: Path, experiment: Experiment, figure: str, series: set[str]
):
    picture = experiment.draw(figure, trained)
    save_figure(picture, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size < 200_000
    assert series <= series_of(picture)
    assert "This budget has 1 of" in experiment.got(figure, trained)
