from __future__ import annotations

from typing import Any

import pytest

from svrl.runs.grid import chosen, runs_of
from svrl.runs.spec import RunSpec
from svrl.runs.sweep_file import parse_sweep


def runs(text: str, **more: Any) -> list[RunSpec]:
    return runs_of(parse_sweep(text, "trial"), **more)


def told(specs: list[RunSpec], *names: str) -> list[tuple[Any, ...]]:
    values = {"arm": lambda spec: spec.arm, "env": lambda spec: spec.subject, "task": lambda spec: spec.subject}
    return [tuple(values[name](spec) if name in values else spec.settings[name] for name in names) for spec in specs]


TWO_BY_TWO = '[fixed]\npreset = "smoke"\n[axes]\nenv = "CartPole-v1"\narm = ["dqn", "sv-dqn"]\nseeds = 2\n'


def test_every_combination_is_a_run_in_the_order_of_the_file():
    assert told(runs(TWO_BY_TWO), "arm", "seed") == [("dqn", 0), ("dqn", 1), ("sv-dqn", 0), ("sv-dqn", 1)]
    swapped = '[axes]\nseed = [3, 1]\nenv = ["CartPole-v1", "Acrobot-v1"]'
    assert told(runs(swapped), "seed", "env") == [
        (3, "CartPole-v1"),
        (3, "Acrobot-v1"),
        (1, "CartPole-v1"),
        (1, "Acrobot-v1"),
    ]


def test_fixed_settings_and_the_budget_are_every_run_s():
    specs = runs(TWO_BY_TWO + "[budget]\nsteps = 70\n")
    assert {spec.steps for spec in specs} == {70}
    assert {spec.settings["steps"] for spec in specs} == {70}
    assert {spec.settings["preset"] for spec in specs} == {"smoke"}
    plans = runs('kind = "plan"\n[axes]\ntask = "toy"\n[budget]\nsteps = 7')
    assert (plans[0].settings["iterations"], plans[0].steps) == (7, 7)


def test_included_grids_take_the_place_of_axes_and_no_run_comes_twice():
    specs = runs(TWO_BY_TWO + '[[include]]\narm = ["double", "dqn"]\n')
    assert told(specs, "arm", "seed") == [
        ("dqn", 0),
        ("dqn", 1),
        ("sv-dqn", 0),
        ("sv-dqn", 1),
        ("double", 0),
        ("double", 1),
    ]
    agents = runs(TWO_BY_TWO + '[[include]]\nagent = "dueling"\nstructured = [false, true]\n')
    assert told(agents, "arm")[4:] == [("dueling",), ("dueling",), ("sv-dueling",), ("sv-dueling",)]


def test_exclude_leaves_out_runs_in_which_everything_holds():
    text = TWO_BY_TWO + '[[exclude]]\narm = "sv-dqn"\nseed = [1, 2]\n'
    assert told(runs(text), "arm", "seed") == [("dqn", 0), ("dqn", 1), ("sv-dqn", 0)]
    both = text + "[[exclude]]\nseed = 0\n"
    assert told(runs(both), "arm", "seed") == [("dqn", 1)]
    with pytest.raises(ValueError, match="no setting 'sed'"):
        runs(TWO_BY_TWO + "[[exclude]]\nsed = 0\n")
    with pytest.raises(ValueError, match="trial has no run"):
        runs(TWO_BY_TWO + '[[exclude]]\nenv = "Cart*"\n')


