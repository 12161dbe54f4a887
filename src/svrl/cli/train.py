"""svrl train: train an agent, or several beside each other, into run directories."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svrl.agents.config import BY_FAMILY, CHOICES, PRECISIONS, PRESETS, AgentConfig, default_precision, family_of
from svrl.cli.answers import (
    BAD_INPUT,
    INTERRUPTED,
    BadInputError,
    Stopping,
    answering,
    check_device,
    check_threads,
    nearest,
    of_the_system,
    print_json,
    print_table,
    say,
    sentences,
    tell,
)
from svrl.cli.flags import Device, Json, Seed, command_line, flag, flagged, given_of, with_fields
from svrl.cli.progress import Bars
from svrl.runs.plan_run import ESTIMATORS
from svrl.runs.settings import ARMS, widths
from svrl.runs.train_run import STRUCTURE
from svrl.runtime.device import is_gpu, usable_cores
from svrl.runtime.names import nearest_name, printable

if TYPE_CHECKING:
    from svrl.agents.training import Training
    from svrl.runtime.stop_signals import Signals
    from svrl.training.population import Manner, Member, PopulationError

PANELS = {
    "preset": "Agent",
    "structured": "Structure",
    "discount": "Learning",
    "replay": "Acting and remembering",
    "steps": "Length and measuring",
}
"""The first field of each panel of the help; the fields after it follow."""
ATARI = "atari/"
CURVES = "learning_curves.png"
_OTHER_NAMES = {"ddqn": "double", "double-dqn": "double", "duelling": "dueling", "dueling-dqn": "dueling"}
_WORDS = {**CHOICES, "preset": tuple(PRESETS), "estimator": ESTIMATORS}
_HELP = {
    "preset": (
        f"Where every option that is not given takes its value: {', '.join(PRESETS)} "
        f"(default: {', '.join(f'{preset} for {family}' for family, preset in BY_FAMILY.items())})."
    ),
    "estimator": f"{AgentConfig.__dataclass_fields__['estimator'].metadata['help'][:-1]}: {', '.join(ESTIMATORS)}.",
}
_DEFAULTS = {"seed": 0, "device": "cpu", "checkpoint_every": 600.0, "keep_replay": False, "tensorboard": False}
_OWN = (*_DEFAULTS, "agents", "seeds", "together", "precision", "threads", "env_threads", "wandb")
"""Options beside the fields of AgentConfig that are repeated when a run is resumed."""


def known_names() -> list[str]:
    """Environments to offer for completion; any other Gymnasium id will do as well."""
    from svrl.envs.make import known_environments

    return known_environments()


@with_fields(AgentConfig, words=_WORDS, panels=PANELS, helps=_HELP, texts={"hidden": "128x128"})
def train(
    env: Annotated[
        str,
        typer.Argument(
            metavar="ENV",
            help="atari/GAME, minatar/GAME, control/TASK, or any Gymnasium id with discrete actions.",
            autocompletion=known_names,
        ),
    ],
    agents: Annotated[
        str | None,
        typer.Option(
            metavar="ARM,ARM",
            help=f"Train several, --together of them at a time: {', '.join(ARMS)}; sv- is --structured.",
            autocompletion=lambda: list(ARMS),
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Train each so many times, from --seed on.")
    ] = None,
    together: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Runs at a time (default: all of them on a GPU, 1 on a CPU).")
    ] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What matrices are multiplied in: float32, or on a GPU tf32 or bf16 (default: tf32 on a GPU).",
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
        bool, typer.Option("--resume", help="Resume an interrupted run, or a finished one for more --steps.")
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
    as_json: Json = False,
    **fields: Any,
) -> None:
    """Train a DQN agent, plain or structured (SV-RL).

    Ctrl-C saves, and --resume continues from there to the result of an uninterrupted run. Every run has a folder
    with its rows, its learning curve and the agent, for svrl eval, watch and rank.
    """
    own = {name: value for name, value in locals().items() if name in _OWN}
    single = agents is None and seeds is None
    with answering():
        from svrl.runtime.run_directory import CONFIG, RESULT, refuse_another_env
        from svrl.runtime.stop_signals import Signals

        if resume and out is not None and (out / CONFIG).exists():
            with sentences():
                refuse_another_env(out, env)
        _check_own(env, own, fields)
        configs = _configs(env, fields, agents, resume=resume)
        runs = len(configs) * (seeds or 1)
        at_a_time = min(runs, together or default_together(runs, device, wandb))
        with Signals().held_back() as signals:
            # Imported here because it is slow: a mistyped option is reported before it.
            from svrl.training.population import Manner
            from svrl.training.session import Habits

            members = _members(env, configs, fields, own, at_a_time, out, resume=resume)
            place = members[0].folder if single else members[0].folder.parent
            stopping = Stopping(place, _again(env, fields, own, place))
            habits = Habits(
                checkpoint_every=checkpoint_every, keep_replay=keep_replay, tensorboard=tensorboard, wandb=wandb
            )
            manner = Manner(habits=habits, env_threads=env_threads or 0)
            left = members if single else _left(members, resume=resume)
            if left:
                _train(left, manner, min(at_a_time, len(left)), stopping, signals, single=single)
            if len(members) > 1:
                _draw(members)
            results = [json.loads((member.folder / RESULT).read_text(encoding="utf-8")) for member in members]
    if as_json:
        print_json(results[0] if single else results)
        return
    from svrl.reporting.tables import training_table

    print_table(training_table(results, title=env))
    tell(f"written: {place}")


# What was asked for.


def _check_own(env: str, own: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
    check_device(own["device"])
    check_threads(own["threads"])
    precision = own["precision"] or default_precision(own["device"])
    if precision not in PRECISIONS:
        raise nearest("precision", precision, PRECISIONS)
    if precision != "float32" and not is_gpu(own["device"]):
        raise BadInputError(f"--precision {precision} needs a GPU: add --device cuda, or leave it at float32.")
    if own["env_threads"] is not None and not env.startswith(ATARI):
        raise BadInputError(f"--env-threads belongs to {ATARI}GAME, and {env} has no native threads. Leave it out.")
    if own["wandb"] is not None and (own["together"] or 1) > 1:
        raise BadInputError("--wandb follows one run of a process at a time: give --together 1, or leave it out.")
    if not own["checkpoint_every"] > 0.0:
        raise BadInputError(f"--checkpoint-every must be more than 0 seconds, got {own['checkpoint_every']:g}.")
    for name in ("agent", "structured"):
        if own["agents"] is not None and fields.get(name) is not None:
            raise BadInputError(f"--agents says which agents to train, so --{name} has no place beside it.")


def _configs(env: str, fields: Mapping[str, Any], agents: str | None, *, resume: bool) -> list[AgentConfig]:
    """The agents that were asked for."""
    plain = config_of(env, fields)
    configs = [plain]
    if agents is not None:
        configs = [
            plain.but(agent=arm.removeprefix("sv-"), structured=arm.startswith("sv-")) for arm in arms_of(agents)
        ]
    if not resume:  # where the settings of the run decide
        _refuse_useless(fields, configs, "add --structured" if agents is None else "add one that begins with sv-")
    return configs


def config_of(env: str, fields: Mapping[str, Any]) -> AgentConfig:
    """The settings: the preset's, and over them the options that were given.

    Raises:
        BadInputError: If one is wrong; the sentence begins with its flag.
    """
    changes = given_of(AgentConfig, fields)
    preset = changes.pop("preset", BY_FAMILY[family_of(env)])
    for name, got in (("preset", preset), *changes.items()):
        if name in _WORDS and got not in _WORDS[name]:
            raise _no_agent(got, _WORDS[name]) if name == "agent" else nearest(name, got, _WORDS[name])
    with flagged(AgentConfig):
        if "hidden" in changes:
            changes["hidden"] = tuple(widths(changes["hidden"]))
        return AgentConfig.for_env(env, preset, **changes)


def arms_of(text: str) -> list[str]:
    """The arms of --agents, as in "dqn,sv-dqn"."""
    arms = [part.strip() for part in text.split(",") if part.strip()]
    for arm in arms:
        if arm not in ARMS:
            raise _no_agent(arm, ARMS)
    if not arms or len(set(arms)) < len(arms):
        raise BadInputError(f"--agents is a list of different agents, as in dqn,sv-dqn; got {text!r}.")
    return arms


def _no_agent(got: str, known: Sequence[str]) -> BadInputError:
    """With the agent that was meant, also by the name that others give it, or by that of a structured one."""
    kind = got.removeprefix("sv-")
    kind = _OTHER_NAMES.get(kind, kind)
    if kind in known and got.startswith("sv-") and f"sv-{kind}" not in known:
        return BadInputError(f"There is no agent {got!r}. Did you mean --agent {kind} --structured?")
    meant = f"sv-{kind}" if got.startswith("sv-") else kind
    return BadInputError(f"There is no agent {got!r}. {nearest_name(meant, known)}")


def _refuse_useless(given: Mapping[str, Any], configs: Iterable[AgentConfig], remedy: str) -> None:
    """Refuse an option of structure where no agent is structured: it would change nothing."""
    useless = [name for name, value in given.items() if value is not None and name in STRUCTURE]
    if useless and not any(config.structured for config in configs):
        raise BadInputError(f"{flag(useless[0])} belongs to structured agents: {remedy}.")


def default_threads(config: AgentConfig, device: str, together: int = 1) -> int:
    """One thread, but for large networks on the CPU all cores, which runs at the same time share.

    Small matrices are many times slower on threads that wait for one another, and beside a GPU
    the waiting threads would take the cores of the emulators.
    """
    if config.network != "nature" or device != "cpu":
        return 1
    import torch

    return max(1, torch.get_num_threads() // together)


def default_together(runs: int, device: str, wandb: str | None) -> int:
    """All runs at a time on a GPU, which one alone seldom fills; one on the CPU."""
    return runs if is_gpu(device) and wandb is None else 1


def default_env_threads(env: str, together: int) -> int:
    """Native threads of each run's environments: 0, which leaves it to ale-py, or a share of the cores.

    Alone ale-py takes one for each lane, as long as there are cores. It knows nothing of other runs.
    """
    if together == 1 or not env.startswith(ATARI):
        return 0
    return max(1, usable_cores() // together)


def _members(
    env: str,
    configs: Sequence[AgentConfig],
    fields: Mapping[str, Any],
    own: Mapping[str, Any],
    together: int,
    out: Path | None,
    *,
    resume: bool,
) -> list[Member]:
    """The runs, each with its folder."""
    from svrl.training.population import Member

    safe = re.sub(r"[^\w.+-]+", "-", env)
    single = own["agents"] is None and own["seeds"] is None
    members = []
    for config in configs:
        for seed in range(own["seed"], own["seed"] + (own["seeds"] or 1)):
            name = f"{config.arm}-seed{seed}"
            alone = out or Path("runs") / f"{safe}-{name}"
            member = Member(
                env=env,
                config=config,
                folder=alone if single else (out or Path("runs") / safe) / name,
                seed=seed,
                device=own["device"],
                precision=own["precision"] or default_precision(own["device"]),
                threads=own["threads"] or default_threads(config, own["device"], together),
            )
            members.append(_as_begun(member, fields, own) if resume else member)
    return members


def _as_begun(member: Member, fields: Mapping[str, Any], own: Mapping[str, Any]) -> Member:
    """A run that is resumed keeps its number of steps, of threads, and its precision, unless others were given.

    Some of several may not have begun when they were stopped.
    """
    from svrl.runtime.run_directory import CONFIG, read_config

    single = own["agents"] is None and own["seeds"] is None
    if not (member.folder / CONFIG).exists():
        return dataclasses.replace(member, resume=single)
    with sentences():
        earlier = read_config(member.folder)
        changes: dict[str, Any] = {"resume": True}
        if fields.get("steps") is None and "steps" in earlier:
            changes["config"] = member.config.but(steps=earlier["steps"])
    if own["threads"] is None and isinstance(earlier.get("threads"), int):
        changes["threads"] = earlier["threads"]
    if own["precision"] is None:
        changes["precision"] = earlier.get("precision", "float32")
    return dataclasses.replace(member, **changes)


def _again(env: str, fields: Mapping[str, Any], own: Mapping[str, Any], place: Path) -> str:
    """The command that resumes what this one began."""
    given = {name: value for name, value in own.items() if value != _DEFAULTS.get(name)}
    options = {**fields, **given, "out": place, "resume": True}
    return command_line(("svrl", "train", env), options, AgentConfig)


# The runs are made, and what stops them is said.


def _train(
    members: Sequence[Member], manner: Manner, together: int, stopping: Stopping, signals: Signals, *, single: bool
) -> None:
    """Train runs. The error of a single run is the command's; with several runs, each error names its folder."""
    from svrl.training.population import PopulationError, train_population

    bars = Bars(width=max(map(len, map(_label, members))))
    once = _once(bars.say)
    manner = dataclasses.replace(
        manner,
        env_threads=manner.env_threads or default_env_threads(str(members[0].env), together),
        progress=lambda member, training: TrainProgress(training, _label(member), bars),
        say=lambda _, sentence: once(sentence),
    )
    failed: PopulationError | None = None
    with stopping.said(), sentences(), bars:
        try:
            train_population(members, together=together, manner=manner, signals=signals)
        except PopulationError as error:
            if single:
                raise error.failures[members[0].folder] from None
            failed = error
        except KeyboardInterrupt:
            if together == 1:
                raise
            bars.stop()
            say(stopping.sentence)
            os._exit(INTERRUPTED)  # the interpreter's end aborts below threads that are in the middle of native code
    if failed is not None:
        _end_with(failed, stopping)


