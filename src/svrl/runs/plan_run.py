"""One plan as a run: its settings, the planning, what is said about it, and its folder.

`PlanSettings` is the only list of a plan's options: the flags of `svrl plan`, the settings that a sweep may set and
config.json come from it. `plan_and_judge` plans, in a run directory with checkpoints or without writing anything.

Nothing heavy is imported before a plan is made: the command line reads the settings for its help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svrl.envs.make import CONTROL
from svrl.runs.spec import Kind, Work
from svrl.runtime.device import check_device
from svrl.runtime.files import finite, writing
from svrl.runtime.names import nearest_name
from svrl.runtime.run_directory import CHECKPOINT, CONFIG, RunDirectory
from svrl.runtime.stop_signals import Signals

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from svrl.mdp.control_task import ControlTask
    from svrl.mdp.model import Model, Sampler
    from svrl.planning.method import Method
    from svrl.planning.plan import Plan, Run
    from svrl.planning.score import Judge, Recorder, Score

# Written out because the catalogues import torch, and help and completion shall not wait for it.
TASKS = ("toy", *CONTROL)
METHODS = (
    "svp",
    "paper-svp",
    "averaged-svp",
    "cross",
    "value-iteration",
    "policy-iteration",
    "modified-policy-iteration",
    "async",
    "averaged",
    "sampled-max",
    "row-mean-update",
    "incumbent",
    "coarse",
)
NOISY = ("averaged-svp", "averaged", "incumbent", "value-iteration")
"""Methods that plan from samples; the first two from nothing else."""
ESTIMATORS = ("soft-impute", "factor-als", "hard-impute", "usvt", "nuclear-norm", "row-mean")
VARIANTS = ("paper", "authors")
OF_A_METHOD = ("p", "estimator", "rank", "final_sweep")
"""Settings that belong to some methods only; `svrl.planning.catalogue` says to which."""
MOST_STATES = 2**63
"""Larger numbers may not even fit into a floating-point number."""
OF_A_TASK = ("variant", "reward_offset", "time_step", "noise")
"""Settings of the control tasks."""
EXACT_BASELINES = ("async", "sampled-max", "row-mean-update", "incumbent", "coarse", "paper-svp")
NOISY_BASELINES = ("value-iteration", "averaged", "incumbent")
NO_OPTIMUM = (
    "the exact optimum is only computed for up to 200 million pairs of state and action; "
    "ask for it with --compare or --backup-cost"
)
SHOWN_STARTS = 4
INPUTS = {
    "inverted-pendulum": ("torque",),
    "mountain-car": ("throttle",),
    "double-integrator": ("force (N)",),
    "cart-pole": ("force (N)",),
    "three-motor-pendulum": ("motor 1", "motor 2", "motor 3"),
    "planar-thrusters": ("thruster 1", "thruster 2", "thruster 3"),
    "two-input-cart-pole": ("force (N)", "torque (N m)"),
}

Show = Callable[[str, int | None], Callable[..., None]]
"""Shows a person how it goes. It is called with the name of a stage and its length, or None, in place of the last
stage, and returns what takes the progress: update(done, detail="", total=None)."""


def unseen(stage: str, total: int | None = None) -> Callable[..., None]:
    """Shows nothing."""
    return lambda *_, **__: None


def _set(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """Everything that decides what a plan becomes; None leaves a setting to the task or the method.

    A sentence about a wrong setting begins with its name where it can.
    """

    task: str = field(metadata={"help": f"One of {', '.join(TASKS)}."})
    method: str = _set("svp", f"One of {', '.join(METHODS)}.")
    estimator: str | None = _set(None, f"Of svp and paper-svp: one of {', '.join(ESTIMATORS)}.")
    p: float | None = _set(None, "Share of the pairs backed up in an iteration, in (0, 1].")
    rank: int | None = _set(None, "Rank of factor-als, hard-impute, cross and averaged-svp.")
    states: str | None = _set(None, "Grid points of each axis, as in 50x50, or their product if all are equal.")
    actions: int | None = _set(None, "Number of actions.")
    variant: str | None = _set(None, "Equations of the paper, or of its authors' program: paper or authors.")
    reward_offset: float | None = _set(None, "Added to every reward.")
    time_step: float | None = _set(None, "Of the dynamics, in seconds.")
    noise: float | None = _set(None, "Standard deviation of the noise in rollouts (default: the task's own).")
    sample_noise: float | None = _set(None, "Plan from samples: standard deviation of the noise of every backup.")
    iterations: int | None = _set(None, "Most iterations (default: the method's own).")
    final_sweep: bool | None = _set(None, "End with one full sweep, or not (default: the method's).")
    compare: bool = _set(
        False, "Run the baselines for as many iterations and show them beside, and the optimum of any size."
    )
    backup_cost: float | None = _set(None, "What one backup of your simulator costs, in microseconds.")
    starts: int = _set(1000, "Rollouts that judge a policy.")
    seed: int = _set(0, "Seed for what is drawn at random.")

    def __post_init__(self) -> None:
        for one in fields(self):
            kind, value = str(one.type).partition(" ")[0], getattr(self, one.name)
            if value is not None and not _is(value, kind):
                raise ValueError(f"{one.name} is {_WORDS[kind]}, got {value!r}.")
        for name, known in (("task", TASKS), ("method", METHODS), ("estimator", ESTIMATORS), ("variant", VARIANTS)):
            got = getattr(self, name)
            if got is not None and got not in known:
                raise ValueError(f"There is no {name} {got!r}. {nearest_name(got, known)}")
        if self.p is not None and not 0.0 < self.p <= 1.0:
            raise ValueError(f"p is a share of the pairs in (0, 1], got {self.p}.")
        whole = ("rank", "actions", "iterations", "starts")
        for name, least in (*((name, 1) for name in whole), ("noise", 0), ("sample_noise", 0), ("backup_cost", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}.")
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is a whole number from 0 to 2^63 - 1, got {self.seed!r}.")
        if self.sample_noise is not None and self.method not in NOISY:
            raise ValueError(f"sample_noise belongs to {', '.join(NOISY)}: {self.method} needs exact backups.")
        if self.sample_noise is None and self.method in NOISY[:2]:
            raise ValueError(f"sample_noise is needed, as in 0.3: {self.method} plans from samples.")
        for name in OF_A_TASK:
            if self.task == "toy" and getattr(self, name) is not None:
                raise ValueError(f"{name} belongs to the control tasks: toy has none.")

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> PlanSettings:
        """From settings by name; the grid may also be a number or a list, as in [50, 50], and others are left out."""
        given = {one.name: settings[one.name] for one in fields(cls) if one.name in settings}
        states = given.get("states")
        if states is not None:
            given["states"] = "x".join(map(str, states)) if isinstance(states, list | tuple) else str(states)
        return cls(**given)

    def written_out(self) -> PlanSettings:
        """With what the task and the method decide in place of None: equal plans have equal settings.

        Grid, actions and equations are those of the task that these settings make, shares and numbers those of
        the method.
        """
        numbers = {name: _number(value) for name in NUMBERS if (value := getattr(self, name)) is not None}
        return replace(self, **{**numbers, **self._of_the_task(), **self._of_the_method()})

    def make_task(self) -> ControlTask | None:
        """The control task, on its grid and with its noise; None for toy."""
        from svrl.mdp.tasks import make_task

        if self.task == "toy":
            return None
        states = None if self.states is None else grid_shape(self.states, make_task(self.task).dimensions)
        return make_task(self.task, states=states, **{name: getattr(self, name) for name in ("actions", *OF_A_TASK)})

    def make_method(self) -> Method:
        """The method with its options."""
        from svrl.planning.catalogue import make_method, most_iterations

        most = most_iterations(self.method, self.iterations, noisy=self.sample_noise is not None)
        return make_method(self.method, **{name: getattr(self, name) for name in OF_A_METHOD}, iterations=most)

    def make_model(self, device: torch.device | str = "cpu", show: Show = unseen) -> Model:
        """The exact model."""
        task = self.make_task()
        if task is None:
            from svrl.mdp.tabular import toy_mdp

            return toy_mdp(self.seed, **self._toy_sizes(), device=device)
        from svrl.mdp.grid import GridMDP

        update = show("building the table", None)
        return GridMDP(task, device=device, progress=lambda done, of: update(done, total=of))

    def _toy_sizes(self) -> dict[str, Any]:
        sizes = {} if self.actions is None else {"n_actions": self.actions}
        return sizes if self.states is None else {**sizes, "n_states": grid_shape(self.states, 1)[0]}

    def _of_the_task(self) -> dict[str, Any]:
        task = self.make_task()
        if task is None:
            from svrl.mdp.tabular import toy_mdp

            sizes = {**(toy_mdp.__kwdefaults__ or {}), **self._toy_sizes()}
            return {"states": str(sizes["n_states"]), "actions": sizes["n_actions"]}
        level = max(task.noise)
        return {
            "states": "x".join(map(str, task.shape)),
            "actions": task.n_actions,
            "variant": task.label["variant"],
            "reward_offset": _number(task.label["reward_offset"]),
            "time_step": _number(task.label["time_step"]),
            "noise": _number(level) if set(task.noise) <= {0.0, level} else self.noise,
        }

    def _of_the_method(self) -> dict[str, Any]:
        from svrl.planning.catalogue import IN_THE_LOOP
        from svrl.planning.catalogue import METHODS as CATALOGUE

        method: Any = self.make_method()
        takes = CATALOGUE[self.method].takes
        found: dict[str, Any] = {"iterations": method.max_iterations}
        # Baselines beside a method that plans from samples observe what was given, or each its own share.
        if "p" in takes and not (self.sample_noise is not None and self.compare):
            found["p"] = _number(method.p)
        if "final_sweep" in takes:
            found["final_sweep"] = method.final_sweep
        if "estimator" in takes:
            rank = getattr(method.estimator, "rank", None) if "rank" in takes else None
            same = [name for name, make in IN_THE_LOOP.items() if make(rank) == method.estimator]
            found["estimator"] = same[0] if same else self.estimator
            found |= {} if rank is None else {"rank": rank}
        elif "rank" in takes:
            found["rank"] = method.rank
        return found


_WORDS = {"str": "a text", "int": "a whole number", "float": "a finite number", "bool": "true or false"}
NUMBERS = tuple(one.name for one in fields(PlanSettings) if str(one.type).startswith("float"))


def _is(value: object, kind: str) -> bool:
    """True and false are no numbers, 4.0 is no whole number, and "4" is none at all."""
    if kind == "float":
        return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
    return type(value).__name__ == kind


def _number(value: float) -> float:
    """1 as 1.0 and -0.0 as 0.0, so that equal numbers are written alike."""
    return float(value) + 0.0


# Planning.


def grid_shape(text: str, dimensions: int) -> tuple[int, ...]:
    """Grid points of each axis from "50x40", or from one number, which is their product and a perfect power.

    Raises:
        ValueError: If it is neither, or of another number of axes.
    """
    try:
        sizes = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise ValueError(
            f"states is one whole number, or one for each axis as in {_example(dimensions)}; got {text!r}."
        ) from None
    if max(sizes) >= MOST_STATES:
        raise ValueError(f"states must be fewer than 2^63, got {text!r}.")
    least = 1 if dimensions == 1 else 2
    if len(sizes) == 1 and dimensions > 1 and sizes[0] >= least**dimensions:
        side = round(sizes[0] ** (1.0 / dimensions))
        if side**dimensions != sizes[0]:
            raise ValueError(
                f"states {text} is not the {_power(dimensions)} of a whole number. "
                f"Write the grid points of each axis, as in {_example(dimensions)}."
            )
        sizes = (side,) * dimensions
    if min(sizes) < least:
        raise ValueError(f"states needs at least {least} on every axis, got {text!r}.")
    if len(sizes) != dimensions:
        raise ValueError(
            f"states {text} has {len(sizes)} axes, and the task has {dimensions}, as in {_example(dimensions)}."
        )
    return sizes


def _example(dimensions: int) -> str:
    return "1000" if dimensions == 1 else "x".join(["10" if dimensions > 2 else "50"] * dimensions)


def _power(dimensions: int) -> str:
    return {2: "square", 3: "cube"}.get(dimensions, f"{dimensions}th power")


def plan_and_judge(
    settings: PlanSettings,
    folder: Path | None = None,
    *,
    resume: bool = False,
    signals: Signals | None = None,
    device: str = "cpu",
    show: Show = unseen,
) -> dict[str, Any]:
    """Plan, and say how good the plan is beside the optimum.

    Torch's threads are taken as they are, and are a setting of a run in a folder like every other.

    Args:
        settings: What to plan and how.
        folder: Where to write rows, arrays, figures, and a checkpoint every few seconds: new or empty, or with `resume`
            that of the run. None writes nothing.
        resume: Resume the interrupted run in the folder, to exactly the result of an uninterrupted one.
        signals: Held back by the caller, for a run in a folder.
        device: "cpu", "cuda" or "cuda:1".
        show: Shows a person how it goes.

    Returns:
        What result.json of a run holds.

    Raises:
        Stopped: If a signal came; everything is saved.
        ValueError: If a setting is wrong, the folder is not free, or the problem does not fit into memory, in one
            sentence.
    """
    import torch

    with _in_sentences():  # whatever is wrong with the device, the task or the method is found before a folder is made
        check_device(device)
        settings.make_task()
        method = settings.make_method()
    directory, signals = None, signals or Signals()
    if folder is not None:
        config = {**asdict(settings), "device": device, "threads": torch.get_num_threads()}
        directory = (RunDirectory.resume if resume else RunDirectory.begin)(folder, config)
        signals.at_once = True
    try:
        with _in_sentences():
            return _carry_out(settings, method, device, show, directory, signals)
    except ValueError:
        if directory is not None:
            directory.take_back()
        raise


def _plan_run(settings: Mapping[str, Any], work: Work) -> None:
    resume = (work.folder / CONFIG).exists()
    plan_and_judge(PlanSettings.of(settings), work.folder, resume=resume, signals=work.signals, device=work.device)


PLAN = Kind(name="plan", compute=_plan_run, resumes=True)
"""Plans as runs."""


def _carry_out(
    settings: PlanSettings,
    method: Method,
    device: str,
    show: Show,
    directory: RunDirectory | None,
    signals: Signals,
) -> dict[str, Any]:
    import torch

    from svrl.mdp.simulator import NoisyBackups
    from svrl.planning.score import MOST_ENTRIES, Judge, Recorder

    model, noisy = settings.make_model(torch.device(device), show), settings.sample_noise is not None
    asked = settings.compare or settings.backup_cost is not None
    exact = asked or model.n_states * model.n_actions <= MOST_ENTRIES
    judge = Judge(model, getattr(model, "task", None), starts=settings.starts, seed=settings.seed, exact=exact)
    problem = model if settings.sample_noise is None else NoisyBackups(model, settings.sample_noise)
    zero = torch.zeros(1, dtype=torch.int64, device=model.device)
    for kind in (torch.float64, torch.float32):  # compile, or load, what the plan will be timed on
        v = torch.zeros(model.n_states, dtype=kind, device=model.device)
        model.backup_at(v, zero, zero)
        if noisy:
            model.backup(v)
    show("solving exactly" if exact else "beginning", None)
    recorder = Recorder(judge.optimum.v if exact else None)
    checkpoint = None if directory is None else directory.path / CHECKPOINT
    found = _plan(problem, method, settings.seed, recorder, show, signals, checkpoint)
    show("judging", None)
    score = judge.score(found, recorder.values)
    result = _result(settings, method, found, score, judge)
    if settings.compare:
        own = _comparison_row(settings.method, found, score)
        result["comparison"] = [own, result["optimum"], *_baselines(settings, problem, judge, found, show, signals)]
    if directory is not None:
        show("writing", None)
        result["out"] = str(directory.path)
        rows = [
            {**asdict(row), "sweep_equivalents": row.backups / found.problem["pairs"], "error": error}
            for row, error in zip(found.trace, recorder.notes["errors"], strict=True)
        ]
        directory.write_rows(rows)
        _write_arrays(directory, found)
        _write_figures(directory, found, score, judge, rows, result.get("comparison", []))
        signals.stop_if_came()
        signals.at_once = False  # a run that is finished cannot be resumed
        directory.finish(result)
    return result


def _plan(
    problem: Model | Sampler,
    method: Method,
    seed: int,
    recorder: Recorder,
    show: Show,
    signals: Signals,
    checkpoint: Path | None = None,
) -> Plan:
    """Plan, from a checkpoint if there is one; a run that has one stops at the end of a step if a signal came."""
    from svrl.planning.checkpoint import plan_resumably
    from svrl.planning.plan import advance, begin, conclude

    update, pairs = show(method.name, method.max_iterations), problem.n_states * problem.n_actions

    def watch(run: Run) -> None:
        recorder(run)
        row = run.trace[-1]
        rank = "" if row.rank is None else f"rank {row.rank}, "
        update(row.iteration, f"residual {row.residual:.2e}, {rank}{row.backups / pairs:.1f} sweeps")
        signals.stop_if_came()

    if checkpoint is None:
        run = begin(problem, method, seed=seed)
        for _ in advance(problem, method, run):
            watch(run)
        return conclude(problem, method, run)
    signals.at_once = False  # a step that is cut short is done again, one that ends is kept
    found = plan_resumably(problem, method, checkpoint, seed=seed, watch=watch, notes=recorder.notes)
    signals.at_once = True
    signals.stop_if_came()
    return found


def _baselines(
    settings: PlanSettings, problem: Model | Sampler, judge: Judge, found: Plan, show: Show, signals: Signals
) -> Iterator[dict[str, Any]]:
    """The other methods, for as many iterations, on the same share of pairs."""
    from svrl.planning.catalogue import METHODS as CATALOGUE
    from svrl.planning.catalogue import make_method
    from svrl.planning.score import Recorder

    for name in EXACT_BASELINES if settings.sample_noise is None else NOISY_BASELINES:
        if name == settings.method:
            continue
        p = settings.p if "p" in CATALOGUE[name].takes else None
        recorder = Recorder(judge.optimum.v)
        try:
            method = make_method(name, p=p, iterations=found.iterations)
            other = _plan(problem, method, settings.seed, recorder, show, signals)
            yield _comparison_row(name, other, judge.score(other, recorder.values))
        except ValueError as error:
            yield {"method": name, "reason": str(error)}


@contextmanager
def _in_sentences() -> Iterator[None]:
    """A problem that is too large, or numbers that are, as a ValueError with one sentence."""
    try:
        yield
    except (MemoryError, ArithmeticError, RuntimeError) as error:
        # torch raises RuntimeError for all of these; any other is a fault of ours and keeps its traceback.
        if isinstance(error, MemoryError) or "allocate" in str(error) or "out of memory" in str(error):
            raise ValueError("The problem does not fit into memory: use fewer states or actions.") from error
        if "linalg" in str(error):
            raise ValueError("The numbers are too large for matrix estimation: rescale the reward.") from error
        raise


# What is said about a plan; what is None has its reason beside it.


def _result(settings: PlanSettings, method: Method, found: Plan, score: Score, judge: Judge) -> dict[str, Any]:
    """What result.json holds, but for the comparison."""
    from svrl.planning.score import ranks

    model, optimum = judge.model, judge.optimum if judge.exact else None
    optimal = judge.optimal if judge.exact else None
    grid, task, name = found.problem.get("states"), settings.task, settings.method
    return finite(
        {
            "task": task,
            **_or_reason("variant", found.problem.get("variant"), f"{task} has no variants"),
            "method": name,
            **_or_reason("estimator", _estimator_name(method), f"{name} uses no matrix estimator"),
            **_or_reason("p", getattr(method, "p", None), f"{name} chooses pairs by another rule"),
            "states": grid if isinstance(grid, str) else str(model.n_states),
            "actions": model.n_actions,
            "seed": found.seed,
            "device": str(model.device),
            "backups": found.ledger.backups,
            **_numbers(found, score),
            **ranks(found, model),
            **_or_reason("optimal_return", optimal and optimal.discounted_return, NO_OPTIMUM),
            **_metric(task, score, optimal),
            **_certificate(judge, found),
            "converged": found.converged,
            "problem": found.problem,
            "method_repr": found.method,
            **_or_reason("optimum", optimum and optimal and _comparison_row("optimum", optimum, optimal), NO_OPTIMUM),
            **_break_even(found, optimum, settings.backup_cost),
        }
    )


def _comparison_row(name: str, found: Plan, score: Score) -> dict[str, Any]:
    """One line of the closing table."""
    metric = score.metric[score.metric["name"]] if score.metric else None
    beside = _or_reason("metric", metric, "the problem has no metric")
    return finite({"method": name, **_numbers(found, score), **beside})


def _numbers(found: Plan, score: Score) -> dict[str, Any]:
    """What a plan cost, and what it is worth."""
    return {
        "iterations": found.iterations,
        "sweep_equivalents": found.sweep_equivalents,
        "seconds_backup": found.ledger.seconds_backup,
        "seconds_estimate": found.ledger.seconds_estimate,
        **_or_reason("policy_loss", score.policy_loss, NO_OPTIMUM),
        **_or_reason("policy_loss_relative", score.policy_loss_relative, NO_OPTIMUM),
        "discounted_return": score.discounted_return,
        "policy_followed_by": score.followed,
        "outcome": found.outcome,
    }


def _estimator_name(method: Method) -> str | None:
    from svrl.matrix import ESTIMATORS as CATALOGUE

    kind = type(getattr(method, "estimator", None))
    return next((name for name, known in CATALOGUE.items() if kind is known), None)


def _metric(task: str, score: Score, optimal: Score | None) -> dict[str, Any]:
    if not score.metric:
        return _or_reason("metric", None, f"{task} has no metric")
    every, best = ({} if its is None else {**its.metric} for its in (score, optimal))
    name = every.pop("name")
    best.pop("name", None)
    return {
        "metric": finite({"name": name, "value": every[name], **_or_reason("optimal", best.get(name), NO_OPTIMUM)}),
        "metrics": finite(every),
        **_or_reason("optimal_metrics", finite(best) or None, NO_OPTIMUM),
    }


def _certificate(judge: Judge, found: Plan) -> dict[str, Any]:
    from svrl.planning.certificate import certify_plan

    if not bool(found.v.isfinite().all()):
        return _or_reason("certified_error", None, "the values are not finite")
    if not judge.exact:
        sample = judge.sample(found)
        said = _or_reason("certified_error", None, "one sweep of all pairs takes too long; see sample_certificate")
        return {**said, "sample_certificate": {**asdict(sample), "statement": sample.statement}}
    certificate = certify_plan(judge.model, found.v, found.policy)
    return {
        "certified_error": certificate.certified_error,
        "certificate_backups": certificate.backups,
        "value_error_bound": certificate.value_error,
        "policy_loss_bound": certificate.mean_loss_bound,
    }


def _break_even(found: Plan, optimum: Plan | None, cost: float | None) -> dict[str, Any]:
    """From which cost of a backup, in microseconds, the estimation is paid for by the backups that it saves.

    Saved against the exact optimum by modified policy iteration, which decides, and beside it against as
    many iterations of value iteration, which is the paper's comparison.
    """
    spent = found.ledger.backups
    saved = None if optimum is None else optimum.ledger.backups - spent
    saved_beside = found.iterations * found.problem["pairs"] - spent
    (even, reason), (even_beside, reason_beside) = _even(found, saved), _even(found, saved_beside)
    said = {
        **_or_reason("backups_saved", saved, NO_OPTIMUM),
        **_or_reason("break_even_cost", even, reason),
        "backups_saved_against_value_iteration": saved_beside,
        **_or_reason("break_even_cost_against_value_iteration", even_beside, reason_beside),
    }
    if cost is None:
        return said
    sentence = f"Estimation does not pay against the exact optimum: {reason}."
    if even is not None:
        sentence = (
            f"At {cost:g} us a backup estimation {'pays' if cost > even else 'does not pay'}: "
            f"{found.ledger.seconds_estimate:.3g} s of it saved {saved:,} backups against the exact optimum, so it "
            f"breaks even at {even:.3g} us."
        )
    return {**said, "backup_cost": cost, "pays": even is not None and cost > even, "pays_sentence": sentence}


def _even(found: Plan, saved: int | None) -> tuple[float | None, str]:
    if saved is None:
        return None, NO_OPTIMUM
    if "sample_noise" in found.problem:
        return None, "with noisy backups estimation buys accuracy, not backups"
    if found.ledger.seconds_estimate == 0.0:
        return None, f"{found.name} estimates nothing"
    if saved <= 0:
        return None, "it saves no backups, whatever one of them costs"
    return 1e6 * found.ledger.seconds_estimate / saved, ""


def _or_reason(name: str, value: Any, reason: str) -> dict[str, Any]:
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}


# The files of a run: arrays and figures.


def _write_arrays(directory: RunDirectory, found: Plan) -> None:
    import numpy as np

    arrays = {"policy.npy": found.policy, "values.npy": found.v}
    if found.q is not None:
        arrays["q.npy"] = found.q
    for name, tensor in arrays.items():
        with writing(directory.path / name) as temporary, temporary.open("wb") as file:
            np.save(file, _array(tensor))
    if found.factors is not None:
        left, right = (_array(factor) for factor in found.factors)
        with writing(directory.path / "factors.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, left=left, right=right)


def _write_figures(
    directory: RunDirectory,
    found: Plan,
    score: Score,
    judge: Judge,
    rows: list[dict[str, Any]],
    comparison: list[dict[str, Any]],
) -> None:
    from svrl.plots import planning as figures
    from svrl.plots.style import save_figure

    task = judge.task
    drawn = {"convergence.png": figures.draw_convergence(rows, pairs=found.problem["pairs"])}
    if comparison:
        drawn["comparison.png"] = figures.draw_comparison(comparison)
    if task is None and judge.exact:
        drawn["q.png"] = figures.draw_q(_array(judge.model.backup(judge.optimum.v)), title="optimal Q")
    if task is not None:
        plans = {found.name: (found, score)} | ({"optimum": (judge.optimum, judge.optimal)} if judge.exact else {})
        policies = {name: _array(task.actions[one.policy.cpu()]) for name, (one, _) in plans.items()}
        drawn["policy.png"] = figures.draw_policies(task.axes, policies, inputs=INPUTS[task.name])
        paths = {name: its.rollout for name, (_, its) in plans.items() if its.rollout is not None}
        drawn["trajectories.png"] = figures.draw_trajectories(
            task.axes,
            {
                name: (_array(path.states[:, :SHOWN_STARTS]), _array(path.inputs[:, :SHOWN_STARTS]))
                for name, path in paths.items()
            },
            time_step=float(task.label["time_step"]),
            time_unit="steps" if task.name == "mountain-car" else "s",
            inputs=INPUTS[task.name],
        )
    for name, figure in drawn.items():
        with writing(directory.path / name) as temporary:
            save_figure(figure, temporary)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
