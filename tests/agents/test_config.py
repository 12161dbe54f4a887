from __future__ import annotations

import dataclasses
import json

import pytest

from svrl.agents.config import ARMS, AUTHORS_STRUCTURE, BY_FAMILY, OUR_STRUCTURE, PRESETS, AgentConfig, family_of


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_valid_and_survive_json(preset: str) -> None:
    config = AgentConfig.of(preset, structured=True)
    assert config.preset == preset
    assert AgentConfig.from_json(json.loads(json.dumps(config.as_json()))) == config


def test_the_presets_say_what_the_paper_and_the_authors_say() -> None:
    authors, paper = AgentConfig.of("authors"), AgentConfig.of("paper")
    assert authors == AgentConfig()
    for config in (authors, paper):
        assert (config.learning_rate, config.gamma, config.batch_size, config.p) == (1e-5, 0.99, 32, 0.9)
        assert (config.epsilon_start, config.epsilon_final) == (1.0, 0.01)
    assert (authors.epsilon_steps, paper.epsilon_steps) == (30_000, 300_000)
    assert authors.target_update_interval / authors.updates_per_step == 40_000  # agent steps
    assert paper.target_update_interval / paper.updates_per_step == 10_000
    assert paper.p_rise / paper.updates_per_step == 2e6
    assert (authors.loss, paper.loss) == ("huber", "squared")
    assert (authors.output, authors.scale, paper.output, paper.scale) == ("fill", "minmax", "estimate", "none")
    assert authors.steps == 15_000_000


@pytest.mark.parametrize(
    ("env", "preset", "way"),
    [
        ("CartPole-v1", None, OUR_STRUCTURE),
        ("control/mountain-car", None, OUR_STRUCTURE),
        ("minatar/breakout", None, OUR_STRUCTURE),
        ("minatar/breakout", "smoke", OUR_STRUCTURE),
        ("CartPole-v1", "smoke", OUR_STRUCTURE),
        ("atari/pong", "short", OUR_STRUCTURE),
        ("atari/pong", None, AUTHORS_STRUCTURE),
        ("atari/pong", "smoke", AUTHORS_STRUCTURE),
        ("CartPole-v1", "authors", AUTHORS_STRUCTURE),
        ("CartPole-v1", "paper", {"scale": "none", "next_value_from": "completed"}),
    ],
)
def test_structure_is_the_authors_way_only_where_the_name_says_so(env: str, preset: str | None, way: dict) -> None:
    config = AgentConfig.for_env(env, preset)
    assert {"scale": config.scale, "next_value_from": config.next_value_from} == way


@pytest.mark.parametrize("field", dataclasses.fields(AgentConfig), ids=lambda f: f.name)
def test_every_field_explains_itself(field: dataclasses.Field) -> None:
    assert field.metadata["help"].endswith(".")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_is_the_same_algorithm_in_every_preset(preset: str, arm: str) -> None:
    config = AgentConfig.of(preset, agent=arm)
    assert config.arm == arm
    assert config.structured == arm.startswith("sv-")
    if config.structured:  # sv-dqn is the paper's SV-RL: completed values enter the targets
        assert config.next_value_from == ("network" if arm.endswith("-network") else "completed")
    assert config.replace(structured=False).arm == arm.removeprefix("sv-").removesuffix("-network")
    other = config.replace(agent="double-dueling").replace(agent=arm)
    assert (other.agent, other.head, other.structured) == (config.agent, config.head, config.structured)
    assert AgentConfig.from_json(config.as_json()) == config


@pytest.mark.parametrize(
    ("env", "family"),
    [("atari/breakout", "atari"), ("minatar/x", "minatar"), ("CartPole-v1", "gymnasium"), ("ALE/Pong-v5", "gymnasium")],
)
def test_families(env: str, family: str) -> None:
    assert family_of(env) == family
    assert BY_FAMILY[family] in PRESETS


def test_an_environment_of_your_own_has_the_preset_of_gymnasium() -> None:
    assert AgentConfig.for_env(dict, "smoke") == AgentConfig.for_env("CartPole-v1", "smoke")
    assert AgentConfig.for_env(lambda: None).preset == "classic"


PLAIN = AgentConfig.for_env("CartPole-v1", "smoke")
STRUCTURED = PLAIN.replace(structured=True, scale="minmax")


@pytest.mark.parametrize(
    ("config", "actions", "words"),
    [
        (STRUCTURED, 2, "on it 2 actions leave little structure to find"),
        (STRUCTURED, 1, "on it 1 action leaves little structure to find"),
        (STRUCTURED.replace(scale="row"), 1, "on it 1 action leaves little structure to find"),  # no rank was asked for
        (
            STRUCTURED.replace(estimator="hard-impute", rank=6),
            6,
            "every 32 x 6 matrix has a rank of 6 or less, so rank 6",
        ),
        (
            STRUCTURED.replace(batch_size=4, estimator="factor-als", rank=5),
            9,
            "every 4 x 9 matrix has a rank of 4 or less",
        ),
        (
            STRUCTURED.replace(scale="row", estimator="hard-impute", rank=5),
            6,
            "less its row means has a rank of 5 or less",
        ),
        (PLAIN.replace(steps=67), 2, "no update is due within 67 steps: 64 come before the first (learning_starts)"),
        (PLAIN.replace(updates_per_step=0.01, learning_starts=90, steps=99), 2, "no update is due within 99 steps"),
    ],
)
def test_a_training_that_cannot_work_is_warned_of(config: AgentConfig, actions: int, words: str) -> None:
    (said,) = config.warnings("it", actions)
    assert words in said
    assert said.startswith("Warning: ")


@pytest.mark.parametrize(
    ("config", "actions"),
    [
        (PLAIN, 1),
        (STRUCTURED, 3),
        (STRUCTURED.replace(estimator="hard-impute", rank=5), 6),
        (STRUCTURED.replace(scale="row", estimator="hard-impute", rank=4), 6),
        (PLAIN.replace(rank=9, estimator="hard-impute"), 2),
        (PLAIN.replace(steps=68), 2),
    ],
)
def test_others_are_not(config: AgentConfig, actions: int) -> None:
    assert config.warnings("it", actions) == []
