from __future__ import annotations

import csv
from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from svrl.cli.plan_request import PlanRequest, grid_shape
from svrl.sweeps.grid import runs_of
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.settings import spec_of
from svrl.sweeps.sweep_file import read_sweep, shipped


def games_of_the_paper() -> set[str]:
    """Those whose double and dueling agents have a label in the table of games."""
    with (resources.files("svrl.envs") / "atari57.csv").open(encoding="utf-8") as file:
        return {f"atari/{row['game']}" for row in csv.DictReader(file) if row["paper_double"] and row["paper_dueling"]}


def test_paper_57_is_57_games_and_16_of_them_with_more_agents():
    specs = runs_of(read_sweep("paper-57"))
    assert len(specs) == len({spec.id for spec in specs}) == 57 * 2 * 3 + 16 * 2 * 2 * 3 == 534
    arms = Counter(spec.arm for spec in specs)
    assert arms == {"dqn": 171, "sv-dqn": 171, "double": 48, "sv-double": 48, "dueling": 48, "sv-dueling": 48}
    assert {spec.subject for spec in specs if spec.arm == "sv-dueling"} == games_of_the_paper()
    assert len(games_of_the_paper()) == 16
    assert len({spec.subject for spec in specs}) == 57
    assert {spec.seed for spec in specs} == {0, 1, 2}
    assert {spec.device for spec in specs} == {"cuda"}


def test_the_smoke_test_that_paper_57_names_is_57_games_in_two_arms():
    specs = runs_of(read_sweep("paper-57"), changes={"preset": "smoke"}, where={"agent": ["dqn"], "seed": [0]})
    assert len(specs) == 57 * 2


def test_batch_size_is_36_runs():
    specs = runs_of(read_sweep("batch-size"))
    assert len(specs) == 2 * 2 * 3 * 3 == 36
    assert Counter(spec.full["batch_size"] for spec in specs) == {32: 12, 64: 12, 128: 12}
    assert {spec.subject for spec in specs} == {"atari/frostbite", "atari/seaquest"}
    paper = {spec.id for spec in runs_of(read_sweep("paper-57"))}
    assert sum(spec.id in paper for spec in specs) == 12, "batches of 32 are the paper's own runs, done once"


def test_paper_control_is_four_tasks_two_methods_and_the_optimum():
    specs = runs_of(read_sweep("paper-control"))
    assert Counter((spec.subject, spec.arm) for spec in specs) == {
        **{(task, arm): 25 for task in THREE for arm in ("paper-svp", "svp")},
        **{("cart-pole", arm): 5 for arm in ("paper-svp", "svp")},
        **{(task, "value-iteration"): 1 for task in (*THREE, "cart-pole")},
    }


THREE = ("inverted-pendulum", "mountain-car", "double-integrator")


def accepted(svrl, spec: RunSpec, folder: Path) -> None:
    """The command line takes the words, and comes to the folder, which is a file."""
    result = svrl(*spec.argv(folder, resume=False, threads=1))
    assert result.exit_code == 2, (spec.label, result.stderr)
    assert "No such option" not in result.stderr
    assert str(folder) in result.stderr, (spec.label, result.stderr)


@pytest.mark.parametrize("name", shipped())
def test_the_command_line_takes_every_kind_of_run(svrl, tmp_path, name):
    specs = runs_of(read_sweep(name), changes={"device": "cpu"})
    file = tmp_path / "file"
    file.write_text("")
    for spec in {(spec.arm, spec.kind): spec for spec in specs}.values():
        accepted(svrl, spec, file)


def test_the_command_line_takes_every_setting(svrl, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    structured = {"env": "CartPole-v1", "seed": 0, "structured": True}
    changed = {name: value for name, value in spec_of("train", structured).full.items() if value is not None}
    for name in ("env", "device", "precision"):
        del changed[name]
    accepted(svrl, spec_of("train", {"env": "CartPole-v1", **changed}), file)
    plan = {"task": "inverted-pendulum", "states": "5x5", "actions": 3, "variant": "authors", "final_sweep": False}
    accepted(svrl, spec_of("plan", {**plan, "compare": True, "backup_cost": 1.5, "noise": 0.1, "starts": 5}), file)


def test_plans_that_are_shipped_are_requests_that_a_plan_accepts():
    for spec in runs_of(read_sweep("paper-control")):
        request = PlanRequest(task=spec.subject, **{k: v for k, v in spec.full.items() if k != "task"})
        assert request.seed == spec.seed
        if request.states is not None:
            grid_shape(request.states, 4 if spec.subject == "cart-pole" else 2)
