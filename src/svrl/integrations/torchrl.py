"""TorchRL's DQN losses with structure.

    loss = StructuredDQNLoss(network, action_space=space)                   in place of DQNLoss(network, ...)
    loss = StructuredDQNLoss(network, action_space=space, structure=0.5)    p = 0.5
    LogRanks(loss).register(trainer)                                        ranks in what a Trainer logs

A value estimator of the library (TD0, TD1, TD(lambda)) forms targets from the value of the next state, and takes that
value as an argument. Here it is given one from a completed matrix; rewards, discounts, n-step data, priorities and
masks of losses are the library's own code. All next states of a call are the rows of one matrix, whatever the shape
of the batch. Nothing is hooked or copied, so target updaters, trainers and torch.compile(fullgraph=True) see a
DQNLoss.

| loss                   | what is completed                                                                     |
|------------------------|---------------------------------------------------------------------------------------|
| DQNLoss                | values (B, A), as the table of `svrl.agents.targets` says; `double_dqn` is "double"   |
| DistributionalDQNLoss  | expected values of the online network (B, A), which choose; distributions stay        |

For the second `next_value_from` is ignored: a distribution over fixed atoms cannot be moved. Dueling is a matter of the
network.

A network that masks invalid actions (`action_mask_key`) gives them the smallest float as a value: those entries are
never observed and never chosen.

Masks are drawn from `seed` and the number of updates, a buffer of the loss: `state_dict` holds it. A call without
gradients is no update: it sees the next mask and does not count.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from svrl.agents.structured_targets import OUR_WAY, StructuredTargets
from svrl.integrations.agents import StructuredModule, checked_every, valid_actions
from svrl.integrations.pytorch import structured, structured_values
from svrl.integrations.target_hook import ranks_of
from svrl.integrations.versions import require

require("torchrl")
from tensordict import TensorDictBase  # noqa: E402
from tensordict.nn import dispatch  # noqa: E402
from torchrl.envs.utils import step_mdp  # noqa: E402
from torchrl.objectives import DistributionalDQNLoss, DQNLoss  # noqa: E402
from torchrl.trainers import TrainerHookBase  # noqa: E402


class StructuredLoss(StructuredModule):
    """What the structured losses share. No loss by itself, as the metaclass of LossModule would give it a forward."""

    def __init__(
        self,
        value_network: nn.Module,
        *,
        structure: StructuredTargets | float | None = OUR_WAY,
        seed: int = 0,
        **settings: Any,
    ) -> None:
        """Make the loss.

        Args:
            value_network: As for the library's loss.
            structure: A `StructuredTargets`, a probability p, or None for no structure.
            seed: For the masks.
            settings: Those of the library's loss.
        """
        super().__init__(value_network, **settings)  # type: ignore[call-arg] # of the loss, which comes after this
        self.structure_seed = seed
        self.structure = structure

    def _check(self, rule: StructuredTargets | None) -> None:
        loss: Any = self
        modules = loss.value_network.modules()
        self._masks_actions = any(getattr(module, "action_mask_key", None) is not None for module in modules)
        if rule is not None and loss.action_space not in ("categorical", "one_hot"):
            raise ValueError(
                "Structure is between the values of one discrete action, categorical or one-hot, "
                f"got {loss.action_space}."
            )


class StructuredDQNLoss(StructuredLoss, DQNLoss):
    """DQNLoss whose next states are valued by a completed matrix. Takes all that DQNLoss takes, and two more.

    Attributes:
        is_double: Whether the online network chooses the next action, as asked by `double_dqn`. With structure the
            attribute `double_dqn` is False: then the library leaves the next value to its value estimator.
    """

    double_dqn: bool

    def _check(self, rule: StructuredTargets | None) -> None:
        super()._check(rule)
        if not hasattr(self, "is_double"):
            self.is_double = self.double_dqn
        self.double_dqn = self.is_double and rule is None

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """DQNLoss's loss, with structured targets."""
        if self.structure is None:
            return super().forward(tensordict)
        self._completions = 0
        losses = super().forward(tensordict)
        self._end_update("torchrl", counts=torch.is_grad_enabled())
        return losses

    @property
    def value_estimator(self) -> Any:
        """The library's, given structured values of next states."""
        if self._value_estimator is None:  # as the library does; a compiler does not follow super().value_estimator
            self._default_value_estimator()
        estimator = self._value_estimator
        return estimator if self.structure is None else _StructuredEstimator(self, estimator)

    @value_estimator.setter
    def value_estimator(self, estimator: Any) -> None:
        self._value_estimator = estimator

    def structured_next_value(self, tensordict: TensorDictBase, target_params: TensorDictBase) -> Tensor:
        """What the next states of a batch are worth, (..., 1)."""
        after = step_mdp(tensordict, keep_other=False)
        online_q = None
        if self.is_double:
            online_q = _rows(_values(self, after.clone(False), self.value_network_params.data))
        target_q = _values(self, after, target_params)
        rows = _rows(target_q)
        action_mask = valid_actions(rows) if self._masks_actions else None
        worth = self._completed(structured_values, rows, online_q=online_q, action_mask=action_mask)
        return worth.view(*target_q.shape[:-1], 1)


