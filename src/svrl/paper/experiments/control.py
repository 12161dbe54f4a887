"""The control tasks as runs: a grid with its optimum, and plans judged beside it.

Every policy of a task is judged by the same optimum, the same starts and the same noise:

    policy_loss_relative   mean over grid states of V* - V of the policy, both exact, over max V* - min V*
    metric                 the task's own: norm of the late angles (rad), or steps to the goal
    same_end               share of starts that end within 5% of every axis's range of where the optimum ends
    input_gap              mean over grid states of |u - u*| over the range of inputs

Plain value iteration by the authors' rule sets the number of iterations ("vanilla") for every method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from svrl.mdp.control_task import UPRIGHT_DEGREES, ControlTask, UprightNorm
from svrl.mdp.grid import GridMDP
from svrl.mdp.tasks import make_task
from svrl.paper.catalogue import FIGURES
from svrl.paper.claim import Claim, Evidence, Finding, Verdict
from svrl.paper.verdicts import NEAR, WIDE, Show, above, below, best_of, fixed, near, percent
from svrl.planning.catalogue import METHODS, make_method
from svrl.planning.method import Ledger, Method
from svrl.planning.plan import Plan, advance, begin, conclude, plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.rollout import Rollout
from svrl.planning.score import Judge, Recorder, Score, ranks
from svrl.planning.value_iteration import ValueIteration
from svrl.plots.style import BLUE, CYCLE, GREY, draw_means, letter, new_figure, tag
from svrl.runs.spec import Kind, Result, Work
from svrl.runs.store import Kept

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Judges = Callable[[Evidence], Finding]
Scales = tuple[str, ...]
LOOKED_AT = ("laptop", "full")
INPUTS = {
    "inverted-pendulum": "torque",
    "mountain-car": "throttle",
    "double-integrator": "force (N)",
    "cart-pole": "force (N)",
}
"""The tasks of the paper, and what their input is called."""
TASKS = tuple(INPUTS)
VARIANTS = ("paper", "authors")
METRICS = {"norm_rad": "norm of the angle (rad)", "time_to_goal": "steps to the goal"}
VANILLA = "vanilla"
"""As many iterations as plain value iteration takes by the authors' rule."""
PAPER_SVP = "paper-svp"
END = 0.05
SHOWN = 3
"""Starts whose trajectories are kept: the first, or for angles the first that the optimum holds upright."""

STARTS = {"smoke": 20, "laptop": 1000, "full": 1000}
ITERATIONS: dict[str, str | int] = {"smoke": 6, "laptop": VANILLA, "full": VANILLA}
MASKS = {"smoke": 2, "laptop": 3, "full": 5}
LOW, HIGH = 0.2, 0.6
"""The shares whose policies the paper shows."""


def grid(scale: str, task: str, variant: str) -> dict[str, Any]:
    """The settings of a task's grid and of its judge."""
    small, flat = scale == "smoke", task != "cart-pole"
    states = ([15, 15] if flat else [5, 5, 3, 3]) if small else [50, 50] if flat else [10, 10, 10, 10]
    where = {"task": task, "variant": variant, "states": states, "actions": 80 if small else 1000}
    return where | {"starts": STARTS[scale], "start_seed": 0}


def words_of(scale: str, shares: str) -> str:
    """What is spent on the tasks, for a caption."""
    pairs = "225x80 pairs, 6 iterations" if scale == "smoke" else "2500x1000 pairs (cart-pole 10000x1000)"
    return f"{pairs}, p = {shares}, {MASKS[scale]} masks, {STARTS[scale]} starts"


# Runs.


class Problem(Judge):
    """A task on its grid, and the judge of its policies."""

    task: ControlTask
    model: GridMDP

    @cached_property
    def q(self) -> Tensor:
        """Q* (S, A)."""
        return self.model.backup(self.optimum.v)

    @cached_property
    def best(self) -> Rollout:
        """The optimal policy from every start."""
        return _rolled(self.optimal)

    @cached_property
    def shown(self) -> Tensor:
        """Which starts are drawn, (SHOWN,): about half of the cart-pole's are lost under any policy."""
        if not isinstance(self.task.metric, UprightNorm):
            return torch.arange(SHOWN)
        held = late_angles(self.best).mean(0).cpu() <= math.radians(UPRIGHT_DEGREES)
        return torch.argsort((~held).int(), stable=True)[:SHOWN]

    @cached_property
    def vanilla(self) -> tuple[int, Ledger]:
        """Iterations of value iteration by the authors' rule, and what they cost."""
        found = plan(self.model, ValueIteration(stop="authors"))
        return found.iterations, found.ledger


