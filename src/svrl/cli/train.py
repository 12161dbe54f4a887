"""svrl train: train an agent, or several beside each other, into run directories."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from svrl.agents.config import (
    ARMS,
    BASES,
    CHOICES,
    NETWORKS,
    PRECISIONS,
    PRESETS,
    AgentConfig,
    check_precision,
    default_precision,
)
from svrl.cli.answers import BAD_INPUT, INTERRUPTED, answer, nearest, resumable, say, sentence_of, show, stopped, tell
from svrl.cli.flags import (
    MOST_THREADS,
    DeviceOrAuto,
    Json,
    Seed,
    again,
    given_of,
    here_on_path,
    on_command_line,
    one_of,
    with_fields,
)
from svrl.cli.progress import Bars
from svrl.runs.plan_run import ESTIMATORS
from svrl.runs.settings import widths
from svrl.runs.train_run import STRUCTURE
from svrl.runtime.device import check_device, chosen_device, is_gpu, named_gpu, usable_cores
from svrl.runtime.names import printable
from svrl.runtime.run_directory import (
    CONFIG,
    RESULT,
    holds_runs,
    is_finished,
    read_config,
    refuse_another_env,
    refuse_other_settings,
    refuse_running,
)
from svrl.runtime.stop_signals import Signals

if TYPE_CHECKING:
    from svrl.agents.training import Training
    from svrl.training.population import Manner, Member, PopulationError
    from svrl.training.session import Habits

PANELS = {
    "preset": "Agent",
    "structured": "Structure",
    "gamma": "Learning",
    "target_update_interval": "When to learn",
    "buffer_size": "Acting and remembering",
    "steps": "Length and measuring",
}
"""The first field of each panel of the help; the fields after it follow."""
CURVES = "learning_curves.png"
_WORDS = {**CHOICES, "agent": tuple(ARMS), "preset": tuple(PRESETS), "estimator": ESTIMATORS}


def _known_names() -> list[str]:
    """Environments to offer for completion; any other Gymnasium id will do as well."""
    from svrl.envs.make import known_environments

    return known_environments()


@with_fields(AgentConfig, words=_WORDS, offered={"network": NETWORKS}, panels=PANELS)
def train(
    context: typer.Context,
    env: Annotated[
        str,
        typer.Argument(
            metavar="ENV",
            help="atari/GAME, minatar/GAME, control/TASK, any Gymnasium id, or with --resume the folder of a run.",
            autocompletion=_known_names,
        ),
    ],
    agents: Annotated[
        str | None,
        typer.Option(
            metavar="ARM,ARM",
            help=f"Train several, --together of them at a time: {', '.join(BASES)}, or with sv- in front.",
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
    device: DeviceOrAuto = "auto",
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What matrices are multiplied in: float32, or on a GPU tf32 or bf16 (default: tf32 on a GPU).",
            **one_of("precision", PRECISIONS),
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_THREADS,
            help="CPU threads (default: 1 for small networks, all cores for nature on the CPU).",
        ),
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
        bool,
        typer.Option(
            "--resume",
            help="Resume an interrupted run, or a finished one for more --steps: its folder in place of ENV is enough.",
        ),
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Seconds between two checkpoints, more than 0.")
    ] = 600.0,
    keep_replay: Annotated[
        bool, typer.Option("--keep-replay", help="Keep the replay buffer at the end, so that the run can be extended.")
    ] = False,
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Keep the agent with the best evaluation too, for svrl eval --best.")
    ] = False,
    stop_at: Annotated[
        float | None, typer.Option(metavar="SCORE", help="Stop when the mean score of an evaluation reaches this.")
    ] = None,
    batched: Annotated[
        bool,
        typer.Option("--batched", help="Train all seeds of an agent as one computation (control tasks, mlp)."),
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write scalars for TensorBoard.")] = False,
    wandb: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="Send scalars to a project of Weights & Biases.")
    ] = None,
    as_json: Json = False,
    **fields: Any,
) -> None:
    """Train a DQN agent, plain or structured (SV-RL).

    Ctrl-C saves, and --resume continues from there to the result of an uninterrupted run: svrl train --resume DIR.
    Every run has a folder with its rows, its learning curve and the agent, for svrl eval, watch and rank.
    """
    several = agents is not None or seeds is not None
    here_on_path(env, fields["network"])
    if batched:
        _refuse_beside_batched(context)
    folder = None if batched else _folder_to_resume(env, resume=resume, out=out, agents=agents, seeds=seeds)
    own_env = None if folder is not None else env
    if folder is not None:
        several = not (folder / CONFIG).exists()
    elif resume and not several and not batched:
        folder = out or _folder_of(env, _configs(env, fields, agents)[0], seed)
        _refuse_other_run(folder, env)
    configs = [] if folder is not None else _configs(env, fields, agents)
    with Signals().held_back() as signals:
        # Imported here because it is slow: a mistyped option is reported before it.
        from svrl.training.resume import asked_runs, begun_run
        from svrl.training.session import Habits

        habits = on_command_line(context, [field.name for field in dataclasses.fields(Habits)])
        machine = {"device": device, "precision": precision, "threads": threads}
        if folder is not None:
            given = {**given_of(fields), **given_of(machine), **on_command_line(context, ["seed"])}
            runs = asked_runs(folder) if several else [begun_run(folder, own_env)]
            members = [_with_options(run, given, habits) for run in runs]
        else:
            taken = str(chosen_device(device))
            places = [(config, one) for config in configs for one in range(seed, seed + (seeds or 1))]
            at_a_time = _at_a_time(len(places), taken, together)
            members = [
                _asked(env, config, one, machine | {"device": taken}, at_a_time, Habits(**habits), out, several)
                for config, one in places
            ]
            if resume and not batched:
                members = [_as_begun(member, given_of({**fields, **machine})) for member in members]
            if taken != device and is_gpu(taken) and any(member.device == taken for member in members):
                say(f"Training on {named_gpu(taken)}. --device cpu trains on the CPU.")
        place = members[0].folder.parent if several else members[0].folder
        if batched:
            _train_batched(place, members, again(context, resume=True), signals, resume=resume)
        else:
            command = _command_to_resume(context, place, str(members[0].env), resume=resume)
            _train_in(place, members, command, signals, resume=resume, together=together, env_threads=env_threads)
        results = [json.loads((member.folder / RESULT).read_text(encoding="utf-8")) for member in members]
    title = ", ".join(dict.fromkeys(str(member.env) for member in members))
    answer(results if several else results[0], as_json, lambda _: _print(results, title, place, batched))


def _print(results: Sequence[Mapping[str, Any]], title: str, place: Path, batched: bool) -> None:
    from svrl.cli.tables import seeds_table, training_table

    show((seeds_table if batched else training_table)(results, title=title))
    for row in results:
        label = f"{row['arm']} seed {row['seed']}"
        if row.get("stopped_early"):
            tell(f"stopped early: {label} after {row['steps']:,} steps")
        if best := row.get("best"):
            tell(f"best evaluation: {label} after {best['steps']:,} steps, {best['mean']:.5g}")
    tell(f"written: {place}")


# What was asked for.


def _configs(env: str, fields: Mapping[str, Any], agents: str | None) -> list[AgentConfig]:
    """The agents that were asked for; an option of structure is refused where none is structured."""
    if agents is None:
        configs = [config_of(env, fields)]
    else:
        for name in ("agent", "structured"):
            if fields.get(name) is not None:
                raise ValueError(f"--agents says which agents to train, so --{name} has no place beside it.")
        configs = [config_of(env, {**fields, "agent": arm}) for arm in arms_of(agents)]
    useless = [name for name in given_of(fields) if name in STRUCTURE]
    if useless and not any(config.structured for config in configs):
        remedy = "add --structured" if agents is None else "add one that begins with sv-"
        raise ValueError(f"{useless[0]} belongs to structured agents: {remedy}.")
    of_heads = [name for name in ("head_rank", "head_ridge") if fields.get(name) is not None]
    if of_heads and not any("low-rank" in config.head for config in configs):
        raise ValueError(f"{of_heads[0]} belongs to low-rank heads: add --head low-rank.")
    if len({config.arm for config in configs}) < len(configs):
        raise ValueError(
            "head makes two of the --agents the same. Name the agents after their heads, and leave it out."
        )
    if fields.get("hidden") is not None and configs[0].has_own_network:
        raise ValueError(f"hidden is for svrl's networks, and {configs[0].network} is your own. Leave it out.")
    return configs


def config_of(env: str, fields: Mapping[str, Any]) -> AgentConfig:
    """The settings: the preset's, and over them the options that were given.

    Raises:
        ValueError: If one is wrong.
    """
    changes = _lists(given_of(fields))
    return AgentConfig.for_env(env, changes.pop("preset", None), **changes)


def _lists(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Options, with those that are lists of numbers as such."""
    lists = {name: tuple(widths(changes[name], name)) for name in ("hidden", "bins") if name in changes}
    return {**changes, **lists}


