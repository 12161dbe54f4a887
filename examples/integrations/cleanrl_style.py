"""DQN in one file, in the manner of CleanRL's scripts, with structure by one line.

The line is marked. Everything else is what such scripts have: settings in a dataclass, several environments that reset
themselves, a memory of arrays, a target network. CartPole has 2 actions, which leaves structure little to find: expect
the score of the plain script, which is this one with `structured=False`. About half a minute.
"""

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

from svrl.integrations.target_hook import structure


@dataclass
class Args:
    """Settings of a run."""

    env_id: str = "CartPole-v1"
    num_envs: int = 4
    total_timesteps: int = 16_000
    learning_starts: int = 1_000
    train_frequency: int = 8
    target_frequency: int = 400
    buffer_size: int = 10_000
    batch_size: int = 64
    learning_rate: float = 1e-3
    gamma: float = 0.99
    end_e: float = 0.05
    exploration_fraction: float = 0.4
    seed: int = 1
    structured: bool = True


class QNetwork(nn.Module):
    """Observations (B, ...) to values (B, A)."""

    def __init__(self, envs: SyncVectorEnv):
        super().__init__()
        inputs, actions = int(np.prod(envs.single_observation_space.shape)), int(envs.single_action_space.n)
        self.network = nn.Sequential(
            nn.Linear(inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, actions)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.network(x)


def main(args: Args) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)

    # In this mode a step that ends a game returns the first observation of the next one, and the last of the old one
    # in infos["final_obs"]. What an action led to is the latter.
    envs = SyncVectorEnv([lambda: gym.make(args.env_id)] * args.num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    q_network, target_network = QNetwork(envs), QNetwork(envs)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)
    if args.structured:
        structure(target_network, seed=args.seed)  # <- structure: this line is all of SV-RL

    shape = envs.single_observation_space.shape
    memory = {
        "obs": np.zeros((args.buffer_size, *shape), np.float32),
        "next_obs": np.zeros((args.buffer_size, *shape), np.float32),
        "actions": np.zeros(args.buffer_size, np.int64),
        "rewards": np.zeros(args.buffer_size, np.float32),
        "terminations": np.zeros(args.buffer_size, np.float32),
    }
    obs, _ = envs.reset(seed=args.seed)
    scores, score, stored = [], np.zeros(args.num_envs), 0

    for global_step in range(0, args.total_timesteps, args.num_envs):
        epsilon = max(args.end_e, 1 - global_step / (args.exploration_fraction * args.total_timesteps))
        with torch.no_grad():
            greedy = q_network(torch.as_tensor(obs)).argmax(1).numpy()
        explore = rng.random(args.num_envs) < epsilon
        actions = np.where(explore, rng.integers(envs.single_action_space.n, size=args.num_envs), greedy)
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        ended = terminations | truncations
        score += rewards
        scores += score[ended].tolist()
        score[ended] = 0

        led_to = next_obs.copy()
        for index in np.flatnonzero(ended):
            led_to[index] = infos["final_obs"][index]
        slots = (stored + np.arange(args.num_envs)) % args.buffer_size
        # A game that was cut off goes on in its value: only terminations end the bootstrap.
        for name, column in zip(memory, (obs, led_to, actions, rewards, terminations), strict=True):
            memory[name][slots] = column
        stored += args.num_envs
        obs = next_obs

        if global_step >= args.learning_starts and global_step % args.train_frequency == 0:
            drawn = rng.integers(min(stored, args.buffer_size), size=args.batch_size)
            data = {name: torch.as_tensor(column[drawn]) for name, column in memory.items()}
            with torch.no_grad():
                target_max = target_network(data["next_obs"]).max(dim=1).values
                td_target = data["rewards"] + args.gamma * target_max * (1 - data["terminations"])
            old_val = q_network(data["obs"]).gather(1, data["actions"][:, None]).squeeze(1)
            loss = nn.functional.mse_loss(td_target, old_val)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if global_step % args.target_frequency == 0:
            target_network.load_state_dict(q_network.state_dict())
        if (global_step + args.num_envs) % 4_000 == 0:
            done = f"{global_step + args.num_envs:6} steps, {len(scores):4} games"
            print(f"{done}, mean score of the last 20: {np.mean(scores[-20:]):6.1f}")
    envs.close()


main(Args())