def problem_of(settings: Mapping[str, Any], device: str) -> Problem:
    """The problem that settings name; the last one is kept, since neighbouring runs ask for it again."""
    given = (settings[key] for key in ("task", "variant", "states", "actions", "starts", "start_seed"))
    return _problem(device, *(tuple(value) if isinstance(value, list) else value for value in given))


@lru_cache(maxsize=1)
def _problem(
    device: str, name: str, variant: str, states: tuple[int, ...], actions: int, starts: int, start_seed: int
) -> Problem:
    task = make_task(name, variant=variant, states=states, actions=actions)
    return Problem(GridMDP(task, device=device), task, starts=starts, seed=start_seed)


def _rolled(score: Score) -> Rollout:
    assert score.rollout is not None, "a control task is rolled out"
    return score.rollout


def compute_optimum(settings: Mapping[str, Any], work: Work) -> Result:
    """The optimum of a task: its ranks, its metric, and what exact planning costs."""
    problem = problem_of(settings, work.device)
    best = problem.optimum
    row, arrays = judged(problem, best, problem.optimal)
    iterations, ledger = problem.vanilla
    row |= {"vanilla_iterations": iterations, "vanilla_seconds_backup": ledger.seconds_backup}
    exact = plan(problem.model, ModifiedPolicyIteration(tolerance=1e-6))
    row |= {"exact_sweeps": exact.sweep_equivalents, "exact_seconds_backup": exact.ledger.seconds_backup}
    row |= {**ranks(best, problem.model), "metric_name": problem.task.metric.name}
    row |= {"axes": [axis.name for axis in problem.task.axes], "periodic": [a.periodic for a in problem.task.axes]}
    row |= {"time_step": problem.task.label["time_step"]}
    grid = {f"axis{k}": axis.values.numpy().astype(np.float32) for k, axis in enumerate(problem.task.axes[:2])}
    return Result(rows=[row], arrays=arrays | grid)


def compute_planned(settings: Mapping[str, Any], work: Work) -> Result:
    """One method on a task with one mask, as many iterations as plain value iteration takes unless it says a number."""
    problem = problem_of(settings, work.device)
    limit = problem.vanilla[0] if settings["iterations"] == VANILLA else int(settings["iterations"])
    method = method_of(settings["method"], settings["p"], limit)
    # Kernels are compiled, or loaded, before anything is timed.
    first = torch.zeros(1, dtype=torch.int64, device=problem.model.device)
    problem.model.backup_at(problem.optimum.v, first, first)
    run, recorder = begin(problem.model, method, seed=settings["seed"]), Recorder(problem.optimum.v)
    for _ in advance(problem.model, method, run):
        recorder(run)
    found = conclude(problem.model, method, run)
    row, arrays = judged(problem, found, problem.score(found, recorder.values))
    row |= {"iterations_made": found.iterations, "iterations_allowed": limit, "outcome": found.outcome}
    row |= {"backups": found.ledger.backups, "sweep_equivalents": found.sweep_equivalents}
    row |= {"seconds_backup": found.ledger.seconds_backup, "seconds_estimate": found.ledger.seconds_estimate}
    row |= {"rank_of_estimate": found.rank, **ranks(found, problem.model)}
    return Result(rows=[row], arrays=arrays)


OPTIMUM = Kind(name="control-optimum", version=1, compute=compute_optimum)
PLANNED = Kind(name="control-plan", version=1, compute=compute_planned)


def method_of(name: str, p: float | None, iterations: int) -> Method:
    """A method by name; a share to observe only where it takes one."""
    return make_method(name, p=p if "p" in METHODS[name].takes else None, iterations=iterations)