def arms_of(text: str) -> list[str]:
    """The arms of --agents, as in "dqn,sv-dqn"."""
    arms = [part.strip() for part in text.split(",") if part.strip()]
    for arm in arms:
        if arm not in ARMS:
            raise nearest("agent", arm, ARMS)
    if not arms or len(set(arms)) < len(arms):
        raise ValueError(f"--agents is a list of different agents, as in dqn,sv-dqn; got {text!r}.")
    return arms


def default_threads(config: AgentConfig, device: str, together: int = 1) -> int:
    """One thread, but for large networks on the CPU all cores, which runs at the same time share.

    Small matrices are many times slower on threads that wait for one another, and beside a GPU
    the waiting threads would take the cores of the emulators.
    """
    if config.network != "nature" or device != "cpu":
        return 1
    import torch

    return max(1, torch.get_num_threads() // together)


def _asked(
    env: str,
    config: AgentConfig,
    seed: int,
    machine: Mapping[str, Any],
    at_a_time: int,
    habits: Habits,
    out: Path | None,
    several: bool,
) -> Member:
    """One of the runs that the options describe."""
    from svrl.training.population import Member

    device = machine["device"]
    precision: Any = machine["precision"] or default_precision(device)
    check_precision(precision, device)
    alone = out or _folder_of(env, config, seed)
    among = (out or Path("runs", _safe(env))) / f"{config.arm}-seed{seed}"
    threads = machine["threads"] or default_threads(config, device, at_a_time)
    return Member(
        env=env,
        config=config,
        folder=among if several else alone,
        seed=seed,
        device=device,
        precision=precision,
        threads=threads,
        habits=habits,
    )


def _safe(env: str) -> str:
    return re.sub(r"[^\w.+-]+", "-", env)


def _folder_of(env: str, config: AgentConfig, seed: int) -> Path:
    """Where a single run is by default."""
    return Path("runs", f"{_safe(env)}-{config.arm}-seed{seed}")


def _at_a_time(runs: int, device: str, together: int | None) -> int:
    """Runs at a time: by default all on a GPU, and one on the CPU."""
    return min(runs, together or (runs if is_gpu(device) else 1))


# Runs that were begun.


def _folder_to_resume(
    env: str, *, resume: bool, out: Path | None, agents: str | None, seeds: int | None
) -> Path | None:
    """ENV as a folder with runs, or None if it is an environment.

    Raises:
        ValueError: If a folder is given without --resume, or with options that describe other runs.
    """
    folder = Path(env)
    others = {"--out": out, "--agents": agents, "--seeds": seeds}
    wrong = [flag for flag, value in others.items() if value is not None]
    is_name = env in _known_names() or re.fullmatch(r"[\w.]+-v\d+", env) is not None
    if not holds_runs(folder) or (is_name and (wrong or not resume)):
        return None
    if not resume:
        raise ValueError(f"{folder} holds a run already. Add --resume to resume it, or name an environment.")
    if wrong:
        raise ValueError(f"{folder} holds a run with settings of its own, so {wrong[0]} has no place beside it.")
    return folder


def _refuse_other_run(folder: Path, env: str) -> None:
    """Raise ValueError if a folder holds no run, or one on another environment."""
    if not (folder / CONFIG).exists():
        raise ValueError(f"There is no run to resume: neither {env} nor {folder} holds one. svrl runs lists the runs.")
    refuse_another_env(folder, env)


def _with_options(member: Member, given: Mapping[str, Any], habits: Mapping[str, Any]) -> Member:
    """A run that was begun, with the options that were given; `RunDirectory` refuses those that are not its own."""
    changes = {name: value for name, value in given.items() if (name, value) != ("device", "auto")}
    if member.config.has_own_network and "network" not in changes:
        raise ValueError(
            f"{member.folder} has a network of your own, {member.config.network!r}, and nothing is imported because a "
            f"file says so. Name it yourself: --network {member.config.network}"
        )
    own = {name: changes.pop(name) for name in ("seed", "device", "precision", "threads") if name in changes}
    if is_gpu(member.device) and "device" not in own:
        try:
            check_device(member.device)
        except ValueError as error:
            raise ValueError(
                f"{member.folder} was begun on {member.device}, which this machine does not have. Resume it on one "
                "that does, or start a new run."
            ) from error
    name = str(changes.get("agent"))
    if name.startswith("sv-") and name in ARMS:
        del changes["agent"]
        arm = config_of(str(member.env), {"preset": member.config.preset, "agent": name})
        changes = {field: getattr(arm, field) for field in ARMS[name]} | changes
    config = member.config.replace(**_lists(changes))
    kept = dataclasses.replace(member.habits, **habits) if member.habits is not None else None
    return dataclasses.replace(member, config=config, habits=kept, **own)


def _as_begun(member: Member, given: Mapping[str, Any]) -> Member:
    """One of several, which keeps its steps, threads, precision and device if no others were given."""
    if not (member.folder / CONFIG).exists():
        return member
    earlier = {"precision": "float32", **read_config(member.folder)}
    given = {name: value for name, value in given.items() if (name, value) != ("device", "auto")}
    names = [name for name in ("steps", "threads", "precision", "device") if name in earlier and name not in given]
    kept = {name: earlier[name] for name in names}
    config = member.config.replace(steps=kept.pop("steps", member.config.steps))
    return dataclasses.replace(member, resume=True, config=config, **kept)


def _command_to_resume(context: typer.Context, place: Path, env: str, *, resume: bool) -> str:
    """The folder is enough, unless its environment is in a package, which is not imported because a file names it."""
    if ":" in env:
        return again(context, env=env, out=place, resume=True)
    own_network = ":" in str(context.params.get("network"))
    kept = {"together", "env_threads", "as_json", *(["steps"] if resume else []), *(["network"] if own_network else [])}
    short = again(context, but=set(context.params) - kept)
    return f"{short} --resume {shlex.quote(str(place))}"


def _left(members: Sequence[Member], *, resume: bool) -> list[Member]:
    """Those of several runs that are not finished, with as many steps as are wanted.

    All are refused before the first is trained if one is there, is being trained, or is another than was asked for.
    """
    left = []
    for member in members:
        refuse_running(member.folder)
    for member in members:
        folder = member.folder
        if (folder / CONFIG).exists():
            if not resume:
                raise ValueError(f"{folder} holds a run. Add --resume to resume it, or give another folder.")
            refuse_other_settings(folder, member.settings, but=("steps",))
        if not is_finished(folder) or int(read_config(folder).get("steps", 0)) < member.config.steps:
            left.append(member)
    return left


# The runs are made, and what stops them is said.


def _train_in(
    place: Path,
    members: Sequence[Member],
    command: str,
    signals: Signals,
    *,
    resume: bool,
    together: int | None,
    env_threads: int | None,
) -> None:
    """Train a run in its folder, or in a folder around them those of several that are left.

    Args:
        place: The folder.
        members: The runs.
        command: The command that resumes them.
        signals: Those that are held back.
        resume: Whether runs may be there already.
        together: Runs at a time, or None for the default.
        env_threads: Threads of each run's emulators, or None for the default.
    """
    from svrl.training.population import Manner
    from svrl.training.resume import listed

    several = members[0].folder != place
    left = _left(members, resume=resume) if several else members
    at_a_time = min(_at_a_time(len(members), members[0].device, together), len(left))
    if at_a_time > 1 and any(member.habits and member.habits.wandb for member in left):
        if together is not None:
            raise ValueError("--wandb follows one run of a process at a time: give --together 1, or leave it out.")
        at_a_time = 1
    # ale-py takes a thread for each environment as long as there are cores, and knows nothing of other runs.
    env_threads = env_threads or (max(1, usable_cores() // at_a_time) if at_a_time > 1 else 0)
    if left:
        bars = Bars(width=max(map(len, map(_label, left))))
        once = functools.cache(bars.say)  # a sentence about several runs is said once
        manner = Manner(
            env_threads=env_threads,
            progress=lambda member, training: TrainProgress(training, _label(member), bars),
            say=lambda _, sentence: once(sentence),
        )
        some_are_new = several and not all(member.resume for member in members)
        with resumable(place, command), listed(place, members) if some_are_new else nullcontext(), bars:
            failed = _train(left, manner, at_a_time, signals, stopped(place, command), bars)
            if failed is not None and not several:
                raise failed.failures[place]
        if failed is not None:
            _end_with(failed, place, command)
    if len(members) > 1:
        _draw(members)


NOT_BATCHED = (
    "together",
    "env_threads",
    "checkpoint_every",
    "keep_replay",
    "keep_best",
    "stop_at",
    "tensorboard",
    "wandb",
    "log_every",
)


def _refuse_beside_batched(context: typer.Context) -> None:
    """Raise ValueError for options that batches of seeds do not have."""
    for name in on_command_line(context, NOT_BATCHED):
        raise ValueError(f"{name} has no place beside --batched, which trains all seeds in one computation to the end.")


def _train_batched(place: Path, members: Sequence[Member], command: str, signals: Signals, *, resume: bool) -> None:
    """Train the seeds of each agent at once; with `resume` those that are not finished."""
    from svrl.training.batched import batched_settings, train_batched

    for member in members:
        refuse_running(member.folder)
        if (member.folder / CONFIG).exists():
            if not resume:
                raise ValueError(f"{member.folder} holds a run. Add --resume to keep it, or give another folder.")
            refuse_other_settings(member.folder, batched_settings(member))
    left = [member for member in members if not is_finished(member.folder)]
    kept = f"Stopped. {place} has the agents whose seeds are all done, and none of the others. Continue with: {command}"
    with resumable(place, command, kept), Bars() as bars:
        updates: dict[str, Callable[..., None]] = {}

        def progress(at_work: Sequence[Member], steps: int) -> None:
            config = at_work[0].config
            if config.arm not in updates:
                updates[config.arm] = bars.stage(f"{at_work[0].env} {config.arm}, {len(at_work)} seeds", config.steps)
            updates[config.arm](steps)

        train_batched(left, signals=signals, progress=progress, say=bars.say)
    if len(members) > 1:
        _draw(members)


def _train(
    members: Sequence[Member], manner: Manner, together: int, signals: Signals, sentence: str, bars: Bars
) -> PopulationError | None:
    """Train runs, and return what failed."""
    from svrl.training.population import PopulationError, train_population

    try:
        train_population(members, together=together, manner=manner, signals=signals)
    except PopulationError as error:
        return error
    except KeyboardInterrupt:
        if together == 1:
            raise
        bars.stop()
        say(sentence)
        os._exit(INTERRUPTED)  # the interpreter's end aborts below threads that are in the middle of native code
    return None


def _label(member: Member) -> str:
    return f"{member.env} {member.config.arm} seed {member.seed}"


def _end_with(error: PopulationError, place: Path, resume: str) -> None:
    """Name the runs that failed, each with its reason, and end; a mistake of the program ends with its traceback."""
    mistakes = []
    for folder, failure in error.failures.items():
        sentence = sentence_of(failure, folder)
        if sentence is None:
            mistakes.append(failure)
        say(f"Error: {folder} failed: {sentence or f'{type(failure).__name__}: {failure}'}")
    if error.signal is not None:
        say(stopped(place, resume))
    elif any(place.glob(f"*/{CONFIG}")):
        say(f"What was done is in {place}. When that is repaired, resume with: {resume}")
    if mistakes:
        raise mistakes[0]
    raise typer.Exit(BAD_INPUT if error.signal is None else 128 + error.signal)


def _draw(members: Sequence[Member]) -> None:
    """All curves in one picture, beside the runs, if they are on one environment."""
    if len({member.env for member in members}) > 1:
        return
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
