"""The error of an agent's Q against Q*, which planning computes on control tasks.

Planning discretises the agent's task on the grid of its axes and solves it exactly, with the agent's discount and
number of actions. The network is then evaluated at the grid states. With span = max Q* - min Q*, and means over all
grid states and actions,

    mean_error       mean |Q - Q*| / span
    max_error        max |Q - Q*| / span
    value_error      mean |max_a Q - V*| / span
    advantage_error  mean |(Q - mean_a Q) - (Q* - mean_a Q*)| / span
    greedy_loss      mean (V* - V_greedy) / (max V* - min V*)

where V_greedy are the exact values, on the grid, of acting greedily by the network.

This is the Q* of the grid without noise. The agent's environment is continuous and adds the task's noise to its moves,
so even a perfect agent keeps a small error here. It also truncates episodes after 200 steps, but the agent bootstraps
there, which leaves Q* unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from svrl.agents.evaluation import at_rest
from svrl.agents.events import Event, Learned
from svrl.agents.study import Directions, leading_directions
from svrl.envs.control import Features
from svrl.mdp import ControlTask, GridMDP, make_task
from svrl.planning import evaluate_policy, policy_loss, solve_exactly
from svrl.runtime.rows import RowLog, last_rows
from svrl.runtime.run_directory import Q_STAR, RunDirectory

if TYPE_CHECKING:
    from svrl.agents.agent import Agent
    from svrl.agents.training import Training

CONTROL = "control/"
PRECISION = 1e-8
"""Error of exact values, as a share of the largest value that rewards allow."""
BLOCK = 1 << 20
"""Values that the network computes at once."""
MOST_VALUES = 10**8
"""Most entries (grid states x actions) of a Q* to keep: 800 MB."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QStarError:
    """An exact Q*, computed once, to compare networks with.

    Attributes:
        model: The task on its grid, with the agent's discount.
        observations: The agent's observations at the grid states, (S, width), float32.
        q_star: (S, A), float64.
        v_star: (S,), float64.
    """

    model: GridMDP
    observations: Tensor
    q_star: Tensor
    v_star: Tensor

    @classmethod
    def of(cls, task: ControlTask, *, gamma: float) -> QStarError:
        """Plan a task.

        Args:
            task: Its axes define the grid.
            gamma: The agent's discount, which replaces the task's own.

        Raises:
            ValueError: If Q* on that grid is too large.
        """
        if task.n_states * task.n_actions > MOST_VALUES:
            raise ValueError(
                f"Q* of {task.name} has {task.n_states} x {task.n_actions} values, more than the {MOST_VALUES:.0e} "
                "allowed. Use fewer actions."
            )
        model = GridMDP(dataclasses.replace(task, gamma=gamma))
        v_star, _ = solve_exactly(model, _tolerance(model))
        return cls(
            model=model,
            observations=Features(task, "cpu")(task.states()),
            q_star=model.backup(v_star),
            v_star=v_star,
        )

    @classmethod
    def of_learner(cls, learner: Training | Agent) -> QStarError:
        """Plan the task of a training or an agent.

        Raises:
            ValueError: If its Q* is not known; the message says why.
        """
        if not learner.env.startswith(CONTROL):
            raise ValueError(f"Q* is known only for {CONTROL}TASK, and there is no planning on {learner.env}.")
        if learner.config.clip_rewards:
            raise ValueError(
                "The agent learns from the sign of rewards, so its Q is not that of the task. "
                "Set clip_rewards to False."
            )
        task = make_task(learner.env.removeprefix(CONTROL), actions=learner.config.actions or None)
        return cls.of(task, gamma=learner.config.gamma)

    @property
    def span(self) -> float:
        """Max Q* - min Q*; 1 if Q* is constant."""
        low, high = self.q_star.aminmax()
        return float(high - low) or 1.0

    def measure(self, values: Callable[[Tensor], Tensor], device: str | torch.device = "cpu") -> dict[str, float]:
        """Errors of a network, observations (N, width) on `device` -> (N, A); the module has the formulas."""
        total = torch.zeros(3, dtype=torch.float64)
        largest, policy = torch.zeros((), dtype=torch.float64), []
        for at, q in self._blocks(values, device):
            wrong = q - self.q_star[at]
            value = q.max(1).values - self.v_star[at]
            advantage = wrong - wrong.mean(1, keepdim=True)
            total += torch.stack([wrong.abs().sum(), value.abs().sum(), advantage.abs().sum()])
            largest = torch.maximum(largest, wrong.abs().max())  # Python's max would lose a NaN
            policy.append(q.argmax(1))
        mean, of_values, of_advantages = (total / self.span / self.model.n_states).tolist()
        followed = evaluate_policy(self.model, torch.cat(policy), _tolerance(self.model))
        return {
            "mean_error": mean / self.model.n_actions,
            "max_error": float(largest) / self.span,
            "value_error": of_values,
            "advantage_error": of_advantages / self.model.n_actions,
            "greedy_loss": policy_loss(self.v_star, followed).relative,
        }

    def directions(self, values: Callable[[Tensor], Tensor], device: str | torch.device = "cpu") -> Directions:
        """The leading directions of a network's values at the grid states, and how much of its error lies in them."""
        return leading_directions((q, q - self.q_star[at]) for at, q in self._blocks(values, device))

    def _blocks(self, values: Callable[[Tensor], Tensor], device: str | torch.device) -> Iterator[tuple[slice, Tensor]]:
        """Some of the grid states at a time, and a network's values there (n, A), float64, on the CPU."""
        rows = max(1, BLOCK // self.model.n_actions)
        for low in range(0, self.model.n_states, rows):
            at = slice(low, low + rows)
            with torch.no_grad():
                yield at, values(self.observations[at].to(device)).cpu().double()

    def event_row(self, learner: Training | Agent) -> dict[str, Any]:
        """A row for logs: steps, updates and the errors of the online network at this moment."""
        at_work = learner.at_work() if hasattr(learner, "at_work") else nullcontext()
        with at_rest(learner.network) as network, at_work:
            errors = self.measure(network, learner.device)
        return {"steps": learner.steps, "updates": learner.updates, **errors}


class QStarRows(RowLog):
    """Appends a row with the error against the planned Q* at every `Learned`.

    Attributes:
        last: The newest row, or None.
        reason: Why no row can be written, in a sentence; empty if rows are written.
    """

    def __init__(self, run: RunDirectory, training: Training) -> None:
        self._training = training
        self._error: QStarError | None = None
        self.reason = ""
        try:
            self._error = QStarError.of_learner(training)
        except ValueError as error:
            self.reason = str(error)
        super().__init__(run.path / Q_STAR, up_to=training.steps)
        self.last: dict[str, Any] | None = next(iter(last_rows(self.path, 1)), None)

    def __call__(self, event: Event) -> None:
        """Measure and append a row."""
        if isinstance(event, Learned):
            self.measure()

    def measure(self) -> None:
        """Append a row for this step, unless it has one."""
        if self._error is not None and (self.last is None or self.last["steps"] != self._training.steps):
            self.last = self._error.event_row(self._training)
            self.append(self.last)


def _tolerance(model: GridMDP) -> float:
    """The absolute error of exact values, in proportion to the largest value that rewards allow, like rounding."""
    most = max(abs(end) for end in model.reward_range)
    return max(1e-9, PRECISION * most / (1.0 - model.gamma))
