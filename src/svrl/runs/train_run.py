"""A training as a run: the agent of `svrl train`, trained in its run directory."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from svrl.agents.config import AgentConfig, family_of
from svrl.runs.spec import Kind, RunSpec, Work
from svrl.runtime.run_directory import CONFIG

_OWN = ("env", "seed", "precision")
"""Settings beside those of the agent."""
_FIELDS = [entry.name for entry in dataclasses.fields(AgentConfig)]
_FLOATS = frozenset(entry.name for entry in dataclasses.fields(AgentConfig) if isinstance(entry.default, float))
STRUCTURE = frozenset(_FIELDS[_FIELDS.index("structured") + 1 : _FIELDS.index("gamma")])
"""Fields that only structured agents have a use for."""


def train(settings: Mapping[str, Any], work: Work) -> None:
    """Train, or resume what is there.

    Raises:
        Stopped: If a signal came; everything is saved.
        ValueError: If a setting is wrong, or training diverged.
    """
    from svrl.runs.store import LOG
    from svrl.training.session import Habits, train_in_directory

    def say(sentence: str) -> None:
        with (work.folder.parent / LOG).open("a", encoding="utf-8") as log:
            log.write(f"{sentence}\n")

    train_in_directory(
        settings["env"],
        config_of(settings),
        folder=work.folder,
        seed=settings["seed"],
        device=work.device,
        precision=settings["precision"],
        env_threads=work.env_threads,
        resume=(work.folder / CONFIG).exists(),
        habits=Habits(checkpoint_every=work.effort.checkpoint_every, tensorboard=work.effort.tensorboard),
        say=say,
        signals=work.signals,
    )


TRAIN = Kind(name="train", compute=train, resumes=True)


def training(
    env: str,
    config: AgentConfig,
    *,
    seed: int = 0,
    precision: str | None = None,
    device: str = "cpu",
    given: Mapping[str, Any] | None = None,
    minutes: float = 0.1,
) -> RunSpec:
    """The run that trains an agent.

    Args:
        env: Name of the environment.
        config: All settings of the agent. What a plain agent has no use for does not distinguish it from others.
        seed: Of everything random.
        precision: float32, tf32 or bf16; None takes what is best on the device.
        device: cpu, cuda or cuda:N.
        given: What a sweep says about it.
        minutes: About how long it takes on one core.
    """
    if not config.structured:
        own = {entry.name: entry.default for entry in dataclasses.fields(AgentConfig) if entry.name in STRUCTURE}
        config = config.replace(**own)
    fields = {name: float(value) + 0.0 if name in _FLOATS else value for name, value in config.as_json().items()}
    settings = {"env": env, "seed": seed, "precision": precision, **fields}
    settings["actions"] = config.actions or _own_actions(env)
    return RunSpec(kind=TRAIN, settings=settings, given=given or {}, device=device, steps=config.steps, minutes=minutes)


def config_of(settings: Mapping[str, Any]) -> AgentConfig:
    """All settings of a training's agent."""
    return AgentConfig.from_json({name: value for name, value in settings.items() if name not in _OWN})


@functools.cache
def _own_actions(env: str) -> int:
    """How many a control task has by itself; 0 for other environments, where their number cannot be set."""
    if family_of(env) != "control":
        return 0
    from svrl.mdp.tasks import make_task

    return make_task(env.partition("/")[2]).n_actions
