"""Epsilon-greedy: a random action with probability epsilon, which falls linearly and then stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from svrl.agents.config import AgentConfig


def epsilon_at(config: AgentConfig, steps: int) -> float:
    """The probability of a random action after this many agent steps."""
    if steps >= config.epsilon_steps:
        return config.epsilon_final
    return config.epsilon_start + (config.epsilon_final - config.epsilon_start) * steps / config.epsilon_steps


def epsilon_greedy(q: Tensor, epsilon: float, generator: torch.Generator) -> Tensor:
    """Actions (N,), int64, for values (N, A); the generator is a CPU one, the result lies where q does."""
    lanes, n_actions = q.shape
    random, actions = _draw(lanes, n_actions, epsilon, generator)
    return torch.where(random.to(q.device), actions.to(q.device), q.argmax(-1))


def explore(
    greedy: Callable[[], Tensor], lanes: int, n_actions: int, epsilon: float, generator: torch.Generator
) -> np.ndarray:
    """As `epsilon_greedy`, as an array, and asking for the greedy actions (N,) only when some lane needs them."""
    random, actions = _draw(lanes, n_actions, epsilon, generator)
    if not bool(random.all()):
        actions = torch.where(random, actions, greedy())
    return actions.numpy()


def _draw(lanes: int, n_actions: int, epsilon: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Which lanes act at random, and how; always the same amount of randomness, whatever epsilon is."""
    random = torch.rand(lanes, generator=generator) < epsilon
    return random, torch.randint(n_actions, (lanes,), generator=generator)
