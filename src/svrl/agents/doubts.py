"""What a person should know of a training that cannot do what it was made for, before it begins."""

from __future__ import annotations

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
    most = min(config.batch_size, actions)
    if config.structured and config.rank >= most:
        found.append(
            f"Warning: every {config.batch_size} x {actions} matrix has a rank of {most} or less, so rank "
            f"{config.rank} tells the estimator nothing about hidden entries. Take a smaller one."
        )
    if config.updates_after(config.steps) == 0:
        found.append(
            f"Warning: no update is due within {config.steps:,} steps: {config.learn_from:,} come before the first "
            f"(learn_from), and then there are {config.updates_per_step:g} a step. The network stays as it was drawn."
        )
    return found
