from __future__ import annotations

import dataclasses
import sys
from typing import Any

import pytest

from svrl.agents.config import AgentConfig
from svrl.mdp.catalogue import TASKS, make_task
from svrl.planning.catalogue import METHODS, make_method
from svrl.runs.grid import runs_of
from svrl.runs.plan_run import EXACT_BASELINES, PlanSettings
from svrl.runs.settings import STRUCTURE, spec_of, why_not_here
from svrl.runs.sweep_file import parse_sweep
from svrl.runs.train_run import config_of

TRAINING: dict[str, Any] = {"env": "CartPole-v1", "structured": True, "seed": 0, "preset": "smoke"}
PLAN: dict[str, Any] = {"task": "inverted-pendulum", "seed": 0}


def test_structure_s_fields_are_the_config_s():
    assert {"observe", "estimator"} <= STRUCTURE
    fields = {field.name for field in dataclasses.fields(AgentConfig)}
    assert fields > STRUCTURE
    assert not {"agent", "structured", "learning_rate", "steps", "batch_size", "discount"} & STRUCTURE


def test_one_run_of_two_sweeps_has_one_id():
    one = runs_of(parse_sweep('[fixed]\npreset = "smoke"\n[axes]\nenv = "CartPole-v1"\nseeds = 2', "one"))
    two = runs_of(parse_sweep('[axes]\nseed = [1, 5]\npreset = "smoke"\nenv = ["CartPole-v1"]\nagent = "dqn"', "two"))
    assert {spec.id for spec in one} & {spec.id for spec in two} == {one[1].id}
    assert one[1].id == two[0].id


OTHER_VALUES: dict[str, Any] = {
    "env": "Acrobot-v1",
    "seed": 1,
    "agent": "double",
    "structured": False,
    "observe": 0.55,
    "batch_size": 7,
    "learning_rate": 0.002,
    "discount": 0.9,
    "steps": 999,
    "replay": 512,
    "envs": 2,
    "hidden": [9],
}


def test_precision_changes_the_id_of_a_training():
    card = {**TRAINING, "device": "cuda"}
    ids = {spec_of("train", {**card, "precision": one}).id for one in ("float32", "tf32", "bf16")}
    assert len({*ids, spec_of("train", card).id}) == 4, "what is best depends on the device"


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_every_setting_that_decides_a_training_changes_its_id(name):
    assert spec_of("train", TRAINING).id != spec_of("train", {**TRAINING, name: OTHER_VALUES[name]}).id


PLANS: dict[str, Any] = {
    "task": "mountain-car",
    "seed": 1,
    "method": "paper-svp",
    "estimator": "usvt",
    "observe": 0.5,
    "rank": 4,
    "states": "10x10",
    "actions": 9,
    "variant": "authors",
    "reward_offset": 1.0,
    "time_step": 0.1,
    "noise": 0.1,
    "sample_noise": 0.1,
    "iterations": 3,
    "final_sweep": False,
    "compare": True,
    "backup_cost": 2.0,
    "starts": 10,
    "device": "cuda",
}


@pytest.mark.parametrize("name", [*(field.name for field in dataclasses.fields(PlanSettings))])
def test_every_option_of_a_plan_changes_its_id(name):
    base = {**PLAN, "method": "value-iteration"} if name == "sample_noise" else PLAN  # which svp has no use for
    assert spec_of("plan", base).id != spec_of("plan", {**base, name: PLANS[name]}).id


def test_what_decides_nothing_changes_no_id():
    plain = {"env": "CartPole-v1", "seed": 0}
    assert spec_of("train", plain).id == spec_of("train", {**plain, "observe": 0.3, "estimator": "usvt"}).id
    card = {**plain, "device": "cuda"}
    assert spec_of("train", card).id == spec_of("train", {**card, "device": "cuda:1"}).id
    assert spec_of("train", plain).id == spec_of("train", {**plain, "agent": "dqn", "structured": False}).id
    assert spec_of("train", {**plain, "hidden": "8x4"}).id == spec_of("train", {**plain, "hidden": [8, 4]}).id
    assert (
        spec_of("train", {**plain, "structured": True, "p": 0.5}).id
        == spec_of("train", {**plain, "structured": True, "observe": 0.5}).id
    )
    assert spec_of("plan", PLAN).id == spec_of("plan", {**PLAN, "method": "svp", "starts": 1000}).id


