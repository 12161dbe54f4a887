"""Acting: epsilon-greedy, with greedy actions that are found beside the learner where there is a lag.

An action is random with probability epsilon, which falls linearly and then stays. The others come from the network that
learns or, with a lag, from a copy of it, which takes over the weights before each burst. On a GPU the copy works on a
stream of its own, so actions do not wait for the burst.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.agents.config import AgentConfig, Precision
from svrl.agents.cuda_graph import CudaGraph, GpuEvent, stream_of
from svrl.agents.learner import copy_weights
from svrl.agents.networks import QNetwork
from svrl.agents.precision import values_of
from svrl.envs.vector import EnvSpec


class Actor:
    """Observations (N, *observation_shape) to actions (N,).

    Attributes:
        network: The one that learns, or with a lag its copy.
    """

    def __init__(self, network: QNetwork, spec: EnvSpec, *, n_envs: int, lag: bool, precision: Precision) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False) if lag else network
        device = next(network.parameters()).device
        self._precision = precision
        self._seen = torch.zeros((n_envs, *spec.observation_shape), dtype=getattr(torch, spec.dtype), device=device)
        self._shown = torch.zeros_like(self._seen, device="cpu").pin_memory() if self._seen.is_cuda else self._seen
        self._stream = stream_of(device, first=True) if lag else None
        self._ready, self._done = GpuEvent(device), GpuEvent(device)
        self._greedy = CudaGraph(self._best, device, repeatable=True)
        self._ready.record()  # the copy is made on one stream, and used on another

    def follow(self, network: QNetwork) -> None:
        """Take over the weights of `network` as the current stream leaves them, once the last actions are chosen."""
        if self.network is not network:
            self._done.wait()
            copy_weights(network, self.network)
            self._ready.record()

    @torch.no_grad()
    def __call__(self, observations: np.ndarray) -> Tensor:
        """The best actions (N,), int64, on the host; waits for nothing else."""
        with self._beside():
            if self._stream is not None:
                self._ready.wait()
            np.copyto(self._shown.numpy(), observations)
            if self._shown is not self._seen:
                self._seen.copy_(self._shown, non_blocking=True)
            actions = self._greedy()
            self._done.record()
            return actions.cpu()

    def release(self) -> None:
        """Free the graph and its memory."""
        self._greedy.release()

    def _best(self) -> Tensor:
        return values_of(self.network, self.network.scaled(self._seen), self._precision).argmax(-1)

    def _beside(self) -> Any:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)


def epsilon_at(config: AgentConfig, steps: int) -> float:
    """The probability of a random action after this many agent steps."""
    if steps >= config.epsilon_steps:
        return config.epsilon_final
    return config.epsilon_start + (config.epsilon_final - config.epsilon_start) * steps / config.epsilon_steps


def epsilon_greedy(q: Tensor, epsilon: float, generator: torch.Generator) -> Tensor:
    """Actions (N,), int64, for values (N, A); the generator is a CPU one, the result lies where q does."""
    n_envs, n_actions = q.shape
    actions = explore(lambda: q.argmax(-1).cpu(), n_envs, n_actions, epsilon, generator)
    return torch.from_numpy(actions).to(q.device)


def explore(
    greedy: Callable[[], Tensor], n_envs: int, n_actions: int, epsilon: float, generator: torch.Generator
) -> np.ndarray:
    """Actions (N,), int64, random with probability epsilon; `greedy` gives the others, and is called only if needed.

    The same amount of randomness is drawn whatever epsilon is.
    """
    random = (torch.rand(n_envs, generator=generator) < epsilon).numpy()
    actions = torch.randint(n_actions, (n_envs,), generator=generator).numpy()
    return actions if random.all() else np.where(random, actions, greedy().numpy())
