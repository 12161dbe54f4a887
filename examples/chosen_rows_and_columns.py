"""cross: when any entry can be evaluated, a few whole rows and columns are enough."""

import numpy as np

from svrl import cross

angles, torques = np.linspace(-np.pi, np.pi, 2000), np.linspace(-1, 1, 500)


def reward(rows, columns):
    """A smooth function of state and action, evaluated only where it is asked for."""
    angle, torque = angles[rows][:, None], torques[columns][None, :]
    return np.exp(np.cos(angle + 0.3 * torque) - 1) - 0.1 * torque**2


estimate = cross(reward, (2000, 500), tolerance=1e-6)
truth = reward(np.arange(2000), np.arange(500))
error = np.abs(estimate.matrix - truth).max()
print(f"{estimate}")
print(
    f"{estimate.evaluated} evaluations, {estimate.evaluated / truth.size:.1%} of the entries; largest error {error:.1e}"
)
