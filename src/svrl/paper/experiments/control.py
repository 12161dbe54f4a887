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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from svrl.mdp.catalogue import make_task
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.metric import UPRIGHT_DEGREES, UprightNorm
from svrl.paper.claim import Evidence, Finding, Verdict
from svrl.paper.verdicts import NEAR, WIDE, above, below, best_of, fixed, near, percent
from svrl.planning.catalogue import METHODS, make_method
from svrl.planning.meter import Ledger
from svrl.planning.method import Method
from svrl.planning.plan import Plan, advance, begin, conclude, plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.rollout import Rollout
from svrl.planning.score import Judge, Recorder, Score, ranks
from svrl.planning.value_iteration import ValueIteration
from svrl.plots.style import letter, new_figure
from svrl.runs.spec import Kind, Result, Work
from svrl.runs.store import Kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from svrl.plots.planning import Map

TASKS = ("inverted-pendulum", "mountain-car", "double-integrator", "cart-pole")
INPUTS = {
    "inverted-pendulum": "torque",
    "mountain-car": "throttle",
    "double-integrator": "force (N)",
    "cart-pole": "force (N)",
}
METRICS = {"norm_rad": "norm of the angle (rad)", "time_to_goal": "steps to the goal"}
VANILLA = "vanilla"
"""As many iterations as plain value iteration takes by the authors' rule."""
END = 0.05
SHOWN = 3
"""Starts whose trajectories are kept: the first, or for angles the first that the optimum holds upright."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A task on its grid, and the judge of its policies."""

    task: ControlTask
    model: GridMDP
    judge: Judge

    @cached_property
    def q(self) -> Tensor:
        """Q* (S, A)."""
        return self.model.backup(self.judge.optimum.v)

    @cached_property
    def shown(self) -> Tensor:
        """Which starts are drawn, (SHOWN,): about half of the cart-pole's are lost under any policy."""
        found = self.judge.optimal.rollout
        assert found is not None, "a control task is rolled out"
        if not isinstance(self.task.metric, UprightNorm):
            return torch.arange(SHOWN)
        held = late_angles(found).mean(0).cpu() <= math.radians(UPRIGHT_DEGREES)
        return torch.argsort((~held).int(), stable=True)[:SHOWN]

    @cached_property
    def vanilla(self) -> tuple[int, Ledger]:
        """Iterations of value iteration by the authors' rule, and what they cost."""
        found = plan(self.model, ValueIteration(stop="authors"))
        return found.iterations, found.ledger


def problem_of(settings: Mapping[str, Any], device: str) -> Problem:
    """The problem that settings name; the last one is kept, since neighbouring runs ask for it again."""
    keys = ("task", "variant", "states", "actions", "starts", "start_seed")
    given = {key: settings[key] for key in keys}
    return _problem(device, *(tuple(value) if isinstance(value, list) else value for value in given.values()))


@lru_cache(maxsize=1)
def _problem(
    device: str, name: str, variant: str, states: tuple[int, ...], actions: int, starts: int, start_seed: int
) -> Problem:
    task = make_task(name, variant=variant, states=states, actions=actions)
    model = GridMDP(task, device=device)
    return Problem(task=task, model=model, judge=Judge(model, task, starts=starts, seed=start_seed))


def compute_optimum(settings: Mapping[str, Any], work: Work) -> Result:
    """The optimum of a task: its ranks, its metric, and what exact planning costs."""
    problem = problem_of(settings, work.device)
    best = problem.judge.optimum
    row, arrays = judged(problem, best, problem.judge.optimal)
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
    method = method_of(settings["method"], settings["observe"], limit)
    # Kernels are compiled, or loaded, before anything is timed.
    first = torch.zeros(1, dtype=torch.int64, device=problem.model.device)
    problem.model.backup_at(problem.judge.optimum.v, first, first)
    run, recorder = begin(problem.model, method, seed=settings["seed"]), Recorder(problem.judge.optimum.v)
    for _ in advance(problem.model, method, run):
        recorder(run)
    found = conclude(problem.model, method, run)
    row, arrays = judged(problem, found, problem.judge.score(found, recorder.values))
    row |= {"iterations_made": found.iterations, "iterations_allowed": limit, "outcome": found.outcome}
    row |= {"backups": found.ledger.backups, "sweep_equivalents": found.sweep_equivalents}
    row |= {"seconds_backup": found.ledger.seconds_backup, "seconds_estimate": found.ledger.seconds_estimate}
    row |= {"rank_of_estimate": found.rank, **ranks(found, problem.model)}
    return Result(rows=[row], arrays=arrays)


