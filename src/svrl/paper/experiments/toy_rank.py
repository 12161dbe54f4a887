"""The toy MDP of section 2: the rank of Q falls during value iteration, and half of the pairs are enough.

From Q_0 ~ U(0, 1): plain value iteration backs up every pair; online reconstruction backs up a share p of them and
completes the rest by matrix estimation. Rows have t, four ranks, the mean squared error against Q*, and backups so far.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from svrl.matrix import approximate_rank
from svrl.mdp.tabular import TabularMDP, toy_mdp
from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments.control import times
from svrl.paper.verdicts import Show, below, number, with_interval
from svrl.planning.plan import advance, begin
from svrl.planning.policy_iteration import solve_exactly
from svrl.planning.score import TIGHT_ENERGY
from svrl.planning.svp import SVPState, paper_svp
from svrl.plots.style import BLUE, GREEN, GREY, ORANGE, letter, new_figure, tag
from svrl.runs.spec import Kind, Result, RunSpec, Work
from svrl.stats import interval_if_several

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VANILLA, ONLINE = "value-iteration", "paper-svp"


def compute(settings: Mapping[str, Any], work: Work) -> Result:
    """One MDP and one method; the row of the optimum comes last, with t None."""
    sizes = {"n_states": settings["states"], "n_actions": settings["actions"], "gamma": settings["gamma"]}
    model = toy_mdp(settings["seed"], reward=settings["reward"], device=work.device, **sizes)
    best = model.backup(solve_exactly(model)[0])
    rows = []
    for t, (q, backups) in enumerate(_iterations(model, settings)):
        error = float((q - best).square().mean())
        rows.append({"t": t, **four_ranks(q), "mse": error, "backups": backups})
    return Result(rows=[*rows, {"t": None, **four_ranks(best), "mse": 0.0, "backups": None}])


KIND = Kind(name="toy-rank", version=1, compute=compute)


def four_ranks(q: Tensor) -> dict[str, int]:
    """At two energies, of q (S, A) as it is and less its row means."""
    found = {}
    for name, energy in (("rank_99", 0.99), ("rank_tight", TIGHT_ENERGY)):
        found[name] = int(approximate_rank(q, energy=energy))
        found[f"{name}_centred"] = int(approximate_rank(q, energy=energy, centre_rows=True))
    return found


def _iterations(model: TabularMDP, settings: Mapping[str, Any]) -> Iterator[tuple[Tensor, int]]:
    """Q_t (S, A), float64, and the backups made until then, t = 0, 1, ..."""
    draw = torch.Generator().manual_seed(1000 + settings["seed"])
    q = torch.rand(model.n_states, model.n_actions, generator=draw, dtype=torch.float64).to(model.device)
    yield q, 0
    if settings["method"] == VANILLA:
        for t in range(settings["iterations"]):
            q = model.backup(q.max(1).values)
            yield q, (t + 1) * q.numel()
        return
    method = paper_svp(p=settings["p"], max_iterations=settings["iterations"])
    run = begin(model, method, seed=settings["seed"], start=q)
    for row in advance(model, method, run):
        if run.state.outcome:
            raise ValueError(run.state.outcome)
        assert isinstance(run.state, SVPState)
        assert run.state.q is not None
        yield run.state.q.double(), row.backups


ITERATIONS = 40
HALF = 0.5
FAST, LOW_RANK, COMPARABLE = 10, 10, 2.0
"""Limits of the claims: iterations until the rank is 1, a low rank, a ratio of errors."""
SIZES = {"smoke": (120, 40), "laptop": (1000, 100), "full": (1000, 100)}
SEEDS = {"smoke": 2, "laptop": 5, "full": 10}
REWARDS = ("uniform", "normal")
"""The paper says random: U(0, 1) gives its figure, N(0, 1) is the other reading."""


def runs(scale: str) -> tuple[RunSpec, ...]:
    """Every reward, method and seed."""
    states, actions = SIZES[scale]
    weights = {VANILLA: 0.03, ONLINE: 0.1} if scale != "smoke" else {VANILLA: 0.005, ONLINE: 0.01}
    common = {"states": states, "actions": actions, "gamma": 0.95, "iterations": ITERATIONS}
    found = []
    for reward, (method, minutes), seed in itertools.product(REWARDS, weights.items(), range(SEEDS[scale])):
        settings = {**common, "reward": reward, "method": method, "seed": seed}
        settings |= {"p": HALF if method == ONLINE else 1.0}
        found.append(RunSpec(kind=KIND, settings=settings, minutes=minutes))
    return tuple(found)


BUDGETS = {
    scale: Budget(
        runs=runs(scale),
        words=f"{SIZES[scale][0]} states, {SIZES[scale][1]} actions, {ITERATIONS} iterations, {SEEDS[scale]} MDPs",
    )
    for scale in SIZES
}


def curves(evidence: Evidence, name: str, *, reward: str, method: str) -> np.ndarray:
    """(MDPs, iterations + 1): one number of every iteration."""
    runs = evidence.where(KIND.name, reward=reward, method=method)
    return np.array([[row[name] for row in run.rows if row["t"] is not None] for run in runs], float)


def rank_of_the_optimum(evidence: Evidence, reward: str) -> list[float]:
    """The rank of Q*, a value an MDP."""
    rows = evidence.rows(KIND.name, reward=reward, method=VANILLA)
    return [float(row["rank_99"]) for row in rows if row["t"] is None]


def iterations_until_one(evidence: Evidence, reward: str) -> list[float]:
    """The first iteration of plain value iteration whose rank is 1, or one more than there are, a value an MDP."""
    found = curves(evidence, "rank_99", reward=reward, method=VANILLA) <= 1
    return [float(row.argmax()) if row.any() else float(found.shape[1]) for row in found]


def rank_on_the_way(evidence: Evidence, reward: str) -> list[float]:
    """The largest rank of reconstruction from the iteration on at which it must have fallen, a value an MDP."""
    return curves(evidence, "rank_99", reward=reward, method=ONLINE)[:, FAST:].max(1).tolist()


def error_ratios(evidence: Evidence, reward: str) -> list[float]:
    """Error of reconstruction over that of plain value iteration after the last iteration, a value an MDP."""
    ours, plain = (curves(evidence, "mse", reward=reward, method=method)[:, -1] for method in (ONLINE, VANILLA))
    return (ours / plain).tolist()


def judge(
    evidence: Evidence, values: Callable[[Evidence, str], list[float]], limit: float, show: Show = number
) -> Finding:
    """A number of U(0, 1) rewards decides, and that of N(0, 1) is noted."""
    uniform, normal = (values(evidence, reward) for reward in REWARDS)
    return below(uniform, limit, show=show, note=f"U(0, 1) rewards; with N(0, 1): {with_interval(normal, show)}")


_claim = partial(Claim, figure="fig1", section="2")
CLAIMS: tuple[Claim, ...] = (
    _claim(
        name="toy-rank-falls-fast",
        says="During value iteration the approximate rank of Q drops fast.",
        paper="about 1 after a few iterations",
        test=f"first iteration with rank 1 (99% of the energy), upper end of the interval over MDPs at most {FAST}",
        judge=partial(judge, values=iterations_until_one, limit=FAST),
    ),
    _claim(
        name="toy-optimum-is-low-rank",
        says="The converged Q of the toy MDP has low rank.",
        paper="low",
        test=f"rank by 99% of the energy, upper end of the interval over MDPs at most {LOW_RANK} of 100",
        judge=partial(judge, values=rank_of_the_optimum, limit=LOW_RANK),
    ),
    _claim(
        name="toy-rank-stays-low-under-reconstruction",
        says="Reconstruction from half of the pairs keeps Q of low rank throughout.",
        paper="low rank",
        test=f"largest rank by 99% of the energy of iterations {FAST} to {ITERATIONS}, upper end of the interval over "
        f"MDPs at most {LOW_RANK} of 100",
        judge=partial(judge, values=rank_on_the_way, limit=LOW_RANK),
    ),
    _claim(
        name="toy-half-of-the-pairs-is-comparable",
        says="After about 40 iterations reconstruction from half of the pairs is comparable to value iteration.",
        paper="comparable",
        test=f"error after 40 iterations over value iteration's, upper end of the interval at most {COMPARABLE:g}",
        judge=partial(judge, values=error_ratios, limit=COMPARABLE, show=times),
    ),
)


RANKS = (
    ("rank_99", "uniform", BLUE, "99% of the energy"),
    ("rank_tight", "uniform", ORANGE, "1 - 1e-6 of the energy"),
    ("rank_99_centred", "uniform", GREEN, "99%, row means taken out"),
    ("rank_99", "normal", GREY, "99%, N(0, 1) rewards"),
)
ERRORS = (("mse", "uniform", BLUE, "U(0, 1) rewards"), ("mse", "normal", GREY, "N(0, 1) rewards"))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """Plain value iteration above and online reconstruction below, ranks at the left and errors at the right."""
    figure = new_figure(8.2, 5.2)
    panels = figure.subplots(2, 2, sharex=True, sharey="col")
    for row, method in zip(panels, (VANILLA, ONLINE), strict=True):
        for panel, series in zip(row, (RANKS, ERRORS), strict=True):
            for name, reward, colour, label in series:
                _band(panel, curves(evidence, name, reward=reward, method=method), colour, label)
        row[0].set_ylabel("approximate rank")
        row[1].set_ylabel("mean squared error against Q*")
        row[1].set_yscale("log")
    for panel in panels[1]:
        panel.set_xlabel("iteration")
    for panel in panels[0]:
        panel.legend(fontsize=8)
    names = ("value iteration", "reconstruction, p = .5")
    letter(list(panels.flat), [f"{name}: {what}" for name in names for what in ("rank", "error")])
    return figure


def _band(panel: Axes, values: np.ndarray, colour: str, label: str) -> None:
    """The mean over MDPs (seeds, T + 1), and its interval where there are several."""
    steps, mean = np.arange(values.shape[1]), values.mean(0)
    tag(panel.plot(steps, mean, color=colour, label=label)[0], label)
    low, high = np.array([interval_if_several(column) or (column.mean(),) * 2 for column in values.T]).T
    floor = values.min(0) * 0.5  # a t interval of few values may reach below 0, which a logarithm cannot show
    tag(panel.fill_between(steps, np.maximum(low, floor), high, color=colour, alpha=0.2, linewidth=0), label)


EXPERIMENT = Experiment(
    name="toy_rank",
    title="rank and error on a toy MDP",
    says={
        "fig1": "On a random deterministic MDP with 1000 states and 100 actions the rank of Q falls within a few "
        "iterations, and completing Q from half of the pairs in each iteration is comparable to value iteration."
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
    notes=("How the rewards are drawn is not stated; U(0, 1) gives the paper's figure and N(0, 1) does not.",),
)
