"""A task of one's own: a boat crosses a river to a dock, planned on a grid and rolled out between its points."""

import math

import torch

from svrl import (
    Axis,
    ControlTask,
    GridMDP,
    ModifiedPolicyIteration,
    StructuredValueIteration,
    evaluate_policy,
    plan,
    policy_loss,
    rollout,
)
from svrl.mdp import TimeToGoal, coordinates


def step(states, actions, noise):
    """At most 8 m along the heading, and a current that is strongest in the middle of the river."""
    x, y = states.unbind(-1)
    heading, throttle = actions.unbind(-1)
    current = 10 * (y / 100) * (1 - y / 100)
    return coordinates(x + current + 8 * throttle * torch.cos(heading), y + 8 * throttle * torch.sin(heading)) + noise


def docked(states):
    return ((states[..., 0] - 150).abs() <= 10) & (states[..., 1] >= 90)


def reward(states, actions):
    return torch.where(docked(states), 0.0, -1.0) - 0.5 * actions[..., 1] ** 2


task = ControlTask(
    name="boat",
    axes=(Axis(name="downstream (m)", low=0, high=200, points=41), Axis(name="across (m)", low=0, high=100, points=21)),
    actions=torch.cartesian_prod(torch.linspace(0, 2 * math.pi, 61)[:-1], torch.linspace(0, 1, 6)),
    step=step,
    reward=reward,
    gamma=0.95,
    noise=(1.0, 1.0),  # in rollouts, m
    metric=TimeToGoal(inside=docked),
)

torch.set_num_threads(1)  # more of them gain nothing at this size
model = GridMDP(task)
exact = plan(model, ModifiedPolicyIteration())
structured = plan(model, StructuredValueIteration(p=0.2, tolerance=1e-3))
for found in (exact, structured):
    loss = max(policy_loss(exact.v, evaluate_policy(model, found.policy)).relative, 0)
    greedy = found.greedy_policy(task, model)
    crossings = rollout(task, greedy, starts=500, steps=100, generator=torch.Generator().manual_seed(0))
    print(
        f"{found.name}: {found.sweep_equivalents:.1f} sweep-equivalents, relative policy loss {loss:.1e}, "
        f"{crossings.metric['share_reached']:.0%} dock after {crossings.metric['time_to_goal']:.1f} steps on average"
    )
