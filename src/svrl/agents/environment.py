"""Where an agent's environments come from: a name, or a function that makes a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svrl.agents.config import AgentConfig
from svrl.envs.vector import VectorEnv

EnvSource = str | Callable[[], Any]
"""The name of an environment ("CartPole-v1", "atari/breakout"), or a function that makes one of your own."""


def open_env(source: EnvSource, config: AgentConfig, *, count: int, seed: int, render: bool = False) -> VectorEnv:
    """N environments as the configuration wants them."""
    from svrl.envs.catalogue import from_factory, make_env

    if isinstance(source, str):
        return make_env(source, count, seed=seed, sticky=config.sticky, actions=config.actions, render=render)
    if not callable(source):
        raise ValueError(
            "Give the name of an environment, or a function without arguments that makes one; "
            f"got {type(source).__name__}. Write lambda: gymnasium.make(...)."
        )
    return from_factory(source, count, seed=seed, id=name_of(source))


def name_of(source: EnvSource) -> str:
    """What to call it in run directories and tables."""
    return source if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)
