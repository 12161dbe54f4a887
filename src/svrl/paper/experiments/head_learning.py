"""An addition: low-rank and additive heads for many actions, on control tasks.

A run is an arm on a task, all seeds at once (`svrl.agents.train_seeds`): what counts is the discounted return of the
policy from starts that are always the same, after equal steps. Arms are heads of DQN, double DQN, the paper's SV-RL,
and what a sceptic asks for:

    dueling-deeper, dqn-deeper    one more hidden layer, since a low-rank head is a linear layer more
    bottleneck                    a narrow hidden layer with a ReLU in place of the linear factors
    dqn-ridge, dueling-ridge      a ridge on the last layer of a flat and of a dueling head
    sv-dqn-row                    SV-RL with row means taken out

All arms have three hidden layers with ReLUs, those of dueling DQN two and one in each stream: equal depth is the
comparison that counts, and a deeper dueling network is reported beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.verdicts import nothing_yet, settled, shown
from svrl.plots.style import CYCLE, GREY, letter, new_figure
from svrl.runs.spec import Kind, Result, RunSpec, Work
from svrl.stats import Interval, probability_of_improvement, stratified_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class HeadTask:
    """A task.

    Attributes:
        name: Of the control task.
        actions: Their number.
        axes: Of an action; with one there is nothing to add up.
        reward_noise: Standard deviation of the noise on rewards in training.
    """

    name: str
    actions: int
    axes: int
    reward_noise: float = 0.0

    @property
    def label(self) -> str:
        """As in "three-motor-pendulum, 64 actions, noise 0.5"."""
        noise = f", noise {self.reward_noise:g}" if self.reward_noise else ""
        return f"{self.name}, {self.actions:,} actions{noise}"


ARMS: dict[str, dict[str, Any]] = {
    "dqn": {},
    "double": {"agent": "double"},
    "dueling": {"agent": "dueling"},
    "lowrank": {"agent": "lowrank"},
    "additive": {"agent": "additive"},
    "additive-lowrank": {"agent": "additive-lowrank"},
    "sv-dqn": {"agent": "sv-dqn"},
    "sv-dqn-row": {"agent": "sv-dqn", "scale": "row"},
    "dqn-deeper": {"deeper": 256},
    "dueling-deeper": {"agent": "dueling", "deeper": 256},
    "bottleneck": {"deeper": 128},
    "dqn-ridge": {"ridges": ("head.weight",)},
    "dueling-ridge": {"agent": "dueling", "ridges": ("head.advantage.weight", "head.value.weight")},
}
"""What makes each arm; `deeper` is the width of one more hidden layer, `ridges` are weights with a ridge."""
WITH_AXES = ("additive", "additive-lowrank")
HEADS = ("lowrank", *WITH_AXES)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """Settings of an arm, chosen on seeds and tasks that are not judged."""

    learning_rate: float = 1e-3
    rank: int = 128
    ridge: float = 1e-5


TUNED: dict[str, Tuned] = {}
"""Of arms that do not take the defaults."""


def compute(settings: Mapping[str, Any], work: Work) -> Result:
    """Train all seeds of an arm: a row for each evaluation, with a number for each seed."""
    from svrl.agents.batched import SeedsEvaluated, train_seeds
    from svrl.agents.config import AgentConfig

    made = dict(ARMS[settings["arm"]])
    ridges, deeper = made.pop("ridges", ()), made.pop("deeper", None)
    hidden = (*settings["hidden"], *([deeper] if deeper else ()))
    config = AgentConfig.of(
        "control",
        **made,
        actions=settings["actions"],
        hidden=hidden,
        head_rank=settings["rank"],
        head_ridge=settings["ridge"],
        learning_rate=settings["learning_rate"],
        steps=settings["steps"],
        epsilon_steps=settings["epsilon_steps"],
        learning_starts=settings["learning_starts"],
        eval_every=settings["eval_every"],
        gamma=0.95,
        target_update_interval=250,
        eval_epsilon=0.0,
    )
    found: list[SeedsEvaluated] = []

    def watch(steps: int) -> None:
        work.signals.stop_if_came()

    train_seeds(
        f"control/{settings['task']}",
        config,
        seeds=range(settings["first_seed"], settings["first_seed"] + settings["seeds"]),
        device=work.device,
        reward_noise=settings["reward_noise"],
        games=settings["games"],
        ridges=dict.fromkeys(ridges, settings["ridge"]),
        watch=watch,
        evaluated=found.append,
    )
    rows = [
        {
            "steps": each.steps,
            "returns": each.returns.mean(1).tolist(),
            "scores": each.scores.mean(1).tolist(),
            "overestimation": (each.promised.double() - each.returns).mean(1).tolist(),
        }
        for each in found
    ]
    return Result(rows=rows)


KIND = Kind(name="heads", version=1, compute=compute)


@dataclass(frozen=True, kw_only=True)
class Size:
    """What one scale spends."""

    tasks: tuple[HeadTask, ...]
    arms: tuple[str, ...]
    seeds: int
    steps: int = 20_000
    hidden: tuple[int, ...] = (256, 256, 256)
    games: int = 256
    first_seed: int = 1_000
    epsilon_steps: int = 8_000
    learning_starts: int = 1_000

    def runs(self) -> tuple[RunSpec, ...]:
        """Every arm on every task that has what it needs."""
        return tuple(
            self._run(task, arm) for task in self.tasks for arm in self.arms if task.axes > 1 or arm not in WITH_AXES
        )

    def _run(self, task: HeadTask, arm: str) -> RunSpec:
        settings = {
            "task": task.name,
            "actions": task.actions,
            "reward_noise": task.reward_noise,
            "arm": arm,
            **asdict(TUNED.get(arm, Tuned())),
            "seeds": self.seeds,
            "first_seed": self.first_seed,
            "steps": self.steps,
            "eval_every": self.steps // 10,
            "epsilon_steps": self.epsilon_steps,
            "learning_starts": self.learning_starts,
            "hidden": list(self.hidden),
            "games": self.games,
        }
        return RunSpec(kind=KIND, settings=settings, minutes=0.5 * self.seeds * self.steps / 20_000)


PENDULUMS = tuple(HeadTask(name="three-motor-pendulum", actions=n**3, axes=3) for n in (2, 4, 6, 8, 10, 16))
OTHERS = (
    HeadTask(name="planar-thrusters", actions=216, axes=3),
    HeadTask(name="two-input-cart-pole", actions=256, axes=2),
    HeadTask(name="inverted-pendulum", actions=64, axes=1),
    HeadTask(name="inverted-pendulum", actions=512, axes=1),
)
NOISY = (
    HeadTask(name="three-motor-pendulum", actions=216, axes=3, reward_noise=0.5),
    HeadTask(name="planar-thrusters", actions=216, axes=3, reward_noise=0.5),
)
SIZES = {
    "smoke": Size(
        tasks=(HeadTask(name="three-motor-pendulum", actions=8, axes=3),),
        arms=("dqn", "dueling", "lowrank", "dqn-ridge"),
        seeds=2,
        steps=240,
        hidden=(16, 16),
        games=4,
        epsilon_steps=100,
        learning_starts=64,
    ),
    "laptop": Size(
        tasks=(PENDULUMS[1], HeadTask(name="planar-thrusters", actions=64, axes=3)),
        arms=("dqn", "dueling", "dueling-deeper", "lowrank", "additive-lowrank"),
        seeds=8,
    ),
    "full": Size(tasks=(*PENDULUMS, *OTHERS, *NOISY), arms=tuple(ARMS), seeds=32),
}
BUDGETS = {
    name: Budget(
        runs=size.runs(),
        words=f"{len(size.tasks)} task{'s' if len(size.tasks) > 1 else ''}, {size.steps:,} steps, {size.seeds} seeds",
    )
    for name, size in SIZES.items()
}


def tasks_of(evidence: Evidence) -> list[HeadTask]:
    """The tasks of some evidence, in the order of its runs."""
    known = {(task.name, task.actions, task.reward_noise): task for size in SIZES.values() for task in size.tasks}
    keys = dict.fromkeys(
        (run.settings["task"], run.settings["actions"], run.settings["reward_noise"]) for run in evidence.runs
    )
    return [known[key] for key in keys]


def rows_of(evidence: Evidence, task: HeadTask, arm: str) -> list[dict[str, Any]]:
    """The evaluations of an arm on a task; none if it was not run."""
    found = evidence.where(KIND.name, task=task.name, actions=task.actions, reward_noise=task.reward_noise, arm=arm)
    return found[0].rows if found else []


def returns_of(evidence: Evidence, task: HeadTask, arm: str) -> np.ndarray:
    """Returns at the end, (seeds,)."""
    rows = rows_of(evidence, task, arm)
    return np.array(rows[-1]["returns"] if rows else [])


def improvement(evidence: Evidence, task: HeadTask, arm: str, other: str) -> tuple[float, Interval] | None:
    """The probability that a seed of an arm beats one of another on a task, with its interval."""
    pair = [returns_of(evidence, task, arm)], [returns_of(evidence, task, other)]
    if min(len(pair[0][0]), len(pair[1][0])) < 2:
        return None
    return float(probability_of_improvement(*pair)), stratified_interval(probability_of_improvement, *pair)


def head_for(task: HeadTask) -> str:
    """The head for the kind of actions of a task: additive and low-rank for axes, low-rank without an order."""
    return "additive-lowrank" if task.axes > 1 else "lowrank"


def judge(evidence: Evidence, *, arm_for: Callable[[HeadTask], str], other: str, bar: float, least: int) -> Finding:
    """Whether on enough tasks the probability of improvement is above the bar, and its interval above one half.

    Args:
        evidence: What it is judged from.
        arm_for: The arm that is compared on a task.
        other: The arm that is beaten.
        bar: That the probability must exceed.
        least: Tasks on which it must.
    """
    found = {
        task: result
        for task in tasks_of(evidence)
        if (result := improvement(evidence, task, arm_for(task), other)) is not None
    }
    if not found:
        return nothing_yet(evidence)
    passed = sum(chance > bar and ends[0] > 0.5 for chance, ends in found.values())
    worst = min(found, key=lambda task: found[task][0])
    ours = [returns_of(evidence, task, arm_for(task)) for task in found]
    theirs = [returns_of(evidence, task, other) for task in found]
    chance = float(probability_of_improvement(ours, theirs))
    ends = stratified_interval(probability_of_improvement, ours, theirs)
    words = f"{chance:.2f}{shown(ends)} over all; passed on {passed} of {len(found)} tasks"
    return settled(
        evidence,
        passed >= least,
        ours=f"{words}, least {found[worst][0]:.2f}{shown(found[worst][1])} on {worst.label}",
        value=chance,
        ends=ends,
        limit=0.5,
        budgets=("full",),
    )


def _claim(name: str, says: str, *, arm_for: Callable[[HeadTask], str], other: str, bar: float, least: int) -> Claim:
    return Claim(
        name=name,
        figure="heads",
        section="",
        says=says,
        paper="not in the paper",
        test="Discounted return after training, seeds of one against seeds of the other; holds if on at least "
        f"{least} tasks the probability of improvement exceeds {bar:g} and its 95% interval over seeds lies above one "
        "half. The value is the probability over all tasks.",
        judge=partial(judge, arm_for=arm_for, other=other, bar=bar, least=least),
        scales=("laptop", "full"),
    )


CLAIMS = (
    _claim(
        "low-rank-head-beats-dqn",
        "With many actions DQN with a low-rank head reaches a higher return than DQN.",
        arm_for=lambda task: "lowrank",
        other="dqn",
        bar=0.75,
        least=6,
    ),
    _claim(
        "structured-head-beats-dueling",
        "With many actions the head for their kind, additive and low-rank for actions with axes and low-rank without, "
        "reaches a higher return than dueling DQN of equal depth.",
        arm_for=head_for,
        other="dueling",
        bar=0.6,
        least=5,
    ),
)


COLOURS = {"dqn": GREY, **dict(zip((*HEADS, "dueling", "dueling-deeper"), CYCLE, strict=False))}


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """How often each head beats DQN, and dueling DQN of equal depth, against the number of actions; and curves."""
    tasks = sorted(tasks_of(evidence), key=lambda task: task.actions)
    figure = new_figure(9.0, 3.2 + 2.2 * -(-len(tasks) // 3))
    grid = figure.add_gridspec(1 + -(-len(tasks) // 3), 6)
    panels = [figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])]
    for panel, other in zip(panels, ("dqn", "dueling"), strict=True):
        for arm in HEADS:
            points = [
                (task.actions, found[0], *found[1])
                for task in tasks
                if (found := improvement(evidence, task, arm, other)) is not None
            ]
            if points:
                at, chances, low, high = np.array(points).T
                bars = np.maximum([chances - low, high - chances], 0.0)
                panel.errorbar(at, chances, bars, fmt="o", markersize=4, capsize=2, color=COLOURS[arm], label=arm)
        panel.axhline(0.5, color=GREY, linewidth=0.8)
        panel.set_xscale("log")
        panel.set_ylim(-0.03, 1.03)
        panel.set_xlabel("actions")
        panel.set_ylabel(f"probability of a higher return than\n{other}")
        panel.legend(fontsize=7)
    letter(panels, ["against DQN", "against dueling DQN of equal depth"])
    for k, task in enumerate(tasks):
        panel = figure.add_subplot(grid[1 + k // 3, 2 * (k % 3) : 2 * (k % 3) + 2])
        for arm, colour in COLOURS.items():
            rows = rows_of(evidence, task, arm)
            if rows:
                panel.plot(
                    [row["steps"] for row in rows], [np.mean(row["returns"]) for row in rows], color=colour, label=arm
                )
        panel.set_title(task.label, fontsize=7)
        panel.set_xlabel("steps")
        panel.set_ylabel("discounted return")
        if k == 0:
            panel.legend(fontsize=6)
    return figure


EXPERIMENT = Experiment(
    name="head_learning",
    title="low-rank and additive heads for many actions",
    says={
        "heads": "Completing targets takes nothing from a network's errors, which lie in the same few directions as "
        "its values. Here the low rank is in the last layer of the network instead."
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
)