OPTIMUM = Kind(name="control-optimum", version=1, compute=compute_optimum)
PLANNED = Kind(name="control-plan", version=1, compute=compute_planned)


def method_of(name: str, observe: float | None, iterations: int) -> Method:
    """A method by name; a share to observe only where it takes one."""
    return make_method(name, observe=observe if "observe" in METHODS[name].takes else None, iterations=iterations)


def judged(problem: Problem, found: Plan, score: Score) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a policy is worth as a row, and its map and first trajectories as arrays."""
    best = problem.judge.optimal
    assert score.rollout is not None, "a control task is rolled out"
    assert best.rollout is not None, "a control task is rolled out"
    metric = dict(score.metric)
    chosen, optimal = (inputs_on_grid(problem.task, policy) for policy in (found.policy, problem.judge.optimum.policy))
    width = float(problem.task.actions.max() - problem.task.actions.min()) or 1.0
    row = {"metric": metric[metric.pop("name")], **metric, "return": score.discounted_return}
    row |= {"policy_loss_relative": score.policy_loss_relative, "followed": score.followed}
    row |= {} if not isinstance(problem.task.metric, UprightNorm) else {"median_degrees": _median(score.rollout)}
    row |= {"same_end": same_end(problem.task, score.rollout.states[-1], best.rollout.states[-1])}
    row |= {"input_gap": float((chosen - optimal).abs().mean()) / width, "mse": _error(problem, found)}
    arrays: dict[str, np.ndarray] = {
        "policy": drawn_part(problem.task, chosen[:, 0]).astype(np.float16),
        "states": score.rollout.states.cpu()[:, problem.shown].numpy().astype(np.float32),
        "inputs": score.rollout.inputs.cpu()[:, problem.shown, 0].numpy().astype(np.float16),
    }
    return row, arrays


def judged_q(problem: Problem, q: Tensor, policy: Tensor) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The same for a Q (S, A) that no method planned, and its greedy policy (S,)."""
    found = replace(problem.judge.optimum, q=q, policy=policy, v=q.max(1).values.double(), factors=None)
    return judged(problem, found, problem.judge.score(found))


def same_end(task: ControlTask, one: Tensor, other: Tensor) -> float:
    """Share of states (N, d) that lie within 5% of every axis's range of their partners; periodic axes are closed."""
    width = torch.tensor([axis.high - axis.low for axis in task.axes], dtype=one.dtype, device=one.device)
    gap = (one - other).abs()
    closed = torch.tensor([axis.periodic for axis in task.axes], device=one.device)
    gap = torch.where(closed, torch.minimum(gap, width - gap), gap)
    return float((gap <= END * width).all(1).double().mean())


def inputs_on_grid(task: ControlTask, policy: Tensor) -> Tensor:
    """Inputs (S, k) of the actions (S,), on the CPU."""
    return task.actions[policy.cpu()]


def drawn_part(task: ControlTask, values: Tensor) -> np.ndarray:
    """Values (S,) over the first two axes; the others are held at the grid point nearest 0."""
    held = tuple(int(axis.values.abs().argmin()) for axis in task.axes[2:])
    part: Any = (slice(None), slice(None), *held)
    return np.asarray(values.reshape(task.shape)[part])


def late_angles(found: Rollout) -> Tensor:
    """Absolute angles (T', N), in radians, of the steps that the task's metric looks at."""
    metric = found.task.metric
    return found.states[metric.skip : len(found.states) - 1, :, metric.axis].abs()


def _median(found: Rollout) -> float:
    """Median over starts of the mean absolute angle, in degrees."""
    return math.degrees(float(late_angles(found).mean(0).median()))


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


def policy_map(title: str, best: Kept, run: Kept) -> Map:
    """The inputs of a policy on the grid of the optimum, to be drawn."""
    from svrl.plots.planning import Map

    return Map(title=title, x=best.arrays["axis0"], y=best.arrays["axis1"], inputs=run.arrays["policy"])


