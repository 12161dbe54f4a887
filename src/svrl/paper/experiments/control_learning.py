"""An addition: DQN with and without structure on control tasks with many actions, against the known best Q.

The best Q of these tasks is known, so what an agent has learned is measured by the loss of acting greedily by its
network, exact on the task's grid and without the task's noise. What decides between actions is of low rank there,
which it is not on Atari: with row means taken out the best Q has a rank of 1 to 5 on batches of 32 states, at 99% of
the energy (`results/tables.py`). Agents complete matrices of 64 states by 64 actions, 4 levels of 3 motors.

How the settings were chosen: with the preset's own, values rise far above any return for a while, in all arms (seed 0,
three-motor pendulum, 125 actions). Then plain DQN was tried with a step size of 3e-4 and target copies every 250, 1,000
and 4,000 updates (seed 0, three-motor pendulum, 27 and 125 actions), and 250 lost least. That is a small advantage for
plain DQN. Before the ten seeds were begun, one more, 100, was looked at: of all arms on the three-motor pendulum and of
plain DQN on the other tasks.

The measure is the policy loss: the mean over grid states of V* - V of acting greedily by the network, over the range of
V*, both exact on the grid without the task's noise; averaged over the last quarter of training, because a single
network is one of many that fluctuate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments.gains import improvement_claim, rank_claim
from svrl.paper.experiments.training_figures import draw_addition, draw_over_seeds, series_name
from svrl.paper.experiments.trainings import ARMS_OF, TrainingPlan, piece_of, row_of
from svrl.plots.style import step_axis
from svrl.runs.store import Kept
from svrl.training.q_star import CONTROL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TASKS = ("three-motor-pendulum", "inverted-pendulum", "double-integrator", "mountain-car")
ENVS = tuple(f"{CONTROL}{task}" for task in TASKS)
ARMS = ARMS_OF["dqn"]
ACTIONS = 64
DISCOUNT = 0.95

SMOKE = TrainingPlan(
    preset="smoke", steps=150, seeds=1, overrides={"actions": 8, "gamma": DISCOUNT}, batches=50, states=64
)
SHORT = TrainingPlan(
    preset="control",
    steps=30_000,
    seeds=10,
    overrides={
        "actions": ACTIONS,
        "gamma": DISCOUNT,
        "learning_rate": 3e-4,
        "target_update_interval": 250,
        "eval_every": 0,
    },
    batches=2_000,
    states=4_000,
)
LAPTOP = replace(SHORT, seeds=3)
FULL = replace(SHORT, steps=200_000, seeds=20)


def _words(plan: TrainingPlan) -> str:
    return (
        f"{ACTIONS} actions, {plan.steps:,} steps, preset control with a smaller step size and rarer target copies, "
        f"{plan.seeds} seeds"
    )


BUDGETS = {
    "smoke": Budget(
        runs=SMOKE.runs(ENVS[:1], ARMS), words="three-motor pendulum with 8 actions, 150 steps, preset smoke, 1 seed"
    ),
    "laptop": Budget(runs=LAPTOP.runs(ENVS[:1], ARMS), words=f"three-motor pendulum with {_words(LAPTOP)}"),
    "short": Budget(runs=SHORT.runs(ENVS, ARMS), words=_words(SHORT), piece_of=piece_of),
    "full": Budget(runs=FULL.runs(ENVS, ARMS), words=f"{len(TASKS)} tasks with {_words(FULL)}"),
}

_LAST = 0.25
"""Share of the training over which losses and errors are averaged."""
_LOW = 5
"""The highest rank that the best Q of a task has, on average over batches of 32 states, with row means taken out."""


def over_the_end(kept: Kept, name: str) -> float:
    """Mean of a column of the comparison with Q*, over the last quarter of training."""
    row = row_of(kept, "q_star")
    late = [value for step, value in zip(row["steps"], row[name], strict=True) if step > (1 - _LAST) * row["steps"][-1]]
    return float(np.mean(late))


def less_loss(kept: Kept) -> float:
    """The policy loss with its sign turned, so that more is better."""
    return -over_the_end(kept, "greedy_loss")


BY = "Loss of the greedy policy, exact on the grid without noise, mean over the last quarter of training"
_claim = partial(
    improvement_claim,
    "control",
    envs=ENVS,
    measure=less_loss,
    by=BY,
    difference="by how much less it loses: plain less structured, of interquartile means over all tasks of losses "
    "divided by plain DQN's mean; of the losses themselves where there is one task",
)
_SAYS = (
    "{} loses less than plain DQN, where actions are many and what decides between them is of low rank in the best Q."
)
CLAIMS = (
    _claim("control-structure-improves", "sv-dqn", _SAYS.format("Structured DQN")),
    _claim(
        "control-structured-choice-improves",
        "sv-dqn-network",
        _SAYS.format("DQN that chooses by the completed matrix and values by the network"),
    ),
    rank_claim("control", "control-low-rank", _LOW, 32, ENVS, centred=True),
)


def _draw_losses(panel: Axes, groups: Mapping[str, Sequence[Kept]]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    for arm, runs in groups.items():
        rows = [row_of(kept, "q_star") for kept in runs]
        (steps,) = {tuple(row["steps"]) for row in rows}  # the same for all seeds of a budget
        losses = np.array([row["greedy_loss"] for row in rows], dtype=float)
        draw_over_seeds(panel, series_name(arm), np.array(steps, dtype=float), losses)
    panel.set_yscale("log")
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())
    step_axis(panel)


EXPERIMENT = Experiment(
    name="control_learning",
    title="learning with many actions, where the best Q is known",
    says={
        "control": "Games have few actions, nobody knows their best Q, and with row means taken out the values that "
        "are learned there are not of low rank. On these control tasks there are 64 actions, the best Q is known and "
        "of low rank without its row means too, and a policy's loss is computed exactly. It is where one would look "
        "for a gain first."
    },
    budgets=BUDGETS,
    picture=partial(
        draw_addition,
        envs=ENVS,
        arms=ARMS,
        upper=_draw_losses,
        upper_label="policy loss (less is better)",
        measure=less_loss,
    ),
    claims=CLAIMS,
)
