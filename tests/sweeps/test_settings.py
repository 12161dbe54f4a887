from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from svrl.agents.config import AgentConfig
from svrl.cli.plan_request import PlanRequest
from svrl.sweeps.grid import runs_of
from svrl.sweeps.settings import PLAN_DEFAULTS, STRUCTURE, known_settings, spec_of
from svrl.sweeps.sweep_file import parse_sweep

TRAINING: dict[str, Any] = {"env": "CartPole-v1", "structured": True, "seed": 0, "preset": "smoke"}
PLAN: dict[str, Any] = {"task": "inverted-pendulum", "seed": 0}


def test_options_of_a_plan_are_those_of_its_command_line():
    own = {field.name: field.default for field in dataclasses.fields(PlanRequest)}
    for name in ("task", "seed", "device", "threads"):
        del own[name]
    assert own == PLAN_DEFAULTS


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


def test_the_name_of_a_preset_does_not_matter_but_what_it_sets_does():
    smoke = spec_of("train", TRAINING)
    preset = AgentConfig.for_env("CartPole-v1", "smoke").as_json()
    other = AgentConfig.for_env("CartPole-v1").as_json()
    spelled = {name: value for name, value in preset.items() if other[name] != value and name != "preset"}
    assert spelled, "the presets differ"
    written_out = spec_of("train", {"env": "CartPole-v1", "structured": True, "seed": 0, **spelled})
    assert written_out.id == smoke.id
    assert spec_of("train", {"env": "CartPole-v1", "structured": True, "seed": 0}).id != smoke.id


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
    "precision": "bf16",
    "device": "cuda",
}


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


@pytest.mark.parametrize("name", [*PLAN_DEFAULTS, "task", "seed", "device"])
def test_every_option_of_a_plan_changes_its_id(name):
    assert spec_of("plan", PLAN).id != spec_of("plan", {**PLAN, name: PLANS[name]}).id


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


def test_all_settings_are_known_by_name():
    assert {"env", "seed", "agent", "learning_rate", "device", "precision"} <= set(known_settings("train"))
    assert {"task", "seed", "method", "observe", "device"} <= set(known_settings("plan"))
    assert "preset" in known_settings("train")