def judged(problem: Problem, found: Plan, score: Score) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a policy is worth as a row, and its map and first trajectories as arrays."""
    task, path, metric = problem.task, _rolled(score), dict(score.metric)
    chosen, optimal = (task.actions[policy.cpu()] for policy in (found.policy, problem.optimum.policy))
    width = float(task.actions.max() - task.actions.min()) or 1.0
    row = {"metric": metric[metric.pop("name")], **metric, "return": score.discounted_return}
    row |= {"policy_loss_relative": score.policy_loss_relative, "followed": score.followed}
    if isinstance(task.metric, UprightNorm):
        row |= {"median_degrees": math.degrees(float(late_angles(path).mean(0).median()))}
    row |= {"same_end": same_end(task, path.states[-1], problem.best.states[-1])}
    row |= {"input_gap": float((chosen - optimal).abs().mean()) / width, "mse": _error(problem, found)}
    # The map is over the first two axes; the others are held at the grid point nearest 0.
    part: Any = (slice(None), slice(None), *(int(axis.values.abs().argmin()) for axis in task.axes[2:]))
    arrays: dict[str, np.ndarray] = {
        "policy": np.asarray(chosen[:, 0].reshape(task.shape)[part]).astype(np.float16),
        "states": path.states.cpu()[:, problem.shown].numpy().astype(np.float32),
        "inputs": path.inputs.cpu()[:, problem.shown, 0].numpy().astype(np.float16),
    }
    return row, arrays


def judged_q(problem: Problem, q: Tensor, policy: Tensor) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The same for a Q (S, A) that no method planned, and its greedy policy (S,)."""
    found = replace(problem.optimum, q=q, policy=policy, v=q.max(1).values.double(), factors=None)
    return judged(problem, found, problem.score(found))


def same_end(task: ControlTask, one: Tensor, other: Tensor) -> float:
    """Share of states (N, d) that lie within 5% of every axis's range of their partners; periodic axes are closed."""
    width = torch.tensor([axis.high - axis.low for axis in task.axes], dtype=one.dtype, device=one.device)
    gap = (one - other).abs()
    closed = torch.tensor([axis.periodic for axis in task.axes], device=one.device)
    gap = torch.where(closed, torch.minimum(gap, width - gap), gap)
    return float((gap <= END * width).all(1).double().mean())


def late_angles(found: Rollout) -> Tensor:
    """Absolute angles (T', N), in radians, of the steps that the task's metric looks at."""
    metric = found.task.metric
    return found.states[metric.skip : len(found.states) - 1, :, metric.axis].abs()


def _error(problem: Problem, found: Plan) -> float | None:
    """Mean squared error of the plan's Q; None where it has none, or pairs that it never saw."""
    if found.q is None or not bool(found.q.isfinite().all()):
        return None
    return float((found.q.double() - problem.q).square().mean())


def values_of(evidence: Evidence, name: str, kind: str = PLANNED.name, **settings: Any) -> list[float]:
    """One number of every row with these settings, which differ in their seeds; rows without it are left out."""
    found: Iterator[Any] = (row.get(name) for row in evidence.rows(kind, **settings))
    return [float(value) for value in found if value is not None]


def optimum_of(evidence: Evidence, task: str, variant: str = "paper", **settings: Any) -> dict[str, Any]:
    """The row of a task's optimum."""
    return evidence.only(OPTIMUM.name, task=task, variant=variant, **settings).rows[0]


# Figures.


def draw_maps_of(figure: Figure, panels: Iterable[Axes], runs: Iterable[tuple[Kept, Kept]]) -> None:
    """Maps of policies on one scale of colours: of runs, each behind the optimum whose grid it is on."""
    from svrl.plots.planning import draw_maps

    pairs = list(runs)
    maps = [(best.arrays["axis0"], best.arrays["axis1"], run.arrays["policy"]) for best, run in pairs]
    first = pairs[0][0]
    draw_maps(figure, list(panels), maps, (*first.rows[0]["axes"][:2], INPUTS[first.settings["task"]]))


def draw_shares(panel: Axes, evidence: Evidence, best: Kept, name: str, kind: str, **runs: Any) -> None:
    """The metric against the share observed: the mean over masks with its interval, each mask as a dot; the optimum."""
    shares = sorted({run.settings["p"] for run in evidence.where(kind, **runs)})
    found = [values_of(evidence, "metric", kind, p=share, **runs) for share in shares]
    draw_masks(panel, shares, found, name, BLUE)
    tag(panel.plot(shares, [np.mean(some) for some in found], color=BLUE, label=name), name)
    draw_optimum(panel, best)
    label = METRICS[best.rows[0]["metric_name"]]
    panel.set(xlabel="share of the pairs observed, p", ylabel=label, xlim=(0.0, 1.0))
    panel.legend(fontsize=8)


