"""Tianshou's DQN on CartPole, structured. The one line that differs from a plain agent is marked.

About half a minute. CartPole has 2 actions, which leaves structure little to find, so expect the score of a
plain agent, not a better one.
"""

import gymnasium
import numpy as np
import torch
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

from svrl.integrations.tianshou import StructuredDQN

SEED = 0


def envs(count: int) -> DummyVectorEnv:
    made = DummyVectorEnv([lambda: gymnasium.make("CartPole-v1") for _ in range(count)])
    made.seed(SEED)
    return made


def main() -> None:
    torch.set_num_threads(1)
    np.random.seed(SEED)  # noqa: NPY002 - Tianshou draws from it
    torch.manual_seed(SEED)
    training = envs(5)
    space = training.action_space[0]
    policy = DiscreteQLearningPolicy(
        model=Net(state_shape=4, action_shape=space.n, hidden_sizes=[128, 128]), action_space=space, eps_training=0.1
    )
    algorithm = StructuredDQN(  # instead of DQN
        policy=policy,
        optim=AdamOptimizerFactory(lr=1e-3),
        gamma=0.9,
        n_step_return_horizon=3,
        target_update_freq=100,
        structure=0.9,
    )
    collector = Collector(policy, training, VectorReplayBuffer(20_000, buffer_num=5), exploration_noise=True)
    collector.reset()
    collector.collect(n_step=200)
    result = algorithm.run_training(
        OffPolicyTrainerParams(
            training_collector=collector,
            test_collector=Collector(policy, envs(5)),
            max_epochs=1,
            epoch_num_steps=3_000,
            collection_step_num_env_steps=10,
            update_step_num_gradient_steps_per_sample=0.2,
            batch_size=64,
            test_step_num_episodes=5,
            show_progress=False,
            verbose=False,
        )
    )
    print(f"updates, each with a matrix completed: {int(algorithm.structure_updates)}")
    print(f"approximate rank of the last matrix that was looked at: {algorithm.ranks['rank_99']:.0f} of {space.n}")
    print(f"mean score of 5 games: {result.best_score:.0f}")


if __name__ == "__main__":
    main()
