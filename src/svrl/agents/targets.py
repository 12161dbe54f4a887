"""Targets of Q-learning, as pure functions.

    y = r + discount * continues * (value of the next state)

and the agents differ only in who chooses the next action and who says what it is worth:

| agent                        | chooses                  | values               |
|------------------------------|--------------------------|----------------------|
| dqn, dueling                 | target network           | target network       |
| double                       | online network           | target network       |
| structured, `completed`      | completed target matrix  | the same             |
| structured, `network`        | completed target matrix  | target network       |
| double structured, completed | online network           | completed target     |
| double structured, network   | completed ONLINE matrix  | target network       |

`completed` is the paper's; `network` takes away the bias that the maximum over a completed row has.
"""

from __future__ import annotations

from torch import Tensor

from svrl.agents.config import Kind, Value


def next_values(
    kind: Kind,
    target_q: Tensor,
    *,
    online_q: Tensor | None = None,
    completed: Tensor | None = None,
    value: Value = "completed",
) -> Tensor:
    """What the next states are worth, (..., B).

    Args:
        kind: The agent.
        target_q: Values of the target network at the next states, (..., B, A).
        online_q: Values of the online network there; only double looks at them.
        completed: A completed matrix, or None for a plain agent: of the online network's values where the agent is
            double and `value` is "network", else of the target network's.
        value: Who values, where a completed matrix is given.
    """
    double = kind == "double"
    if completed is None:
        chooser, valuer = (online_q if double else target_q), target_q
    elif value == "network":
        chooser, valuer = completed, target_q
    else:
        chooser, valuer = (online_q if double else completed), completed
    if chooser is None:
        raise ValueError("A double agent needs the online network's values at the next states, got None.")
    return valuer.gather(-1, chooser.argmax(-1, keepdim=True)).squeeze(-1)


def bellman_targets(rewards: Tensor, continues: Tensor, values: Tensor, discount: float) -> Tensor:
    """r + discount * continues * value, all (..., B); `continues` is 0 where the bootstrap ends."""
    return rewards + discount * continues * values