EQUAL_TRAININGS = (
    ({"observe": 1}, {"observe": 1.0}),
    ({"learning_rate": 1}, {"learning_rate": 1.0}),
    ({"gradient_clamp": 0}, {"gradient_clamp": 0.0}),
    ({"gradient_clamp": 0.0}, {"gradient_clamp": -0.0}),
    ({"hidden": "8X4"}, {"hidden": [8, 4]}),
    ({"device": "cuda"}, {"device": "cpu"}),
    ({}, {"estimator": "soft-impute", "sticky": 0}),
    ({}, {"actions": 0}),
    ({"env": "control/mountain-car"}, {"env": "control/mountain-car", "actions": 0}),
    ({"env": "control/mountain-car", "actions": 0}, {"env": "control/mountain-car", "actions": 1000}),
    ({"env": "control/three-motor-pendulum"}, {"env": "control/three-motor-pendulum", "actions": 1000}),
)


@pytest.mark.parametrize(("one", "other"), EQUAL_TRAININGS)
def test_equal_trainings_have_one_id(one, other):
    assert spec_of("train", {**TRAINING, **one}).id == spec_of("train", {**TRAINING, **other}).id


@pytest.mark.parametrize("task", TASKS)
def test_the_actions_of_a_control_task_are_written_out(task):
    """A run may be begun by one sweep and gone on with by another, alone or in a population."""
    own = make_task(task).n_actions
    left, given, zero = (
        spec_of("train", {**TRAINING, "env": f"control/{task}", **more})
        for more in ({}, {"actions": own}, {"actions": 0})
    )
    assert left.settings["actions"] == own
    assert left.label == zero.label == f"control/{task} sv-dqn seed 0"
    for spec in (left, given, zero):
        assert config_of(spec.settings).actions == own
    fewer = spec_of("train", {**TRAINING, "env": f"control/{task}", "actions": 8})
    assert (fewer.settings["actions"], fewer.id == left.id) == (8, False)


@pytest.mark.parametrize("wrong", ["CartPoleX-v1", "CartPole-v9", "CartPole", "NoSuchGame-v7"])
def test_an_id_that_gymnasium_does_not_know_is_told(wrong):
    assert f"There is no environment '{wrong}'" in str(why_not_here(wrong))


def test_an_id_with_a_module_is_left_to_its_run():
    assert why_not_here("no_such_module:Thing-v0") is None
    assert "no_such_module" not in sys.modules


@pytest.mark.parametrize(
    ("env", "module", "command"),
    [
        ("atari/pong", "ale_py", 'pip install "svrl[atari]"'),
        ("minatar/asterix", "minatar", 'pip install "svrl[minatar]"'),
    ],
)
def test_a_missing_extra_is_told_with_the_command_that_installs_it(env, module, command, monkeypatch):
    assert why_not_here(env) is None
    monkeypatch.setitem(sys.modules, module, None)  # as it is where it was not installed
    assert command in str(why_not_here(env))
    assert why_not_here("CartPole-v1") is why_not_here("control/mountain-car") is None


CART = {"task": "cart-pole"}
TOY = {"task": "toy"}
THREE = {"task": "three-motor-pendulum"}
PAPER = {"method": "paper-svp"}
SAMPLED = {"sample_noise": 0.5}
EQUAL_PLANS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"states": "50x50"}, {"states": "2500"}),
    ({"states": "50X50"}, {"states": 2500}),
    ({"states": [50, 50]}, {"states": 2500}),
    ({}, {"states": 2500, "actions": 1000, "variant": "paper"}),
    ({**CART, "states": 256}, {**CART, "states": "4x4x4x4"}),
    (TOY, {**TOY, "states": 1000, "actions": 100}),
    (THREE, {**THREE, "actions": 1000}),
    ({"observe": 1}, {"observe": 1.0}),
    ({"reward_offset": 1}, {"reward_offset": 1.0}),
    ({"reward_offset": 0}, {}),
    ({"task": "mountain-car", "noise": 0}, {"task": "mountain-car", "time_step": 1}),
    ({**TOY, "backup_cost": 2}, {**TOY, "backup_cost": 2.0}),
    ({}, {"observe": 0.2, "estimator": "factor-als", "rank": 10, "final_sweep": True, "iterations": 200}),
    ({"rank": 4}, {"rank": 4, "estimator": "factor-als"}),
    ({"estimator": "hard-impute"}, {"estimator": "hard-impute", "rank": 10}),
    (PAPER, {**PAPER, "estimator": "soft-impute", "final_sweep": False, "observe": 0.2}),
    ({"method": "cross"}, {"method": "cross", "rank": 12, "observe": 0.5, "estimator": "usvt"}),
    ({"method": "averaged-svp", **SAMPLED}, {"method": "averaged-svp", **SAMPLED, "observe": 1, "rank": 20}),
    ({"method": "value-iteration", **SAMPLED}, {"method": "value-iteration", **SAMPLED, "iterations": 90}),
    ({"compare": True}, {"compare": True, "observe": 0.2}),
    ({"compare": False}, {}),
    ({"device": "cuda:1"}, {"device": "cuda"}),
)


