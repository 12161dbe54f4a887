"""Warnings of trainings that cannot do what they were made for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import svrl

PLAIN = svrl.AgentConfig.for_env("CartPole-v1", "smoke")
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
def test_what_is_said(config: svrl.AgentConfig, actions: int, words: str) -> None:
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
def test_what_is_not(config: svrl.AgentConfig, actions: int) -> None:
    assert config.warnings("it", actions) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 67},
        {"steps": 68},
        {"steps": 67, "n_envs": 8},
        {"steps": 68, "n_envs": 4, "act_lag": 1},
        {"steps": 72, "n_envs": 8, "act_lag": 1},
        {"steps": 80, "n_envs": 8, "act_lag": 1},
    ],
    ids=str,
)
def test_it_is_said_of_trainings_that_make_no_update_and_of_no_other(settings: dict[str, int]) -> None:
    config = PLAIN.replace(**settings)
    said: list[str] = []
    training = svrl.Training("CartPole-v1", config, say=said.append)
    for _ in training.events():
        pass
    training.close()
    assert bool(said) == (training.updates == 0)


@pytest.mark.parametrize("call", [svrl.train, svrl.Training])
def test_a_library_call_warns_at_the_line_that_made_it(call: Callable[..., svrl.Agent | svrl.Training]) -> None:
    with pytest.warns(UserWarning, match=r"^no update is due within 40 steps") as caught:
        made = call("CartPole-v1", PLAIN.replace(steps=40))
    if isinstance(made, svrl.Training):
        made.close()
    assert [warning.filename for warning in caught] == [__file__]
