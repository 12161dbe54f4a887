"""The learner takes bursts of gradient updates.

    y = R + discount * (value of the next state)        R: `svrl.agents.replay`, values: `svrl.agents.targets`

Between two copies of the target network its values do not change. So `prepare` gets the target values of K minibatches
from ONE call of the target network, and completes them with ONE call of the estimator. Then `update` takes K gradient
steps. A double agent also evaluates the next states with the online network, which changes with every step, so that
part stays inside the steps.

`Learner.burst` calls the two directly, on any device; `GraphedBursts` calls the same two inside CUDA graphs. Nothing
here reads a number back from the device.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from svrl.agents.adam_cuda import clamped_adam, plain_step
from svrl.agents.config import AgentConfig, Precision
from svrl.agents.cuda_graph import CudaGraph, GpuEvent, pinned
from svrl.agents.networks import QNetwork
from svrl.agents.replay import DRAWS, Batch, Replay
from svrl.agents.structured_targets import Completion, StructuredTargets
from svrl.agents.targets import bellman_targets, completes_online, next_values
from svrl.heads import ridge_of, ridged_layers

RMSPROP_DECAY = 0.95
"""Decay of RMSprop in MinAtar's published settings."""
BLOCK = 2048
"""Observations in one call of the target network on the CPU; bounds the memory of its activations."""
GPU_BLOCK = 16_384
"""The same on a GPU."""


class Minibatches(NamedTuple):
    """K minibatches of B transitions, ready for their gradient steps; the first axis is the update.

    Attributes:
        states: (K, B, ...), see `Learner.laid_out`.
        after: The next states, in the same layout, for a double agent; else None.
        actions: (K, B, 1).
        rewards: (K, B).
        discounts: (K, B), 0 where the bootstrap ends.
        target_q: The target network's values at the next states, (K, B, A).
        completion: The completion of `target_q`; None for a plain agent, or if the online values are completed.
        mask: Observed entries, (K, B, A), bool; None for a plain agent.
        action_masks: Valid actions in the next states, (K, B, A), bool; None if every action is always valid.
        weights: Weights of the losses, (K, B), at most 1; None without priorities.
        targets: (K, B); None for a double agent, which computes its targets step by step.
    """

    states: Tensor
    after: Tensor | None
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    target_q: Tensor
    completion: Completion | None
    mask: Tensor | None
    action_masks: Tensor | None
    weights: Tensor | None
    targets: Tensor | None


