"""svrl plan: plan a task with a part of the backups, and say how good the plan is beside the optimum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from svrl.cli import plan_request as names
from svrl.cli.answers import BadInputError, answering, print_json
from svrl.cli.plan_request import PlanRequest
from svrl.cli.torch_threads import torch_threads

if TYPE_CHECKING:
    from svrl.cli.plan_run import Bars, Kept
    from svrl.mdp.model import Model, Sampler
    from svrl.planning.plan import Plan
    from svrl.planning.score import Judge
    from svrl.runtime.stop_signals import Signals

WIDE = 110
"""Columns of the closing table with the longest names."""


def plan(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK", help=f"One of {', '.join(names.TASKS)}.", autocompletion=lambda: list(names.TASKS)
        ),
    ],
    method: Annotated[
        str, typer.Option(help=f"One of {', '.join(names.METHODS)}.", autocompletion=lambda: list(names.METHODS))
    ] = "svp",
    estimator: Annotated[
        str | None,
        typer.Option(
            help=f"Of svp and paper-svp: one of {', '.join(names.ESTIMATORS)}.",
            autocompletion=lambda: list(names.ESTIMATORS),
        ),
    ] = None,
    observe: Annotated[
        float | None, typer.Option(help="Share of the pairs backed up in an iteration, in (0, 1].")
    ] = None,
    rank: Annotated[int | None, typer.Option(help="Rank of factor-als, hard-impute, cross and averaged-svp.")] = None,
    states: Annotated[
        str | None, typer.Option(help="Grid points of each axis, as in 50x50, or their product if all are equal.")
    ] = None,
    actions: Annotated[int | None, typer.Option(help="Number of actions.")] = None,
    variant: Annotated[
        str | None,
        typer.Option(
            help="Equations of the paper, or of its authors' program: paper or authors.",
            autocompletion=lambda: list(names.VARIANTS),
        ),
    ] = None,
    reward_offset: Annotated[float | None, typer.Option(help="Added to every reward.")] = None,
    time_step: Annotated[float | None, typer.Option(help="Of the dynamics, in seconds.")] = None,
    noise: Annotated[
        float | None, typer.Option(help="Standard deviation of the noise in rollouts (default: the task's own).")
    ] = None,
    sample_noise: Annotated[
        float | None, typer.Option(help="Plan from samples: standard deviation of the noise of every backup.")
    ] = None,
    iterations: Annotated[int | None, typer.Option(help="Most iterations (default: the method's own).")] = None,
    final_sweep: Annotated[
        bool | None,
        typer.Option("--final-sweep/--no-final-sweep", help="End with one full sweep, or not (default: the method's)."),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare/--no-compare",
            help="Run the baselines for as many iterations and show them beside, and the optimum of any size.",
        ),
    ] = False,
    backup_cost: Annotated[
        float | None, typer.Option(metavar="US", help="What one backup of your simulator costs, in microseconds.")
    ] = None,
    starts: Annotated[int, typer.Option(help="Rollouts that judge a policy.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed for what is drawn at random.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads (default: all cores).")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New folder for the plan, its rows, arrays and figures.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the interrupted run in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")] = False,
) -> None:
    """Plan a task, and judge the plan by the exact optimum.

    The optimum is computed for up to 200 million pairs of state and action. Larger plans are judged without it, unless
    --compare or --backup-cost asks for it.

    Nothing is written without --out. With it, Ctrl-C keeps what was done, and --resume goes on to exactly the result
    that an uninterrupted run would have had.
    """
    options = {name: value for name, value in locals().items() if name not in ("out", "resume", "as_json")}
    with answering():
        request = PlanRequest(**options)
        if resume and out is None:
            raise BadInputError("--resume goes on with the run in a folder, so it needs --out.")
        from svrl.cli.plan_run import Bars

        with Bars() as bars, torch_threads(threads), _sentences():
            result = _plan(request, bars, out, resume)
    if as_json:
        print_json(result)
    else:
        _print(request, result)


def _plan(request: PlanRequest, bars: Bars, out: Path | None, resume: bool) -> dict[str, Any]:
    from svrl.runtime.stop_signals import Signals

    if out is None:
        return _carry_out(request, bars, *_checked(request))
    again = f"{request.command()} --out {out} --resume"
    with (
        Signals().held_back() as signals,
        answering(
            f"Stopped at once; what was saved before is in {out}. Go on with: {again}",
            saved=f"Stopped; what was done is in {out}. Go on with: {again}",
        ),
        _sentences(),
    ):
        return _plan_in(request, bars, out, resume, signals)


def plan_in_directory(settings: Mapping[str, Any], out: Path, *, resume: bool, signals: Signals) -> dict[str, Any]:
    """Plan in a run directory; what result.json holds.

    Args:
        settings: The options of `svrl plan` by their names.
        out: The folder.
        resume: Resume the interrupted run in it.
        signals: Held back by the caller.

    Raises:
        Stopped: If a signal came; everything is saved.
        ValueError: If an option is wrong, in one sentence.
    """
    from svrl.cli.plan_run import Bars

    grid = settings.get("states")
    if isinstance(grid, list | tuple):
        grid = "x".join(map(str, grid))
    try:
        with Bars() as bars, _sentences():
            request = PlanRequest(**{**settings, "states": None if grid is None else str(grid)})
            return _plan_in(request, bars, out, resume, signals)
    except BadInputError as error:
        raise ValueError(str(error)) from error


def _checked(request: PlanRequest) -> tuple[Any, Any]:
    """Method and device; whatever is wrong with them, or the task, is found before a folder is made."""
    device = names.check_device(request.device)
    method = names.make_requested_method(request)
    if request.task != "toy":
        names.make_control_task(request)
    return method, device


def _plan_in(request: PlanRequest, bars: Bars, out: Path, resume: bool, signals: Signals) -> dict[str, Any]:
    from svrl.cli.plan_run import Kept
    from svrl.runtime.run_directory import RunDirectory

    checked = _checked(request)
    directory = (RunDirectory.resume if resume else RunDirectory.begin)(out, request.config())
    signals.at_once = True
    try:
        return _carry_out(request, bars, *checked, Kept(directory, signals))
    except (ValueError, BadInputError):
        directory.take_back()
        raise


def _carry_out(
    request: PlanRequest,
    bars: Bars,
    method: Any,
    device: Any,
    kept: Kept | None = None,
) -> dict[str, Any]:
    from svrl.cli.plan_report import comparison_row, result_of
    from svrl.cli.plan_run import run_plan
    from svrl.mdp.simulator import NoisyBackups
    from svrl.planning.score import MOST_ENTRIES, Judge, Recorder

    with bars.progress:
        model = names.make_model(request, device, bars.tabulating())
        task = getattr(model, "task", None)
        asked = request.compare or request.backup_cost is not None
        exact = asked or model.n_states * model.n_actions <= MOST_ENTRIES
        judge = Judge(model, task, starts=request.starts, seed=request.seed, exact=exact)
        problem = model if request.sample_noise is None else NoisyBackups(model, request.sample_noise)
        _warm_up(model, noisy=request.sample_noise is not None)
        bars.stage("solving exactly" if exact else "beginning")
        recorder = Recorder(judge.optimum.v if exact else None)
        found = run_plan(
            problem,
            method,
            seed=request.seed,
            recorder=recorder,
            bars=bars,
            kept=kept,
        )
        bars.stage("judging")
        score = judge.score(found, recorder.values)
        result = result_of(request, method, found, score, judge)
        if request.compare:
            own = comparison_row(request.method, found, score)
            result["comparison"] = [own, result["optimum"], *_baselines(request, problem, judge, found, bars)]
        if kept is not None:
            from svrl.cli.plan_files import write_plan

            bars.stage("writing")
            result["out"] = str(kept.directory.path)
            write_plan(kept.directory, result, found, score, judge, recorder)
            kept.signals.stop_if_came()
            kept.signals.at_once = False  # a run that is finished cannot be gone on with
            kept.directory.finish(result)
    return result


def _baselines(
    request: PlanRequest, problem: Model | Sampler, judge: Judge, found: Plan, bars: Bars
) -> Iterator[dict[str, Any]]:
    """The other methods, for as many iterations, on the same share of pairs."""
    from svrl.cli.plan_report import EXACT_BASELINES, NOISY_BASELINES, comparison_row
    from svrl.cli.plan_run import run_plan
    from svrl.planning.catalogue import METHODS, make_method
    from svrl.planning.score import Recorder

    for name in EXACT_BASELINES if request.sample_noise is None else NOISY_BASELINES:
        if name == request.method:
            continue
        observe = request.observe if "observe" in METHODS[name].takes else None
        recorder = Recorder(judge.optimum.v)
        try:
            method = make_method(name, observe=observe, iterations=found.iterations)
            other = run_plan(problem, method, seed=request.seed, recorder=recorder, bars=bars)
            yield comparison_row(name, other, judge.score(other, recorder.values))
        except ValueError as error:
            yield {"method": name, "reason": str(error)}


def _warm_up(model: Model, *, noisy: bool) -> None:
    """Compile, or load, what the plan will be timed on."""
    import torch

    zero = torch.zeros(1, dtype=torch.int64, device=model.device)
    for kind in (torch.float64, torch.float32):
        v = torch.zeros(model.n_states, dtype=kind, device=model.device)
        model.backup_at(v, zero, zero)
        if noisy:
            model.backup(v)


@contextmanager
def _sentences() -> Iterator[None]:
    """What the library says about bad input, as the command's one sentence."""
    try:
        yield
    except ValueError as error:
        raise BadInputError(str(error)) from error
    except (MemoryError, ArithmeticError, RuntimeError) as error:
        # torch says all of these as RuntimeError; whatever else it says so is a fault of ours and keeps its traceback.
        if isinstance(error, MemoryError) or "allocate" in str(error) or "out of memory" in str(error):
            raise BadInputError("The problem does not fit into memory: use fewer states or actions.") from error
        if "linalg" in str(error):
            raise BadInputError("The numbers are too large for matrix estimation: rescale the reward.") from error
        raise


def _print(request: PlanRequest, result: dict[str, Any]) -> None:
    from svrl.cli.plan_report import notes_of
    from svrl.reporting.tables import comparison_table

    title = f"{request.task}, {result['states']} states, {result['actions']} actions, seed {result['seed']}"
    rows = result.get("comparison") or [_own_row(result), *([result["optimum"]] if result["optimum"] else [])]
    metric = None if result["metric"] is None else result["metric"]["name"]
    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, WIDE))  # a pipe has no width of its own: cut no number
    console.print(comparison_table(rows, title=title, metric=metric))
    for line in notes_of(result):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if result["outcome"]:
        Console(stderr=True).print(f"Note: {result['outcome']}", highlight=False, markup=False, soft_wrap=True)


def _own_row(result: dict[str, Any]) -> dict[str, Any]:
    metric = None if result["metric"] is None else result["metric"]["value"]
    return {**result, "metric": metric}
