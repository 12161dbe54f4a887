"""The control tasks as Gymnasium environments: importing this file registers them.

    svrl/InvertedPendulum-v0  svrl/MountainCar-v0  svrl/DoubleIntegrator-v0  svrl/CartPole-v0
    svrl/ThreeMotorPendulum-v0

An episode starts uniformly in the task's box, or where options={"state": ...} says. It is moved by the task's step
with the task's noise, both drawn from np_random, and is paid the task's reward of the state it left. Nothing is
terminal, and an episode is cut off after 200 steps. Observations are features of the state, each in [-1, 1]
(`svrl.envs.control`); info["state"] is the state itself, (d,), float64, in the units of the task's axes.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces

from svrl.envs.control import STEP_LIMIT, ControlLanes, features, task_with
from svrl.mdp.catalogue import TASKS, make_task
from svrl.mdp.control_task import ControlTask

IDS = {name: f"svrl/{''.join(part.capitalize() for part in name.split('-'))}-v0" for name in TASKS}
"""The id of each task of the catalogue."""


class ControlTaskEnv(gymnasium.Env[np.ndarray, np.int64]):
    """A control task, one copy.

    Attributes:
        task: What is simulated: d coordinates, A actions.
        observation_space: Box (f,), float32, in [-1, 1]; a periodic axis has two features, any other has one.
        action_space: The numbers of the A actions.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        task: str | ControlTask,
        *,
        actions: int = 0,
        variant: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make one.

        Args:
            task: A name of the catalogue, or a task of one's own.
            actions: How many, evenly spaced; 0 takes the task's own number. Of the pendulum with three motors the
                cube of the levels of one motor: 27 is 3 levels of each. For a name only.
            variant: "paper" or "authors"; None is "paper". For a name only.
            render_mode: None, or "rgb_array".

        Raises:
            ValueError: If there is no such task, variant, number of actions or mode.
        """
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"A control task draws in the mode rgb_array, got render_mode={render_mode!r}.")
        self.task = _named(task, actions, variant) if isinstance(task, str) else _own(task, actions, variant)
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(self.task.n_actions)
        shape = features(self.task, np.zeros(self.task.dimensions)).shape
        self.observation_space = spaces.Box(-1.0, 1.0, shape, np.float32)
        self._low = np.array([axis.low for axis in self.task.axes])
        self._high = np.array([axis.high for axis in self.task.axes])
        self._state: np.ndarray | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: For np_random, by Gymnasium's rules.
            options: {"state": (d,)} begins there and draws nothing.

        Raises:
            ValueError: If that state is not one of the box, or there is another option.
        """
        if unknown := set(options or {}) - {"state"}:
            names = ", ".join(sorted(map(repr, unknown)))
            raise ValueError(f"{self.task.name} is reset with the option 'state' and no other, got {names}.")
        super().reset(seed=seed)
        given = (options or {}).get("state")
        self._state = self._drawn() if given is None else self._checked(given)
        return self._seen(self._state)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of the task.

        Raises:
            ValueError: If there is no such action, or the task gave a reward or a state that is not finite.
        """
        if self._state is None:
            raise gymnasium.error.ResetNeeded("Call reset before the first step.")
        if not self.action_space.contains(action):
            raise ValueError(f"{self.task.name} has actions 0 to {self.task.n_actions - 1}, got {action!r}.")
        at, inputs = torch.from_numpy(self._state)[None], self.task.actions[int(action)][None]
        noise = np.zeros(self.task.dimensions)
        if max(self.task.noise) > 0.0:
            noise = self.np_random.standard_normal(self.task.dimensions) * np.array(self.task.noise)
        reward = float(torch.as_tensor(self.task.reward(at, inputs)))
        state = self.task.move(at, inputs, torch.from_numpy(noise)[None])[0].double().numpy()
        if not (math.isfinite(reward) and np.isfinite(state).all()):
            raise ValueError(
                f"{self.task.name} gave the reward {reward:g} and the next state {state} in state {self._state}. "
                "Look at its step and reward there."
            )
        self._state = state
        observation, info = self._seen(state)
        return observation, reward, False, False, info

    def render(self) -> np.ndarray | None:
        """Where the state is in the box of the first two axes, (200, 200, 3), uint8; None without a render mode."""
        if self.render_mode is None or self._state is None:
            return None
        lane = ControlLanes(self.task, 1, seed=0)
        lane.states = torch.from_numpy(self._state)[None]
        return lane.render()

    def _drawn(self) -> np.ndarray:
        return self._low + (self._high - self._low) * self.np_random.random(self.task.dimensions)

    def _checked(self, given: Any) -> np.ndarray:
        state = np.array(given, dtype=np.float64)
        if state.shape != self._low.shape or not ((self._low <= state) & (state <= self._high)).all():
            box = ", ".join(f"{axis.name} in [{axis.low:g}, {axis.high:g}]" for axis in self.task.axes)
            raise ValueError(f"{self.task.name} begins in its box, {box}; got {given!r}.")
        return state

    def _seen(self, state: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        return features(self.task, state), {"state": state.copy()}


def register_tasks() -> None:
    """Register every task of the catalogue that is not registered yet."""
    for name, given in IDS.items():
        if given not in gymnasium.registry:
            gymnasium.register(
                id=given,
                entry_point="svrl.integrations.gymnasium_tasks:ControlTaskEnv",
                max_episode_steps=STEP_LIMIT,
                kwargs={"task": name},
            )


def _named(name: str, actions: int, variant: str | None) -> ControlTask:
    task = task_with(name, actions)
    if variant is None:
        return task
    if "levels" in inspect.signature(TASKS[name]).parameters:
        return make_task(name, levels=round(task.n_actions ** (1 / 3)), variant=variant)
    return make_task(name, actions=task.n_actions, variant=variant)


def _own(task: ControlTask, actions: int, variant: str | None) -> ControlTask:
    if actions or variant is not None:
        raise ValueError(f"actions and variant choose a task by name, and {task.name} was given whole. Leave them out.")
    return task


register_tasks()
