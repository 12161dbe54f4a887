"""Planning from a noisy simulator: where low rank pays most. Not in the paper.

Every backup carries N(0, sigma) noise, and every method draws S x A samples an iteration, or the share of them that
it says. averaged-svp draws a few more, so it makes fewer iterations: all draw equally many in all. The loss is exact:
mean over grid states of V* - V of the policy, over max V* - min V*.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from svrl.mdp.grid import GridMDP
from svrl.mdp.simulator import NoisyBackups
from svrl.mdp.tasks import make_task
from svrl.paper.claim import Claim, Evidence, Finding
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.verdicts import above
from svrl.planning.averaged import AveragedStructuredIteration, AveragedValueIteration
from svrl.planning.baselines import IncumbentIteration
from svrl.planning.evaluation import evaluate_policy, policy_loss
from svrl.planning.method import Method
from svrl.planning.plan import plan
from svrl.planning.policy_iteration import solve_exactly
from svrl.planning.value_iteration import ValueIteration
from svrl.plots.style import BLUE, CYCLE, GREEN, GREY, ORANGE, draw_means, letter, new_figure
from svrl.runs.spec import Kind, Result, RunSpec, Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def compute(settings: Mapping[str, Any], work: Work) -> Result:
    """One plan, judged on the exact model."""
    model, best = _solved(work.device, tuple(settings["states"]), settings["levels"])
    method = at_equal_samples(method_of(settings), model.n_actions)
    problem = NoisyBackups(model, settings["sigma"])
    found = plan(problem, method, seed=settings["seed"])
    loss = policy_loss(best, evaluate_policy(model, found.policy))
    row = {"loss": loss.relative, "rank_found": found.rank, "sweep_equivalents": found.sweep_equivalents}
    row |= {"seconds_backup": found.ledger.seconds_backup, "seconds_estimate": found.ledger.seconds_estimate}
    return Result(rows=[row])


KIND = Kind(name="noisy-plan", version=1, compute=compute)


@lru_cache(maxsize=1)
def _solved(device: str, states: tuple[int, int], levels: int) -> tuple[GridMDP, Tensor]:
    """The exact model, and V* (S,)."""
    model = GridMDP(make_task("three-motor-pendulum", states=states, levels=levels), device=device)
    return model, solve_exactly(model)[0]


def at_equal_samples(method: Method, n_actions: int) -> Method:
    """The method with as many iterations as S x A samples each would pay for."""
    if not isinstance(method, AveragedStructuredIteration):
        return method
    drawn = method.samples * method.p * n_actions
    return replace(
        method, max_iterations=max(1, int(method.max_iterations * drawn / (drawn + method.checks(n_actions))))
    )


def method_of(settings: Mapping[str, Any]) -> Method:
    """The method that settings name; what it does not take is None there."""
    name, limit = settings["method"], settings["iterations"]
    if name == "value-iteration":
        return ValueIteration(stop="sup", max_iterations=limit)
    if name == "averaged":
        return AveragedValueIteration(samples=settings["samples"], p=settings["p"], max_iterations=limit)
    if name == "incumbent":
        return IncumbentIteration(challengers=settings["challengers"], max_iterations=limit)
    assert name == OURS, name
    fixed = {} if settings["rank"] is None else {"rank": settings["rank"], "choose": False}
    common = {"samples": settings["samples"], "p": settings["p"]}
    return AveragedStructuredIteration(max_iterations=limit, **common, **fixed)


OURS = "averaged-svp"
NAMES = {OURS: "structured average (ours)", "averaged": "plain average", "incumbent": "incumbent + 3"}
BARS = (0.1, 0.3, 1.0)
"""Levels of noise at which all methods are compared."""
FIRST_SEED = 200
"""Seeds that nothing was tuned on."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """What one scale spends.

    Attributes:
        states: Grid points of each axis.
        levels: Of each of the three motors; there are levels^3 actions.
        iterations: Of every method.
        seeds: For the comparison of methods.
        challengers: Numbers of random actions that the incumbent is tried with.
        noise, shares, ranks: What else is varied, for the structured and the plain average.
        samples: How many of every pair in further runs of both averages, at every level of noise.
        minutes: Of one plan with structure; the others take a tenth.
    """

    states: int
    levels: int
    iterations: int
    seeds: int
    challengers: tuple[int, ...]
    noise: tuple[float, ...]
    shares: tuple[float, ...]
    ranks: tuple[int, ...]
    minutes: float
    samples: tuple[int, ...] = ()


_SMOKE = Size(
    states=9, levels=3, iterations=12, seeds=2, challengers=(3,), noise=(), shares=(0.5,), ranks=(2, 5), minutes=0.002
)
_LAPTOP = Size(
    states=50,
    levels=6,
    iterations=90,
    seeds=3,
    challengers=(1, 3, 9),
    noise=(0.03,),
    shares=(0.2, 0.5),
    ranks=(2, 8, 20),
    minutes=0.1,
)
_FULL = replace(
    _LAPTOP,
    levels=10,
    seeds=5,
    challengers=(1, 2, 3, 5, 9, 39),
    noise=(0.01, 0.03, 3.0),
    shares=(0.05, 0.2, 0.5),
    ranks=(2, 3, 5, 8, 12, 20, 40),
    samples=(4,),
    minutes=0.7,
)
SIZES = {"smoke": _SMOKE, "laptop": _LAPTOP, "full": _FULL}


def runs(size: Size) -> tuple[RunSpec, ...]:
    """Methods side by side at three levels of noise, then what varies one thing."""
    wanted: list[dict[str, Any]] = []
    for sigma in BARS:
        wanted += [{"method": "value-iteration", "sigma": sigma}, {"method": "averaged", "sigma": sigma}]
        wanted += [{"method": "incumbent", "sigma": sigma, "challengers": few} for few in size.challengers]
        wanted += [{"method": OURS, "sigma": sigma}]
        for share in size.shares:
            wanted += [{"method": name, "sigma": sigma, "p": share} for name in ("averaged", OURS)]
        wanted += [{"method": OURS, "sigma": sigma, "rank": rank} for rank in size.ranks]
    for sigma in size.noise:
        wanted += [{"method": name, "sigma": sigma} for name in ("averaged", OURS)]
        wanted += [{"method": "incumbent", "sigma": sigma, "challengers": 3}]
    for sigma, name, count in itertools.product((*size.noise, *BARS), ("averaged", OURS), size.samples):
        wanted += [{"method": name, "sigma": sigma, "samples": count}]
    common: dict[str, Any] = {"states": [size.states] * 2, "levels": size.levels, "iterations": size.iterations}
    common |= {"samples": 1, "p": 1.0, "challengers": None, "rank": None}
    found = []
    for some, k in itertools.product(wanted, range(size.seeds)):
        minutes = size.minutes * (1.0 if some["method"] == OURS else 0.1)
        found.append(RunSpec(kind=KIND, settings={**common, **some, "seed": FIRST_SEED + k}, minutes=minutes))
    return tuple(found)


BUDGETS = {
    scale: Budget(
        runs=runs(size),
        words=f"{size.states**2} states, {size.levels**3} actions, {size.iterations} iterations, {size.seeds} seeds",
    )
    for scale, size in SIZES.items()
}


def losses(evidence: Evidence, sigma: float, method: str, **settings: Any) -> list[float]:
    """Of every seed; where nothing else is said, of the method as it is."""
    wanted = {"challengers": None, "rank": None, "p": 1.0, "samples": 1, "sigma": sigma, "method": method}
    return [float(row["loss"]) for row in evidence.rows(KIND.name, **(wanted | settings))]


def by_method(evidence: Evidence, sigma: float) -> dict[str, list[float]]:
    """All methods at one level of noise, ours first."""
    few = {run.settings["challengers"] for run in evidence.where(KIND.name, sigma=sigma, method="incumbent")}
    found = {
        NAMES[OURS]: losses(evidence, sigma, OURS),
        NAMES["averaged"]: losses(evidence, sigma, "averaged"),
        **{f"incumbent + {count}": losses(evidence, sigma, "incumbent", challengers=count) for count in sorted(few)},
        "value iteration": losses(evidence, sigma, "value-iteration"),
    }
    return {name: some for name, some in found.items() if some}


def judge_pays(evidence: Evidence, sigma: float) -> Finding:
    """Over seeds, the loss of the baseline that is best on average over ours: its interval against 1."""
    (_, ours), *others = by_method(evidence, sigma).items()
    best, theirs = min(others, key=lambda baseline: float(np.mean(baseline[1])))
    ratios = [other / mine for other, mine in zip(theirs, ours, strict=True)]
    note = f"loss {np.mean(ours):.2g} against {np.mean(theirs):.2g} of {best}"
    return above(ratios, 1.0, show=lambda value: f"{value:.1f} times", note=note)


CLAIMS: tuple[Claim, ...] = tuple(
    Claim(
        name=f"structure-pays-at-noise-{sigma:g}",
        figure="noise",
        section="",
        says=f"With noise {sigma:g} on every backup, planning on the low-rank part of the average loses less than the "
        "best baseline (ours, not the paper's).",
        paper="not measured",
        test="loss of the baseline that is best on average over ours, at equal samples: lower end of its 95% interval "
        "over seeds above 1",
        judge=partial(judge_pays, sigma=sigma),
    )
    for sigma in BARS
)


COLOURS = {OURS: BLUE, "averaged": ORANGE, "incumbent": GREEN}
LOOK: dict[str, Any] = {"least": 0.3, "marker": "o", "markersize": 4, "capsize": 2, "linewidth": 1.2}
DASHES: dict[float, Any] = dict(zip(BARS, ("-", "--", ":"), strict=True))


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """All methods side by side, and what noise, the share sampled and the rank do."""
    from matplotlib.lines import Line2D

    figure = new_figure(9.0, 6.0)
    panels = figure.subplots(2, 2, sharey=True)
    _methods(panels[0, 0], evidence)
    _against(panels[0, 1], evidence, "sigma", (OURS, "averaged", "incumbent"), None)
    _against(panels[0, 1], evidence, "sigma", (OURS, "averaged"), None, samples=4)
    panels[0, 1].set_xlabel("noise of one backup")
    for sigma in BARS:
        _against(panels[1, 0], evidence, "p", (OURS, "averaged"), sigma)
        _against(panels[1, 1], evidence, "rank", (OURS,), sigma)
    panels[1, 0].set_xlabel("share of pairs sampled in an iteration")
    panels[1, 1].set_xlabel("fixed rank (lines: noise, as in c)")
    marks = [Line2D([], [], color=GREY, linestyle=DASHES[sigma], label=f"noise {sigma:g}") for sigma in BARS]
    panels[1, 0].legend(handles=marks, fontsize=7)
    for panel in panels.flat:
        panel.set_yscale("log")
    for panel in panels[:, 0]:
        panel.set_ylabel("policy loss / range of V*")
    panels[0, 0].legend(fontsize=7, title="noise", title_fontsize=7)
    panels[0, 1].legend(fontsize=7)
    letter(list(panels.flat), ["methods at equal samples", "noise", "share sampled", "rank"])
    return figure


def _methods(panel: Axes, evidence: Evidence) -> None:
    """One group of points a level of noise."""
    names: list[str] = []
    for at, (sigma, colour) in enumerate(zip(BARS, CYCLE[3:], strict=False)):
        found = by_method(evidence, sigma)
        names = list(found)
        places = [k + 0.18 * (at - 1) for k in range(len(names))]
        look = {**LOOK, "color": colour, "label": f"{sigma:g}", "linestyle": "none"}
        draw_means(panel, places, list(found.values()), f"noise {sigma:g}", **look)
    panel.set_xticks(range(len(names)), names, rotation=25, ha="right", fontsize=7.5)


def _against(
    panel: Axes, evidence: Evidence, what: str, methods: Sequence[str], sigma: float | None, samples: int = 1
) -> None:
    """Loss against one setting; at a level of noise, or over all levels if that is what varies."""
    for method in methods:
        fixed: dict[str, Any] = {"challengers": 3 if method == "incumbent" else None}
        fixed |= {"p": 1.0, "rank": None, "samples": samples, "sigma": sigma}
        del fixed[what]
        runs = evidence.where(KIND.name, method=method, **fixed)
        places = sorted({run.settings[what] for run in runs if run.settings[what] is not None})
        if not places:
            continue
        found = [losses(evidence, **{**fixed, "method": method, what: place}) for place in places]
        name = NAMES[method]
        dashes = DASHES[sigma] if sigma is not None else "-" if samples == 1 else ":"
        label = name if samples == 1 else f"{name}, {samples} samples"
        look = {**LOOK, "label": label, "color": COLOURS[method], "linestyle": dashes}
        draw_means(panel, places, found, name, **look)
    panel.set_xscale("log")
    ticks = sorted({run.settings[what] for run in evidence.where(KIND.name, method=OURS)} - {None})
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    panel.minorticks_off()


EXPERIMENT = Experiment(
    name="noisy_simulator",
    title="planning from a noisy simulator",
    says={
        "noise": "The paper plans with exact backups, where exact planning needs no structure. Here every backup is a "
        "noisy sample, the actions have no order, and every method draws equally many samples."
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
)
