"""The learner: bursts of gradient updates.

Between two copies of the target network its values do not change, so the target values of K batches
come from ONE call of the target network and are completed by ONE call of the estimator; then come K
gradient steps. The learner reads no number back from the device. A double agent needs the online network at the
next states too, which moves with every step, so that part stays inside the steps.

`burst` is the plain path, on any device. `CapturedLearner` calls the same pieces inside CUDA graphs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from svrl.agents.config import AgentConfig, Precision
from svrl.agents.networks import QNetwork
from svrl.agents.precision import values_of
from svrl.agents.replay import Batch, next_observations, observations
from svrl.agents.structured_targets import Completion, StructuredTargets
from svrl.agents.targets import bellman_targets, next_values

RMSPROP_DECAY = 0.95
"""Of MinAtar's published settings."""
BLOCK = 2048
"""Observations that the target network looks at in one call on the CPU; bounds the memory of its activations."""
GPU_BLOCK = 16_384
"""The same on a GPU."""


class Worth(NamedTuple):
    """What next states are held to be worth, and why.

    Attributes:
        values: (..., B), by this agent's rule.
        target_q: The target network's values, (..., B, A).
        online_q: The online network's, for a double agent, else None.
        completion: What structure made of the values, or None for a plain agent.
        completed_q: What it made it of, (..., B, A).
    """

    values: Tensor
    target_q: Tensor
    online_q: Tensor | None
    completion: Completion | None
    completed_q: Tensor

    @property
    def plain_values(self) -> Tensor:
        """What a plain agent of the same kind would hold them to be worth, (..., B)."""
        return next_values("dqn" if self.online_q is None else "double", self.target_q, online_q=self.online_q)


class Burst(NamedTuple):
    """What K updates did; everything stays on the device.

    Attributes:
        losses: (K,).
        q: The online network's values at the last batch's states, (B, A), before the last step.
        target_q: The target network's values at all next states, (K, B, A).
        targets: (K, B).
        worth: What the next states were worth: of all K batches, or of a double agent's last.
    """

    losses: Tensor
    q: Tensor
    target_q: Tensor
    targets: Tensor
    worth: Worth


