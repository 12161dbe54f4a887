"""Bursts of updates as CUDA graphs: what `Learner.burst` does, without the host in between.

Two graphs make a burst. The first prepares all K batches: it draws them from the memory on the GPU, asks the target
network once, completes all K matrices by one launch of the estimator, and forms the targets. The second is one
gradient step on batch k; a counter on the GPU says which, so that the same graph is replayed K times.
Shorter bursts, cut at a copy of the target network, prepare K batches all the same and use the first of them.

Random numbers are drawn before, as the plain path draws them, so that both see the same batches and masks. They
differ by the order in which sums are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from svrl.agents.adam_cuda import clamped_adam
from svrl.agents.captured import Captured, GpuEvent, readable
from svrl.agents.learner import GPU_BLOCK, Burst, Learner, Work, Worth
from svrl.agents.precision import values_of
from svrl.agents.replay import DRAWS, Batch, Replay
from svrl.agents.structured_targets import Completion
from svrl.agents.targets import bellman_targets
from svrl.matrix.soft_impute import SoftImpute


class Prepared(NamedTuple):
    """K batches, ready for their gradient steps.

    Attributes:
        states: (K, B, ...), scaled, channels last where the network looks at pictures.
        after: The same of the states that followed, for a double agent; else None.
        actions: (K, B, 1).
        rewards, continues: (K, B).
        target_q: (K, B, A).
        worth: Of all K.
        targets: (K, B); a double agent's are formed step by step.
    """

    states: Tensor
    after: Tensor | None
    actions: Tensor
    rewards: Tensor
    continues: Tensor
    target_q: Tensor
    worth: Worth
    targets: Tensor


class Done(NamedTuple):
    """What one update leaves to be looked at; but for the values, a double agent's alone.

    Attributes:
        q: The online network's values at the states, (B, A).
        values: (B,), what the next states were worth.
        online_q: The online network's values at the next states, (B, A).
        completion: Of these, where they are what is completed.
    """

    q: Tensor
    values: Tensor | None
    online_q: Tensor | None
    completion: Completion | None


class CapturedLearner:
    """A learner and a memory, joined for bursts.

    Attributes:
        most: Updates of the longest burst.
    """

    def __init__(self, learner: Learner, replay: Replay, *, most: int) -> None:
        self._learner, self._replay, self.most, self._precision = learner, replay, most, learner.precision
        config, device = learner.config, learner.parameters[0].device
        size = config.batch_size
        self._pictures = config.network == "nature"
        self._draws = torch.zeros(most * size, dtype=torch.int64, device=replay.device)
        self._mask = torch.ones(most, size, learner.online.n_actions, dtype=torch.bool, device=device)
        self._rates = torch.full((most,), config.learning_rate, device=device)
        self._losses = torch.zeros(most, device=device)
        self._at = torch.zeros(1, dtype=torch.int64, device=device)
        self._batch: Batch | None = None
        self._host: Batch | None = None
        self._copied = GpuEvent(device)
        self._optimise: Callable[[], None] = learner.step
        self._quick = False
        self._ready: Prepared
        pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self._prepare: Callable[[], Prepared] = self._prepare_batches
        if can_capture(learner):
            self._prepare = Captured(self._prepare_batches, device, repeatable=True, pool=pool)
        self._update = Captured(self._update_once, device, repeatable=False, pool=pool)

    def burst(self, count: int, draws: torch.Generator, masks: torch.Generator) -> Burst:
        """K = count updates, then a copy of the target network if one is due.

        Args:
            count: K, at most `most` and `until_copy()`.
            draws: For the batches, on the memory's device.
            masks: For the observed sets, on the learner's device.
        """
        learner = self._learner
        learner.check_count(count)
        if count > self.most:
            raise ValueError(f"This learner was made for bursts of at most {self.most} updates, got {count}.")
        self._draw(count, draws)
        mask = learner.draw_masks(count, masks)
        if mask is not None:
            self._mask[:count].copy_(mask)
        if learner.config.learning_rate_left < 1.0:
            rates = [learner.config.learning_rate_at(learner.updates + k) for k in range(count)]
            self._rates[:count].copy_(readable(torch.tensor(rates), self._rates), non_blocking=True)
        self._at.zero_()
        self._keep(self._prepare())
        for _ in range(count):
            done = self._update()
            self._step_quickly()
            learner.updates += 1
        learner.copy_if_due()
        ready = self._ready
        worth = _first(ready.worth, count) if done.online_q is None else self._last(done, count - 1)
        return Burst(self._losses[:count], done.q, ready.target_q[:count], ready.targets[:count], worth)

    def forget(self) -> None:
        """Let go of the graphs and their memory."""
        self._update.forget()
        if isinstance(self._prepare, Captured):
            self._prepare.forget()

    def _step_quickly(self) -> None:
        """Once the optimiser has a state, its step is one launch, where there is a kernel for it."""
        if not self._quick:
            self._quick = True
            learner = self._learner
            self._optimise = clamped_adam(learner.parameters, learner.optimiser, learner.config.gradient_clamp)

    def _last(self, done: Done, k: int) -> Worth:
        """A double agent's worth of the last batch."""
        ready, given = self._ready, self._ready.worth.completion
        own = done.completion if given is None else Completion(*(part[k] for part in given))
        completed_q = done.online_q if self._learner.completes_each_step else ready.target_q[k]
        values = done.values
        assert values is not None
        assert completed_q is not None
        return Worth(values, ready.target_q[k], done.online_q, own, completed_q)

    def _draw(self, count: int, draws: torch.Generator) -> None:
        """Which transitions; from a memory in RAM the transitions themselves."""
        number = count * self._learner.config.batch_size
        if self._replay.device.type == "cuda":
            torch.randint(DRAWS, (number,), generator=draws, device=draws.device, out=self._draws[:number])
            return
        self._copied.synchronize()  # the last burst has been fetched from this very memory
        host = self._replay.sample(number, draws)
        device = self._mask.device
        if self._batch is None:
            whole = len(self._draws)
            self._batch = Batch(
                *(torch.zeros(whole, *part.shape[1:], dtype=part.dtype, device=device) for part in host)
            )
            self._host = Batch(*(readable(torch.zeros_like(part, device="cpu"), part) for part in self._batch))
        assert self._host is not None
        for part, pinned, there in zip(host, self._host, self._batch, strict=True):
            pinned[:number].copy_(part)
            there[:number].copy_(pinned[:number], non_blocking=True)
        self._copied.record()

    @torch.no_grad()
    def _prepare_batches(self) -> Prepared:
        learner, config = self._learner, self._learner.config
        batch = self._replay.gather(self._draws) if self._batch is None else self._batch
        work = Work.of(batch, self.most, config)
        after = self._scaled(work.after)
        blocks = torch.split(after.flatten(0, 1), GPU_BLOCK)
        target_q = torch.cat([values_of(learner.target, self._seen(block), self._precision) for block in blocks])
        target_q = target_q.view(self._mask.shape)
        worth = learner.worth(target_q, self._mask)
        if learner.double:
            targets = torch.zeros_like(work.rewards)
        else:
            targets = bellman_targets(work.rewards, work.continues, worth.values, config.discount)
        return Prepared(
            states=self._scaled(work.states),
            after=after if learner.double else None,
            actions=work.actions,
            rewards=work.rewards,
            continues=work.continues,
            target_q=target_q,
            worth=worth,
            targets=targets,
        )

    def _keep(self, fresh: Prepared) -> None:
        """The steps are recorded on the first results, so what is prepared without a graph is copied there."""
        if not hasattr(self, "_ready"):
            self._ready = fresh
        elif fresh is not self._ready:
            for old, new in zip(_tensors(self._ready), _tensors(fresh), strict=True):
                old.copy_(new)

    def _update_once(self) -> Done:
        """One gradient step on the batch that the counter points at."""
        learner, ready = self._learner, self._ready
        targets, done = self._pick(ready.targets), None
        if learner.double:
            done = self._double_values(ready)
            assert done.values is not None
            rewards, continues = self._pick(ready.rewards), self._pick(ready.continues)
            targets = bellman_targets(rewards, continues, done.values, learner.config.discount)
            ready.targets.index_copy_(0, self._at, targets[None])
        learner.set_learning_rate(self._pick(self._rates))
        q = values_of(learner.online, self._seen(self._pick(ready.states)), self._precision)
        loss = learner.backward(q, self._pick(ready.actions), targets)
        self._optimise()
        self._losses.index_copy_(0, self._at, loss[None])
        self._at.add_(1)
        return Done(q.detach(), None, None, None) if done is None else done._replace(q=q.detach())

    @torch.no_grad()
    def _double_values(self, ready: Prepared) -> Done:
        """What the online network, as it is now, makes of the next states; only what that needs is picked."""
        learner, given = self._learner, ready.worth.completion
        assert ready.after is not None
        online_q = values_of(learner.online, self._seen(self._pick(ready.after)), self._precision)
        completion, completed = None, None if given is None else self._pick(given.matrix)
        if learner.structure is not None and learner.completes_each_step:
            completion = learner.structure.complete(online_q, self._pick(self._mask))
            completed = completion.matrix
        target_q = self._pick(ready.target_q) if given is None else completed
        assert target_q is not None
        return Done(online_q, learner.next_values(target_q, online_q, completed), online_q, completion)

    def _pick(self, every: Tensor) -> Tensor:
        """The k-th entry along the first axis."""
        return every.index_select(0, self._at).squeeze(0)

    def _scaled(self, states: Tensor) -> Tensor:
        """Observations (K, B, ...) as the first layer sees them; pictures with their channels last."""
        if self._pictures:
            states = states.movedim(2, -1)
        fresh = torch.empty(states.shape, device=states.device)
        high = self._learner.online.high
        return fresh.copy_(states) if high == 1.0 else torch.div(states, high, out=fresh)

    def _seen(self, states: Tensor) -> Tensor:
        """What `_scaled` laid out, (N, ...), in the order of axes that the network expects; a view."""
        return states.movedim(-1, 1) if self._pictures else states


def can_capture(learner: Learner) -> bool:
    """Whether an estimator takes part in a graph: Soft-Impute does on matrices of the size of a batch."""
    structure = learner.structure
    if structure is None:
        return True
    shape = (learner.config.batch_size, learner.online.n_actions)
    return isinstance(structure.estimator, SoftImpute) and structure.estimator.captures(*shape)


def _tensors(part: object) -> list[Tensor]:
    if isinstance(part, Tensor):
        return [part]
    return [tensor for one in part for tensor in _tensors(one)] if isinstance(part, tuple) else []


def _first(worth: Worth, count: int) -> Worth:
    given = worth.completion
    own = None if given is None else Completion(*(part[:count] for part in given))
    target_q = worth.target_q[:count]
    return Worth(worth.values[:count], target_q, None, own, target_q)
