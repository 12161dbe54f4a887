"""Targets of Q-learning, as pure functions.

    y = R + discount * (value of the next state)

The agents differ only in what chooses the next action and what values it:

| agent                        | chooses                  | values               |
|------------------------------|--------------------------|----------------------|
| dqn                          | target network           | target network       |
| double                       | online network           | target network       |
| structured, `completed`      | completed target matrix  | the same             |
| structured, `network`        | completed target matrix  | target network       |
| double structured, completed | online network           | completed target     |
| double structured, network   | completed ONLINE matrix  | target network       |

`completed` is the paper's rule; `network` avoids the bias of the maximum over a completed row.

With an action mask only valid actions are chosen.
"""

from __future__ import annotations

import torch
from torch import Tensor

from svrl.agents.config import Kind, Value


def next_values(
    kind: Kind,
    target_q: Tensor,
    *,
    online_q: Tensor | None = None,
    completed: Tensor | None = None,
    next_value_from: Value = "completed",
    action_mask: Tensor | None = None,
) -> Tensor:
    """Values of the next states, (..., B).

    Args:
        kind: The agent.
        target_q: Values of the target network at the next states, (..., B, A).
        online_q: Values of the online network there; only a double agent needs them.
        completed: The completed matrix of a structured agent, or None for a plain one. It completes the online
            network's values if the agent is double and `next_value_from` is "network", else the target network's.
        next_value_from: Source of the chosen action's value for a structured agent.
        action_mask: (..., B, A), bool: the valid actions of the next states; None if all are valid.
    """
    double = kind == "double"
    if double and online_q is None and (completed is None or next_value_from == "completed"):
        raise ValueError("A double agent needs the online network's values at the next states, got None.")
    chooser, valuer = chooser_and_valuer(
        target_q, online_q=online_q if double else None, completed=completed, next_value_from=next_value_from
    )
    if chooser is valuer:
        return only_valid(valuer, action_mask).amax(-1)
    return valuer.gather(-1, only_valid(chooser, action_mask).argmax(-1, keepdim=True)).squeeze(-1)


def only_valid(q: Tensor, action_mask: Tensor | None) -> Tensor:
    """Values (..., A) with -inf for actions that are not valid, so that a maximum never takes them.

    A state without a valid action is terminal. It keeps its values: targets multiply them by 0, and 0 * -inf is NaN.
    """
    if action_mask is None:
        return q
    return q.masked_fill(~action_mask & action_mask.any(-1, keepdim=True), -torch.inf)


def completes_online(double: bool, next_value_from: Value) -> bool:
    """Whether the agent completes the matrix of the online network instead of that of the target network."""
    return double and next_value_from == "network"


def chooser_and_valuer(
    target_q: Tensor, *, online_q: Tensor | None, completed: Tensor | None, next_value_from: Value
) -> tuple[Tensor, Tensor]:
    """Apply a row of the module's table: return the values that choose the next action, and those that value it.

    Args:
        target_q, completed, next_value_from: As in `next_values`.
        online_q: Values of the online network for a double agent, else None.
    """
    if completed is None:
        return (target_q if online_q is None else online_q), target_q
    if next_value_from == "network":
        return completed, target_q
    return (completed if online_q is None else online_q), completed


def bellman_targets(rewards: Tensor, discounts: Tensor, values: Tensor) -> Tensor:
    """R + discount * value, all (..., B); a discount is 0 where the bootstrap ends."""
    return rewards + discounts * values