def _label(member: Member) -> str:
    return f"{member.env} {member.config.arm} seed {member.seed}"


def _left(members: Sequence[Member], *, resume: bool) -> list[Member]:
    """Those of several runs that are not finished, with as many steps as are wanted.

    All are refused before the first is trained if one is there, is being trained, or is another than was asked for.
    """
    from svrl.runtime.run_directory import CONFIG, is_finished, read_config, refuse_other_settings, refuse_running
    from svrl.training.result import settings_of

    left = []
    with sentences():
        for member in members:
            refuse_running(member.folder)
        for member in members:
            folder = member.folder
            if (folder / CONFIG).exists():
                if not resume:
                    raise BadInputError(f"{folder} holds a run. Add --resume to resume it, or give another folder.")
                settings = settings_of(
                    str(member.env),
                    member.config,
                    seed=member.seed,
                    device=member.device,
                    threads=member.threads or 1,
                    precision=member.precision,
                )
                refuse_other_settings(folder, settings, but=("steps",))
            if not is_finished(folder) or int(read_config(folder).get("steps", 0)) < member.config.steps:
                left.append(member)
    return left


def _once(tell: Callable[[str], None]) -> Callable[[str], None]:
    """Says each sentence once, however many runs it is about."""
    said: set[str] = set()
    one_at_a_time = threading.Lock()

    def once(sentence: str) -> None:
        with one_at_a_time:
            if sentence not in said:
                said.add(sentence)
                tell(sentence)

    return once


