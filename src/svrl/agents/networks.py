"""Networks from observations to the values of all actions.

A trunk (convolutions, or nothing) is followed by fully connected layers. A plain network ends in one stream, a dueling
one (Wang et al., 2016) in two, the value and the advantage,

    Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .)

and that is their only difference. Trunks: `nature` is that of Mnih et al., 2015, for 84x84 frames; `minatar` that of
Young and Tian, 2019, for 10x10 grids; `mlp` has none. Weights have torch's default distribution, but come from a
generator of the caller.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from svrl.agents.config import AgentConfig, Precision
from svrl.envs.vector import EnvSpec

CONVOLUTIONS = {"nature": ((32, 8, 4), (64, 4, 2), (64, 3, 1)), "minatar": ((16, 3, 1),), "mlp": ()}
"""Channels, width and stride of each convolution of a trunk."""


def skip_init(kind: Any, *sizes: int, **options: int) -> Any:
    """A layer without initial weights, which leaves torch's global generator unchanged.

    `torch.nn.utils.skip_init` does the same, but imports sympy, which takes a second and a half.
    """
    layer = kind(*sizes, device="meta", **options)
    for name, parameter in list(layer.named_parameters()):
        setattr(layer, name, nn.Parameter(torch.empty(parameter.shape, dtype=parameter.dtype)))
    return layer


class Stream(nn.Module):
    """One hidden layer and one linear layer: features (N, in) -> (N, out)."""

    def __init__(self, inputs: int, width: int, outputs: int) -> None:
        super().__init__()
        self.hidden = skip_init(nn.Linear, inputs, width)
        self.out = skip_init(nn.Linear, width, outputs)

    def activations(self, x: Tensor) -> Tensor:
        """The hidden layer after its ReLU, (N, width)."""
        return torch.relu(self.hidden(x))

    def forward(self, x: Tensor) -> Tensor:
        """(N, in) -> (N, out)."""
        return self.out(self.activations(x))


class QNetwork(nn.Module):
    """Observations (N, *observation_shape), in the environment's type, to values (N, A), float32."""

    def __init__(self, trunk: nn.Module, inputs: int, width: int, n_actions: int, *, high: float, dueling: bool):
        super().__init__()
        self.trunk = trunk
        self.high = high
        self.action_stream = Stream(inputs, width, n_actions)
        self.value_stream = Stream(inputs, width, 1) if dueling else None

    @property
    def n_actions(self) -> int:
        """A."""
        return int(self.action_stream.out.out_features)

    @property
    def feature_widths(self) -> tuple[int, ...]:
        """Widths of the layers that `features` concatenates."""
        return tuple(stream.hidden.out_features for stream in self._streams)

    @property
    def _streams(self) -> list[Stream]:
        return [self.action_stream] if self.value_stream is None else [self.value_stream, self.action_stream]

    def scaled(self, observations: Tensor) -> Tensor:
        """Observations as the first layer takes them: float32, divided by `high`."""
        x = observations.float()
        return x if self.high == 1.0 else x / self.high

    def forward(self, observations: Tensor) -> Tensor:
        """Values (N, A)."""
        return self.of_scaled(self.scaled(observations))

    def of_scaled(self, x: Tensor, precision: Precision = "float32") -> Tensor:
        """Values (N, A), float32, of scaled observations; "bf16" uses autocast, the others torch's switches."""
        if precision == "bf16":
            with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):  # a graph would hold the cache's memory
                return self.of_scaled(x).float()
        x = self.trunk(x)
        advantage: Tensor = self.action_stream(x)
        if self.value_stream is None:
            return advantage
        return self.value_stream(x) + advantage - advantage.mean(-1, keepdim=True)

    def features(self, observations: Tensor) -> Tensor:
        """The last hidden activations (N, F); in a dueling network those of both streams, concatenated."""
        x = self.trunk(self.scaled(observations))
        return torch.cat([stream.activations(x) for stream in self._streams], -1)


def build_network(spec: EnvSpec, config: AgentConfig, generator: torch.Generator | None) -> QNetwork:
    """A network for an environment, with weights drawn from a CPU generator. Without a generator you must load them.

    Raises:
        ValueError: If the network cannot take such observations.
    """
    trunk, inputs = _trunk_for(spec, config)
    network = QNetwork(
        trunk, inputs, config.hidden[-1], spec.n_actions, high=spec.high, dueling=config.agent == "dueling"
    )
    if generator is not None:
        _draw_weights(network, generator)
    if config.network == "nature":
        # A CPU convolves large pictures faster in this layout, but not small ones. Values and names do not change.
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _trunk_for(spec: EnvSpec, config: AgentConfig) -> tuple[nn.Module, int]:
    """The layers before the streams, and their number of outputs."""
    layers: list[nn.Module] = []
    shape = spec.observation_shape
    if CONVOLUTIONS[config.network] and len(shape) != 3:
        raise ValueError(
            f"Network {config.network} takes pictures (channels, height, width), and {spec.id} has observations "
            f"of shape {shape}. Take network mlp."
        )
    for outputs, kernel, stride in CONVOLUTIONS[config.network]:
        layers += [skip_init(nn.Conv2d, shape[0], outputs, kernel, stride=stride), nn.ReLU()]
        shape = (outputs, *((side - kernel) // stride + 1 for side in shape[1:]))
        if min(shape) < 1:
            raise ValueError(
                f"Network {config.network} needs larger pictures than {spec.id} has, {spec.observation_shape}. "
                "Take network minatar or mlp."
            )
    layers.append(nn.Flatten())
    inputs = math.prod(shape)
    for units in config.hidden[:-1]:
        layers += [skip_init(nn.Linear, inputs, units), nn.ReLU()]
        inputs = units
    return nn.Sequential(*layers), inputs


def _draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """torch's own rule for linear and convolutional layers: uniform within 1 / sqrt(inputs of a unit)."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1.0 / math.sqrt(layer.weight[0].numel())
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