@pytest.mark.parametrize(("one", "other"), EQUAL_PLANS)
def test_equal_plans_have_one_id_and_are_equal(one, other):
    specs = [spec_of("plan", {**PLAN, **settings}) for settings in (one, other)]
    assert specs[0].settings == specs[1].settings
    assert specs[0].id == specs[1].id
    plans = [PlanSettings.of(spec.settings) for spec in specs]
    useless = {"observe", "estimator", "rank", "final_sweep"} - METHODS[plans[0].method].takes
    assert not useless & set(specs[0].given)
    assert plans[0].make_method() == plans[1].make_method()


DIFFERENT_PLANS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"states": "50x40"}, {"states": "40x50"}),
    ({"states": 2500}, {"states": 2601}),
    (TOY, {**TOY, "states": 999}),
    ({"observe": 0.2}, {"observe": 0.3}),
    ({"estimator": "soft-impute"}, {}),
    ({**PAPER, "estimator": "factor-als"}, PAPER),
    ({"estimator": "hard-impute"}, {"estimator": "factor-als"}),
    ({"estimator": "hard-impute", "rank": 9}, {"estimator": "hard-impute"}),
    ({**PAPER, "final_sweep": True}, PAPER),
    ({"method": "value-iteration", "sample_noise": 0}, {"method": "value-iteration"}),
    ({"method": "value-iteration", **SAMPLED}, {"method": "value-iteration", **SAMPLED, "iterations": 91}),
    ({"noise": 0}, {}),
    ({"variant": "authors"}, {}),
    ({"time_step": 0.1}, {}),
    ({"compare": True}, {}),
    # The baselines beside it observe what was given, and each its own share if nothing was.
    (
        {"method": "averaged-svp", **SAMPLED, "compare": True},
        {"method": "averaged-svp", **SAMPLED, "compare": True, "observe": 1.0},
    ),
)


@pytest.mark.parametrize(("one", "other"), DIFFERENT_PLANS)
def test_plans_that_differ_have_two_ids(one, other):
    assert spec_of("plan", {**PLAN, **one}).id != spec_of("plan", {**PLAN, **other}).id


def test_baselines_of_exact_plans_observe_the_share_that_is_written_out():
    shares = {make_method(name).observe for name in EXACT_BASELINES if "observe" in METHODS[name].takes}  # type: ignore[attr-defined]
    assert shares == {make_method("svp").observe}  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("task", ["inverted-pendulum", "cart-pole"])
def test_what_is_written_out_is_what_was_asked_for(task, method):
    settings = {"task": task, "method": method, "seed": 0, **(SAMPLED if method.startswith("averaged") else {})}
    full = spec_of("plan", settings).settings
    asked, written = PlanSettings(**settings), PlanSettings.of(full)
    assert written.make_method() == asked.make_method()
    found, meant = written.make_task(), asked.make_task()
    assert found is not None
    assert meant is not None
    assert (found.shape, found.n_actions, found.label, found.noise) == (
        meant.shape,
        meant.n_actions,
        meant.label,
        meant.noise,
    )


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_written_out(task):
    full = spec_of("plan", {"task": task, "seed": 0}).settings
    for name in ("states", "actions", "variant", "reward_offset", "time_step", "noise"):
        assert full[name] is not None
    given = {name: value for name, value in full.items() if value is not None}
    assert spec_of("plan", given).settings == full


