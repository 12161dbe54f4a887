"""What a person should know of a training that cannot do what it was made for, before it begins."""

from __future__ import annotations

import inspect
import math
import warnings

from svrl.agents.config import AgentConfig

LEAST_ACTIONS = 3
"""Below, a matrix of values has too few columns for structure to matter."""


def doubts(config: AgentConfig, env: str, actions: int) -> list[str]:
    """Warnings, a sentence or two each.

    Args:
        config: All settings.
        env: Name of the environment.
        actions: How many it has.
    """
    found = []
    if config.structured and actions < LEAST_ACTIONS:
        word = "action leaves" if actions == 1 else "actions leave"
        found.append(f"Warning: on {env} {actions} {word} little structure to find.")
    centred = config.scale == "row"
    most = min(config.batch_size, actions - centred)
    if config.structured and config.rank and config.rank >= most:
        less = " less its row means" if centred else ""
        found.append(
            f"Warning: every {config.batch_size} x {actions} matrix{less} has a rank of {most} or less, so rank "
            f"{config.rank} tells the estimator nothing about hidden entries. Take a smaller one."
        )
    if _updates(config) == 0:
        found.append(
            f"Warning: no update is due within {config.steps:,} steps: {config.learn_from:,} come before the first "
            f"(learn_from), and then there are {config.updates_per_step:g} a step. The network stays as it was drawn."
        )
    return found


def warn(sentence: str) -> None:
    """A warning of Python's at the line outside svrl that led here, for callers who did not say whom to tell."""
    level, frame = 2, inspect.currentframe()
    while (frame := frame and frame.f_back) and frame.f_globals["__name__"].partition(".")[0] == "svrl":
        level += 1
    warnings.warn(sentence.removeprefix("Warning: "), stacklevel=level)


def _updates(config: AgentConfig) -> int:
    """Of the whole training: all environments step at once, and a lagging agent does not learn from the last round."""
    rounds = math.ceil(config.steps / config.envs) - config.act_lag
    return config.updates_after(rounds * config.envs)