def draw_masks(panel: Axes, places: Sequence[float], values: list[list[float]], name: str, colour: str) -> None:
    """Means with their intervals, and a dot a mask."""
    draw_means(panel, places, values, name, color=colour, fmt="o", markersize=5, capsize=3)
    for place, some in zip(places, values, strict=True):
        tag(panel.plot([place] * len(some), some, ".", color=colour, alpha=0.45, markersize=4), name)


def draw_optimum(panel: Axes, best: Kept) -> None:
    """The metric of the optimum as a line, and room above the points."""
    tag(panel.axhline(best.rows[0]["metric"], color=GREY, linestyle="--", label="optimum"), "optimum")
    panel.margins(y=0.2)
    panel.set_ylim(bottom=max(panel.get_ylim()[0], 0.0))  # an interval of few masks may reach below 0, no metric does


def draw_starts_of(named: Mapping[str, Kept]) -> Figure:
    """First coordinate and input of several policies, a column a start; the optimum comes first, and lies below."""
    from svrl.plots.planning import cut, settled

    best = named["optimum"]
    row, task = best.rows[0], best.settings["task"]
    time_step, unit = (1.0, "steps") if task == "mountain-car" else (row["time_step"], "s")
    paths = [(run.arrays["states"][:, :, 0], run.arrays["inputs"].astype(float)) for run in named.values()]
    steps = max(settled(states, 0.03 * max(float(np.ptp(states)), 1e-9)) for states, _ in paths)
    starts = paths[0][0].shape[1]
    figure = new_figure(3.0 * starts + 0.6, 4.4)
    panels = figure.subplots(2, starts, sharex=True, sharey="row", squeeze=False)
    looks: list[dict[str, Any]] = [{"color": "#333333", "linewidth": 2.2, "alpha": 0.55}]
    looks += [{"color": colour, "linewidth": 1.2, "linestyle": (0, (4, 1))} for colour in CYCLE]
    for name, (states, inputs), look in zip(named, paths, looks, strict=False):
        for start, (upper, lower) in enumerate(panels.T):
            line = cut(states[: steps + 1, start], time_step, 2 * np.pi if row["periodic"][0] else None)
            tag(upper.plot(*line, label=name, **look), name)
            seconds = time_step * np.arange(steps)
            tag(lower.plot(seconds, inputs[:steps, start], drawstyle="steps-post", **look), name)
            lower.set_xlabel(f"time ({unit})")
    panels[0, 0].set_ylabel(row["axes"][0])
    panels[1, 0].set_ylabel(INPUTS[task])
    letter(list(panels.flat), [f"start {k + 1}" for k in range(starts)] + [""] * starts)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=len(paths), fontsize=7)
    return figure


# Tests that several experiments put policies to, with their limits.

LOSS = 0.01
"""A policy counts as nearly optimal if it loses less than this share of the range of V*."""
METRIC = 1.1
"""A metric counts as the optimum's if it is at most so many times as large."""
INPUT_GAP = 0.05
"""Two maps count as alike if their inputs differ by at most this share of the range of inputs, on average."""
SAME_ENDS = 0.9
"""Starts count as brought to the same ends if at least this share of them ends where the optimum's do."""
MOST_RANK = 10
UPPER, LOWER = (f"{end} end of the 95% interval over masks at" for end in ("upper", "lower"))


def times(value: float) -> str:
    """A ratio: 1.02 times."""
    return f"{value:.2f} times"


POLICY_TESTS: dict[str, tuple[str, str, Callable[..., Finding], float, Show]] = {
    "loss": (
        f"policy loss over the range of V*, {UPPER} most {percent(LOSS)}",
        "policy_loss_relative",
        below,
        LOSS,
        percent,
    ),
    "map": (
        "mean over grid states of the difference to the optimum's input, over the range of inputs: "
        f"{UPPER} most {percent(INPUT_GAP)}",
        "input_gap",
        below,
        INPUT_GAP,
        percent,
    ),
    "metric": (f"metric over the optimum's, {UPPER} most {METRIC:g}", "metric", below, METRIC, times),
    "ends": (
        "share of starts that end within 5% of every axis's range of where the optimum's do, "
        f"{LOWER} least {SAME_ENDS:g}",
        "same_end",
        above,
        SAME_ENDS,
        percent,
    ),
}
"""Of each its words, the number of a row, how it is held against which limit, and how it is shown."""


