"""Finite problems from arrays, from sparse matrices, and from a Gymnasium toy-text table."""

import gymnasium
import numpy as np
import scipy.sparse

from svrl import ModifiedPolicyIteration, PolicyIteration, TabularMDP, certify_plan, plan

# Dense arrays: a machine is new, worn or broken; one may run it or repair it. transitions[s, a, s'].
transitions = np.array(
    [
        [[0.8, 0.2, 0.0], [1.0, 0.0, 0.0]],
        [[0.0, 0.7, 0.3], [1.0, 0.0, 0.0]],
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    ]
)
rewards = np.array([[10.0, -5.0], [6.0, -5.0], [0.0, -20.0]])
machine = TabularMDP(transitions=transitions, rewards=rewards, gamma=0.9, name="machine")
found = plan(machine, PolicyIteration())
print(f"machine: run or repair? {[['run', 'repair'][a] for a in found.policy]}, values {found.v.numpy().round(2)}")

# Sparse: one row for each pair, s * A + a. A ring of 100,000 places where one may stay or move on.
places = 100_000
here = np.arange(places)
following = np.stack([here, (here + 1) % places], axis=1).reshape(-1)
ring = TabularMDP(
    transitions=scipy.sparse.csr_array((np.ones(2 * places), following, np.arange(2 * places + 1))),
    rewards=np.stack([np.cos(2 * np.pi * here / places), np.zeros(places)], axis=1),
    gamma=0.99,
    name="ring",
)
found = plan(ring, ModifiedPolicyIteration())
error = certify_plan(ring, found.v).certified_error
print(f"ring: {found.sweep_equivalents:.0f} sweep-equivalents, certified within {error:.1e} of the best values")

# Toy text: Gymnasium's own dictionary, P[s][a] = [(probability, next state, reward, done), ...].
problem = gymnasium.make("FrozenLake-v1").unwrapped
lake = TabularMDP.from_toy_text(problem.P, gamma=0.99, name="frozen-lake")
found = plan(lake, PolicyIteration())
print(f"frozen lake: {found.iterations} iterations, value of the start {found.v[0]:.4f}, H and G end the episode")
for row, places in zip(found.policy.reshape(4, 4), problem.desc.astype(str), strict=True):
    print("  " + " ".join(place if place in "HG" else "←↓→↑"[a] for a, place in zip(row, places, strict=True)))