def _end_with(error: PopulationError, stopping: Stopping) -> None:
    """Name the runs that failed, each with its reason, and end; a mistake of the program ends with its traceback."""
    mistakes = []
    for folder, failure in error.failures.items():
        sentence = _sentence_of(failure, folder)
        if sentence is None:
            mistakes.append(failure)
        say(f"Error: {folder} failed: {sentence or f'{type(failure).__name__}: {failure}'}")
    if error.signal is not None:
        say(stopping.sentence)
    elif any(stopping.place.glob("*/config.json")):
        say(f"What was done is in {stopping.place}. When that is repaired, resume with: {stopping.again}")
    if mistakes:
        raise mistakes[0]
    raise typer.Exit(BAD_INPUT if error.signal is None else 128 + error.signal)


def _sentence_of(failure: Exception, folder: Path) -> str | None:
    """What a failure says to a person; None for a mistake of the program."""
    try:
        with sentences():
            raise failure
    except BadInputError as known:
        return str(known)
    except OSError as known:
        return of_the_system(known, folder)
    except Exception:
        return None


def _draw(members: Sequence[Member]) -> None:
    """All curves in one picture, beside the runs."""
    from svrl.plots.learning import draw_learning
    from svrl.plots.style import save_figure
    from svrl.runtime import run_directory as files
    from svrl.runtime.files import writing
    from svrl.runtime.rows import read_rows

    curves: dict[str, list[Any]] = {}
    evaluations: dict[str, list[Any]] = {}
    for member in members:
        curves.setdefault(member.config.arm, []).append(read_rows(member.folder / files.EPISODES))
        evaluations.setdefault(member.config.arm, []).append(read_rows(member.folder / files.EVALUATIONS))
    with writing(members[0].folder.parent / CURVES) as temporary:
        save_figure(draw_learning(curves, evaluations=evaluations, title=str(members[0].env)), temporary)


