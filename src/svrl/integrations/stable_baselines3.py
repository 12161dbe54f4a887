"""Stable-Baselines3's DQN with structure, double and dueling DQN, and structured heads, with or without it.

    StructuredDQN("MlpPolicy", env)                                 in place of DQN("MlpPolicy", env)
    StructuredDQN("MlpPolicy", env, structure=0.5, double=True)     p = 0.5, and the online network chooses
    DoubleDQN("MlpPolicy", env)    DuelingDQN("CnnPolicy", env)     no structure unless it is asked for

Everything else is the library's: while its own `train` runs, a forward hook on the target network replaces what that
says about the next states, once for each update. The library then forms targets from it, with its own rewards,
discounts and n-step returns. Who chooses and who values is the table of `svrl.agents.targets`.

Networks can end in each head of `svrl.heads`, in the library's own DQN, too:

    DQN(HeadPolicy, env)                                                                low-rank, with its ridge
    DQN(HeadPolicy, env, policy_kwargs={"head": "additive", "axes": (3, 3)})            9 actions with two axes

`net_arch` is honoured: a head follows its last layer. A dueling head (Wang et al., 2016) takes that layer for each of
its streams, and the ones before it are shared. So [64, 64] is one shared layer of 64 units, and one of 64 in each
stream; [] gives two linear streams. With pictures the default is that of the paper: the three convolutions of the
Nature network, then 512 units in each stream.

Approximate ranks of the values of next states are logged under structure/, also with `structure=None`, which is the
library's own agent.

Masks are drawn from the model's seed and its number of updates, which the library saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import torch
from torch import Tensor, nn

from svrl.agents.config import HEAD_RANK, HEAD_RIDGE, Head
from svrl.agents.structured_targets import OUR_WAY, StructuredTargets
from svrl.heads import make_head, ridge_in_backward
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
from stable_baselines3.common.type_aliases import Schedule  # noqa: E402
from stable_baselines3.dqn.policies import CnnPolicy, DQNPolicy, MultiInputPolicy, QNetwork  # noqa: E402

NATURE_STREAM = 512
"""Units of each stream of a dueling head after the Nature convolutions."""


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


class HeadQNetwork(QNetwork):
    """Stable-Baselines3's network, whose last layer is a head."""

    def __init__(self, *args: Any, head: Head, head_settings: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head, self.head_settings = head, head_settings
        actions, widths, last = int(self.action_space.n), self.net_arch, {}
        if head == "dueling" and widths:
            widths, last = widths[:-1], {"width": widths[-1], "activation": self.activation_fn}
        elif head == "dueling":  # two linear streams
            head, last = "additive", {"axes": (actions,)}
        features = widths[-1] if widths else self.features_dim
        self.q_net = nn.Sequential(
            *create_mlp(self.features_dim, -1, widths, self.activation_fn),
            make_head(head, features, actions, **{**head_settings, **last}),
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "head": self.head, "head_settings": self.head_settings}


class HeadPolicy(DQNPolicy):
    """DQN's "MlpPolicy", whose network ends in a head of `svrl.heads`.

    Args:
        head: Its name.
        axes: Levels of each axis of an action, for the additive heads; actions are numbered row by row, the last axis
            fastest.
        rank, ridge: Of a low-rank head.
        args, kwargs: Those of the library's policy.
    """

    def __init__(
        self,
        *args: Any,
        head: Head = "low-rank",
        axes: Sequence[int] = (),
        rank: int = HEAD_RANK,
        ridge: float = HEAD_RIDGE,
        **kwargs: Any,
    ) -> None:
        self.head, self.head_settings = head, {"axes": tuple(axes), "rank": rank, "ridge": ridge}
        super().__init__(*args, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        ridge_in_backward(self.q_net)  # the library computes the loss

    def make_q_net(self) -> QNetwork:
        """A network with features of its own."""
        settings = self._update_features_extractor(self.net_args, features_extractor=None)
        return HeadQNetwork(**settings, head=self.head, head_settings=self.head_settings).to(self.device)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "head": self.head, **self.head_settings}


class NatureConvolutions(NatureCNN):
    """The Nature network without its fully connected layer, which a dueling head has in each stream."""

    def __init__(
        self, observation_space: gymnasium.Space, features_dim: int = NATURE_STREAM, normalized_image: bool = False
    ) -> None:
        super().__init__(observation_space, features_dim, normalized_image)
        last = self.linear[0]
        assert isinstance(last, nn.Linear)
        self._features_dim = last.in_features
        self.linear = nn.Sequential()


class HeadCnnPolicy(HeadPolicy, CnnPolicy):
    """The same for pictures, "CnnPolicy"."""

    def __init__(self, *args: Any, head: Head = "low-rank", **kwargs: Any) -> None:
        if (
            head == "dueling"
            and kwargs.setdefault("features_extractor_class", NatureConvolutions) is NatureConvolutions
            and kwargs.get("net_arch") is None
        ):
            kwargs["net_arch"] = [(kwargs.get("features_extractor_kwargs") or {}).get("features_dim", NATURE_STREAM)]
        super().__init__(*args, head=head, **kwargs)


class HeadMultiInputPolicy(HeadPolicy, MultiInputPolicy):
    """The same for dictionaries, "MultiInputPolicy"."""


HEAD_POLICIES: dict[str, type[BasePolicy]] = {
    "MlpPolicy": HeadPolicy,
    "CnnPolicy": HeadCnnPolicy,
    "MultiInputPolicy": HeadMultiInputPolicy,
}


class StructuredDQN(StructuredTraining, DQN):
    """DQN whose next states are valued by a completed matrix. Takes all that DQN takes, and three more.

    `structure` is a `StructuredTargets`, a probability p, or None for no structure; `double` lets the online network
    choose; `dueling` is the head of that name, for "MlpPolicy", "CnnPolicy" and "MultiInputPolicy", and for a policy
    class that inherits from `svrl.integrations.stable_baselines3.HeadPolicy`.
    """

    dueling: bool

    def __init__(self, policy: Any, env: Any, *args: Any, dueling: bool = False, **kwargs: Any) -> None:
        self.dueling = dueling
        super().__init__(policy, env, *args, **kwargs)

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        if self.dueling and policy_name in HEAD_POLICIES:
            return HEAD_POLICIES[policy_name]
        return super()._get_policy_from_name(policy_name)

    def _setup_model(self) -> None:
        if self.dueling and not issubclass(self.policy_class, HeadPolicy):
            raise ValueError(
                f"dueling=True needs a policy that takes a head, and {self.policy_class.__name__} takes none. "
                "Let it inherit from svrl.integrations.stable_baselines3.HeadPolicy."
            )
        if self.dueling:
            self.policy_kwargs = {"head": "dueling", **self.policy_kwargs}
            if self.policy_kwargs["head"] != "dueling":
                raise ValueError(
                    f"dueling=True means head dueling, and policy_kwargs have head {self.policy_kwargs['head']}. "
                    "Leave out one of them."
                )
        super()._setup_model()
        self.dueling = getattr(self.policy, "head", None) == "dueling"


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