def test_where_keeps_runs_and_changes_change_all():
    assert told(runs(TWO_BY_TWO, where={"arm": ["sv-*"], "seed": [1]}), "arm", "seed") == [("sv-dqn", 1)]
    assert told(runs(TWO_BY_TWO, where={"agent": ["dqn"], "structured": [False]}), "seed") == [(0,), (1,)]
    assert len(runs(TWO_BY_TWO, where={"structured": [True]})) == 2
    with pytest.raises(ValueError, match="has no run with structured=1"):
        runs(TWO_BY_TWO, where={"structured": [1]})  # 1 is not true
    changed = runs(TWO_BY_TWO, changes={"batch_size": 5, "seed": 9})
    assert told(changed, "arm", "batch_size", "seed") == [("dqn", 5, 9), ("sv-dqn", 5, 9)]
    assert told(runs(TWO_BY_TWO, changes={"arm": "double"}), "arm", "seed") == [("double", 0), ("double", 1)]
    with pytest.raises(ValueError, match="Did you mean batch_size"):
        runs(TWO_BY_TWO, changes={"batch_sise": 5})
    with pytest.raises(ValueError, match="has no run with seed=5 or 6"):
        runs(TWO_BY_TWO, where={"seed": [5, 6]})


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ({"seed": [5]}, "The sweep trial has no run with seed=5. seed is 0 or 1."),
        ({"seed": [5, 6]}, "The sweep trial has no run with seed=5 or 6. seed is 0 or 1."),
        (
            {"arm": ["sv-dqm"]},
            "The sweep trial has no run with arm=sv-dqm. Did you mean sv-dqn? arm is dqn or sv-dqn.",
        ),
        ({"hidden": ["9x9"]}, "The sweep trial has no run with hidden=9x9. hidden is 64."),
        ({"preset": ["short"]}, "The sweep trial has no run with preset=short. preset is smoke."),
        (
            {"seed": [0], "arm": ["double"], "env": ["A*"]},
            "The sweep trial has no run with seed=0, arm=double, env=A*. arm is dqn or sv-dqn. env is CartPole-v1.",
        ),
    ],
)
def test_what_matches_nothing_is_answered_with_what_there_is(where, sentence):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        runs(TWO_BY_TWO, where=where)
    assert str(raised.value) == sentence


def test_values_that_do_not_come_together_are_told_apart_from_those_that_are_not_there():
    text = TWO_BY_TWO + '[[exclude]]\narm = "sv-dqn"\nseed = 1\n'
    with pytest.raises(ValueError, match=r"arm=sv-dqn, seed=1\. Some have each, and none has all of them\."):
        runs(text, where={"arm": ["sv-dqn"], "seed": [1]})


def test_an_unknown_name_is_answered_with_the_names_there_are():
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        runs(TWO_BY_TWO, where={"seed": [77], "sed": [0]})  # the first matches nothing, and the second is told
    said = str(raised.value)
    assert said.startswith("runs of svrl train have no setting 'sed'. Did you mean seed? They have env, arm, seed, ")
    for name in ("preset", "batch_size", "learning_rate", "observe", "device"):
        assert name in said
    with pytest.raises(ValueError, match=r"svrl plan have no setting 'arn'\. .* They have task, arm, seed, .*method"):
        runs('kind = "plan"\n[axes]\ntask = "toy"', where={"arn": ["svp"]})


@pytest.mark.parametrize("half", [0.5, "0.5", "0.50", ".5", "5e-1", "+0.5"])
@pytest.mark.parametrize("million", [1_000_000, 1e6, "1e6", "1000000", "1000000.0"])
def test_numbers_are_compared_as_numbers(half, million):
    text = '[fixed]\nsteps = 1_000_000\n[axes]\nenv = "CartPole-v1"\narm = "sv-dqn"\nobserve = [0.5, 0.7]\n'
    assert told(runs(text, where={"observe": [half], "steps": [million]}), "observe") == [(0.5,)]


def test_a_value_beside_others_that_matches_nothing_is_noted():
    specs = runs(TWO_BY_TWO + '[[exclude]]\narm = "sv-dqn"\nseed = 1\n')
    found, notes = chosen("trial", specs, {"seed": [0, 99]})
    assert told(found, "arm", "seed") == [("dqn", 0), ("sv-dqn", 0)]
    assert notes == ["Note: none of these runs has seed=99. seed is 0 or 1."]
    found, notes = chosen("trial", specs, {"arm": ["sv-*"], "seed": [0, 1]})
    assert told(found, "arm", "seed") == [("sv-dqn", 0)]
    assert notes == ["Note: none of these runs has seed=1. seed is 0 or 1."]
    assert chosen("trial", specs, {"seed": [0, 1], "env": ["Cart*"]})[1] == []


