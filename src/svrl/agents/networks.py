"""Networks from observations to the values of all actions.

A trunk (convolutions, or nothing, followed by fully connected layers) ends in a head, see `svrl.heads`. Convolutions:
`nature` has those of Mnih et al., 2015, for 84x84 frames; `minatar` those of Young and Tian, 2019, for 10x10 grids;
`mlp` has none for vectors. Pictures with sides of 36 pixels or more go through the convolutions of `nature` first, and
their last maps are averaged down to at most 8x8, so that the following layers do not grow with the picture; the other
numbers of an observation join them there.

Weights have torch's default distribution, but come from the caller's generator. You can also use your own network
(`svrl.agents.own_network`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from svrl.agents.config import AgentConfig, Precision
from svrl.agents.own_network import NetworkSource, make_module
from svrl.envs.vector import LEAST_SIDE, EnvSpec
from svrl.heads import DuelingHead, make_head

CONVOLUTIONS = {"nature": ((32, 8, 4), (64, 4, 2), (64, 3, 1)), "minatar": ((16, 3, 1),)}
"""Channels, width and stride of each convolution of a trunk."""
MOST_CELLS = 8
"""Cells of a side of the last maps of pictures, for `mlp`."""


class PicturesInRow(nn.Module):
    """Convolutions on the pictures of a row, followed by the other numbers: (N, D) -> (N, out).

    Attributes:
        outputs: Number of outputs.
    """

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        trunks, self.outputs = [], math.prod(spec.observation_shape)
        for _, *shape in spec.pictures:
            layers, maps = _convolutions(tuple(shape), "nature")
            pool, outputs = _pooled(maps)
            trunks.append(nn.Sequential(*layers, *pool, nn.Flatten()))
            self.outputs += outputs - math.prod(shape)
        self.trunks = nn.ModuleList(trunks)
        self._pictures = spec.pictures

    def forward(self, x: Tensor) -> Tensor:
        """(N, D) -> (N, out)."""
        seen, rest, end = [], [], 0
        for trunk, (first, *shape) in zip(self.trunks, self._pictures, strict=True):
            rest.append(x[:, end:first])
            end = first + math.prod(shape)
            seen.append(trunk(x[:, first:end].reshape(-1, *shape)))
        return torch.cat([*seen, *rest, x[:, end:]], 1)


class QNetwork(nn.Module, ABC):
    """Map observations (N, *observation_shape), in the environment's type, to values (N, A), float32.

    Attributes:
        high: The number that the first layer sees as 1.
        n_actions: Number of actions, A.
        feature_widths: Widths of the layers that `features` concatenates; empty for one layer of any width.
    """

    feature_widths: tuple[int, ...] = ()

    def __init__(self, high: float, n_actions: int) -> None:
        super().__init__()
        self.high = high
        self.n_actions = n_actions

    @abstractmethod
    def values(self, x: Tensor) -> Tensor:
        """Values (N, A) of scaled observations."""

    @abstractmethod
    def features(self, observations: Tensor) -> Tensor | None:
        """The last hidden activations (N, F); None if the network has none."""

    def scaled(self, observations: Tensor) -> Tensor:
        """Scale observations for the first layer: float32, divided by `high`."""
        x = observations.float()
        return x if self.high == 1.0 else x / self.high

    def forward(self, observations: Tensor) -> Tensor:
        """Values (N, A)."""
        return self.values(self.scaled(observations))

    def of_scaled(self, x: Tensor, precision: Precision = "float32") -> Tensor:
        """Values (N, A), float32, of scaled observations; "bf16" uses autocast, the others torch's switches."""
        if precision == "bf16":
            with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):  # a graph would hold the cache's memory
                return self.values(x).float()
        return self.values(x)


class LayeredNetwork(QNetwork):
    """A trunk, followed by a head."""

    def __init__(self, spec: EnvSpec, config: AgentConfig):
        super().__init__(spec.high, spec.n_actions)
        dueling, width = config.head == "dueling", config.hidden[-1]
        # Each stream of a dueling head has the last hidden layer for itself.
        self.trunk, outputs = _trunk_for(spec, config, config.hidden[:-1] if dueling else config.hidden)
        self.head = make_head(
            config.head,
            outputs,
            spec.n_actions,
            axes=spec.axes,
            width=width,
            rank=config.head_rank,
            ridge=config.head_ridge,
            layer_norm=config.layer_norm,
        )
        self.feature_widths = (width, width) if dueling else (width,)

    def values(self, x: Tensor) -> Tensor:
        """Values (N, A) of scaled observations."""
        return self.head(self.trunk(x))

    def features(self, observations: Tensor) -> Tensor:
        """The last hidden activations (N, F); with a dueling head those of both streams, concatenated."""
        x: Tensor = self.trunk(self.scaled(observations))
        return self.head.activations(x) if isinstance(self.head, DuelingHead) else x


