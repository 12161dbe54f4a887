"""A plan as an agent: what to do in a Gymnasium environment, from the observation it gave.

Where states are numbered, the observation is the state. A control task shows features of its state
(`svrl.envs.control.features`). They are turned back, by

    x = (low + high) / 2 + (high - low) / 2 * y           for an axis that shows y
    y = atan2(sin a, cos a) / pi                          for a periodic one, which shows sin a and cos a

up to the rounding of float32. The registered tasks also give the state itself, in info["state"], which is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.model import Model, Sampler
from svrl.planning.plan import Plan
from svrl.planning.policy import GreedyPolicy, Policy


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
        actions, single = self._numbered(observation) if self.task is None else self._continuous(observation, info)
        return int(actions[0]) if single else actions

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = True
    ) -> tuple[np.ndarray, Any]:
        """As Stable-Baselines3 asks its models: actions () or (N,), int64, and the state as it came.

        A plan is deterministic and remembers nothing: the last three arguments change nothing.
        """
        return np.asarray(self.act(observation), dtype=np.int64), state

    def _numbered(self, observation: Any) -> tuple[np.ndarray, bool]:
        table, seen = np.asarray(self.policy), np.asarray(observation)
        if seen.dtype.kind not in "iu" or seen.ndim > 1:
            raise ValueError(
                f"This plan has {len(table)} numbered states and observes their numbers, got {seen.dtype} of shape "
                f"{seen.shape}. For a control task, make the agent with the GridMDP it was planned on."
            )
        if seen.size and (seen.min() < 0 or seen.max() >= len(table)):
            raise ValueError(
                f"This plan has states 0 to {len(table) - 1}, got {seen.min()} to {seen.max()}. "
                "Plan on the model of this environment."
            )
        return table[seen.reshape(-1)], seen.ndim == 0

    def _continuous(self, observation: Any, info: Mapping[str, Any] | None) -> tuple[np.ndarray, bool]:
        assert self.task is not None
        assert not isinstance(self.policy, np.ndarray)
        seen = np.asarray(observation)
        if seen.ndim > 2:
            raise ValueError(f"{self.task.name} is observed by features (f,) or (N, f), got shape {seen.shape}.")
        states = states_from_features(self.task, seen)
        told = _told(info)
        if told is not None and told.shape != states.shape:
            raise ValueError(
                f"{self.task.name} has states of shape {states.shape} for this observation, got info['state'] of shape "
                f"{told.shape}. Give the info of the same environment, or none."
            )
        states = states if told is None else told
        places = torch.from_numpy(np.array(states, dtype=np.float64).reshape(-1, self.task.dimensions))
        return self.policy.actions(places.to(self.policy.device)).cpu().numpy(), seen.ndim == 1

    def __repr__(self) -> str:
        of = f"{len(np.asarray(self.policy))} states" if self.task is None else self.task.name
        return f"PlannedAgent({of})"


def agent_from_plan(found: Plan, model: Model | None = None) -> PlannedAgent:
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
        raise ValueError(
            "agent_from_plan takes the plan first and then the model, got them the other way round. Swap them."
            if isinstance(model, Plan)
            else f"agent_from_plan needs a Plan, got {type(found).__name__}. Give what svrl.plan returned."
        )
    _check_same(found, model)
    if not isinstance(model, GridMDP):
        return PlannedAgent(policy=found.policy.cpu().numpy())
    if found.q is not None and _finite(found.q):
        policy = GreedyPolicy(task=model.task, q=found.q)
    elif found.factors is not None and all(_finite(factor) for factor in found.factors):
        left, right = found.factors
        policy = GreedyPolicy(task=model.task, left=left, right=right.mT)
    else:
        policy = GreedyPolicy(task=model.task, q=model.backup(found.v))
    return PlannedAgent(policy=policy, task=model.task)


def _check_same(found: Plan, model: Any) -> None:
    """Raise if the plan is of another model, as far as sizes, and for a grid its task and shape, tell."""
    about = found.problem
    shape = about.get("states") if isinstance(about.get("states"), str) else None  # as in 50x50: only a grid says so
    if shape is not None and not isinstance(model, GridMDP):
        raise ValueError(
            f"The plan is over a grid of {shape} states of {about.get('task')}, and without its GridMDP there "
            f"is no action between them, got {type(model).__name__}. Call agent_from_plan(found, grid)."
        )
    if model is None:
        return
    if not isinstance(model, GridMDP | Model | Sampler):
        raise ValueError(
            f"agent_from_plan needs a model, got {type(model).__name__}. Give what was planned on, or None."
        )
    n_states = len(found.policy)
    matrix = found.q if found.q is not None else None if found.factors is None else found.factors[1]
    n_actions = int(about["pairs"]) // n_states if "pairs" in about else None
    n_actions = n_actions if matrix is None else int(matrix.shape[-1])
    if n_states != model.n_states or n_actions not in (None, model.n_actions):
        raise ValueError(
            f"The plan has {n_states} states and {n_actions} actions, and the model {model.n_states} and "
            f"{model.n_actions}. Give what was planned on."
        )
    if isinstance(model, GridMDP) and shape is not None:
        own = model.describe()
        if (about.get("task"), shape) != (own.get("task"), own.get("states")):
            raise ValueError(
                f"The plan is of {about.get('task')} on a grid of {shape}, and the model is {own.get('task')} on one "
                f"of {own.get('states')}. Give what was planned on."
            )


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


def _told(info: Mapping[str, Any] | None) -> np.ndarray | None:
    """The state that an environment tells, if it does; a vector of environments says who of them did."""
    if info is None or "state" not in info or not np.all(info.get("_state", True)):
        return None
    state = np.asarray(info["state"])
    return state if state.dtype.kind in "fiu" else None


def _finite(tensor: Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())
