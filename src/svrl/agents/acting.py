"""Acting: greedy actions for what the environments show, beside the learner where there is a lag.

Without a lag the network that learns is asked itself. With one, a copy of it is, which takes over the weights before
each burst. On a GPU the copy works on a stream of its own, so that actions need not wait for the burst.
"""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.agents.captured import Captured, GpuEvent, readable, stream_of
from svrl.agents.config import Precision
from svrl.agents.learner import copy_weights
from svrl.agents.networks import QNetwork
from svrl.agents.precision import values_of
from svrl.envs.vector import EnvSpec


class Actor:
    """Observations (N, *observation_shape) to actions (N,).

    Attributes:
        network: What is asked: the one that learns, or its copy.
    """

    def __init__(self, network: QNetwork, spec: EnvSpec, *, lanes: int, lag: bool, precision: Precision) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False) if lag else network
        device = next(network.parameters()).device
        self._precision = precision
        self._seen = torch.zeros((lanes, *spec.observation_shape), dtype=getattr(torch, spec.dtype), device=device)
        self._shown = readable(torch.zeros_like(self._seen, device="cpu"), self._seen)
        self._stream = stream_of(device, first=True) if lag else None
        self._ready, self._done = GpuEvent(device), GpuEvent(device)
        self._greedy = Captured(self._best, device, repeatable=True)
        self._ready.record()  # the copy is made on another stream than it is asked on

    def follow(self, network: QNetwork) -> None:
        """Take over the weights that the current stream leaves, once the last actions have been chosen."""
        if self.network is not network:
            self._done.wait()
            copy_weights(network, self.network)
            self._ready.record()

    @torch.no_grad()
    def __call__(self, observations: np.ndarray) -> Tensor:
        """The best actions, int64, on the host; waits for them alone."""
        with self._beside():
            if self._stream is not None:
                self._ready.wait()
            np.copyto(self._shown.numpy(), observations)
            self._seen.copy_(self._shown, non_blocking=True)
            actions = self._greedy()
            self._done.record()
            return actions.cpu()

    def forget(self) -> None:
        """Let go of the graph and its memory."""
        self._greedy.forget()

    def _best(self) -> Tensor:
        return values_of(self.network, self.network.scaled(self._seen), self._precision).argmax(-1)

    def _beside(self) -> Any:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