class OwnNetwork(QNetwork):
    """A network of your own."""

    def __init__(self, module: nn.Module, spec: EnvSpec) -> None:
        super().__init__(spec.high, spec.n_actions)
        self.module = module

    def values(self, x: Tensor) -> Tensor:
        """Values (N, A) of scaled observations."""
        return self.module(x)

    def features(self, observations: Tensor) -> Tensor | None:
        """Input of the last nn.Linear, (N, F); None if there is none, or if it takes no row for each observation."""
        taken: list[Tensor] = []
        linear = [layer for layer in self.module.modules() if isinstance(layer, nn.Linear)]
        hooks = [layer.register_forward_pre_hook(lambda _, inputs: taken.extend(inputs[:1])) for layer in linear]
        try:
            self(observations)
        finally:
            for hook in hooks:
                hook.remove()
        return taken[-1].flatten(1) if taken and len(taken[-1]) == len(observations) else None


def build_network(
    spec: EnvSpec, config: AgentConfig, generator: torch.Generator | None, own: NetworkSource | None = None
) -> QNetwork:
    """Create a network for an environment.

    Args:
        spec: The environment.
        config: All settings.
        generator: A CPU generator that draws the weights. Without one you must load them.
        own: The function that creates your own network, if `config.network` names one; by default it is imported.

    Raises:
        ValueError: If the network cannot take such observations.
    """
    if config.has_own_network:
        return OwnNetwork(make_module(config.network, own, spec, generator), spec)
    with torch.device("meta"):  # leaves torch's global generator unchanged
        network = LayeredNetwork(spec, config)
    for module in network.modules():  # `to_empty` does the same, but imports sympy, which takes a second and a half
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(torch.empty(parameter.shape)))
    if generator is not None:
        _draw_weights(network, generator)
    if config.network == "nature":
        # A CPU convolves large pictures faster in this layout, but not small ones. Values and names do not change.
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def layers_of(network: nn.Module) -> str:
    """The widths of the convolutions and fully connected layers, such as "conv 32-64-64, linear 512-18"."""
    kinds = {"conv": nn.modules.conv._ConvNd, "linear": nn.Linear}
    found = {
        word: "-".join(str(len(layer.weight)) for layer in network.modules() if isinstance(layer, kind))  # type: ignore[arg-type]
        for word, kind in kinds.items()
    }
    return ", ".join(f"{word} {widths}" for word, widths in found.items() if widths)


def _trunk_for(spec: EnvSpec, config: AgentConfig, hidden: Sequence[int]) -> tuple[nn.Module, int]:
    """The layers before the head, the last of them `hidden` units wide, and their number of outputs."""
    shape = spec.observation_shape
    layers: list[nn.Module] = []
    inputs = math.prod(shape)
    if config.network != "mlp":
        if len(shape) != 3:
            raise ValueError(
                f"Network {config.network} takes pictures (channels, height, width), and {spec.id} has observations "
                f"of shape {shape}. Use network mlp."
            )
        layers, maps = _convolutions(shape, config.network)
        if min(maps) < 1:
            raise ValueError(
                f"Network {config.network} needs larger pictures than {spec.id} has, {spec.observation_shape}. "
                "Use network minatar or mlp."
            )
        inputs = math.prod(maps)
    elif spec.pictures:
        split = PicturesInRow(spec)
        layers, inputs = [split], split.outputs
    elif len(shape) == 3 and min(shape[1:]) >= LEAST_SIDE:
        layers, maps = _convolutions(shape, "nature")
        pool, inputs = _pooled(maps)
        layers += pool
    layers.append(nn.Flatten())
    for units in hidden:
        layers += [nn.Linear(inputs, units), *([nn.LayerNorm(units)] * config.layer_norm), nn.ReLU()]
        inputs = units
    return nn.Sequential(*layers), inputs


def _convolutions(shape: tuple[int, ...], name: str) -> tuple[list[nn.Module], tuple[int, ...]]:
    """The convolutions of a trunk on pictures (channels, height, width), and the shape of their last maps."""
    layers: list[nn.Module] = []
    for outputs, kernel, stride in CONVOLUTIONS[name]:
        layers += [nn.Conv2d(shape[0], outputs, kernel, stride), nn.ReLU()]
        shape = (outputs, *((side - kernel) // stride + 1 for side in shape[1:]))
    return layers, shape


def _pooled(maps: tuple[int, ...]) -> tuple[list[nn.Module], int]:
    """Average pooling of maps (channels, height, width) with too many cells, and its number of outputs."""
    channels, *sides = maps
    widths = [-(-side // MOST_CELLS) for side in sides]
    cells = math.prod(-(-side // width) for side, width in zip(sides, widths, strict=True))
    pool = nn.AvgPool2d((widths[0], widths[1]), ceil_mode=True)
    return [pool] if max(widths) > 1 else [], channels * cells


def _draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """torch's own rule for linear and convolutional layers: uniform within 1 / sqrt(inputs of a unit)."""
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1.0 / math.sqrt(layer.weight[0].numel())
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
        elif isinstance(layer, nn.LayerNorm):
            layer.reset_parameters()
