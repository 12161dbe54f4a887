"""Gymnasium's toy-text problems as models: what an environment samples from is planned on exactly.

FrozenLake, Taxi, CliffWalking and environments made like them carry their transitions,

    P[s][a] = [(probability, next state, reward, done), ...]

and the probabilities of their first states. Wrappers around them, a limit of steps among them, are not in P.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from svrl.mdp.tabular import TabularMDP


def mdp_from_env(env: gymnasium.Env | str, discount: float) -> TabularMDP:
    """The model of an environment that carries its transitions.

    Args:
        env: An environment, wrapped or not, or the id of a registered one. Observations are the numbers of its
            S states, actions the numbers of its A actions.
        discount: In (0, 1); the environment has none of its own.

    Returns:
        A model of S states and A actions. A transition that is done pays its reward and ends the episode.

    Raises:
        ValueError: If it is a vector of environments, has no P, or P does not say all of what it does.
    """
    bare, name = _bare(env)
    if getattr(bare, "fickle_passenger", False):
        raise ValueError(
            f"{name} has a fickle passenger, whose changes of mind are not in P. Make it with fickle_passenger=False."
        )
    sizes = [space.n for space in (bare.observation_space, bare.action_space) if _from_zero(space)]
    if sizes != [len(bare.P), len(bare.P[0])]:
        raise ValueError(
            f"{name} has a P of {len(bare.P)} states and {len(bare.P[0])} actions, and observes "
            f"{bare.observation_space} and takes {bare.action_space}. Both must be numbered from 0, as in P."
        )
    return TabularMDP.from_toy_text(bare.P, discount, name=name)


def start_probabilities(env: gymnasium.Env | str) -> np.ndarray:
    """The probability (S,) of each state to be the first, so that its product with values (S,) is a mean return.

    Raises:
        ValueError: If the environment does not carry it.
    """
    bare, name = _bare(env)
    if not hasattr(bare, "initial_state_distrib"):
        raise ValueError(f"{name} does not say where it starts: it has no initial_state_distrib.")
    return np.array(bare.initial_state_distrib, dtype=np.float64)


def _bare(env: gymnasium.Env | str) -> tuple[Any, str]:
    """The environment without its wrappers, and its name."""
    if isinstance(env, str):
        made = gymnasium.make(env)
        made.close()
        return _bare(made)
    if hasattr(env, "num_envs"):
        raise ValueError(
            f"A model is read from one environment, got a {type(env).__name__} of {env.num_envs}. Give one, or its id."
        )
    bare = env.unwrapped
    name = env.spec.id if env.spec is not None else type(bare).__name__
    if not getattr(bare, "P", None):
        raise ValueError(
            f"{name} carries no table P of its transitions, as Gymnasium's toy-text problems do, "
            "so it cannot be planned on exactly. Learn from it with svrl.train."
        )
    return bare, name


def _from_zero(space: Any) -> bool:
    return isinstance(space, spaces.Discrete) and space.start == 0
