"""Roll out a policy in the continuous task, from many starts at once.

The generator draws everything random before the first step and on its own device. So the same seed gives the same
starts and the same noise for every policy, on every device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from svrl.matrix.arrays import Generator, torch_generator
from svrl.mdp.control_task import ControlTask
from svrl.planning.policy import Policy


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Rollout:
    """Trajectories of N starts over T steps.

    Attributes:
        task: The simulated task.
        states: (T + 1, N, d), float64; states[0] are the starts.
        actions: (T, N), int64, indices into the task's actions.
        inputs: (T, N, k), the inputs of these actions.
        rewards: (T, N), the reward of each state and the action taken in it.
    """

    task: ControlTask
    states: Tensor
    actions: Tensor
    inputs: Tensor
    rewards: Tensor

    @cached_property
    def returns(self) -> Tensor:
        """The discounted return of each start, (N,)."""
        steps = torch.arange(len(self.rewards), dtype=self.rewards.dtype, device=self.rewards.device)
        return self.task.gamma**steps @ self.rewards

    @property
    def discounted_return(self) -> float:
        """The mean of `returns`."""
        return float(self.returns.mean())

    @cached_property
    def metric(self) -> dict[str, float]:
        """The numbers of the task's metric; empty without one."""
        return {} if self.task.metric is None else self.task.metric(self.states)

    def __repr__(self) -> str:
        steps, starts = self.actions.shape
        return f"Rollout({self.task.name}, {starts} starts, {steps} steps, return {self.discounted_return:.4g})"


def draw_starts(task: ControlTask, count: int, generator: Generator) -> Tensor:
    """Draw states uniformly from the box, (count, d), float64, on the generator's device."""
    if count < 1:
        raise ValueError(f"A rollout needs at least 1 start, got {count}.")
    source = _source(generator)
    low, high = task.box.to(source.device)
    uniform = torch.rand(count, task.dimensions, dtype=torch.float64, generator=source, device=source.device)
    return low + (high - low) * uniform


def rollout(
    task: ControlTask,
    policy: Policy,
    *,
    starts: Tensor | int,
    generator: Generator,
    steps: int = 200,
    noise: bool = True,
) -> Rollout:
    """Follow a policy from many starts at once.

    Args:
        task: The task to simulate.
        policy: Chooses the actions; the rollout runs on its device.
        starts: States (N, d), or the number to draw uniformly from the box.
        generator: Draws the starts and the noise.
        steps: Number of steps, T.
        noise: Apply the task's noise.
    """
    if steps < 1:
        raise ValueError(f"A rollout needs at least 1 step, got {steps}.")
    source, device = _source(generator), policy.device
    state = draw_starts(task, starts, source) if isinstance(starts, int) else _checked(task, torch.as_tensor(starts))
    state = state.to(device)
    disturbances = torch.zeros(steps, 1, task.dimensions, dtype=torch.float64)
    if noise and max(task.noise) > 0.0:
        shape = (steps, len(state), task.dimensions)
        drawn = torch.randn(shape, dtype=torch.float64, generator=source, device=source.device)
        disturbances = drawn * torch.tensor(task.noise, dtype=torch.float64, device=source.device)
    disturbances, choices = disturbances.to(device), task.actions.to(device)
    states, actions, rewards = [state], [], []
    for t in range(steps):
        action = policy.actions(state)
        inputs = choices[action]
        rewards.append(torch.as_tensor(task.reward(state, inputs)))
        state = task.move(state, inputs, disturbances[t])
        states.append(state)
        actions.append(action)
    chosen = torch.stack(actions)
    return Rollout(
        task=task, states=torch.stack(states), actions=chosen, inputs=choices[chosen], rewards=torch.stack(rewards)
    )


def _checked(task: ControlTask, starts: Tensor) -> Tensor:
    if starts.ndim != 2 or starts.shape[1] != task.dimensions or len(starts) == 0:
        raise ValueError(
            f"{task.name} needs starts of shape (N, {task.dimensions}), or their number; got shape "
            f"{tuple(starts.shape)}."
        )
    starts = starts.detach().double()
    if not bool(torch.isfinite(starts).all()):
        raise ValueError("Starts must be finite, got NaN or infinity. Draw them with draw_starts.")
    for axis, column in zip(task.axes, starts.unbind(1), strict=True):
        low, high = (float(end) for end in column.aminmax())
        if low < axis.low or high > axis.high:
            raise ValueError(
                f"Starts must lie in the box of {task.name}: {axis.name} is in [{axis.low:g}, {axis.high:g}], "
                f"got values from {low:g} to {high:g}."
            )
    return starts


def _source(generator: Generator) -> torch.Generator:
    """Return a torch generator unchanged; a NumPy one seeds a torch generator on the CPU."""
    if generator is None:
        raise TypeError("A rollout needs a generator, got None. Use torch.Generator().manual_seed(0).")
    device = generator.device if isinstance(generator, torch.Generator) else torch.device("cpu")
    return torch_generator(generator, device)
