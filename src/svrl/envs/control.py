"""The control tasks as environments: agents can learn from samples what planning solves exactly.

All copies move together. A copy starts uniformly in the box, moves by the task's step with the task's noise, as in a
rollout, and receives the task's reward. No state is terminal, because a task may pay for staying at its goal. Every
episode is truncated after 200 steps.

An agent sees features of the state, each about as large as 1, in the order of the axes:

    (2 x - low - high) / (high - low)                       for an axis from low to high
    sin a, cos a   with  a = pi (2 x - low - high) / (high - low)   for a periodic one

so that the two ends of a periodic axis look the same, and a pendulum shows the sine and cosine of its angle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.envs.vector import EnvSpec, Step, VectorEnv, check_finite, checked_actions
from svrl.mdp.control_task import ControlTask

STEP_LIMIT = 200
_PICTURE = 200
_DOT = 5


class Features:
    """Convert states (..., d) of a task to features (..., f), float32: one number per axis, two per periodic axis.

    Attributes:
        count: f.

    Args:
        task: The task.
        device: Of the states, which are tensors; None for NumPy arrays, which take half the time for a few states.
    """

    def __init__(self, task: ControlTask, device: str | torch.device | None = None) -> None:
        low, high = task.box if device is None else task.box.to(device)
        middle, span = low + high, high - low
        self._middle, self._span = (middle.numpy(), span.numpy()) if device is None else (middle, span)
        self._periodic = [axis.periodic for axis in task.axes]
        self.count = len(self._periodic) + sum(self._periodic)

    def __call__(self, states: Any) -> Any:
        """(..., d) -> (..., f)."""
        library: Any = np if isinstance(states, np.ndarray) else torch
        scaled = (2.0 * states - self._middle) / self._span
        columns = []
        for k, periodic in enumerate(self._periodic):
            column = scaled[..., k]
            columns += [library.sin(math.pi * column), library.cos(math.pi * column)] if periodic else [column]
        return library.asarray(library.stack(columns, -1), dtype=library.float32)


class ControlVectorEnv(VectorEnv):
    """N copies of a control task.

    Attributes:
        spec: Observations (f,), float32.
        count: N.
        task: The simulated task.
        states: (N, d), float64, the states of the copies.
    """

    def __init__(self, task: ControlTask, count: int, *, seed: int, step_limit: int = STEP_LIMIT) -> None:
        """Create the copies, which share one generator seeded with `seed`."""
        self.task = task
        self.count = count
        self._features = Features(task)
        self.spec = EnvSpec(
            id=f"control/{task.name}",
            family="control",
            frame_shape=(self._features.count,),
            dtype="float32",
            n_actions=task.n_actions,
            action_names=tuple(" ".join(f"{part:.4g}" for part in inputs) for inputs in task.actions.tolist()),
            axes=task.action_axes,
        )
        self._limit = step_limit
        self._generator = torch.Generator().manual_seed(seed)
        self._low = torch.tensor([axis.low for axis in task.axes], dtype=torch.float64)
        self._span = torch.tensor([axis.high for axis in task.axes], dtype=torch.float64) - self._low
        self._noise = torch.tensor(task.noise, dtype=torch.float64)
        self._still = torch.zeros(1, task.dimensions, dtype=torch.float64)
        self.states = self._starts(count)
        self._elapsed = np.zeros(count, dtype=np.int64)
        self._actions = torch.zeros(count, dtype=torch.int64)

    def reset(self) -> np.ndarray:
        """Begin an episode in every copy."""
        self.states = self._starts(self.count)
        self._elapsed = np.zeros(self.count, dtype=np.int64)
        return self._features(self.states.numpy())

    def send(self, actions: np.ndarray) -> None:
        """Keep the actions; `recv` does the work."""
        self._actions = torch.tensor(checked_actions(actions, self.spec, self.count))

    def recv(self) -> Step:
        """Move all copies at once.

        Raises:
            ValueError: If a reward or a state is not finite.
        """
        inputs = self.task.actions[self._actions]
        rewards = torch.as_tensor(self.task.reward(self.states, inputs)).double().numpy().copy()
        self.states = self.task.move(self.states, inputs, self._disturbances())
        self._elapsed += 1
        final = observations = self._features(self.states.numpy())
        check_finite(self.spec.id, "a reward", rewards)
        check_finite(self.spec.id, "an observation", final)
        truncated = self._elapsed >= self._limit
        ended = np.flatnonzero(truncated)
        if len(ended):
            self.states[ended] = self._starts(len(ended))
            self._elapsed[ended] = 0
            observations = self._features(self.states.numpy())
        never = np.zeros((2, self.count), dtype=bool)
        return Step(observations, final, rewards, never[0], truncated, never[1])

    def capture(self) -> dict[str, Any]:
        """Return the states, the steps taken and the state of the generator."""
        return {
            "task": self.task.describe(),
            "states": self.states.numpy().copy(),
            "elapsed": self._elapsed.copy(),
            "generator": self._generator.get_state().numpy().copy(),
        }

    def restore(self, state: Mapping[str, Any]) -> np.ndarray:
        """Go back to a captured state.

        Raises:
            ValueError: If the state belongs to another task, or to another number of copies.
        """
        if dict(state["task"]) != self.task.describe() or len(state["states"]) != self.count:
            raise ValueError(
                f"The state belongs to other environments than {self.count} of {self.task.describe()}. Start a new run."
            )
        self.states = torch.from_numpy(np.array(state["states"], dtype=np.float64))
        self._elapsed = np.array(state["elapsed"], dtype=np.int64)
        self._generator.set_state(torch.from_numpy(np.array(state["generator"], dtype=np.uint8)))
        return self._features(self.states.numpy())

    def render(self, index: int = 0) -> np.ndarray:
        """Draw the place of the state in the box of the first two axes, (200, 200, 3); the second axis points up."""
        picture = np.full((_PICTURE, _PICTURE, 3), 24, dtype=np.uint8)
        picture[_PICTURE // 2, :] = picture[:, _PICTURE // 2] = 80
        place = ((self.states[index] - self._low) / self._span * (_PICTURE - 1)).round().long().tolist()
        column, row = place[0], _PICTURE - 1 - (place[1] if len(place) > 1 else _PICTURE // 2)
        picture[max(row - _DOT, 0) : row + _DOT + 1, max(column - _DOT, 0) : column + _DOT + 1] = (255, 200, 60)
        return picture

    def _starts(self, count: int) -> Tensor:
        uniform = torch.rand(count, self.task.dimensions, dtype=torch.float64, generator=self._generator)
        return self._low + self._span * uniform

    def _disturbances(self) -> Tensor:
        if max(self.task.noise) == 0.0:
            return self._still
        shape = (self.count, self.task.dimensions)
        return torch.randn(shape, dtype=torch.float64, generator=self._generator) * self._noise
