"""What Stable-Baselines3, CleanRL, Tianshou and papers call the fields of AgentConfig, for answers to wrong names.

Units may differ: `train_freq` 4 is `updates_per_step` 0.25.
"""

from __future__ import annotations

FOREIGN_NAMES = {
    "alpha": "learning_rate",
    "buffer_size": "replay",
    "double": "agent",
    "dueling": "agent",
    "end_e": "epsilon_final",
    "eps_train": "epsilon_start",
    "eps_train_final": "epsilon_final",
    "exploration_final_eps": "epsilon_final",
    "exploration_fraction": "epsilon_steps",
    "exploration_initial_eps": "epsilon_start",
    "gamma": "discount",
    "learning_starts": "learn_from",
    "lr": "learning_rate",
    "n_envs": "envs",
    "net_arch": "hidden",
    "num_envs": "envs",
    "p": "observe",
    "replay_size": "replay",
    "start_e": "epsilon_start",
    "target_network_frequency": "target_every",
    "target_update_freq": "target_every",
    "target_update_interval": "target_every",
    "total_timesteps": "steps",
    "train_freq": "updates_per_step",
    "train_frequency": "updates_per_step",
    "update_per_step": "updates_per_step",
}