class _StructuredEstimator:
    """A value estimator that is given the next value. Everything else is the estimator's."""

    def __init__(self, loss: StructuredDQNLoss, estimator: Any) -> None:
        self._loss, self._estimator = loss, estimator

    def value_estimate(
        self, tensordict: TensorDictBase, target_params: Any = None, next_value: Any = None, **settings: Any
    ) -> Tensor:
        if next_value is None:
            next_value = self._loss.structured_next_value(tensordict, target_params)
        return self._estimator.value_estimate(
            tensordict, target_params=target_params, next_value=next_value, **settings
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._estimator, name)


class StructuredDistributionalDQNLoss(StructuredLoss, DistributionalDQNLoss):
    """DistributionalDQNLoss whose next actions are chosen by completed expected values."""

    def _check(self, rule: StructuredTargets | None) -> None:
        super()._check(rule)
        if rule is not None and self._masks_actions:
            raise ValueError(
                "TorchRL's distributional values give a masked action the expected value 0, so it can be chosen. "
                "Use a DQNLoss with action_mask_key, or set structure=None."
            )

    def forward(self, input_tensordict: TensorDictBase) -> TensorDictBase:
        """DistributionalDQNLoss's loss, with structured choices."""
        if self.structure is None:
            return super().forward(input_tensordict)
        self._completions = 0
        with self.value_network.register_forward_hook(self._choose):
            losses = super().forward(input_tensordict)
        self._end_update("torchrl", counts=torch.is_grad_enabled())
        return losses

    def _choose(self, network: nn.Module, inputs: Any, answer: TensorDictBase) -> None:
        """Replace the action where the online network is asked about next states."""
        online = next(network.parameters(), None) is next(self.value_network_params.parameters())
        if not online or answer.get("next", None) is not None:
            return
        chosen = self._completed(structured, _expected(self, answer)).argmax(-1)
        action = answer.get(self.tensor_keys.action)
        if self.action_space == "categorical":
            answer.set(self.tensor_keys.action, chosen.view_as(action))
        else:
            answer.set(self.tensor_keys.action, nn.functional.one_hot(chosen, action.shape[-1]).to(action.dtype))


class LogRanks(TrainerHookBase):
    """Approximate ranks of next states' values, before they are completed, in what a Trainer logs.

        LogRanks(loss).register(trainer)

    For any DQNLoss or DistributionalDQNLoss, structured or not. In your own loop, call it with a batch.
    """

    def __init__(self, loss: nn.Module, *, every: int = 100) -> None:
        """Prepare it.

        Args:
            loss: Is asked for its target network.
            every: Updates after which ranks are computed; one more pass through the network each time.
        """
        loss = getattr(loss, "_orig_mod", loss)  # what torch.compile wrapped
        if not isinstance(loss, DQNLoss | DistributionalDQNLoss):
            raise ValueError(f"LogRanks takes a DQNLoss or a DistributionalDQNLoss, got {type(loss).__name__}.")
        self.loss, self.every, self.updates = loss, checked_every(every), 0

    def __call__(self, batch: TensorDictBase) -> dict[str, float] | None:
        """Ranks of a batch, as rank_99 and so on, or None if it is not their turn."""
        self.updates += 1
        if (self.updates - 1) % self.every:
            return None
        with torch.no_grad():
            after = step_mdp(batch, keep_other=False)
            values = _values(self.loss, after, self.loss.target_value_network_params)
            if isinstance(self.loss, DistributionalDQNLoss):
                values = _expected(self.loss, after)
        return ranks_of(_rows(values))

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint of the trainer holds."""
        return {"updates": self.updates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume from there."""
        self.updates = int(state_dict["updates"])

    def register(self, trainer: Any, name: str = "log_ranks") -> None:
        """Attach it to a trainer."""
        trainer.register_module(name, self)
        trainer.register_op("post_optim_log", self)


def _values(loss: Any, tensordict: TensorDictBase, params: TensorDictBase) -> Tensor:
    """What the network says with these parameters, (..., A); with atoms (..., N, A)."""
    with params.to_module(loss.value_network, preserve_module_state=False):
        loss.value_network(tensordict)
    return tensordict.get(loss.tensor_keys.action_value)


def _rows(values: Tensor) -> Tensor:
    """Values (..., A) as one matrix."""
    return values.reshape(-1, values.shape[-1])


def _expected(loss: Any, answer: TensorDictBase) -> Tensor:
    """Expected values (..., A) from logarithms of probabilities (..., N, A)."""
    support = loss.value_network_params["support"].unsqueeze(-1)
    return (answer.get(loss.tensor_keys.action_value).exp() * support).sum(-2)