def judge_policy(evidence: Evidence, what: str, **runs: Any) -> Finding:
    """One of these tests of the policies of these runs; a metric is divided by the optimum's."""
    _, number, compare, limit, show = POLICY_TESTS[what]
    unit = optimum_of(evidence, runs["task"])["metric"] if what == "metric" else 1.0
    return compare([value / unit for value in values_of(evidence, number, **runs)], limit, show=show)


def claim_on(figure: str, name: str, says: str, paper: str, test: str, judge: Judges, **more: Any) -> Claim:
    """A claim of the section where its figure stands."""
    section = next(known.section for known in FIGURES if known.id == figure)
    return Claim(name=name, figure=figure, section=section, says=says, paper=paper, test=test, judge=judge, **more)


def policy_claim(what: str, name: str, figure: str, says: str, paper: str, **runs: Any) -> Claim:
    """The claim that the policies of these runs pass one of these tests."""
    return claim_on(figure, name, says, paper, POLICY_TESTS[what][0], partial(judge_policy, what=what, **runs))


def below_on_worst(values: Mapping[str, Sequence[float]], limit: float, show: Show) -> Finding:
    """Of several problems the one with the largest mean decides."""
    worst = max(values, key=lambda name: float(np.mean(values[name])))
    return below(values[worst], limit, show=show, note=f"most on {worst}")


def deviation_claim(
    figure: str, name: str, says: str, printed: float, over: str, scales: Scales = LOOKED_AT, **runs: Any
) -> Claim:
    """The claim that an average deviation is the printed one, in degrees or as a norm."""
    test = (
        f"mean over {over} within {NEAR:.0%} of {printed}, and the half-width of its 95% interval at most {WIDE:.0%} "
        "of it: in degrees, else as the norm in radians in either variant"
    )
    judge = partial(judge_deviation, printed=printed, **runs)
    return claim_on(figure, name, f"{says} {printed}.", f"{printed} (degrees)", test, judge, scales=scales)


def judge_deviation(evidence: Evidence, printed: float, **runs: Any) -> Finding:
    """A printed average deviation: in degrees as the paper says, else as a norm in radians; all are noted."""
    degrees = values_of(evidence, "mean_degrees", variant=VARIANTS[0], **runs)
    stated = near(degrees, printed, definition="degrees", otherwise=False)
    others = [
        near(
            values_of(evidence, "metric", variant=variant, **runs),
            printed,
            definition=f"as norms in radians, variant {variant}",
            otherwise=True,
        )
        for variant in VARIANTS
    ]
    # Of several that fit, or of none, the nearest is shown.
    best = best_of(sorted([stated, *others], key=lambda found: abs((found.value or 0.0) - printed)))
    return replace(best, note=f"as the paper says it: {stated.ours}") if best.verdict is Verdict.OTHERWISE else best


def judge_low(evidence: Evidence) -> Finding:
    """Whether the largest rank of all optima, by the paper's definition, is low."""
    largest = max(row["rank_99"] for row in evidence.rows(OPTIMUM.name, variant=VARIANTS[0]))
    return fixed(largest <= MOST_RANK, f"rank at most {largest}", largest)


def rank_claim(figure: str, name: str, of: str, printed: int, scales: Scales = LOOKED_AT, **where: Any) -> Claim:
    """The claim that a Q* has the printed rank."""
    test = "singular values that hold 99% of the energy; else 1 - 1e-6 of it, in either variant"
    judge, says = partial(judge_rank, printed=printed, **where), f"{of} has approximate rank {printed}."
    return claim_on(figure, name, says, str(printed), test, judge, scales=scales, seeded=False)


def judge_rank(evidence: Evidence, printed: int, **where: Any) -> Finding:
    """A printed rank of Q*: by the paper's definition first, then by the tighter energy, in either variant."""
    rows = {variant: optimum_of(evidence, variant=variant, **where) for variant in VARIANTS}
    stated, tight = ({variant: row[name] for variant, row in rows.items()} for name in ("rank_99", "rank_tight"))
    told = ", ".join(f"{rank} ({variant})" for variant, rank in tight.items())
    note = f"99% of the energy gives {stated['paper']}; 1 - 1e-6 gives {told}"
    holds = printed in stated.values()
    if not holds and printed in tight.values():
        return Finding(verdict=Verdict.OTHERWISE, ours=f"{printed} at 1 - 1e-6 of the energy", value=printed, note=note)
    value = printed if holds else stated["paper"]
    return fixed(holds, f"{value} at 99% of the energy", value, note)
