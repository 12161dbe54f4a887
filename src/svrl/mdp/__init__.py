"""Problems to plan on: tabular models, grids over control tasks, simulators."""

from svrl.mdp.control_task import Axis, ControlTask, TimeToGoal, UprightNorm, coordinates
from svrl.mdp.grid import GridMDP
from svrl.mdp.model import MarkovRewardProcess, Model, Sampler
from svrl.mdp.simulator import NoisyBackups, Simulator
from svrl.mdp.tabular import TabularMDP, toy_mdp
from svrl.mdp.tasks import TASKS, make_task

__all__ = [
    "TASKS",
    "Axis",
    "ControlTask",
    "GridMDP",
    "MarkovRewardProcess",
    "Model",
    "NoisyBackups",
    "Sampler",
    "Simulator",
    "TabularMDP",
    "TimeToGoal",
    "UprightNorm",
    "coordinates",
    "make_task",
    "toy_mdp",
]
