"""Structured DQN in one file: a small DQN of one's own, and the one line that puts structure into it.

Everything an agent needs is here: network, memory, exploration, updates. The line that matters is marked.
Run it with `plain` as an argument to leave that line out. About half a minute; CartPole has 2 actions, which
leaves structure little to find, so expect the same score, not a better one.
"""

import copy
import random
import sys
from collections import deque

import gymnasium
import numpy as np
import torch
from torch import nn

from svrl import StructuredTargets

STEPS, BATCH, DISCOUNT, SEED = 12_000, 64, 0.99, 0
STRUCTURED = "plain" not in sys.argv[1:]


def network(inputs: int, actions: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, actions))


def batch_of(memory: deque, rng: random.Random) -> list[torch.Tensor]:
    columns = zip(*rng.sample(memory, BATCH), strict=True)
    kinds = (torch.float32, torch.int64, torch.float32, torch.float32, torch.float32)
    return [torch.as_tensor(np.array(column), dtype=kind) for column, kind in zip(columns, kinds, strict=True)]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    rng, masks = random.Random(SEED), torch.Generator().manual_seed(SEED)
    env = gymnasium.make("CartPole-v1")
    state, _ = env.reset(seed=SEED)
    online = network(4, 2)
    target = copy.deepcopy(online)
    optimiser = torch.optim.Adam(online.parameters(), lr=1e-3)
    structure = StructuredTargets(p=0.9)
    memory: deque = deque(maxlen=20_000)
    scores, score = [], 0.0

    for step in range(1, STEPS + 1):
        epsilon = max(0.05, 1 - step / 4_000)
        if rng.random() < epsilon:
            action = rng.randrange(2)
        else:
            with torch.no_grad():
                action = int(online(torch.as_tensor(state)).argmax())
        after, reward, terminal, truncated, _ = env.step(action)
        memory.append((state, action, reward, after, float(not terminal)))
        state, score = after, score + float(reward)
        if terminal or truncated:
            scores.append(score)
            state, score = env.reset()[0], 0.0

        if step >= 500 and step % 2 == 0:
            states, actions, rewards, afters, goes_on = batch_of(memory, rng)
            with torch.no_grad():
                values = target(afters)
                if STRUCTURED:
                    values = structure(values, masks).matrix  # <- structure: this line is all of SV-RL
                targets = rewards + DISCOUNT * goes_on * values.max(-1).values
            chosen = online(states).gather(-1, actions[:, None]).squeeze(-1)
            loss = nn.functional.smooth_l1_loss(chosen, targets)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if step % 500 == 0:
            target.load_state_dict(online.state_dict())
        if step % 3_000 == 0:
            print(f"{step:6} steps, {len(scores):4} games, mean score of the last 20: {np.mean(scores[-20:]):6.1f}")


main()
