"""svrl plan: plan a task with a part of the backups, and say how good the plan is beside the optimum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Annotated, Any

import typer

from svrl.cli.answers import (
    BadInputError,
    Stopping,
    answering,
    check_device,
    check_threads,
    print_json,
    print_table,
    say,
    tell,
)
from svrl.cli.flags import Device, Json, command_line, flagged, given_of, with_fields
from svrl.cli.progress import Bars
from svrl.runs.plan_run import ESTIMATORS, METHODS, TASKS, VARIANTS, PlanSettings, plan_and_judge, plan_in_directory
from svrl.runtime.threads import torch_threads


@with_fields(
    PlanSettings,
    but=("task",),
    words={"method": METHODS, "estimator": ESTIMATORS, "variant": VARIANTS},
)
def plan(
    task: Annotated[
        str,
        typer.Argument(metavar="TASK", help=f"One of {', '.join(TASKS)}.", autocompletion=lambda: list(TASKS)),
    ],
    device: Device = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads (default: all cores).")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New folder for the plan, its rows, arrays and figures.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the interrupted run in --out.")] = False,
    as_json: Json = False,
    **fields: Any,
) -> None:
    """Plan a task, and judge the plan by the exact optimum.

    The optimum is computed for up to 200 million pairs of state and action. Larger plans are judged without it, unless
    --compare or --backup-cost asks for it.

    Nothing is written without --out. With it, Ctrl-C keeps what was done, and --resume continues to exactly the result
    that an uninterrupted run would have had.
    """
    with answering(), flagged(PlanSettings):
        settings = PlanSettings(task=task, **given_of(PlanSettings, fields))
        check_threads(threads)
        if resume and out is None:
            raise BadInputError("--resume resumes the run in a folder, so it needs --out.")
        with Bars() as bars, torch_threads(threads):
            check_device(device)
            if out is None:
                result = plan_and_judge(settings, device=device, show=bars.stage)
            else:
                from svrl.runtime.stop_signals import Signals

                stopping = Stopping(out, _again(settings, device, threads, out))
                with Signals().held_back() as signals, stopping.said(), flagged(PlanSettings):
                    result = plan_in_directory(
                        settings, out, resume=resume, signals=signals, device=device, show=bars.stage
                    )
    if as_json:
        print_json(result)
    else:
        _print(result)


def _again(settings: PlanSettings, device: str, threads: int | None, out: Path) -> str:
    """The command that resumes this one."""
    given = {one.name: getattr(settings, one.name) for one in fields_of(settings) if one.name != "task"}
    options = {name: value for name, value in given.items() if value != getattr(PlanSettings, name)}
    options |= {"device": None if device == "cpu" else device, "threads": threads, "out": out, "resume": True}
    return command_line(("svrl", "plan", settings.task), options, PlanSettings)


def _print(result: dict[str, Any]) -> None:
    from svrl.reporting.tables import comparison_table

    title = f"{result['task']}, {result['states']} states, {result['actions']} actions, seed {result['seed']}"
    metric = result["metric"] or {"name": None, "value": None}
    own = {**result, "metric": metric["value"]}
    rows = result.get("comparison") or [own, *([result["optimum"]] if result["optimum"] else [])]
    print_table(comparison_table(rows, title=title, metric=metric["name"]))
    for line in _notes(result):
        tell(line)
    if result["outcome"]:
        say(f"Note: {result['outcome']}")


def _notes(result: dict[str, Any]) -> Iterable[str]:
    """Lines below the table."""
    if result["rank_99"] is None:
        yield f"rank: unknown, because {result['rank_reason']}"
    else:
        # An estimate has the rank that its estimator allows, which is not the rank of Q.
        ranked = "Q" if result["seconds_estimate"] == 0.0 else "the method's estimate of Q"
        yield (
            f"rank of {ranked}: {result['rank_99']} for 99% of the energy, "
            f"{result['rank_tight']} for all but 1e-6; "
            f"with row means taken out {result['rank_99_centred']} and {result['rank_tight_centred']}"
        )
    if result["optimum"] is None:
        yield f"no loss: {result['optimum_reason']}"
    if "sample_certificate" in result:
        yield result["sample_certificate"]["statement"]
    if result["certified_error"] is not None:
        yield (
            f"certified: V* is known within {result['certified_error']:.3g}, "
            f"and the policy loses at most {result['policy_loss_bound']:.3g} on average"
        )
    for row in result.get("comparison", []):
        if "reason" in row:
            yield f"{row['method']} was not possible: {row['reason']}"
    if "pays_sentence" in result:
        yield result["pays_sentence"]
    if "out" in result:
        yield f"written: {result['out']}"