class Learner:
    """An online and a target network, an optimiser, and a count of updates.

    Attributes:
        updates: Updates so far.
        errors: The absolute TD errors of the last burst, (K, B), if its minibatches had weights; else None.

    Args:
        network: The online network; the target network begins as its copy.
        config: All settings.
        structure: Completes target values; None for a plain agent.
        precision: Precision of matrix products on a GPU.
        scale_at_once: Scale the observations of all minibatches in one launch, the default on a GPU. On the CPU the
            learner scales each minibatch when its turn comes, because bytes take a quarter of the memory.
    """

    def __init__(
        self,
        network: QNetwork,
        config: AgentConfig,
        structure: StructuredTargets | None,
        *,
        precision: Precision = "float32",
        scale_at_once: bool | None = None,
    ) -> None:
        self.precision = precision
        self.online = network
        self.target = copy.deepcopy(network).requires_grad_(False)
        self.config = config
        self.structure = structure
        self.updates = 0
        self.errors: Tensor | None = None
        self.parameters = list(network.parameters())
        self.optimiser = make_optimiser(self.parameters, config)
        self._torch_step = partial(plain_step, self.parameters, self.optimiser, config.gradient_clamp)
        self.step: Callable[[], None] = self._torch_step
        huber = config.loss == "huber"
        self._loss = nn.functional.smooth_l1_loss if huber else nn.functional.mse_loss
        self._has_ridge = bool(ridged_layers(network))
        self._scale_at_once = self.parameters[0].is_cuda if scale_at_once is None else scale_at_once
        self._channels_last = self._scale_at_once and config.network == "nature"

    @property
    def double(self) -> bool:
        """Whether targets depend on the online network, and so change with every update."""
        return self.config.agent == "double"

    @property
    def completes_each_step(self) -> bool:
        """Whether the values to complete change with every update."""
        return self.structure is not None and completes_online(self.double, self.structure.next_value_from)

    @property
    def beta(self) -> float | None:
        """Current exponent of the importance weights, from `priority_beta` linearly to 1; None for uniform draws."""
        config = self.config
        if config.priority_alpha == 0.0:
            return None
        done = min(1.0, self.updates / max(1, config.updates_after(config.steps)))
        return config.priority_beta + (1.0 - config.priority_beta) * done

    def until_copy(self) -> int:
        """Updates left before the next copy of the target network: the longest burst."""
        return self.config.target_update_interval - self.updates % self.config.target_update_interval

    def burst(self, batch: Batch, count: int, masks: torch.Generator) -> Tensor:
        """Take K = count updates on K * batch_size transitions, then copy the target network if a copy is due.

        Args:
            batch: K * batch_size transitions, on the learner's device.
            count: K, at most `until_copy()`.
            masks: Draws the observed sets of a structured agent, on the learner's device.

        Returns:
            The losses, (K,), on the learner's device.
        """
        assert 1 <= count <= self.until_copy(), count
        ready = self.prepare(batch, count, self.draw_masks(count, masks))
        losses = []
        errors = []
        for k in range(count):
            loss, error = self.update(ready, k, self.config.learning_rate_at(self.updates))
            losses.append(loss)
            errors.append(error)
            self.updates += 1
        self.copy_if_due()
        self.errors = torch.stack(errors) if batch.weights is not None else None
        return torch.stack(losses)

    def draw_masks(self, count: int, masks: torch.Generator) -> Tensor | None:
        """Draw the observed entries of each of the next K updates, (K, B, A), bool; None for a plain agent."""
        if self.structure is None:
            return None
        shape = (count, self.config.batch_size, self.online.n_actions)
        return self.structure.draw(shape, masks, updates=self.updates)

    @torch.no_grad()
    def prepare(self, batch: Batch, count: int, mask: Tensor | None) -> Minibatches:
        """Compute everything that K minibatches need and that does not depend on the online network.

        Args:
            batch: K * B transitions.
            count: K.
            mask: Observed entries, (K, B, A); None for a plain agent.
        """
        shape = (count, len(batch.actions) // count)
        rewards, discounts = batch.rewards.view(shape), batch.discounts.view(shape)
        action_masks = None if batch.action_masks is None else batch.action_masks.view(*shape, -1)
        weights = None
        if batch.weights is not None:
            weights = batch.weights.view(shape)
            weights = weights / weights.amax(-1, keepdim=True)
        after = self.laid_out(torch.unflatten(batch.next_observations, 0, shape))
        blocks = torch.split(after.flatten(0, 1), GPU_BLOCK if after.is_cuda else BLOCK)
        values = [self.values(self.target, block) for block in blocks]
        target_q = (values[0] if len(values) == 1 else torch.cat(values)).view(*shape, -1)
        completion = None
        if self.structure is not None and mask is not None and not self.completes_each_step:
            completion = self.structure.complete(target_q, mask, action_masks)
        targets = None
        if not self.double:
            completed = None if completion is None else completion.matrix
            targets = bellman_targets(rewards, discounts, self.next_values(target_q, None, completed, action_masks))
        return Minibatches(
            states=self.laid_out(torch.unflatten(batch.observations, 0, shape)),
            after=after if self.double else None,
            actions=batch.actions.view(*shape, 1),
            rewards=rewards,
            discounts=discounts,
            target_q=target_q,
            completion=completion,
            mask=mask,
            action_masks=action_masks,
            weights=weights,
            targets=targets,
        )

    def update(self, ready: Minibatches, k: int | Tensor, rate: float | Tensor) -> tuple[Tensor, Tensor]:
        """Take one gradient step on the k-th minibatch.

        Args:
            ready: The result of `prepare`.
            k: A number, or a tensor (1,) that a graph reads at replay.
            rate: Learning rate, as a number or a tensor.

        Returns:
            The loss, (), without the ridge of a head, and if the minibatch has weights the absolute TD errors, (B,);
            else the loss again.
        """
        targets = self._double_targets(ready, k) if ready.targets is None else _pick(ready.targets, k)
        q = self.values(self.online, _pick(ready.states, k))
        chosen = q.gather(-1, _pick(ready.actions, k)).squeeze(-1)
        if ready.weights is None:
            errors = loss = self._loss(chosen, targets)
        else:
            loss = (_pick(ready.weights, k) * self._loss(chosen, targets, reduction="none")).mean()
            errors = (chosen - targets).abs()
        for parameter in self.parameters:  # quicker than zero_grad, which records a profile
            parameter.grad = None
        (loss + ridge_of(self.online) if self._has_ridge else loss).backward()  # type: ignore[no-untyped-call]
        self._set_learning_rate(rate)
        self.step()
        return loss.detach(), errors.detach()

    @torch.no_grad()
    def _double_targets(self, ready: Minibatches, k: int | Tensor) -> Tensor:
        """Targets (B,) of the k-th minibatch, with the next actions of the current online network."""
        assert ready.after is not None
        online_q, target_q = self.values(self.online, _pick(ready.after, k)), _pick(ready.target_q, k)
        action_masks = None if ready.action_masks is None else _pick(ready.action_masks, k)
        completed = None
        if self.structure is not None and ready.mask is not None:
            if ready.completion is None:
                completed = self.structure.complete(online_q, _pick(ready.mask, k), action_masks).matrix
            else:
                completed = _pick(ready.completion.matrix, k)
        values = self.next_values(target_q, online_q, completed, action_masks)
        return bellman_targets(_pick(ready.rewards, k), _pick(ready.discounts, k), values)

    def next_values(
        self, target_q: Tensor, online_q: Tensor | None, completed: Tensor | None, action_masks: Tensor | None = None
    ) -> Tensor:
        """Next values (..., B) by this agent's rule, see `svrl.agents.targets`; `completed` is None if plain."""
        return next_values(
            self.config.agent,
            target_q,
            online_q=online_q,
            completed=completed,
            next_value_from="completed" if self.structure is None else self.structure.next_value_from,
            action_mask=action_masks,
        )

    def laid_out(self, states: Tensor) -> Tensor:
        """Lay out observations (K, B, *observation_shape) as minibatches keep them: already scaled, or not."""
        if not self._scale_at_once:
            return states
        if self._channels_last:
            states = states.movedim(2, -1)
        fresh = torch.empty(states.shape, device=states.device)
        high = self.online.high
        return fresh.copy_(states) if high == 1.0 else torch.div(states, high, out=fresh)

    def values(self, network: QNetwork, states: Tensor) -> Tensor:
        """Values (N, A) of states (N, ...) as `laid_out` keeps them, in the learner's precision."""
        if not self._scale_at_once:
            states = network.scaled(states)
        return network.of_scaled(states.movedim(-1, 1) if self._channels_last else states, self.precision)

    def _set_learning_rate(self, rate: float | Tensor) -> None:
        """Set the learning rate of the next step; a constant rate does not change."""
        if self.config.learning_rate_left < 1.0:
            group = self.optimiser.param_groups[0]
            if not isinstance(group["lr"], Tensor):
                group["lr"] = float(rate)
            elif isinstance(rate, Tensor):
                group["lr"].copy_(rate)
            else:
                group["lr"].fill_(rate)

    def copy_if_due(self) -> None:
        """Move the target network to the online one, by the share `tau`, every `target_update_interval` updates."""
        if self.updates % self.config.target_update_interval == 0:
            copy_weights(self.parameters, self.target.parameters(), self.config.tau)

    def capture(self) -> dict[str, Any]:
        """Return weights, optimiser state and count, as arrays and numbers."""
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
        """Return to a state from `capture`."""
        load_weights(self.online, state["online"])
        load_weights(self.target, state["target"])
        self.updates = int(state["updates"])
        whole = self.optimiser.state_dict()
        whole["state"] = {
            int(index): {name: _in_layout(value, self.parameters[int(index)]) for name, value in moments.items()}
            for index, moments in state["optimiser"].items()
        }
        self.optimiser.load_state_dict(whole)
        self.step = self._torch_step  # the saved optimiser may not have taken a step yet


class GraphedBursts:
    """The bursts of a learner as two CUDA graphs: `prepare` once, `update` K times, with a counter on the GPU.

    Without a GPU it records nothing and calls the two directly.

    Args:
        learner: Takes the updates.
        replay: Provides the minibatches, on the same GPU or in RAM.
        most: Updates of the longest burst; a shorter one prepares as many and uses the first.
    """

    def __init__(self, learner: Learner, replay: Replay, *, most: int) -> None:
        self._learner, self._replay, self.most = learner, replay, most
        size, device = learner.config.batch_size, learner.parameters[0].device
        self._draws = torch.zeros(most * size, dtype=torch.int64, device=replay.device)
        self._mask = None
        if learner.structure is not None:
            self._mask = torch.ones(most, size, learner.online.n_actions, dtype=torch.bool, device=device)
        self._rates = torch.full((most,), learner.config.learning_rate, device=device)
        self._losses = torch.zeros(most, device=device)
        self._weights = self._errors = None
        if replay.priorities is not None:
            self._weights, self._errors = torch.ones(2, most, size, device=device)
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._batch: Batch | None = None
        self._host: Batch | None = None
        self._copied = GpuEvent(device)
        self._ready: Minibatches | None = None
        self._stepped = False
        pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self._prepare: Callable[[], Minibatches] = self._prepare_all
        if can_capture(learner):
            self._prepare = CudaGraph(self._prepare_all, device, repeatable=True, pool=pool)
        self._update = CudaGraph(self._update_next, device, repeatable=False, pool=pool)

    def burst(self, count: int, draws: torch.Generator, masks: torch.Generator) -> Tensor:
        """Take K = count updates, then copy the target network if a copy is due.

        Args:
            count: K, at most `most` and `until_copy()`.
            draws: Draws the minibatches, on the buffer's device.
            masks: Draws the observed sets, on the learner's device.

        Returns:
            The losses, (K,), on the learner's device; the next burst overwrites them.
        """
        learner = self._learner
        assert 1 <= count <= min(self.most, learner.until_copy()), count
        leaves = self._draw(count, draws)
        mask = learner.draw_masks(count, masks)
        if self._mask is not None and mask is not None:
            self._mask[:count].copy_(mask)
        if learner.config.learning_rate_left < 1.0:
            rates = [learner.config.learning_rate_at(learner.updates + k) for k in range(count)]
            self._rates[:count].copy_(pinned(torch.tensor(rates), self._rates), non_blocking=True)
        self._at.zero_()
        self._keep(self._prepare())
        for _ in range(count):
            self._update()
            if not self._stepped:  # the optimiser has a state now, and its step can be one launch
                self._stepped = True
                learner.step = clamped_adam(learner.parameters, learner.optimiser, learner.config.gradient_clamp)
            learner.updates += 1
        learner.copy_if_due()
        if self._replay.priorities is not None and leaves is not None and self._errors is not None:
            self._replay.priorities.update(leaves, self._errors[:count].flatten())
        return self._losses[:count]

    def release(self) -> None:
        """Free the graphs and their memory."""
        self._update.release()
        if isinstance(self._prepare, CudaGraph):
            self._prepare.release()

    def _draw(self, count: int, draws: torch.Generator) -> Tensor | None:
        """Draw transitions and return their leaves; from a buffer in RAM copy the transitions themselves."""
        number = count * self._learner.config.batch_size
        beta = self._learner.beta
        if self._replay.device.type == "cuda":
            if beta is None:
                torch.randint(DRAWS, (number,), generator=draws, device=draws.device, out=self._draws[:number])
                return None
            index, leaves, weights = self._replay.draw(number, draws, beta)
            assert self._weights is not None
            assert weights is not None
            self._draws[:number].copy_(index)
            self._weights[:count].copy_(weights.view(count, -1))
            return leaves
        self._copied.synchronize()  # the last burst was copied from this same memory
        host = self._replay.sample(number, draws, beta=beta)
        if self._batch is None:
            whole, device = len(self._draws), self._losses.device
            self._batch = host.each(lambda part: torch.zeros(whole, *part.shape[1:], dtype=part.dtype, device=device))
            self._host = self._batch.each(lambda part: pinned(torch.zeros_like(part, device="cpu"), part))
        assert self._host is not None
        for drawn, here, there in zip(host, self._host, self._batch, strict=True):
            if isinstance(drawn, Tensor) and isinstance(here, Tensor) and isinstance(there, Tensor):
                here[:number].copy_(drawn)
                there[:number].copy_(here[:number], non_blocking=True)
        self._copied.record()
        return host.leaves

    def _prepare_all(self) -> Minibatches:
        batch = self._batch
        if batch is None:
            batch = self._replay.gather(self._draws)
            if self._weights is not None:
                batch = batch._replace(weights=self._weights.flatten())
        return self._learner.prepare(batch, self.most, self._mask)

    def _keep(self, fresh: Minibatches) -> None:
        """Copy results prepared without a graph to the first ones, on which the steps are recorded."""
        if self._ready is None:
            self._ready = fresh
        elif fresh is not self._ready:
            for old, new in zip(_tensors(self._ready), _tensors(fresh), strict=True):
                if old is not new:
                    old.copy_(new)

    def _update_next(self) -> None:
        """Take one update on the minibatch that the counter points at."""
        assert self._ready is not None
        loss, errors = self._learner.update(self._ready, self._at, _pick(self._rates, self._at))
        self._losses.index_copy_(0, self._at, loss[None])
        if self._errors is not None:
            self._errors.index_copy_(0, self._at, errors[None])
        self._at.add_(1)


def can_capture(learner: Learner) -> bool:
    """Whether a graph can contain the estimation, if there is one."""
    shape, device = (learner.config.batch_size, learner.online.n_actions), learner.parameters[0].device
    return learner.structure is None or learner.structure.captures(*shape, device)


def _pick(every: Tensor, k: int | Tensor) -> Tensor:
    """The k-th entry along the first axis."""
    return every[k] if isinstance(k, int) else every.index_select(0, k).squeeze(0)


def _tensors(part: object) -> list[Tensor]:
    if isinstance(part, Tensor):
        return [part]
    return [tensor for one in part for tensor in _tensors(one)] if isinstance(part, tuple) else []


@torch.no_grad()
def copy_weights(source: Iterable[Tensor], target: Iterable[Tensor], tau: float = 1.0) -> None:
    """Move the parameters of one network to those of another, all the way or by a share tau (Polyak averaging)."""
    old, new = ([parameter.detach() for parameter in parameters] for parameters in (target, source))
    if tau == 1.0:
        torch._foreach_copy_(old, new)
    else:
        torch._foreach_lerp_(old, new, tau)


def weights_of(network: nn.Module) -> dict[str, np.ndarray]:
    """Copy the parameters, by name, to arrays."""
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


def _in_layout(value: np.ndarray, parameter: Tensor) -> Tensor:
    """A moment in the memory layout of its parameter, which fused optimisers assume."""
    moment = torch.as_tensor(value)
    return moment if moment.shape != parameter.shape else torch.empty_like(parameter).copy_(moment)


def _array(value: Any) -> np.ndarray:
    return torch.as_tensor(value).detach().cpu().numpy().copy()


def make_optimiser(parameters: list[nn.Parameter], config: AgentConfig) -> torch.optim.Optimizer:
    """Create the optimiser of a configuration."""
    epsilon = config.optimiser_epsilon
    on_gpu = parameters[0].is_cuda
    # On a GPU the rate is there too: a captured step reads it at replay.
    rate = torch.tensor(config.learning_rate, device=parameters[0].device) if on_gpu else config.learning_rate
    if config.optimiser == "rmsprop":
        return _eager(torch.optim.RMSprop)(
            parameters, lr=rate, alpha=RMSPROP_DECAY, eps=epsilon, centered=True, capturable=on_gpu
        )
    return _eager(torch.optim.Adam)(parameters, lr=rate, eps=epsilon, fused=True, capturable=on_gpu)


@cache
def _eager(kind: type[torch.optim.Optimizer]) -> Any:
    """Return the same optimiser for training without torch.compile.

    torch wraps the methods of its optimisers for torch.compile, and they import its front end at their first call. That
    takes seconds in each process that trains, and does nothing here.
    """
    names = ("add_param_group", "state_dict", "load_state_dict", "zero_grad")
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    step = torch.no_grad()(inspect.unwrap(kind.step))
    step.hooked = True  # torch then leaves it alone, instead of opening a record of its profiler in every step
    return type(kind.__name__, (kind,), {**methods, "step": step})
