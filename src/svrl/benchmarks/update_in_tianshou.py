"""One update of Tianshou's DQN, plain and structured: Nature network, 84x84x4 frames, 18 actions, batch 32.

Network and replay memory are those of the library's Atari example: the memory keeps single frames and stacks four when
a batch is drawn. Each call is one call of the algorithm's own `update`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from gymnasium import spaces
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, ReplayBuffer
from tianshou.env.atari.atari_network import DQNet, ScaledObsInputActionReprNet
from tianshou.utils.torch_utils import policy_within_training_step

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.tianshou import StructuredDQN

ACTIONS, BATCH, STORED = 18, 32, 256


def updates(seed: int = 0) -> tuple[Callable[[], None], Callable[[], None]]:
    """(plain, structured): each call makes one update of the same agent, on the CPU."""
    network = ScaledObsInputActionReprNet(DQNet(4, 84, 84, ACTIONS))
    random = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        torch.nn.init.uniform_(parameter, -0.05, 0.05, generator=random)
    policy = DiscreteQLearningPolicy(model=network, action_space=spaces.Discrete(ACTIONS))
    algorithm = StructuredDQN(
        policy=policy, optim=AdamOptimizerFactory(lr=1e-4), n_step_return_horizon=3, target_update_freq=500
    )
    memory = random_memory(seed)

    rule = algorithm.structure

    def update(structure: StructuredTargets | None) -> None:
        algorithm.structure = structure
        with policy_within_training_step(policy):
            algorithm.update(buffer=memory, sample_size=BATCH)

    return lambda: update(None), lambda: update(rule)


def random_memory(seed: int) -> ReplayBuffer:
    """Transitions with random frames."""
    rng = np.random.default_rng(seed)
    memory = ReplayBuffer(STORED, stack_num=4, ignore_obs_next=True, save_only_last_obs=True, random_seed=seed)
    for frame in rng.integers(256, size=(STORED, 1, 84, 84), dtype=np.uint8):
        memory.add(
            Batch(
                obs=frame,
                act=rng.integers(ACTIONS),
                rew=rng.normal(),
                obs_next=frame,
                terminated=rng.random() < 0.01,
                truncated=False,
                info={},
            )
        )
    return memory
