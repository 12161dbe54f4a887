"""What is learned on: Atari, MinAtar, the control tasks and any Gymnasium environment, N at a time.

Names are loaded on first use, so that the list of environments costs no import of NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svrl.envs.atari_games import GAMES, Game, human_normalised
    from svrl.envs.control import features
    from svrl.envs.make import describe_env, known_environments, make_env
    from svrl.envs.vector import EnvSpec, Step, VectorEnv, step

__all__ = [
    "GAMES",
    "EnvSpec",
    "Game",
    "Step",
    "VectorEnv",
    "describe_env",
    "features",
    "human_normalised",
    "known_environments",
    "make_env",
    "step",
]

_PLACES = {
    "GAMES": "atari_games",
    "EnvSpec": "vector",
    "Game": "atari_games",
    "Step": "vector",
    "VectorEnv": "vector",
    "describe_env": "make",
    "features": "control",
    "human_normalised": "atari_games",
    "known_environments": "make",
    "make_env": "make",
    "step": "vector",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(importlib.import_module(f"svrl.envs.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'svrl.envs' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
