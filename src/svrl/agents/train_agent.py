"""train: the one call for those who want an agent and not the loop."""

from __future__ import annotations

from collections.abc import Callable

import torch

from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig, Precision
from svrl.agents.environment import EnvSource, name_of
from svrl.agents.evaluation import with_evaluation
from svrl.agents.events import Event
from svrl.agents.training import Training


def train(
    env: EnvSource,
    config: AgentConfig | None = None,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    precision: Precision | None = None,
    watch: Callable[[Event], None] | None = None,
) -> Agent:
    """Train an agent and return it.

    Nothing is written to disk; `svrl train` does that, and can be interrupted. Two calls with one seed give
    the same agent on the CPU, with the same number of threads; on a GPU the last digits may differ.

    Args:
        env: A name ("CartPole-v1", "atari/breakout", "minatar/asterix", "control/inverted-pendulum"), or a function
            without arguments that makes a Gymnasium environment of your own.
        config: All settings; by default the preset of the environment's family.
        seed: Of everything random.
        device: "cpu", "cuda" or "cuda:1".
        precision: What a GPU multiplies matrices in: "float32", "tf32" (the default there) or "bf16".
        watch: Called with every event, see `svrl.agents.events`.
    """
    if config is None:
        config = AgentConfig.for_env(name_of(env))
    if not isinstance(config, AgentConfig):
        raise ValueError(f"train takes an AgentConfig, as AgentConfig.for_env(env, 'smoke') makes it; got {config!r}.")
    training = Training.begin(env, config, seed=seed, device=device, precision=precision)
    try:
        for event in with_evaluation(training):
            if watch is not None:
                watch(event)
    finally:
        training.close()
    return Agent.of(training)
