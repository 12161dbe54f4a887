"""Where an agent's environments come from: a name, or a function that makes a Gymnasium environment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from svrl.agents.config import AgentConfig
from svrl.envs.vector import VectorEnv

EnvSource = str | Callable[[], Any]
"""The name of an environment ("CartPole-v1", "atari/breakout"), or a function that makes one of your own."""


_ONE_AT_A_TIME = threading.Lock()
"""Held while environments are made: registries and imports of other libraries are not made for several threads."""


def open_env(
    source: EnvSource, config: AgentConfig, *, count: int, seed: int, render: bool = False, threads: int = 0
) -> VectorEnv:
    """N environments as the configuration wants them.

    Args:
        source: A name, or a function.
        config: Its `sticky` and `actions` are theirs.
        count: N.
        seed: Of everything random in them.
        render: Whether pictures will be wanted.
        threads: Native threads of Atari, which change no result; 0 leaves it to ale-py. The others have none.

    Raises:
        ValueError: As `svrl.envs.catalogue.make_env`, or if the source is neither a name nor a function.
    """
    from svrl.envs.catalogue import from_factory, make_env

    if isinstance(source, str):
        with _ONE_AT_A_TIME:
            return make_env(
                source,
                count,
                seed=seed,
                sticky=config.sticky,
                actions=config.actions,
                render=render,
                threads=threads,
            )
    if not callable(source):
        raise ValueError(
            "Give the name of an environment, or a function without arguments that makes one; "
            f"got {type(source).__name__}. Write lambda: gymnasium.make(...)."
        )
    with _ONE_AT_A_TIME:
        return from_factory(source, count, seed=seed, id=name_of(source))


def name_of(source: EnvSource) -> str:
    """What to call it in run directories and tables."""
    return source if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)