WRONG_TRAININGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"preset": 3}, "preset is a text, got 3."),
    ({"arm": "svdqn"}, "There is no arm 'svdqn'. Did you mean sv-dqn or dqn?"),
    ({"arm": "sv-dueling-dqn"}, "There is no arm 'sv-dueling-dqn'. Did you mean sv-dueling or dueling?"),
    ({"arm": "x"}, "There is no arm 'x'. Choose one of double, dqn, dueling, sv-double, sv-dqn, sv-dueling."),
    ({"structured": False, "estimator": "usv"}, "There is no estimator 'usv'. Did you mean usvt?"),
    ({"device": "gpu"}, "There is no device 'gpu'. Use cpu, cuda or cuda:N."),
    ({"precision": "float23"}, "There is no precision 'float23'. Did you mean float32?"),
    ({"precision": "bf16"}, "precision bf16 needs a CUDA device, and the device is cpu. Take float32."),
    ({"hidden": "abc"}, "hidden must look like 128x128, got 'abc'."),
    ({"observe": "much"}, "observe is a finite number, got 'much'."),
    ({"structured": False, "observe": "much"}, "observe is a finite number, got 'much'."),
    ({"observe": True}, "observe is a finite number, got True."),
    ({"learning_rate": 10**400}, f"learning_rate is a finite number, got {10**400}."),
    ({"p": 0.5, "observe": 0.6}, "p is another name of observe: give one of them, not both."),
)


@pytest.mark.parametrize(("wrong", "sentence"), WRONG_TRAININGS)
def test_a_wrong_training_is_refused_with_one_sentence(wrong, sentence):
    base = {name: value for name, value in TRAINING.items() if "arm" not in wrong or name != "structured"}
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        spec_of("train", {**base, **wrong})
    assert str(raised.value) == sentence


WRONG_PLANS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"method": ["svp"]}, "method is a text, got ['svp']."),
    ({"task": ["toy"]}, "every run needs task, as a text; got ['toy']."),
    ({"method": "value-iteration", "estimator": "usv"}, "There is no estimator 'usv'. Did you mean usvt?"),
    ({"variant": "author"}, "There is no variant 'author'. Did you mean authors?"),
    ({"device": "tpu"}, "There is no device 'tpu'. Use cpu, cuda or cuda:N."),
    ({"starts": 10.0}, "starts is a whole number, got 10.0."),
    ({"rank": 2.5}, "rank is a whole number, got 2.5."),
    ({"method": "value-iteration", "rank": 2.5}, "rank is a whole number, got 2.5."),
    ({"actions": -8}, "actions must be at least 1 and finite, got -8."),
    ({**THREE, "actions": 10**400}, f"actions must be at least 1 and fewer than 2^63, got {10**400}."),
    (
        {**THREE, "actions": 30},
        "actions of three-motor-pendulum is a cube, one factor for each motor; got 30. Near it are 27 and 64.",
    ),
    ({"compare": "yes"}, "compare is true or false, got 'yes'."),
    ({"final_sweep": 1}, "final_sweep is true or false, got 1."),
    ({"observe": "much"}, "observe is a finite number, got 'much'."),
    ({"sample_noise": float("inf")}, "sample_noise is a finite number, got inf."),
    ({"backup_cost": float("nan")}, "backup_cost is a finite number, got nan."),
    ({"states": "5x5x5"}, "states 5x5x5 has 3 axes, and the task has 2, as in 50x50."),
    ({"states": 50}, "states 50 is not the square of a whole number. Write the grid points of each axis, as in 50x50."),
    ({"states": "abc"}, "states must look like 50x50 or be one number, got 'abc'."),
    ({"states": 2500.0}, "states must look like 50x50 or be one number, got '2500.0'."),
    ({"states": 10**400}, f"states must be fewer than 2^63, got '{10**400}'."),
    ({**TOY, "states": "5x5"}, "states 5x5 has 2 axes, and the task has 1, as in 1000."),
)


@pytest.mark.parametrize(("wrong", "sentence"), WRONG_PLANS)
def test_a_wrong_plan_is_refused_with_one_sentence(wrong, sentence):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        spec_of("plan", {**PLAN, **wrong})
    assert str(raised.value) == sentence


def test_continuous_actions_are_told_before_a_run():
    assert "Pendulum-v1 has actions of Box" in str(why_not_here("Pendulum-v1"))


def test_seeds_are_an_axis_and_no_setting():
    with pytest.raises(ValueError, match=r"^seeds is an axis: change it in the file"):
        spec_of("train", {"env": "CartPole-v1", "seeds": 3})
