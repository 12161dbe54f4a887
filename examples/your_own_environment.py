"""An environment of your own: heat a room at the least cost, with 21 levels of heating.

A Gymnasium class, a function that makes one, and svrl.train. The levels are ordered, and neighbours do
nearly the same, so the matrix of values has far fewer directions than actions.
"""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

import svrl

LEVELS = 21


class Room(gymnasium.Env):
    """The agent sees degrees off 20 inside, and degrees off 5 outside, both over 10."""

    observation_space = spaces.Box(-5.0, 5.0, (2,), np.float32)
    action_space = spaces.Discrete(LEVELS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.inside = float(self.np_random.uniform(10.0, 30.0))
        self.outside = float(self.np_random.uniform(-5.0, 15.0))
        return self._seen(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        power = action / (LEVELS - 1)
        self.inside += 3.0 * power - 0.1 * (self.inside - self.outside) + float(self.np_random.normal(0.0, 0.1))
        self.outside += float(self.np_random.normal(0.0, 0.3))
        reward = -0.1 * abs(self.inside - 20.0) - 0.3 * power
        return self._seen(), reward, False, False, {}

    def _seen(self) -> np.ndarray:
        seen = np.array([self.inside - 20.0, self.outside - 5.0], np.float32) / 10.0
        return seen.clip(-5.0, 5.0)


def heated_room() -> gymnasium.Env:
    return TimeLimit(Room(), 100)


torch.set_num_threads(1)
config = svrl.AgentConfig.of(
    "classic", agent="double", structured=True, gamma=0.95, steps=8_000, epsilon_steps=4_000, eval_every=0
)
untrained = svrl.Training(heated_room, config, seed=0)
untrained.close()  # its network is as it was drawn
agent = svrl.train(heated_room, config, seed=0)
for label, found in (("before", svrl.Agent.of(untrained)), ("after", agent)):
    games = found.evaluate(episodes=50, seed=1)
    low, high = games.interval()
    print(f"{label:>6} {found.updates:5} updates: mean score {games.mean:6.1f}, 95% from {low:.1f} to {high:.1f}")

env = heated_room()
observation, _ = env.reset(seed=2)
score, over = 0.0, False
while not over:
    observation, reward, terminated, truncated, _ = env.step(agent.act(observation))
    score, over = score + float(reward), terminated or truncated
print(f"  one more game: score {score:.1f}")

study = svrl.rank_study(agent, states=5_000, batches=2_000)
print(f"batches of {study.batch_size} states x {study.actions} actions, mean rank at {study.energy:.0%} of the energy:")
print(f"  Q as it is {study.mean:.2f}, with each row's mean taken out {study.row_centred_mean:.2f}")
