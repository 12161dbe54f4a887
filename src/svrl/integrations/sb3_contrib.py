"""QR-DQN of sb3-contrib, structured through the means of its quantiles.

    StructuredQRDQN("MlpPolicy", env)        in place of QRDQN("MlpPolicy", env)

The target network gives N quantiles of the return of each action, (B, N, A). Their means (B, A) are completed, and
all quantiles of an action are moved by what its mean moved: the shape of a distribution stays, its place changes.
With value "network" the completed means choose, and the quantiles are the network's. See
`svrl.integrations.stable_baselines3` for how.
"""

from __future__ import annotations

from svrl.integrations.stable_baselines3 import StructuredTraining
from svrl.integrations.versions import require

require("sb3-contrib")
from sb3_contrib import QRDQN  # noqa: E402


class StructuredQRDQN(StructuredTraining, QRDQN):
    """QR-DQN whose next states are valued with structure. Takes all that QRDQN takes, and two more.

    `structure` is a `StructuredTargets`, a probability p, or None for no structure; `double` lets the online
    network's means choose the next action.
    """