# How training goes.

REFRESH = 0.25
"""Seconds between two looks at the numbers."""


class TrainProgress:
    """The bar of one run. Call it as often as you like; it looks at the clock first.

    Args:
        training: The run.
        label: What to call it.
        bars: Where it is shown, beside other runs.
    """

    def __init__(self, training: Training, label: str, bars: Bars) -> None:
        self._training, self._label, self._bars = training, label, bars
        total, done = training.config.steps, training.steps
        self._task = bars.add_task(printable(label), total=total, completed=done, detail="")
        self._next = 0.0

    @contextmanager
    def shown(self) -> Iterator[TrainProgress]:
        """Show it for as long as the block lasts, and leave a bar that says that it is over."""
        try:
            yield self
        finally:
            self.say("over")

    def __call__(self) -> None:
        """Show where training stands, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + REFRESH
        training = self._training
        speed = next((task.speed for task in self._bars.tasks if task.id == self._task), None)
        scores = training.recent_scores
        parts = [
            f"{training.steps:,} of {training.config.steps:,} steps",
            *([f"{speed:,.0f} steps/s"] if speed is not None else []),
            f"score {sum(scores) / len(scores):.4g} (last {len(scores)})" if scores else "no game over yet",
            f"epsilon {training.epsilon:.3g}",
        ]
        self.say(", ".join(parts))

    def say(self, what: str) -> None:
        """Show what is done."""
        self._bars.update(self._task, completed=self._training.steps, detail=what)

    def evaluating(self, done: int, of: int) -> None:
        """Show how far an evaluation is."""
        self.say(f"evaluating, {done} of {of} games")

    def skip(self) -> None:
        """After an evaluation: the speed is that of the last half minute, so it comes back by itself."""
