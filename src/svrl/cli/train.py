"""svrl train: train an agent, or several beside each other, into run directories."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from rich.console import Console

from svrl.agents.config import PRECISIONS, default_precision
from svrl.cli import train_options as asked
from svrl.cli.answers import BadInputError, answering, nearest, print_json, sentences, tell
from svrl.cli.plan_request import MOST_THREADS, check_device
from svrl.cli.train_options import TrainRequest
from svrl.cli.train_runs import Order, train_several, train_single
from svrl.runtime.device import is_gpu

WIDE = 110
"""Columns of the closing table where there is no terminal."""
_OWN = (
    "agents",
    "seeds",
    "together",
    "seed",
    "device",
    "precision",
    "threads",
    "env_threads",
    "tensorboard",
    "wandb",
    "checkpoint_every",
    "keep_replay",
)


class TrainCommand(typer.core.TyperCommand):
    """Answers a flag by its name in another library with ours."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """typer's, after a look at the flags."""
        with answering():
            asked.refuse_foreign(args)
        return super().parse_args(ctx, args)


@asked.with_fields
def train(
    env: asked.EnvName,
    agents: asked.ArmList = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Train each so many times, from --seed on.")
    ] = None,
    together: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Runs at a time (default: all of them on a card, 1 on the CPU)."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**63 - 1, help="Seed of everything random.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")] = "cpu",
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What matrices are multiplied in: float32, or on a card tf32 or bf16 (default: tf32 on a card).",
            autocompletion=lambda: list(PRECISIONS),
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads (default: 1 for small networks, all cores for nature on the CPU).")
    ] = None,
    env_threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Threads of each run's Atari emulators (default: the cores, shared among the runs at a time).",
        ),
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
        from svrl.runtime.run_directory import CONFIG, refuse_another_env
        from svrl.runtime.stop_signals import Signals

        if resume and out is not None and (out / CONFIG).exists():
            with sentences():
                refuse_another_env(out, env)
        _check_own(env, own, fields)
        with Signals().held_back() as signals:
            plans = _requests(env, fields, own, out, resume)
            # Here, because it is slow to import: whoever has mistyped an option does not wait for it.
            from svrl.training.session import Habits

            habits = Habits(
                checkpoint_every=checkpoint_every, keep_replay=keep_replay, tensorboard=tensorboard, wandb=wandb
            )
            place = out or (plans[0].out if _is_single(own) else plans[0].out.parent)
            order = Order(
                habits=habits,
                resume=resume,
                together=_together(own, len(plans)),
                env_threads=env_threads,
                place=place,
                again=_again(env, fields, own, place),
            )
            if _is_single(own):
                results = [train_single(plans[0], order, signals)]
            else:
                results = train_several(plans, order, signals)
    if as_json:
        print_json(results[0] if _is_single(own) else results)
    else:
        _print(env, results, place)


def _check_own(env: str, own: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    check_device(own["device"])
    threads, precision = own["threads"], own["precision"] or default_precision(own["device"])
    if precision not in PRECISIONS:
        raise nearest("precision", precision, PRECISIONS)
    if precision != "float32" and not is_gpu(own["device"]):
        raise BadInputError(f"--precision {precision} needs a card: add --device cuda, or leave it at float32.")
    if own["env_threads"] is not None and not env.startswith(asked.ATARI):
        raise BadInputError(
            f"--env-threads belongs to {asked.ATARI}GAME, and {env} has no native threads. Leave it out."
        )
    if own["wandb"] is not None and (own["together"] or 1) > 1:
        raise BadInputError("--wandb follows one run of a process at a time: give --together 1, or leave it out.")
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise BadInputError(f"--threads must be between 1 and {MOST_THREADS}, got {threads}.")
    if not own["checkpoint_every"] > 0.0:
        raise BadInputError(f"--checkpoint-every must be more than 0 seconds, got {own['checkpoint_every']:g}.")
    for name in ("agent", "structured"):
        if own["agents"] is not None and fields.get(name) is not None:
            raise BadInputError(f"--agents says which agents to train, so --{name} has no place beside it.")


def _is_single(own: Mapping[str, Any]) -> bool:
    return own["agents"] is None and own["seeds"] is None


def _together(own: Mapping[str, Any], runs: int) -> int:
    return min(runs, own["together"] or asked.default_together(runs, own["device"], own["wandb"]))


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
    together = _together(own, len(configs) * (own["seeds"] or 1))
    safe = re.sub(r"[^\w.+-]+", "-", env)
    requests = []
    for config in configs:
        for seed in range(own["seed"], own["seed"] + (own["seeds"] or 1)):
            name = f"{config.arm}-seed{seed}"
            alone = out or Path("runs") / f"{safe}-{name}"
            place = alone if _is_single(own) else (out or Path("runs") / safe) / name
            request = TrainRequest(
                env=env,
                config=config,
                seed=seed,
                device=own["device"],
                threads=own["threads"] or asked.default_threads(config, own["device"], together),
                precision=own["precision"] or default_precision(own["device"]),
                out=place,
            )
            requests.append(_as_begun(request, fields, own) if resume else request)
    return requests


def _as_begun(request: TrainRequest, fields: Mapping[str, Any], own: Mapping[str, Any]) -> TrainRequest:
    """Going on with a run takes its number of steps, of threads, and its precision, unless others were given."""
    from dataclasses import replace

    from svrl.runtime.run_directory import CONFIG, read_config

    if not (request.out / CONFIG).exists():
        return request
    with sentences():
        earlier = read_config(request.out)
        if fields.get("steps") is None and "steps" in earlier:
            request = replace(request, config=request.config.but(steps=earlier["steps"]))
    if own["threads"] is None and isinstance(earlier.get("threads"), int):
        request = replace(request, threads=earlier["threads"])
    if own["precision"] is None:
        request = replace(request, precision=earlier.get("precision", "float32"))
    return request


def _again(env: str, fields: Mapping[str, Any], own: Mapping[str, Any], place: Path) -> str:
    """The command that goes on with what this one began."""
    plain = {"seed": 0, "device": "cpu", "checkpoint_every": 600.0}
    given = {name: value for name, value in own.items() if value != plain.get(name)}
    return f"{asked.command_line(env, {**fields, **given})} --out {shlex.quote(str(place))} --resume"


def _print(env: str, results: list[dict[str, Any]], place: Path) -> None:
    from svrl.reporting.tables import training_table

    console = Console()
    if not console.is_terminal:
        console = Console(width=max(console.width, WIDE))  # a pipe has no width of its own: cut no number
    console.print(training_table(results, title=env))
    tell(f"written: {place}")
