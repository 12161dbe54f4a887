"""Plan what Gymnasium plays: a toy-text problem from its own table, and a control task registered as an environment."""

import gymnasium
import numpy as np
import torch

from svrl import GridMDP, ModifiedPolicyIteration, PolicyIteration, make_task, plan
from svrl.integrations.gymnasium import PlannedAgent, agent_from_plan, mdp_from_env, start_probabilities

torch.set_num_threads(1)


def mean_return(env: gymnasium.Env, agent: PlannedAgent, episodes: int, gamma: float) -> float:
    returns = []
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        total, weight, over = 0.0, 1.0, False
        while not over:
            observation, reward, terminated, truncated, info = env.step(agent.act(observation, info))
            total, weight, over = total + weight * float(reward), weight * gamma, terminated or truncated
        returns.append(total)
    return float(np.mean(returns))


# An environment that carries its transitions is a model.
lake = gymnasium.make("FrozenLake-v1", map_name="8x8", max_episode_steps=1000)
model = mdp_from_env(lake, gamma=0.99)
found = plan(model, PolicyIteration())
expected = start_probabilities(lake) @ found.v.numpy()
played = mean_return(lake, agent_from_plan(found, model), 500, 0.99)
print(f"frozen lake: {model.n_states} states, the plan promises {expected:.3f}, 500 episodes give {played:.3f}")

# Our control tasks are environments. What stands before the colon is imported and registers them.
name = "svrl.integrations.gymnasium:svrl/InvertedPendulum-v0"
pendulum = gymnasium.make(name, actions=51)
grid = GridMDP(make_task("inverted-pendulum", actions=51))
found = plan(grid, ModifiedPolicyIteration())
agent = agent_from_plan(found, grid)  # greedy for the interpolated Q, at any state of the box
played = mean_return(pendulum, agent, 40, grid.gamma)
print(f"pendulum: observes {pendulum.observation_space}, takes {pendulum.action_space}")
print(f"  mean value of the grid {float(found.v.mean()):.2f}, 40 episodes with noise give {played:.2f}")

# Many at once, and without the state in info: features are turned back into states.
many = gymnasium.make_vec(name, num_envs=8, vectorization_mode="sync", actions=51)
observations, _ = many.reset(seed=0)
print(f"  actions of 8 environments: {agent.act(observations).tolist()}")