def test_runs_are_found_by_the_preset_of_their_family():
    specs = runs('[axes]\nenv = ["CartPole-v1", "minatar/asterix"]')
    assert told(chosen("trial", specs, {"preset": ["minatar"]})[0], "env") == [("minatar/asterix",)]


def test_wildcards_stand_for_environments_and_tasks():
    games = runs('[axes]\nenv = "atari/*"')
    assert len(games) == 57
    assert all(spec.subject.startswith("atari/") for spec in games)
    some = runs('[axes]\nenv = ["minatar/*", "atari/p*", "CartPole-v1"]')
    names = [spec.subject for spec in some]
    assert names[-1] == "CartPole-v1"
    assert "atari/pong" in names
    assert sum(name.startswith("minatar/") for name in names) == 5
    tasks = {spec.subject for spec in runs('kind = "plan"\n[axes]\ntask = "*"')}
    assert {"toy", "inverted-pendulum", "mountain-car", "double-integrator", "cart-pole"} <= tasks


def test_the_plain_arm_of_a_grid_over_p_is_one_run():
    text = '[axes]\nenv = "CartPole-v1"\narm = ["dqn", "sv-dqn"]\np = [0.5, 0.7, 0.9]\n'
    assert [(spec.arm, spec.given.get("observe")) for spec in runs(text)] == [
        ("dqn", None),
        ("sv-dqn", 0.5),
        ("sv-dqn", 0.7),
        ("sv-dqn", 0.9),
    ]
    assert [spec.id for spec in runs(text)] == [spec.id for spec in runs(text.replace("p =", "observe ="))]


def test_methods_that_do_not_take_an_option_are_one_run():
    text = 'kind = "plan"\n[axes]\ntask = "toy"\nmethod = ["svp", "value-iteration"]\nobserve = [0.2, 0.4]\n'
    assert told(runs(text), "method", "observe") == [("svp", 0.2), ("svp", 0.4), ("value-iteration", None)]
    final = 'kind = "plan"\n[axes]\ntask = "toy"\nmethod = "value-iteration"\nrank = [1, 2]\nfinal_sweep = true\n'
    assert len(runs(final)) == 1


GRIDS = 'kind = "plan"\n[axes]\ntask = "mountain-car"\nstates = ["10x10", 100, [10, 10], 2500, "20x20"]\n'


def test_one_grid_written_in_three_ways_is_one_run():
    assert told(runs(GRIDS), "states") == [("10x10",), ("50x50",), ("20x20",)]


@pytest.mark.parametrize("wanted", ["10x10", "100", 100, [10, 10]])
def test_a_grid_is_found_however_it_is_written(wanted):
    assert told(runs(GRIDS, where={"states": [wanted]}), "states") == [("10x10",)]
    left = runs(GRIDS + f"[[exclude]]\nstates = [{wanted!r}]\n")
    assert told(left, "states") == [("50x50",), ("20x20",)]


def test_runs_are_found_by_what_their_methods_have_by_themselves():
    text = 'kind = "plan"\n[axes]\ntask = "toy"\nmethod = ["svp", "value-iteration"]\n'
    assert told(runs(text, where={"observe": [0.2], "estimator": ["factor-*"]}), "method") == [("svp",)]
    widths = '[axes]\nenv = "CartPole-v1"\nhidden = ["8x4", "9"]\n'
    assert told(runs(widths, where={"hidden": ["8,4"]}), "hidden") == [([8, 4],)]


@pytest.mark.parametrize(
    "axes", ["seeds = 1_000_000_000_000", "seeds = 1_000\nbatch_size = [32, 64]\nobserve = {many}"]
)
def test_a_slip_of_the_pen_is_told_before_its_runs_are_written_down(axes):
    text = f'[axes]\nenv = "CartPole-v1"\narm = "sv-dqn"\n{axes.format(many=[at / 100 for at in range(1, 61)])}\n'
    with pytest.raises(ValueError, match=r"has [\d,]+ runs or more, and 100,000 is the most"):
        runs_of(parse_sweep(text, "huge"))
