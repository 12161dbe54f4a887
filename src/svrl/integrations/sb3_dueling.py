"""Dueling networks (Wang et al., 2016) for Stable-Baselines3's DQN.

    Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .)

`net_arch` is honoured: its last layer is each stream's own, the ones before it are shared. So [64, 64] is one shared
layer of 64 units, and one of 64 in each stream; [] gives two linear streams. With pictures the default is that of the
paper: the three convolutions of the Nature network, then 512 units in each stream.
"""

from __future__ import annotations

from typing import Any

import gymnasium
from torch import Tensor, nn

from svrl.integrations.versions import require

require("stable-baselines3")
from stable_baselines3.common.policies import BasePolicy  # noqa: E402
from stable_baselines3.common.torch_layers import NatureCNN, create_mlp  # noqa: E402
from stable_baselines3.dqn.policies import CnnPolicy, DQNPolicy, MultiInputPolicy, QNetwork  # noqa: E402

NATURE_STREAM = 512
"""Units of each stream after the Nature convolutions."""


class Streams(nn.Module):
    """Features (B, F) to values (B, A), through a value and an advantage."""

    def __init__(self, features: int, actions: int, widths: list[int], activation: type[nn.Module]) -> None:
        super().__init__()
        shared, own = widths[:-1], widths[-1:]
        inputs = shared[-1] if shared else features
        self.shared = nn.Sequential(*create_mlp(features, -1, shared, activation))
        self.value = nn.Sequential(*create_mlp(inputs, 1, own, activation))
        self.advantage = nn.Sequential(*create_mlp(inputs, actions, own, activation))

    def forward(self, features: Tensor) -> Tensor:
        """(B, F) -> (B, A)."""
        hidden = self.shared(features)
        advantage: Tensor = self.advantage(hidden)
        return self.value(hidden) + advantage - advantage.mean(-1, keepdim=True)


class DuelingQNetwork(QNetwork):
    """Stable-Baselines3's network with two streams in place of one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.q_net: nn.Module = Streams(  # type: ignore[assignment] # there it is a Sequential
            self.features_dim, int(self.action_space.n), self.net_arch, self.activation_fn
        )


class DuelingPolicy(DQNPolicy):
    """What a dueling agent takes for "MlpPolicy", and what a custom policy inherits from to be dueling."""

    def make_q_net(self) -> QNetwork:
        """A network with features of its own."""
        settings = self._update_features_extractor(self.net_args, features_extractor=None)
        return DuelingQNetwork(**settings).to(self.device)


class NatureConvolutions(NatureCNN):
    """The Nature network without its fully connected layer, which a dueling network has in each stream.

    With a `features_dim` it keeps that layer, shared, of so many units.
    """

    def __init__(
        self, observation_space: gymnasium.Space, features_dim: int | None = None, normalized_image: bool = False
    ) -> None:
        super().__init__(observation_space, features_dim or 1, normalized_image)
        if features_dim is None:
            last = self.linear[0]
            assert isinstance(last, nn.Linear)
            self._features_dim = last.in_features
            self.linear = nn.Sequential()


class DuelingCnnPolicy(DuelingPolicy, CnnPolicy):
    """What a dueling agent takes for "CnnPolicy"."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs.setdefault("features_extractor_class", NatureConvolutions) is NatureConvolutions:
            kwargs["net_arch"] = [NATURE_STREAM] if kwargs.get("net_arch") is None else kwargs["net_arch"]
        super().__init__(*args, **kwargs)


class DuelingMultiInputPolicy(DuelingPolicy, MultiInputPolicy):
    """What a dueling agent takes for "MultiInputPolicy"."""


DUELING_POLICIES: dict[str, type[BasePolicy]] = {
    "MlpPolicy": DuelingPolicy,
    "CnnPolicy": DuelingCnnPolicy,
    "MultiInputPolicy": DuelingMultiInputPolicy,
}
