"""Gymnasium: its toy-text problems as models, our control tasks as its environments, and plans as agents for either.

    mdp_from_env("FrozenLake-v1", gamma=0.99)         what an environment samples from is planned on exactly
    agent_from_plan(found, model).act(observation, info)
    gymnasium.make("svrl.integrations.gymnasium:svrl/InvertedPendulum-v0")

**Models.** FrozenLake, Taxi, CliffWalking and environments made like them carry their transitions,
P[s][a] = [(probability, next state, reward, done), ...], and the probabilities of their first states. Wrappers around
them, a limit of steps among them, are not in P.

**Tasks.** Importing this file registers every task of the catalogue: one copy in `svrl.envs.control`, which says what
is observed, drawn and paid, or begun where options={"state": ...} says. np_random seeds it. Nothing is terminal, and an
episode is cut off after 200 steps. info["state"] is the state itself, (d,), float64, in the units of the task's axes.

**Agents.** Where states are numbered, the observation is the state. Features are turned back, by

    x = (low + high) / 2 + (high - low) / 2 * y           for an axis that shows y
    y = atan2(sin a, cos a) / pi                          for a periodic one, which shows sin a and cos a

up to the rounding of float32; info["state"] is exact.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from svrl.envs.control import STEP_LIMIT, ControlVectorEnv, Features
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.model import Model, Sampler
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.tasks import TASKS, make_task
from svrl.planning.plan import Plan
from svrl.planning.policy import Policy

IDS = {name: f"svrl/{''.join(part.capitalize() for part in name.split('-'))}-v0" for name in TASKS}
"""The id of each task of the catalogue."""


def mdp_from_env(env: gymnasium.Env | str, gamma: float) -> TabularMDP:
    """The model of an environment that carries its transitions.

    Args:
        env: An environment, wrapped or not, or the id of a registered one. Observations are the numbers of its
            S states, actions the numbers of its A actions.
        gamma: In (0, 1); the environment has none of its own.

    Returns:
        A model of S states and A actions. A transition that is done pays its reward and ends the episode.

    Raises:
        ValueError: If it is a vector of environments, has no P, or P does not say all of what it does.
    """
    bare, name = _bare(env)
    if getattr(bare, "fickle_passenger", False):
        raise ValueError(
            f"{name} has a fickle passenger, whose changes of mind are not in P. Make it with fickle_passenger=False."
        )
    sizes = [space.n for space in (bare.observation_space, bare.action_space) if _from_zero(space)]
    if sizes != [len(bare.P), len(bare.P[0])]:
        raise ValueError(
            f"{name} has a P of {len(bare.P)} states and {len(bare.P[0])} actions, and observes "
            f"{bare.observation_space} and takes {bare.action_space}. Both must be numbered from 0, as in P."
        )
    return TabularMDP.from_toy_text(bare.P, gamma, name=name)


def start_probabilities(env: gymnasium.Env | str) -> np.ndarray:
    """The probability (S,) of each state to be the first, so that its product with values (S,) is a mean return.

    Raises:
        ValueError: If the environment does not carry it.
    """
    bare, name = _bare(env)
    if not hasattr(bare, "initial_state_distrib"):
        raise ValueError(f"{name} does not say where it starts: it has no initial_state_distrib.")
    return np.array(bare.initial_state_distrib, dtype=np.float64)


def _bare(env: gymnasium.Env | str) -> tuple[Any, str]:
    """The environment without its wrappers, and its name."""
    if isinstance(env, str):
        made = gymnasium.make(env)
        made.close()
        return _bare(made)
    if hasattr(env, "num_envs"):
        raise ValueError(
            f"A model is read from one environment, got a {type(env).__name__} of {env.num_envs}. Give one, or its id."
        )
    bare = env.unwrapped
    name = env.spec.id if env.spec is not None else type(bare).__name__
    if not getattr(bare, "P", None):
        raise ValueError(
            f"{name} carries no table P of its transitions, as Gymnasium's toy-text problems do, "
            "so it cannot be planned on exactly. Learn from it with svrl.train."
        )
    return bare, name


def _from_zero(space: Any) -> bool:
    return isinstance(space, spaces.Discrete) and space.start == 0


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
            task: A name of the catalogue, or your own task.
            actions: How many; 0 takes the task's own number. A task of three inputs needs a cube, as 27 is 3 levels of
                each, and one of two inputs a square. For a name only.
            variant: "paper" or "authors"; None is "paper". For a name only.
            render_mode: None, or "rgb_array".

        Raises:
            ValueError: If there is no such task, variant, number of actions or mode.
        """
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(f"A control task draws in the mode rgb_array, got render_mode={render_mode!r}.")
        if not isinstance(task, ControlTask):
            task = make_task(task, actions=actions or None, variant=variant)
        elif actions or variant is not None:
            raise ValueError(
                f"actions and variant choose a task by name, and {task.name} was given whole. Leave them out."
            )
        self.task, self.render_mode = task, render_mode
        self._copy = ControlVectorEnv(task, 1, seed=0, step_limit=sys.maxsize)
        self._begun = False
        self.action_space = spaces.Discrete(task.n_actions)
        self.observation_space = spaces.Box(-1.0, 1.0, self._copy.spec.frame_shape, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: For np_random, by Gymnasium's rules.
            options: {"state": (d,)} begins there.

        Raises:
            ValueError: If that state is not one of the box, or there is another option.
        """
        if unknown := set(options or {}) - {"state"}:
            names = ", ".join(sorted(map(repr, unknown)))
            raise ValueError(f"{self.task.name} is reset with the option 'state' and no other, got {names}.")
        super().reset(seed=seed)
        if seed is not None or not self._begun:
            drawn = int(self.np_random.integers(2**63))
            self._copy = ControlVectorEnv(self.task, 1, seed=drawn, step_limit=sys.maxsize)
        observation = self._copy.reset()[0]
        self._begun = True
        if options and options["state"] is not None:
            self._copy.states = self._checked(options["state"])
            observation = Features(self.task)(self._copy.states.numpy())[0]
        return observation, self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step of the task.

        Raises:
            ValueError: If there is no such action, or the task gave a reward or a state that is not finite.
        """
        if not self._begun:
            raise gymnasium.error.ResetNeeded("Call reset before the first step.")
        self._copy.send(np.array([action]))
        made = self._copy.recv()
        return made.final_observations[0], float(made.rewards[0]), False, False, self._info()

    def render(self) -> np.ndarray | None:
        """Where the state is in the box of the first two axes, (200, 200, 3), uint8; None without a render mode."""
        return None if self.render_mode is None or not self._begun else self._copy.render()

    def _info(self) -> dict[str, Any]:
        return {"state": self._copy.states.numpy()[0].copy()}

    def _checked(self, given: Any) -> Tensor:
        """A state (1, d), if it is in the box."""
        state, axes = torch.tensor(np.array(given, dtype=np.float64))[None], self.task.axes
        if state.shape != (1, len(axes)) or not all(a.low <= x <= a.high for a, x in zip(axes, state[0], strict=True)):
            box = ", ".join(f"{axis.name} in [{axis.low:g}, {axis.high:g}]" for axis in axes)
            raise ValueError(f"{self.task.name} begins in its box, {box}; got {given!r}.")
        return state


for _name, _id in IDS.items():
    gymnasium.register(
        id=_id,
        entry_point="svrl.integrations.gymnasium:ControlTaskEnv",
        max_episode_steps=STEP_LIMIT,
        kwargs={"task": _name},
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class PlannedAgent:
    """A policy that acts on observations, one of them or N.

    Attributes:
        policy: Actions of numbered states (S,), int64; or, with a task, the policy of its states.
        task: Whose features are observed; None where observations are numbers of states.
    """

    policy: np.ndarray | Policy
    task: ControlTask | None = None

    def act(self, observation: Any, info: Mapping[str, Any] | None = None) -> Any:
        """What to do now.

        Args:
            observation: A state's number, or N of them (N,); of a control task, features (f,) or (N, f).
            info: What the environment gave beside it. If it holds the state (d,) or (N, d), that is taken.

        Returns:
            The action, an int; or N of them (N,), int64.

        Raises:
            ValueError: If the observation, or the state in info, is not of this size.
        """
        actions = self._numbered(observation) if self.task is None else self._continuous(observation, info)
        return actions if actions.ndim else int(actions)

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, Any]:
        """As Stable-Baselines3 asks its models: actions () or (N,), int64, and the state as it came.

        A plan is deterministic and remembers nothing: the last three arguments change nothing.
        """
        return np.asarray(self.act(observation), dtype=np.int64), state

    def _numbered(self, observation: Any) -> np.ndarray:
        table, seen = np.asarray(self.policy), np.asarray(observation)
        if seen.dtype.kind not in "iu":
            raise ValueError(
                f"This plan has {len(table)} numbered states and observes their numbers, got {seen.dtype} of shape "
                f"{seen.shape}. For a control task, make the agent with the GridMDP it was planned on."
            )
        if seen.size and (seen.min() < 0 or seen.max() >= len(table)):
            raise ValueError(
                f"This plan has states 0 to {len(table) - 1}, got {seen.min()} to {seen.max()}. "
                "Plan on the model of this environment."
            )
        return np.asarray(table[seen])

    def _continuous(self, observation: Any, info: Mapping[str, Any] | None) -> np.ndarray:
        assert self.task is not None
        assert not isinstance(self.policy, np.ndarray)
        states = states_from_features(self.task, np.asarray(observation))
        if info is not None and "state" in info and np.all(info.get("_state", True)):  # of several, all gave theirs
            given = np.array(info["state"], dtype=np.float64)
            if given.shape != states.shape:
                raise ValueError(
                    f"{self.task.name} has states of shape {states.shape} for this observation, got info['state'] of "
                    f"shape {given.shape}. Give the info of the same environment, or none."
                )
            states = given
        places = torch.from_numpy(states.reshape(-1, self.task.dimensions))
        return self.policy.actions(places.to(self.policy.device)).cpu().numpy().reshape(states.shape[:-1])


def agent_from_plan(found: Plan, model: Model | Sampler | None = None) -> PlannedAgent:
    """The agent of a plan.

    Args:
        found: Of S states and A actions.
        model: What was planned on. A `GridMDP` makes an agent for its continuous task: its actions are greedy for
            the interpolation of the plan's Q (S, A), or of its factors, or, where it kept neither or they are not
            finite, of one backup of its values. Any other model, or none, makes one for numbered states, if the
            plan is not over a grid.

    Raises:
        ValueError: If the plan is of another task, shape or number of states or actions, or is over a grid and the
            model is not.
    """
    if not isinstance(found, Plan):
        raise ValueError(f"agent_from_plan needs a Plan, got {type(found).__name__}. Give what svrl.plan returned.")
    about, own = found.problem, {} if model is None else model.describe()
    shape = about.get("states")
    if isinstance(shape, str) and not isinstance(model, GridMDP):  # as in 50x50: only a grid says so
        raise ValueError(
            f"The plan is over a grid of {shape} states of {about.get('task')}, and without its GridMDP there "
            f"is no action between them, got {type(model).__name__}. Call agent_from_plan(found, grid)."
        )
    alike = ("states", "actions", "task") if isinstance(model, GridMDP) else ("states", "actions")
    if any(name in own and about.get(name) != own[name] for name in alike):
        raise ValueError(
            f"The plan is of {about.get('task')} with {shape} states and {about.get('actions')} actions, and the "
            f"model {own.get('task')} with {own.get('states')} and {own.get('actions')}. Give what was planned on."
        )
    if not isinstance(model, GridMDP):
        return PlannedAgent(policy=found.policy.cpu().numpy())
    kept = [found.q] if found.q is not None else list(found.factors or ())
    suffices = bool(kept) and all(_finite(part) for part in kept)
    policy = found.greedy_policy(model.task, None if suffices else model)
    return PlannedAgent(policy=policy, task=model.task)


def states_from_features(task: ControlTask, seen: np.ndarray) -> np.ndarray:
    """The states (..., d), float64, whose features (..., f) are these.

    Raises:
        ValueError: If there are not as many features as the task has.
    """
    wanted = task.dimensions + sum(axis.periodic for axis in task.axes)
    seen = np.asarray(seen, dtype=np.float64)
    if seen.ndim == 0 or seen.shape[-1] != wanted:
        raise ValueError(
            f"{task.name} is observed by {wanted} features (..., {wanted}), got shape {seen.shape}. "
            "Give what the environment gave, not stacked and not scaled."
        )
    columns, at = [], 0
    for axis in task.axes:
        scaled = np.arctan2(seen[..., at], seen[..., at + 1]) / np.pi if axis.periodic else seen[..., at]
        columns.append(0.5 * (axis.low + axis.high) + 0.5 * (axis.high - axis.low) * scaled)
        at += 2 if axis.periodic else 1
    return np.stack(columns, -1)


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())
