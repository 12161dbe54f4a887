"""sb3-contrib's QR-DQN: the means of the quantiles are completed, and the quantiles move with them.

CartPole has two actions, which leaves structure little to find; this shows the call. About half a minute.
"""

import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from svrl.integrations.sb3_contrib import StructuredQRDQN

torch.set_num_threads(1)
games = make_vec_env("CartPole-v1", n_envs=4, seed=100)
model = StructuredQRDQN(  # <- in place of QRDQN
    "MlpPolicy",
    make_vec_env("CartPole-v1", n_envs=4, seed=0),
    structure=0.9,
    learning_rate=2.3e-3,
    batch_size=64,
    buffer_size=20_000,
    learning_starts=1_000,
    target_update_interval=10,
    train_freq=64,
    gradient_steps=64,
    exploration_fraction=0.2,
    exploration_final_eps=0.04,
    policy_kwargs={"n_quantiles": 10, "net_arch": [64, 64]},
    seed=0,
    device="cpu",
)
print(f"before: mean score {evaluate_policy(model, games, n_eval_episodes=10)[0]:5.0f}")
model.learn(8_000)
print(f" after: mean score {evaluate_policy(model, games, n_eval_episodes=10)[0]:5.0f} of 500")
