"""One update of RLlib's DQN, plain and structured: Nature network, 84x84x4 frames, 18 actions, batch 32.

Its prioritised memory of episodes holds random frames, between -1 and 1 as its wrappers for Atari make them. Each
call does what DQN's own training step does after it has sampled games: draw episodes, let the learner update from
them, and set their priorities. Ray need not run for that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gymnasium import spaces
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.rllib import StructuredDQNConfig

MODULE, ACTIONS, BATCH = "default_policy", 18, 32
EPISODES, STEPS = 4, 50
OBSERVATIONS = spaces.Box(-1.0, 1.0, (84, 84, 4), np.float32)
NATURE = DefaultModelConfig(
    conv_filters=[[32, 8, 4], [64, 4, 2], [64, 3, 1]], conv_activation="relu", head_fcnet_hiddens=[512]
)


def updates(seed: int = 0) -> tuple[Callable[[], None], Callable[[], None]]:
    """(plain, structured): each call makes one update of the same agent, on the CPU."""
    config = StructuredDQNConfig()
    config.rl_module(model_config=NATURE).debugging(seed=seed, log_level="ERROR")
    config.training(double_q=False, dueling=False, train_batch_size_per_learner=BATCH)
    learner = config.build_learner(spaces={MODULE: (OBSERVATIONS, spaces.Discrete(ACTIONS))})
    memory = PrioritizedEpisodeReplayBuffer(capacity=EPISODES * STEPS)
    memory.rng = np.random.default_rng(seed)
    memory.add([episode(number, memory.rng) for number in range(EPISODES)])

    rule = learner.structure

    def update(structure: StructuredTargets | None) -> None:
        learner.structure = structure
        drawn = memory.sample(num_items=BATCH, n_step=1, gamma=config.gamma, beta=0.4, sample_episodes=True)
        results = learner.update(episodes=drawn, timesteps={"num_env_steps_sampled_lifetime": 0})
        memory.update_priorities(np.concatenate(results[MODULE]["td_error"].peek()), MODULE)

    return lambda: update(None), lambda: update(rule)


def episode(number: int, rng: np.random.Generator) -> SingleAgentEpisode:
    """Random frames, actions and rewards."""
    frames = rng.integers(256, size=(STEPS + 1, 84, 84, 4), dtype=np.uint8).astype(np.float32) / 128.0 - 1.0
    return SingleAgentEpisode(
        id_=f"episode {number}",
        observations=list(frames),
        observation_space=OBSERVATIONS,
        actions=list(rng.integers(ACTIONS, size=STEPS)),
        action_space=spaces.Discrete(ACTIONS),
        rewards=list(rng.normal(size=STEPS)),
        terminated=True,
        len_lookback_buffer=0,
    )
