"""From settings as people write them to a run: what decides its identity, and what is refused before it begins."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from svrl.agents.config import ARMS
from svrl.mdp.tasks import TASKS, make_task
from svrl.planning.catalogue import METHODS, make_method
from svrl.runs.plan_run import EXACT_BASELINES, PlanSettings
from svrl.runs.settings import spec_of, why_not_here
from svrl.runs.spec import RunSpec
from svrl.runs.train_run import TRAIN, config_of

TRAINING: dict[str, Any] = {"env": "CartPole-v1", "structured": True, "seed": 0, "preset": "smoke"}
PLAN: dict[str, Any] = {"task": "inverted-pendulum", "seed": 0}
BASE = {"train": TRAINING, "plan": PLAN}
DOUBLE = {"env": "CartPole-v1", "agent": "double", "structured": True, "seed": 3, "p": 0.7, "hidden": [8, 4]}
FINAL = {"task": "toy", "method": "svp", "seed": 1, "p": 0.3, "final_sweep": False, "compare": True}


def id_of(kind: str, **settings: Any) -> str:
    return spec_of(kind, {**BASE[kind], **settings}).id


def test_the_id_does_not_depend_on_the_order_of_names_or_on_the_process():
    spec = spec_of("train", DOUBLE)
    assert len(spec.id) == 16
    assert spec.id == spec_of("train", dict(reversed(DOUBLE.items()))).id
    assert spec.id == RunSpec(kind=TRAIN, settings=dict(reversed(spec.settings.items()))).id
    program = (
        "import json, sys; from svrl.runs.settings import spec_of; print(spec_of('train', json.loads(sys.argv[1])).id)"
    )
    for seed in ("0", "1"):
        command = [sys.executable, "-c", program, json.dumps(DOUBLE)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == spec.id


@pytest.mark.parametrize(
    ("kind", "settings"), [("train", DOUBLE), ("train", {"env": "CartPole-v1", "arm": "sv-dqn"}), ("plan", FINAL)]
)
def test_a_spec_survives_its_file(kind, settings):
    spec = spec_of(kind, settings)
    fields = json.loads(json.dumps(spec.as_json()))
    assert spec_of(fields["kind"], fields["settings"]) == spec
    assert (fields["id"], fields["full"]) == (spec.id, json.loads(json.dumps(spec.settings)))


def test_labels_tell_runs_apart():
    assert spec_of("train", DOUBLE).label == "CartPole-v1 sv-double-network p=0.7 hidden=8x4 seed 3"
    assert spec_of("plan", FINAL).label == "toy svp p=0.3 final_sweep=False compare=True seed 1"


PLAIN, MOUNTAIN = {"structured": False}, {"env": "control/mountain-car"}
CART, TOY, THREE = {"task": "cart-pole"}, {"task": "toy"}, {"task": "three-motor-pendulum"}
PAPER, SAMPLED = {"method": "paper-svp"}, {"sample_noise": 0.5}
AVERAGED, VALUES = {"method": "averaged-svp", **SAMPLED}, {"method": "value-iteration", **SAMPLED}
EQUAL: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("train", {"p": 1}, {"p": 1.0}),
    ("train", {"gradient_clamp": 0}, {"gradient_clamp": -0.0}),
    ("train", {"hidden": "8X4"}, {"hidden": [8, 4]}),
    ("train", {"device": "cuda"}, {"device": "cpu"}),
    ("train", {"p": 0.5}, {"p": 0.5}),
    ("train", {}, {"estimator": "soft-impute", "sticky": 0, "actions": 0}),
    ("train", PLAIN, {**PLAIN, "agent": "dqn", "p": 0.3, "estimator": "usvt"}),
    ("train", MOUNTAIN, {**MOUNTAIN, "actions": 0}),
    ("train", MOUNTAIN, {**MOUNTAIN, "actions": 1000}),
    ("plan", {"states": "50X50"}, {"states": "2500"}),
    ("plan", {"states": [50, 50]}, {"states": 2500}),
    ("plan", {}, {"states": 2500, "actions": 1000, "variant": "paper"}),
    ("plan", {**CART, "states": 256}, {**CART, "states": "4x4x4x4"}),
    ("plan", TOY, {**TOY, "states": 1000, "actions": 100}),
    ("plan", THREE, {**THREE, "actions": 1000}),
    ("plan", {"p": 1}, {"p": 1.0}),
    ("plan", {"reward_offset": 0}, {}),
    ("plan", {"task": "mountain-car", "noise": 0}, {"task": "mountain-car", "time_step": 1}),
    ("plan", {**TOY, "backup_cost": 2}, {**TOY, "backup_cost": 2.0}),
    ("plan", {}, {"p": 0.2, "estimator": "factor-als", "rank": 10, "final_sweep": True, "iterations": 200}),
    ("plan", {"rank": 4}, {"rank": 4, "estimator": "factor-als"}),
    ("plan", {"estimator": "hard-impute"}, {"estimator": "hard-impute", "rank": 10}),
    ("plan", PAPER, {**PAPER, "estimator": "soft-impute", "final_sweep": False, "p": 0.2}),
    ("plan", {"method": "cross"}, {"method": "cross", "rank": 12, "p": 0.5, "estimator": "usvt"}),
    ("plan", AVERAGED, {**AVERAGED, "p": 1, "rank": 20}),
    ("plan", VALUES, {**VALUES, "iterations": 90}),
    ("plan", {"compare": True}, {"compare": True, "p": 0.2}),
    ("plan", {}, {"method": "svp", "starts": 1000, "compare": False}),
    ("plan", {"device": "cuda:1"}, {"device": "cuda"}),
)
DIFFERENT: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    *(
        ("train", {}, {name: value})
        for name, value in {
            "env": "Acrobot-v1",
            "seed": 1,
            "agent": "double",
            "structured": False,
            "p": 0.55,
            "batch_size": 7,
            "learning_rate": 0.002,
            "gamma": 0.9,
            "steps": 999,
            "buffer_size": 512,
            "n_envs": 2,
            "hidden": [9],
            "precision": "float32",  # what is best depends on the device
        }.items()
    ),
    ("train", MOUNTAIN, {**MOUNTAIN, "actions": 8}),
    *(
        ("plan", {}, {name: value})
        for name, value in {
            "task": "mountain-car",
            "seed": 1,
            "method": "paper-svp",
            "estimator": "usvt",
            "p": 0.5,
            "rank": 4,
            "states": "10x10",
            "actions": 9,
            "variant": "authors",
            "reward_offset": 1.0,
            "time_step": 0.1,
            "noise": 0,
            "iterations": 3,
            "final_sweep": False,
            "compare": True,
            "backup_cost": 2.0,
            "starts": 10,
        }.items()
    ),
    ("plan", {"states": "50x40"}, {"states": "40x50"}),
    ("plan", TOY, {**TOY, "states": 999}),
    ("plan", PAPER, {**PAPER, "estimator": "factor-als"}),
    ("plan", PAPER, {**PAPER, "final_sweep": True}),
    ("plan", {"estimator": "hard-impute"}, {"estimator": "factor-als"}),
    ("plan", {"estimator": "hard-impute"}, {"estimator": "hard-impute", "rank": 9}),
    ("plan", {"method": "value-iteration"}, {"method": "value-iteration", "sample_noise": 0}),
    ("plan", VALUES, {**VALUES, "iterations": 91}),
    # The baselines beside it observe what was given, and each its own share if nothing was.
    ("plan", {**AVERAGED, "compare": True}, {**AVERAGED, "compare": True, "p": 1.0}),
)


@pytest.mark.parametrize(("kind", "one", "other"), EQUAL)
def test_equal_runs_have_one_id(kind, one, other):
    specs = [spec_of(kind, {**BASE[kind], **settings}) for settings in (one, other)]
    assert specs[0].settings == specs[1].settings
    assert specs[0].id == specs[1].id
    if kind == "plan":
        plans = [PlanSettings.of(spec.settings) for spec in specs]
        assert plans[0].make_method() == plans[1].make_method()


@pytest.mark.parametrize(("kind", "one", "other"), DIFFERENT)
def test_runs_that_differ_have_two_ids(kind, one, other):
    assert id_of(kind, **one) != id_of(kind, **other)


def test_every_option_of_a_plan_is_among_those_that_make_a_difference():
    names = {name for kind, _, other in DIFFERENT for name in other if kind == "plan"}
    assert names >= {field.name for field in dataclasses.fields(PlanSettings)}


def test_the_actions_of_a_control_task_are_written_out():
    """A run may be begun by one sweep and resumed by another, alone or in a population."""
    left, zero = (spec_of("train", {**TRAINING, **MOUNTAIN, **more}) for more in ({}, {"actions": 0}))
    assert left.label == zero.label == "control/mountain-car sv-dqn-network seed 0"
    assert config_of(left.settings).actions == make_task("mountain-car").n_actions


def test_baselines_of_exact_plans_observe_the_share_that_is_written_out():
    shares = {make_method(name).p for name in EXACT_BASELINES if "p" in METHODS[name].takes}  # type: ignore[attr-defined]
    assert shares == {make_method("svp").p}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("task", "method"), [*(("inverted-pendulum", method) for method in METHODS), *((task, "svp") for task in TASKS)]
)
def test_what_is_written_out_is_what_was_asked_for(task, method):
    settings = {"task": task, "method": method, "seed": 0, **(SAMPLED if method.startswith("averaged") else {})}
    full = spec_of("plan", settings).settings
    given = {name: value for name, value in full.items() if value is not None}
    assert given.keys() >= {"states", "actions", "variant", "reward_offset", "time_step", "noise"}
    assert spec_of("plan", given).settings == full
    asked, written = PlanSettings(**settings), PlanSettings.of(full)
    assert written.make_method() == asked.make_method()
    found, meant = written.make_task(), asked.make_task()
    assert found is not None
    assert meant is not None
    for name in ("shape", "n_actions", "label", "noise"):
        assert getattr(found, name) == getattr(meant, name)


# What is refused before a run begins.


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


def test_an_environment_of_gymnasium_that_cannot_be_learned_in_is_told():
    for wrong in ("CartPoleX-v1", "CartPole-v9"):
        assert f"There is no environment '{wrong}'" in str(why_not_here(wrong))
    assert "Pendulum-v1 has continuous actions" in str(why_not_here("Pendulum-v1"))
    assert why_not_here("no_such_module:Thing-v0") is None, "a module is left to its run"
    assert "no_such_module" not in sys.modules


WRONG_TRAININGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"preset": 3}, "preset is a text, got 3."),
    ({"arm": "svdqn"}, "There is no arm 'svdqn'. Did you mean sv-dqn or dqn?"),
    (
        {"arm": "x"},
        f"There is no arm 'x'. Choose one of {', '.join(sorted(ARMS))}.",
    ),
    ({"structured": False, "estimator": "usv"}, "There is no estimator 'usv'. Did you mean usvt?"),
    ({"device": "gpu"}, "There is no device 'gpu'. Use cpu, cuda or cuda:N."),
    ({"precision": "float23"}, "There is no precision 'float23'. Did you mean float32?"),
    ({"precision": "bf16"}, "precision bf16 needs a CUDA device, and the device is cpu. Take float32."),
    ({"hidden": "abc"}, "hidden must look like 128x128, got 'abc'."),
    ({"structured": False, "p": "much"}, "p is a number, got 'much'."),
    ({"p": True}, "p is a number, got True."),
    ({"observe": 0.5}, "svrl train has no option 'observe'. Did you mean p?"),
    ({"seeds": 3}, "seeds is an axis: change it in the file, or take some of them by --where seed=0,1."),
)
WRONG_PLANS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"method": ["svp"]}, "method is a text, got ['svp']."),
    ({"task": ["toy"]}, "Every run needs a task, a text; got ['toy']."),
    ({"estimator": "usv"}, "There is no estimator 'usv'. Did you mean usvt?"),
    ({"variant": "author"}, "There is no variant 'author'. Did you mean authors?"),
    ({"starts": 10.0}, "starts is a whole number, got 10.0."),
    ({"actions": -8}, "actions must be at least 1, got -8."),
    ({**THREE, "actions": 10**400}, f"actions must be at least 1 and fewer than 2^63, got {10**400}."),
    (
        {**THREE, "actions": 30},
        "actions of three-motor-pendulum must be a cube, one factor for each input; got 30. Near it are 27 and 64.",
    ),
    (
        {"task": "two-input-cart-pole", "actions": 30},
        "actions of two-input-cart-pole must be a square, one factor for each input; got 30. Near it are 25 and 36.",
    ),
    ({"compare": "yes"}, "compare is true or false, got 'yes'."),
    ({"final_sweep": 1}, "final_sweep is true or false, got 1."),
    ({"p": "much"}, "p is a finite number, got 'much'."),
    ({"backup_cost": float("nan")}, "backup_cost is a finite number, got nan."),
    ({"states": "5x5x5"}, "states 5x5x5 has 3 axes, and the task has 2, as in 50x50."),
    ({"states": 50}, "states 50 is not the square of a whole number. Write the grid points of each axis, as in 50x50."),
    ({"states": 2500.0}, "states is one whole number, or one for each axis as in 50x50; got '2500.0'."),
    ({"states": 10**400}, f"states must be fewer than 2^63, got '{10**400}'."),
    ({**TOY, "states": "5x5"}, "states 5x5 has 2 axes, and the task has 1, as in 1000."),
)


@pytest.mark.parametrize(
    ("kind", "wrong", "sentence"),
    [*(("train", *row) for row in WRONG_TRAININGS), *(("plan", *row) for row in WRONG_PLANS)],
)
def test_a_wrong_setting_is_refused_with_one_sentence(kind, wrong, sentence):
    base = PLAN if kind == "plan" else TRAINING
    base = {name: value for name, value in base.items() if "arm" not in wrong or name != "structured"}
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        spec_of(kind, {**base, **wrong})
    assert str(raised.value) == sentence
