"""svrl train: train an agent, or several beside each other, into run directories."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from svrl.cli import train_options as asked
from svrl.cli.answers import BadInputError, answering, print_json, say, sentences
from svrl.cli.plan_request import MOST_THREADS, check_device
from svrl.cli.torch_threads import torch_threads
from svrl.cli.train_options import TrainRequest
from svrl.cli.train_progress import TrainProgress

if TYPE_CHECKING:
    from svrl.experiments.training.session import Habits
    from svrl.experiments.training.stop_signals import Signals

WIDE = 110
"""Columns of the closing table where there is no terminal."""
CURVES = "learning_curves.png"
_OWN = ("agents", "seeds", "seed", "device", "threads", "tensorboard", "wandb", "checkpoint_every", "keep_replay")


@asked.with_fields
def train(
    env: asked.EnvName,
    agents: asked.ArmList = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Train each so many times, from --seed on.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**63 - 1, help="Seed of everything random.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    threads: Annotated[
        int | None, typer.Option(help="CPU threads (default: 1 for small networks, all cores for nature on the CPU).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the run (default: runs/ENV-AGENT-seedN).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run, or a finished one for more --steps.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds between two checkpoints, more than 0.")
    ] = 600.0,
    keep_replay: Annotated[
        bool, typer.Option("--keep-replay", help="Keep the replay memory at the end, so that the run can be extended.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write scalars for TensorBoard.")] = False,
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Send scalars to a project of Weights & Biases.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")] = False,
    **fields: Any,
) -> None:
    """Train a DQN agent, plain or structured (SV-RL).

    Ctrl-C saves, and --resume goes on from there to what an uninterrupted run would have become. Every run has a folder
    with its rows, its learning curve and the agent, for svrl eval, watch and rank.
    """
    own = {name: value for name, value in locals().items() if name in _OWN}
    with answering():
        from svrl.experiments.training.stop_signals import Signals

        _check_own(own, fields)
        with Signals().held_back() as signals:
            plans = _requests(env, fields, own, out, resume)
            # Here, because it is slow to import: whoever has mistyped an option does not wait for it.
            from svrl.experiments.training.session import Habits

            habits = Habits(
                checkpoint_every=checkpoint_every, keep_replay=keep_replay, tensorboard=tensorboard, wandb=wandb
            )
            place = out or (plans[0].out if _is_single(own) else plans[0].out.parent)
            again = _again(env, fields, own, place)
            results = _train_all(plans, habits, signals, resume=resume, again=again, single=_is_single(own))
    if as_json:
        print_json(results[0] if _is_single(own) else results)
    else:
        _print(env, results, place)


def _check_own(own: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    check_device(own["device"])
    threads = own["threads"]
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise BadInputError(f"--threads must be between 1 and {MOST_THREADS}, got {threads}.")
    if not own["checkpoint_every"] > 0.0:
        raise BadInputError(f"--checkpoint-every must be more than 0 seconds, got {own['checkpoint_every']:g}.")
    for name in ("agent", "structured"):
        if own["agents"] is not None and fields.get(name) is not None:
            raise BadInputError(f"--agents says which agents to train, so --{name} has no place beside it.")


def _is_single(own: Mapping[str, Any]) -> bool:
    return own["agents"] is None and own["seeds"] is None


def _requests(
    env: str, fields: Mapping[str, Any], own: Mapping[str, Any], out: Path | None, resume: bool
) -> list[TrainRequest]:
    """The runs that were asked for, each with its folder."""
    plain = asked.config_of(env, fields)
    configs = [plain]
    if own["agents"] is not None:
        configs = [
            plain.but(agent=arm.removeprefix("sv-"), structured=arm.startswith("sv-"))
            for arm in asked.arms_of(own["agents"])
        ]
    if not resume:  # where the settings of the run decide
        remedy = "add --structured" if own["agents"] is None else "add one that begins with sv- to --agents"
        asked.refuse_useless(fields, configs, remedy)
    safe = re.sub(r"[^\w.+-]+", "-", env)
    requests = []
    for config in configs:
        for seed in range(own["seed"], own["seed"] + (own["seeds"] or 1)):
            name = f"{config.arm}-seed{seed}"
            alone = out or Path("runs") / f"{safe}-{name}"
            place = alone if _is_single(own) else (out or Path("runs") / safe) / name
            threads = own["threads"] or asked.default_threads(config, own["device"])
            request = TrainRequest(env=env, config=config, seed=seed, device=own["device"], threads=threads, out=place)
            requests.append(_as_begun(request, fields, own) if resume else request)
    return requests


def _as_begun(request: TrainRequest, fields: Mapping[str, Any], own: Mapping[str, Any]) -> TrainRequest:
    """Going on with a run takes its number of steps and of threads, unless others were given."""
    from dataclasses import replace

    from svrl.runs.run_directory import CONFIG, read_config

    if not (request.out / CONFIG).exists():
        return request
    with sentences():
        earlier = read_config(request.out)
    if fields.get("steps") is None and isinstance(earlier.get("steps"), int):
        request = replace(request, config=request.config.but(steps=earlier["steps"]))
    if own["threads"] is None and isinstance(earlier.get("threads"), int):
        request = replace(request, threads=earlier["threads"])
    return request


def _again(env: str, fields: Mapping[str, Any], own: Mapping[str, Any], place: Path) -> str:
    """The command that goes on with what this one began."""
    plain = {"seed": 0, "device": "cpu", "checkpoint_every": 600.0}
    given = {name: value for name, value in own.items() if value != plain.get(name)}
    return f"{asked.command_line(env, {**fields, **given})} --out {shlex.quote(str(place))} --resume"


def _train_all(
    requests: list[TrainRequest], habits: Habits, signals: Signals, *, resume: bool, again: str, single: bool
) -> list[dict[str, Any]]:
    from svrl.runs.run_directory import CONFIG, RESULT
    from svrl.runs.training_run import is_finished

    if not single:
        _check_folders(requests, resume)
    results = []
    tell = _once()
    for request in requests:
        if not single and is_finished(request.out) and _is_enough(request):
            results.append(json.loads((request.out / RESULT).read_text(encoding="utf-8")))
            continue
        with _stopping(request.out, again):
            # Of several some may not have begun when they were stopped.
            going_on = resume and (single or (request.out / CONFIG).exists())
            results.append(_train_one(request, habits, signals, going_on, tell))
    if len(requests) > 1:
        _draw(requests)
    return results


def _check_folders(requests: list[TrainRequest], resume: bool) -> None:
    """Of several runs, refuse all before the first is trained if one is there, or is another than was asked for."""
    from svrl.experiments.training.result import settings_of
    from svrl.runs.run_directory import CONFIG
    from svrl.runs.training_run import refuse_other_settings, refuse_running

    with sentences():
        for request in requests:
            refuse_running(request.out)
    for request in requests:
        if not (request.out / CONFIG).exists():
            continue
        if not resume:
            raise BadInputError(f"{request.out} holds a run. Add --resume to go on, or give another folder.")
        settings = settings_of(
            request.env, request.config, seed=request.seed, device=request.device, threads=request.threads
        )
        with sentences():
            refuse_other_settings(request.out, settings, but=("steps",))


def _is_enough(request: TrainRequest) -> bool:
    from svrl.runs.run_directory import read_config

    with sentences():
        return int(read_config(request.out).get("steps", 0)) >= request.config.steps


def _once() -> Callable[[str], None]:
    """Says each sentence once, however many runs it is about."""
    said: set[str] = set()

    def tell(sentence: str) -> None:
        if sentence not in said:
            said.add(sentence)
            say(sentence)

    return tell


def _train_one(
    request: TrainRequest, habits: Habits, signals: Signals, going_on: bool, tell: Callable[[str], None]
) -> dict[str, Any]:
    from svrl.experiments.training.session import train_in_directory

    label = f"{request.env} {request.config.arm} seed {request.seed}"
    with sentences(), torch_threads(request.threads):
        return train_in_directory(
            request.env,
            request.config,
            folder=request.out,
            seed=request.seed,
            device=request.device,
            resume=going_on,
            habits=habits,
            progress=lambda training: TrainProgress(training, label),
            say=tell,
            signals=signals,
        )


@contextmanager
def _stopping(place: Path, again: str) -> Iterator[None]:
    """End with the command that goes on, whatever stopped the run."""
    from svrl.experiments.training.stop_signals import Stopped

    try:
        with answering(f"Stopped at once; the last checkpoint is in {place}. Go on with: {again}"):
            try:
                yield
            except OSError as error:
                what = f"{error.filename or place}: {error.strerror or error}."
                if (place / "config.json").exists():
                    what += f" The last checkpoint is in {place}. When that is repaired, go on with: {again}"
                raise BadInputError(what) from error
    except Stopped as stop:
        say(f"Stopped; what was done is in {place}. Go on with: {again}")
        raise typer.Exit(128 + stop.number) from None


def _draw(requests: list[TrainRequest]) -> None:
    """All curves in one picture, beside the runs."""
    from svrl.reporting.learning_figure import draw_learning
    from svrl.reporting.planning_figures import save_figure
    from svrl.runs import training_run as files
    from svrl.runs.atomic import writing
    from svrl.runs.rows import read_rows

    curves: dict[str, list[Any]] = {}
    evaluations: dict[str, list[Any]] = {}
    for request in requests:
        curves.setdefault(request.config.arm, []).append(read_rows(request.out / files.EPISODES))
        evaluations.setdefault(request.config.arm, []).append(read_rows(request.out / files.EVALUATIONS))
    with writing(requests[0].out.parent / CURVES) as temporary:
        save_figure(draw_learning(curves, evaluations=evaluations, title=requests[0].env), temporary)


def _print(env: str, results: list[dict[str, Any]], place: Path) -> None:
    from svrl.reporting.runs_table import training_table

    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, WIDE))  # a pipe has no width of its own: cut no number
    console.print(training_table(results, title=env))
    console.print(f"written: {place}", highlight=False, markup=False, soft_wrap=True)
