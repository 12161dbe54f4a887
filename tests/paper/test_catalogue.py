from __future__ import annotations

import re

import pytest

from svrl.paper.catalogue import FIGURES, chosen, experiment_names, load_all
from svrl.paper.experiment import SCALES

PAPER = [f"fig{number}" for number in range(1, 31)]
EXPERIMENTS = load_all()


def test_every_figure_and_table_of_the_paper_once():
    ids = [figure.id for figure in FIGURES]
    assert sorted(ids) == sorted(set(ids))
    assert [name for name in ids if name.startswith("fig")] == PAPER
    assert "table1" in ids


def test_every_figure_and_table_has_a_claim():
    claimed = {claim.figure for experiment in EXPERIMENTS for claim in experiment.claims}
    assert set(PAPER) - {"fig2", "fig5"} | {"table1"} <= claimed  # those two are diagrams


def test_claims_are_named_once_and_belong_to_known_figures():
    names = [claim.name for experiment in EXPERIMENTS for claim in experiment.claims]
    assert sorted(names) == sorted(set(names))
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", name) for name in names), "each is an address in the page"
    ids = {figure.id for figure in FIGURES}
    for experiment in EXPERIMENTS:
        for claim in experiment.claims:
            assert claim.figure in ids, claim.name
            assert all((claim.says, claim.paper, claim.test)), claim.name
            ours = next(figure for figure in FIGURES if figure.id == claim.figure).is_addition
            assert bool(claim.section) != ours, claim.name


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_an_experiment_fits_the_map(experiment):
    mine = [figure.id for figure in FIGURES if figure.experiment == experiment.name]
    assert set(experiment.says) == set(mine)
    assert set(SCALES) <= set(experiment.budgets)
    for name, budget in experiment.budgets.items():
        assert budget.runs or experiment.name == "diagrams", name
        assert budget.words, name
        keys = [run.id for run in budget.runs]
        assert len(keys) == len(set(keys)), f"{experiment.name} asks for a run twice at {name}"
        for run in budget.runs:
            assert isinstance(run.settings, dict)
    for claim in experiment.claims:
        assert claim.printed or set(claim.scales) & set(experiment.budgets), claim.name


def test_kinds_are_told_apart_by_name():
    runs = [run for experiment in EXPERIMENTS for budget in experiment.budgets.values() for run in budget.runs]
    kinds = list({id(run.kind): run.kind for run in runs}.values())
    assert len({kind.name for kind in kinds}) == len(set(kinds))


@pytest.mark.parametrize(
    ("name", "found"),
    [("fig3", ["fig3"]), ("3", ["fig3"]), ("Figure 3", ["fig3"]), ("Table1", ["table1"]), ("toy-rank", ["fig1"])],
)
def test_figures_have_several_names(name, found):
    assert [figure.id for figure in chosen([name])] == found


def test_no_name_is_all_of_them():
    assert chosen([]) == chosen(["all"]) == list(FIGURES)
    assert [figure.id for figure in chosen(["fig9", "fig1", "9"])] == ["fig1", "fig9"]
    assert {figure.experiment for figure in chosen(experiment_names())} == set(experiment_names())


def test_a_wrong_name_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match=r"'fgi3'. Did you mean fig3"):
        chosen(["fgi3"])
    with pytest.raises(ValueError, match="fig1 to fig30"):
        chosen(["zebra"])
