"""Stable-Baselines3's DQN with structure, and double and dueling DQN, with or without it.

    StructuredDQN("MlpPolicy", env)                                 in place of DQN("MlpPolicy", env)
    StructuredDQN("MlpPolicy", env, structure=0.5, double=True)     p = 0.5, and the online network chooses
    DoubleDQN("MlpPolicy", env)    DuelingDQN("CnnPolicy", env)     no structure unless it is asked for

Everything else is the library's: while its own `train` runs, a forward hook on the target network replaces what that
says about the next states, once for each update. The library then forms targets from it, with its own rewards,
discounts and n-step returns. Who chooses and who values is the table of `svrl.agents.targets`.

Dueling networks (Wang et al., 2016) have Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .). `net_arch` is
honoured: its last layer is each stream's own, the ones before it are shared. So [64, 64] is one shared layer of 64
units, and one of 64 in each stream; [] gives two linear streams. With pictures the default is that of the paper: the
three convolutions of the Nature network, then 512 units in each stream.

Approximate ranks of the values of next states are logged under structure/, also with `structure=None`, which is the
library's own agent.

Masks are drawn from the model's seed and its number of updates, which the library saves.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import torch
from torch import Tensor, nn

from svrl.agents.structured_targets import OUR_WAY, StructuredTargets
from svrl.integrations.agents import means, rule_of, values_to_maximise
from svrl.integrations.target_hook import ranks_of
from svrl.integrations.versions import changed, require

PACKAGE = "stable-baselines3"
require(PACKAGE)
from stable_baselines3 import DQN  # noqa: E402
from stable_baselines3.common.base_class import BaseAlgorithm  # noqa: E402
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm  # noqa: E402
from stable_baselines3.common.policies import BasePolicy  # noqa: E402
from stable_baselines3.common.torch_layers import NatureCNN, create_mlp  # noqa: E402
from stable_baselines3.dqn.policies import CnnPolicy, DQNPolicy, MultiInputPolicy, QNetwork  # noqa: E402

NATURE_STREAM = 512
"""Units of each stream after the Nature convolutions."""


class StructuredTraining(OffPolicyAlgorithm):
    """What `StructuredDQN` and `StructuredQRDQN` share. No algorithm by itself.

    Attributes:
        structure: What is done to the values of next states; None does nothing.
        double: Whether the online network chooses the next action.
    """

    structure: StructuredTargets | None
    double: bool

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: Any,
        *args: Any,
        structure: StructuredTargets | float | None = OUR_WAY,
        double: bool = False,
        **kwargs: Any,
    ) -> None:
        self.structure, self.double = structure, double  # type: ignore[assignment] # a number becomes a rule below
        super().__init__(policy, env, *args, **kwargs)

    def _setup_model(self) -> None:
        self.structure = rule_of(self.structure)  # load(path, structure=0.5) comes here with a number
        super()._setup_model()
        self._last_values: Tensor | None = None
        self._replaced_updates = 0

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """The library's updates, with other values of the next states.

        Raises:
            RuntimeError: If an update asked the target network less or more often than once.
        """
        self.structure = rule_of(self.structure)  # it may have been set to a number
        online, target = networks_of(self)
        first, seed, asked = self._n_updates, self.seed or 0, 0

        def replace(network: nn.Module, inputs: tuple[Any, ...], values: Tensor) -> Tensor:
            nonlocal asked
            asked += 1
            self._last_values = values.detach()
            return values_to_maximise(
                values,
                online_q=_greedily(online, inputs[0]) if self.double else None,
                rule=self.structure,
                seed=seed,
                updates=first + asked - 1,
            )

        with target.register_forward_hook(replace):
            super().train(gradient_steps, batch_size)
        if asked != gradient_steps:
            raise changed(PACKAGE, f"{gradient_steps} updates asked the target network {asked} times")
        self._replaced_updates += gradient_steps

    def learn(self, *args: Any, **kwargs: Any) -> Any:
        """The library's.

        Raises:
            RuntimeError: If a subclass made updates that this class had no hand in.
        """
        made, replaced = self._n_updates, self._replaced_updates
        model = super().learn(*args, **kwargs)
        made, replaced = self._n_updates - made, self._replaced_updates - replaced
        if made != replaced and (self.structure is not None or self.double):
            raise RuntimeError(
                f"{type(self).__name__} made {made} updates, {replaced} of them with structured or double targets. "
                "Let its train() call super().train()."
            )
        return model

    def ranks(self) -> dict[str, float]:
        """Approximate ranks of the last batch's next states, before completion; nothing before the first update."""
        return {} if self._last_values is None else ranks_of(means(self._last_values))

    def dump_logs(self) -> None:
        """The library's, with ranks and p under structure/."""
        for name, rank in self.ranks().items():
            self.logger.record(f"structure/{name}", rank)
        if self.structure is not None and self._last_values is not None:
            self.logger.record("structure/p", self.structure.probability(self._n_updates))
        super().dump_logs()

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_last_values", "_replaced_updates"]


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
    """The Nature network without its fully connected layer, which a dueling network has in each stream."""

    def __init__(self, observation_space: gymnasium.Space, normalized_image: bool = False) -> None:
        super().__init__(observation_space, normalized_image=normalized_image)
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


class StructuredDQN(StructuredTraining, DQN):
    """DQN whose next states are valued by a completed matrix. Takes all that DQN takes, and three more.

    `structure` is a `StructuredTargets`, a probability p, or None for no structure; `double` lets the online network
    choose; `dueling` takes dueling networks for "MlpPolicy", "CnnPolicy" and "MultiInputPolicy". A custom policy
    class is dueling if it inherits from `svrl.integrations.stable_baselines3.DuelingPolicy`.
    """

    dueling: bool

    def __init__(self, policy: Any, env: Any, *args: Any, dueling: bool = False, **kwargs: Any) -> None:
        self.dueling = dueling
        super().__init__(policy, env, *args, **kwargs)

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        if self.dueling and policy_name in DUELING_POLICIES:
            return DUELING_POLICIES[policy_name]
        return super()._get_policy_from_name(policy_name)

    def _setup_model(self) -> None:
        found = issubclass(self.policy_class, DuelingPolicy)
        if self.dueling and not found:
            raise ValueError(
                f"dueling=True needs a dueling network, and {self.policy_class.__name__} has none. "
                "Let it inherit from svrl.integrations.stable_baselines3.DuelingPolicy."
            )
        self.dueling = found
        super()._setup_model()


class DoubleDQN(StructuredDQN):
    """`StructuredDQN` that is double, and plain unless a structure is given."""

    def __init__(self, policy: Any, env: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(policy, env, *args, **{"structure": None, "double": True, **kwargs})


class DuelingDQN(StructuredDQN):
    """`StructuredDQN` that is dueling, and plain unless a structure is given."""

    def __init__(self, policy: Any, env: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(policy, env, *args, **{"structure": None, "dueling": True, **kwargs})


def networks_of(model: BaseAlgorithm) -> tuple[nn.Module, nn.Module]:
    """The online and the target network of a DQN or a QR-DQN."""
    name = "q_net" if hasattr(model, "q_net") else "quantile_net"
    return getattr(model, name), getattr(model, f"{name}_target")


def _greedily(network: nn.Module, observations: Any) -> Tensor:
    """Values as the agent acts on them: without dropout, and batch norm neither counts these states nor uses them."""
    training = network.training
    network.train(False)
    try:
        with torch.no_grad():
            return network(observations)
    finally:
        network.train(training)
