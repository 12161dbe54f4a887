"""The paper's toy MDP: a random finite problem whose optimal Q is nevertheless close to low rank.

Every pair leads to one next state, drawn uniformly, and pays one reward, drawn once from U(0, 1). The paper (Yang et
al., Harnessing Structures for Value-Based Planning and Reinforcement Learning, ICLR 2020) uses 1000 states, 100 actions
and discount 0.95 in its Fig. 1. With rewards from N(0, 1) that figure does not come out.
"""

from __future__ import annotations

import operator
from typing import Literal

import torch

from svrl.matrix.arrays import check_whole
from svrl.mdp.tabular import TabularMDP

DRAWS = {"uniform": torch.rand, "normal": torch.randn}


def toy_mdp(
    generator: torch.Generator | int,
    *,
    n_states: int = 1000,
    n_actions: int = 100,
    gamma: float = 0.95,
    reward: Literal["uniform", "normal"] = "uniform",
    device: str | torch.device = "cpu",
) -> TabularMDP:
    """Draw a toy problem. Equal seeds give equal problems on every device.

    Args:
        generator: A torch generator, which draws the next states and then the rewards; or a seed.
        n_states: S.
        n_actions: A.
        gamma: In (0, 1).
        reward: "uniform" draws from U(0, 1), and "normal" from N(0, 1).
        device: Device of the model.
    """
    if reward not in DRAWS:
        raise ValueError(f"The toy MDP draws rewards from {' or '.join(DRAWS)}, got {reward!r}.")
    check_whole("The toy MDP", n_states=n_states, n_actions=n_actions)
    label: dict[str, object] = {"reward": reward}
    if not isinstance(generator, torch.Generator):
        if not hasattr(generator, "__index__"):
            raise ValueError(f"The toy MDP is drawn by a torch.Generator or from a seed, got {generator!r}.")
        label["seed"] = seed = operator.index(generator)
        generator = torch.Generator().manual_seed(seed)
    source = generator.device
    following = torch.randint(n_states, (n_states * n_actions,), generator=generator, device=source)
    drawn = DRAWS[reward](n_states, n_actions, generator=generator, dtype=torch.float64, device=source)
    return TabularMDP.deterministic(
        following=following.reshape(n_states, n_actions),
        rewards=drawn,
        gamma=gamma,
        device=device,
        name="toy",
        label=label,
    )