class Work(NamedTuple):
    """K batches as a burst needs them; the first axis is the update.

    Attributes:
        states: (K, B, *observation_shape), as the environment gives them.
        after: (K, B, *observation_shape), the states that followed.
        actions: (K, B, 1).
        rewards: (K, B).
        continues: (K, B), 0 where the bootstrap ends.
    """

    states: Tensor
    after: Tensor
    actions: Tensor
    rewards: Tensor
    continues: Tensor

    @classmethod
    def of(cls, batch: Batch, count: int, config: AgentConfig) -> Work:
        """K = count batches from one of K * B transitions."""
        shape = (count, len(batch.actions) // count)
        stops = batch.terminal | batch.life_lost if config.life_loss_ends else batch.terminal
        return cls(
            states=torch.unflatten(observations(batch), 0, shape),
            after=torch.unflatten(next_observations(batch), 0, shape),
            actions=batch.actions.view(*shape, 1),
            rewards=(batch.rewards.sign() if config.clip_rewards else batch.rewards).view(shape),
            continues=(~stops).float().view(shape),
        )


class Learner:
    """An online and a target network, an optimiser, and a count of updates."""

    def __init__(
        self,
        network: QNetwork,
        target: QNetwork,
        config: AgentConfig,
        structure: StructuredTargets | None,
        *,
        precision: Precision = "float32",
    ) -> None:
        self.precision = precision
        self.online = network
        self.target = target.requires_grad_(False)
        self.target.load_state_dict(network.state_dict())
        self.config = config
        self.structure = structure
        self.updates = 0
        self.parameters = list(network.parameters())
        self.optimiser = _optimiser(self.parameters, config)
        huber = config.loss == "huber"
        self._loss = nn.functional.smooth_l1_loss if huber else nn.functional.mse_loss

    def until_copy(self) -> int:
        """Updates left before the target network is copied: the longest burst."""
        return self.config.target_every - self.updates % self.config.target_every

    def burst(self, batch: Batch, count: int, masks: torch.Generator) -> Burst:
        """K = count updates on K * batch_size transitions, then a copy of the target network if one is due.

        Args:
            batch: K * batch_size transitions, on the learner's device.
            count: K, at most `until_copy()`.
            masks: For the observed sets of a structured agent, on the learner's device.
        """
        self.check_count(count)
        work = Work.of(batch, count, self.config)
        mask = self.draw_masks(count, masks)
        target_q = self.target_values(work.after)
        worth = self.worth(target_q, mask)
        losses, targets = [], []
        for k in range(count):
            own = None if mask is None else mask[k]
            one = self._worth_now(target_q[k], work.after[k], worth, k, own) if self.double else worth
            values = one.values if self.double else one.values[k]
            targets.append(bellman_targets(work.rewards[k], work.continues[k], values, self.config.discount))
            self.set_learning_rate(self.config.learning_rate_at(self.updates))
            loss, q = self.gradients(work.states[k], work.actions[k], targets[-1])
            losses.append(loss)
            self.step()
            self.updates += 1
        self.copy_if_due()
        return Burst(torch.stack(losses), q, target_q, torch.stack(targets), one)

    def check_count(self, count: int) -> None:
        """Raise ValueError unless a burst may have so many updates."""
        if not 1 <= count <= self.until_copy():
            raise ValueError(f"A burst has 1 to {self.until_copy()} updates before the next copy, got {count}.")

    @property
    def double(self) -> bool:
        """Whether the online network has a say in the targets, so that they are formed update by update."""
        return self.config.agent == "double"

    @property
    def completes_each_step(self) -> bool:
        """Whether what is completed changes with every update."""
        return self.double and self.structure is not None and self.structure.value == "network"

    def draw_masks(self, count: int, masks: torch.Generator) -> Tensor | None:
        """What is observed in each of the next K updates, (K, B, A), bool; None for a plain agent."""
        if self.structure is None:
            return None
        shape = (count, self.config.batch_size, self.online.n_actions)
        return self.structure.draw(shape, masks, updates=self.updates)

    @torch.no_grad()
    def target_values(self, after: Tensor) -> Tensor:
        """The target network's values (K, B, A) at states (K, B, *observation_shape)."""
        blocks = torch.split(after.flatten(0, 1), GPU_BLOCK if after.is_cuda else BLOCK)
        values = torch.cat([self.values(self.target, block) for block in blocks])
        return values.view(*after.shape[:2], -1)

    def values(self, network: QNetwork, states: Tensor) -> Tensor:
        """Values (N, A) of states (N, *observation_shape), in the learner's precision."""
        return values_of(network, network.scaled(states), self.precision)

    @torch.no_grad()
    def worth(self, target_q: Tensor, mask: Tensor | None) -> Worth:
        """All K batches at once: what their next states are worth, as far as the online network has no say in it."""
        completion = None
        if self.structure is not None and mask is not None and not self.completes_each_step:
            completion = self.structure.complete(target_q, mask)
        matrix = None if completion is None else completion.matrix
        values = target_q if self.double else self.next_values(target_q, None, matrix)
        return Worth(values, target_q, None, completion, target_q)

    @torch.no_grad()
    def _worth_now(self, target_q: Tensor, after: Tensor, worth: Worth, k: int, mask: Tensor | None) -> Worth:
        """A double agent's: the k-th batch, as the online network is at this step."""
        online_q, completed_q, given = self.values(self.online, after), target_q, worth.completion
        own = None if given is None else Completion(*(part[k] for part in given))
        if self.structure is not None and mask is not None and self.completes_each_step:
            own, completed_q = self.structure.complete(online_q, mask), online_q
        values = self.next_values(target_q, online_q, None if own is None else own.matrix)
        return Worth(values, target_q, online_q, own, completed_q)

    def next_values(self, target_q: Tensor, online_q: Tensor | None, completed: Tensor | None) -> Tensor:
        """By this agent's rule, (..., B), see `svrl.agents.targets`; `completed` is None for a plain agent."""
        value = "completed" if self.structure is None else self.structure.value
        return next_values(self.config.agent, target_q, online_q=online_q, completed=completed, value=value)

    def gradients(self, states: Tensor, actions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Loss, and values (B, A), of one batch; leaves the gradients with the parameters."""
        q = self.values(self.online, states)
        return self.backward(q, actions, targets), q.detach()

    def backward(self, q: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
        """The loss of values (B, A) at actions (B, 1); leaves the gradients with the parameters."""
        loss: Tensor = self._loss(q.gather(-1, actions).squeeze(-1), targets)
        for parameter in self.parameters:  # quicker than zero_grad, which records a profile
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def step(self) -> None:
        """Clamp the gradients and take a step of the optimiser."""
        if self.config.gradient_clamp > 0:
            nn.utils.clip_grad_value_(self.parameters, self.config.gradient_clamp)
        self.optimiser.step()

    def set_learning_rate(self, rate: float | Tensor) -> None:
        """For the next step; one that does not change is left alone."""
        if self.config.learning_rate_left < 1.0:
            group = self.optimiser.param_groups[0]
            if not isinstance(group["lr"], Tensor):
                group["lr"] = float(rate)
            elif isinstance(rate, Tensor):
                group["lr"].copy_(rate)
            else:
                group["lr"].fill_(rate)

    def copy_if_due(self) -> None:
        """Copy the online to the target network if so many updates have been made."""
        if self.updates % self.config.target_every == 0:
            self.copy_to_target()

    def copy_to_target(self) -> None:
        """Make the target network equal to the online network."""
        copy_weights(self.online, self.target)

    def capture(self) -> dict[str, Any]:
        """Weights, optimiser and count, as arrays and numbers."""
        moments = {
            f"{index}": {name: _array(value) for name, value in state.items()}
            for index, state in self.optimiser.state_dict()["state"].items()
        }
        return {
            "updates": self.updates,
            "online": weights_of(self.online),
            "target": weights_of(self.target),
            "optimiser": moments,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Back to what `capture` saw."""
        load_weights(self.online, state["online"])
        load_weights(self.target, state["target"])
        self.updates = int(state["updates"])
        whole = self.optimiser.state_dict()
        whole["state"] = {
            int(index): {name: _laid_out(value, self.parameters[int(index)]) for name, value in moments.items()}
            for index, moments in state["optimiser"].items()
        }
        self.optimiser.load_state_dict(whole)


@torch.no_grad()
def copy_weights(source: nn.Module, target: nn.Module) -> None:
    """Make the parameters of one network equal to those of another, in one launch."""
    torch._foreach_copy_([*target.parameters()], [parameter.detach() for parameter in source.parameters()])


def weights_of(network: nn.Module) -> dict[str, np.ndarray]:
    """The parameters by name, as arrays of their own."""
    return {name: _array(value) for name, value in network.state_dict().items()}


def load_weights(network: nn.Module, weights: Mapping[str, np.ndarray]) -> None:
    """Set the parameters of a network.

    Raises:
        ValueError: If names or shapes do not fit.
    """
    try:
        network.load_state_dict({name: torch.as_tensor(value) for name, value in weights.items()})
    except RuntimeError as error:
        raise ValueError(f"The weights do not fit the network: {str(error).splitlines()[-1].strip()}") from error


def _laid_out(value: np.ndarray, parameter: Tensor) -> Tensor:
    """A moment in the memory layout of its parameter, which a fused optimiser takes for granted."""
    moment = torch.as_tensor(value)
    return moment if moment.shape != parameter.shape else torch.empty_like(parameter).copy_(moment)


def _array(value: Any) -> np.ndarray:
    return torch.as_tensor(value).detach().cpu().numpy().copy()


def _optimiser(parameters: list[nn.Parameter], config: AgentConfig) -> torch.optim.Optimizer:
    epsilon = config.optimiser_epsilon
    on_gpu = parameters[0].is_cuda
    # On a GPU the rate lies there too: a captured step reads it when it is replayed.
    rate = torch.tensor(config.learning_rate, device=parameters[0].device) if on_gpu else config.learning_rate
    if config.optimiser == "rmsprop":
        return _eager(torch.optim.RMSprop)(
            parameters, lr=rate, alpha=RMSPROP_DECAY, eps=epsilon, centered=True, capturable=on_gpu
        )
    return _eager(torch.optim.Adam)(parameters, lr=rate, eps=epsilon, fused=True, capturable=on_gpu)


@cache
def _eager(kind: type[torch.optim.Optimizer]) -> Any:
    """The same optimiser, for training that is never compiled.

    Methods of torch's optimisers are wrapped for torch.compile, and import its front end at their first call. That
    takes seconds of each process that trains, and does nothing here.
    """
    names = ("add_param_group", "state_dict", "load_state_dict", "zero_grad")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(inspect.unwrap(kind.step))})
