"""The learner: bursts of gradient updates.

Between two copies of the target network its values do not change, so the target values of K batches
come from ONE call of the target network and are completed by ONE call of the estimator; then come K
gradient steps. The learner reads no number back from the device; an estimator may, to ask whether it has
converged, as Soft-Impute's twin on CUDA does. A double agent needs the online network at the next states
too, which moves with every step, so that part stays inside the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from svrl.agents.config import AgentConfig
from svrl.agents.networks import QNetwork
from svrl.agents.replay import Batch, next_observations, observations
from svrl.agents.structured_targets import Completion, StructuredTargets
from svrl.agents.targets import bellman_targets, next_values

RMSPROP_DECAY = 0.95
"""Of MinAtar's published settings."""
BLOCK = 2048
"""Observations that the target network looks at in one call on the CPU; bounds the memory of its activations."""


class Worth(NamedTuple):
    """What next states are held to be worth.

    Attributes:
        values: (..., B), by this agent's rule.
        plain_values: (..., B), by a plain agent of the same kind.
        completion: What structure made of the values, or None for a plain agent.
        completed_q: What it made it of, (..., B, A).
    """

    values: Tensor
    plain_values: Tensor
    completion: Completion | None
    completed_q: Tensor


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


class Learner:
    """An online and a target network, an optimiser, and a count of updates."""

    def __init__(
        self, network: QNetwork, target: QNetwork, config: AgentConfig, structure: StructuredTargets | None
    ) -> None:
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
        config = self.config
        if not 1 <= count <= self.until_copy():
            raise ValueError(f"A burst has 1 to {self.until_copy()} updates before the next copy, got {count}.")
        shape = (count, len(batch.actions) // count)
        states = torch.unflatten(observations(batch), 0, shape)
        after = torch.unflatten(next_observations(batch), 0, shape)
        actions = batch.actions.view(*shape, 1)
        rewards = (batch.rewards.sign() if config.clip_rewards else batch.rewards).view(shape)
        stops = batch.terminal | batch.life_lost if config.life_loss_ends else batch.terminal
        continues = (~stops).float().view(shape)

        with torch.no_grad():
            target_q = _in_blocks(self.target, after)
            worth = self._worth(target_q, masks)
        losses, targets = [], []
        for k in range(count):
            with torch.no_grad():
                one = self._worth_now(target_q[k], after[k], worth, k, masks) if self._double else worth
                values = one.values if self._double else one.values[k]
                targets.append(bellman_targets(rewards[k], continues[k], values, config.discount))
            q = self.online(states[k])
            losses.append(self._step(q.gather(-1, actions[k]).squeeze(-1), targets[-1]))
            self.updates += 1
        if self.updates % config.target_every == 0:
            self.copy_to_target()
        return Burst(torch.stack(losses), q.detach(), target_q, torch.stack(targets), one)

    @property
    def _double(self) -> bool:
        return self.config.agent == "double"

    def _worth(self, target_q: Tensor, masks: torch.Generator) -> Worth:
        """All K batches at once: what their next states are worth, as far as the online network has no say in it."""
        structure = self.structure
        completion = None
        if structure is not None and not (self._double and structure.value == "network"):
            completion = structure(target_q, masks, updates=self.updates)
        if self._double:
            return Worth(target_q, target_q, completion, target_q)
        return self._valued(target_q, None, completion, target_q)

    def _worth_now(self, target_q: Tensor, after: Tensor, worth: Worth, k: int, masks: torch.Generator) -> Worth:
        """A double agent's: the k-th batch, as the online network is at this step."""
        online_q = self.online(after)
        if self.structure is not None and self.structure.value == "network":
            completion = self.structure(online_q, masks, updates=self.updates)
            return self._valued(target_q, online_q, completion, online_q)
        given = worth.completion
        own = None if given is None else Completion(*(part[k] for part in given))
        return self._valued(target_q, online_q, own, target_q)

    def _valued(
        self, target_q: Tensor, online_q: Tensor | None, completion: Completion | None, completed_q: Tensor
    ) -> Worth:
        kind = self.config.agent
        plain = next_values(kind, target_q, online_q=online_q)
        if completion is None or self.structure is None:
            return Worth(plain, plain, None, completed_q)
        value = self.structure.value
        values = next_values(kind, target_q, online_q=online_q, completed=completion.matrix, value=value)
        return Worth(values, plain, completion, completed_q)

    def _step(self, predicted: Tensor, targets: Tensor) -> Tensor:
        loss: Tensor = self._loss(predicted, targets)
        for parameter in self.parameters:  # quicker than zero_grad, which records a profile
            parameter.grad = None
        loss.backward()  # type: ignore[no-untyped-call]
        if self.config.gradient_clamp > 0:
            nn.utils.clip_grad_value_(self.parameters, self.config.gradient_clamp)
        if self.config.learning_rate_left < 1.0:
            self.optimiser.param_groups[0]["lr"] = self.config.learning_rate_at(self.updates)
        self.optimiser.step()
        return loss.detach()

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
    rate, epsilon = config.learning_rate, config.optimiser_epsilon
    if config.optimiser == "rmsprop":
        return torch.optim.RMSprop(parameters, lr=rate, alpha=RMSPROP_DECAY, eps=epsilon, centered=True)
    return torch.optim.Adam(parameters, lr=rate, eps=epsilon, fused=True)


def _in_blocks(network: QNetwork, states: Tensor) -> Tensor:
    """Values (K, B, A) of states (K, B, *observation)."""
    count, size = states.shape[:2]
    flat = states.flatten(0, 1)
    blocks = [flat] if flat.device.type != "cpu" else torch.split(flat, BLOCK)
    return torch.cat([network(block) for block in blocks]).view(count, size, -1)