def draw_starts_of(named: dict[str, Kept], row: dict[str, Any], task: str) -> Figure:
    """First coordinate and input of several policies from the same starts; `row` is the optimum's."""
    from svrl.plots.planning import Path, draw_paths

    paths = [
        Path(label=label, coordinate=run.arrays["states"][:, :, 0], inputs=run.arrays["inputs"])
        for label, run in named.items()
    ]
    starts = paths[0].coordinate.shape[1]
    figure = new_figure(3.0 * starts + 0.6, 4.4)
    panels = figure.subplots(2, starts, sharex=True, sharey="row", squeeze=False)
    steps = task == "mountain-car"
    draw_paths(
        panels,
        paths,
        (row["axes"][0], INPUTS[task]),
        time_step=1.0 if steps else row["time_step"],
        unit="steps" if steps else "s",
        period=2 * np.pi if row["periodic"][0] else None,
    )
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
LOSS_TEST = f"policy loss over the range of V*, upper end of the 95% interval over masks at most {percent(LOSS)}"
METRIC_TEST = f"metric over the optimum's, upper end of the 95% interval over masks at most {METRIC:g}"
ENDS_TEST = (
    "share of starts that end within 5% of every axis's range of where the optimum's do, lower end of the 95% interval "
    f"over masks at least {SAME_ENDS:g}"
)
RANK_TEST = "singular values that hold 99% of the energy; else 1 - 1e-6 of it, in either variant"


def times(value: float) -> str:
    """A ratio: 1.02 times."""
    return f"{value:.2f} times"


def near_test(printed: float) -> str:
    """The rule of `svrl.paper.verdicts.near` in words, for a number that may be degrees or a norm."""
    return (
        f"within {NEAR:.0%} of {printed}, and the half-width of its 95% interval at most {WIDE:.0%} of it: in degrees, "
        "else as the norm in radians in either variant"
    )


def judge_loss(evidence: Evidence, **runs: Any) -> Finding:
    """What the policy of these runs loses."""
    return below(values_of(evidence, "policy_loss_relative", **runs), LOSS, show=percent)


def judge_map(evidence: Evidence, **runs: Any) -> Finding:
    """How far its inputs are from the optimum's."""
    return below(values_of(evidence, "input_gap", **runs), INPUT_GAP, show=percent)


def judge_metric(evidence: Evidence, **runs: Any) -> Finding:
    """Its metric over the optimum's."""
    best = optimum_of(evidence, runs["task"])["metric"]
    return below([value / best for value in values_of(evidence, "metric", **runs)], METRIC, show=times)


def judge_ends(evidence: Evidence, **runs: Any) -> Finding:
    """The share of starts that end where the optimum's do."""
    return above(values_of(evidence, "same_end", **runs), SAME_ENDS, show=percent)


def judged_deviation(degrees: Sequence[float], norms: Mapping[str, Sequence[float]], printed: float) -> Finding:
    """A printed average deviation: in degrees as the paper says, else as a norm in radians; all are noted.

    Args:
        degrees: Mean absolute angles, one a seed.
        norms: Variant -> norms in radians, one a seed.
        printed: The paper's number.
    """
    stated = near(degrees, printed, definition="degrees", otherwise=False)
    others = [
        near(values, printed, definition=f"as norms in radians, variant {variant}", otherwise=True)
        for variant, values in norms.items()
    ]
    # Of several that fit, or of none, the nearest is shown.
    best = best_of(sorted([stated, *others], key=lambda found: abs((found.value or 0.0) - printed)))
    return replace(best, note=f"as the paper says it: {stated.ours}") if best.verdict is Verdict.OTHERWISE else best


def judged_low(ranks: Iterable[int]) -> Finding:
    """Whether the largest rank by the paper's definition is low."""
    largest = max(ranks)
    return fixed(largest <= MOST_RANK, f"rank at most {largest}", largest)


def judged_rank(rows: Mapping[str, Mapping[str, Any]], printed: int) -> Finding:
    """The paper's definition of the rank first, then the tighter energy.

    Args:
        rows: Variant -> row of the optimum; one is "paper".
        printed: The paper's rank.
    """
    tight = ", ".join(f"{row['rank_tight']} ({variant})" for variant, row in rows.items())
    stated = rows["paper"]["rank_99"]
    note = f"99% of the energy gives {stated}; 1 - 1e-6 gives {tight}"
    by_energy = {name: printed in [row[name] for row in rows.values()] for name in ("rank_99", "rank_tight")}
    if by_energy["rank_tight"] and not by_energy["rank_99"]:
        return Finding(verdict=Verdict.OTHERWISE, ours=f"{printed} at 1 - 1e-6 of the energy", value=printed, note=note)
    value = printed if by_energy["rank_99"] else stated
    return fixed(by_energy["rank_99"], f"{value} at 99% of the energy", value, note)
