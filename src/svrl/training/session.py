"""Training in a run directory: events go to rows, pictures and checkpoints, and a signal loses nothing.

The session writes a checkpoint every few minutes, at the end, and when a signal comes. It does so at `Stepped`, the
last event of a step, so that the rows of a step and its checkpoint belong together, or in an evaluation just before,
which the resumed run repeats.

Rows after the checkpoint are dropped only after every step that can fail, and a new run that fails before its first
checkpoint leaves nothing behind.

Several threads may train, each in its own folder. A lock guards what is not thread-safe.
"""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import torch

from svrl.agents.agent import Agent
from svrl.agents.checkpoint import Checkpoints
from svrl.agents.config import AgentConfig, Precision, check_precision, default_precision
from svrl.agents.evaluation import with_evaluation
from svrl.agents.events import EpisodeEnded, Evaluated, Event, Learned, Stepped, asks_to_stop
from svrl.agents.own_network import NetworkSource, with_network
from svrl.agents.progress import Progress, ProgressLine, Unseen
from svrl.agents.training import Training
from svrl.envs.make import EnvSource, name_of
from svrl.runtime import run_directory as files
from svrl.runtime.arrays import read_arrays
from svrl.runtime.device import check_device, chosen_device, is_gpu
from svrl.runtime.files import writing
from svrl.runtime.provenance import commit, machine, versions
from svrl.runtime.rows import RowLog, last_rows, read_rows
from svrl.runtime.run_directory import RunDirectory, locked, read_config
from svrl.runtime.stop_signals import Signals
from svrl.training.q_star import QStarRows
from svrl.training.result import result_of, settings_of

_ONE_AT_A_TIME = threading.Lock()
"""Held for imports, for registries of other libraries, and for drawing, because matplotlib's style is global.

numba compiles under its own lock.
"""
_FULL = ("CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""Messages of a full GPU if torch did not request the memory itself."""
_SIZE = r"([\d.]+ [KMGT]?i?B|[\d.]+ bytes)"


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How to keep, show and end a run; nothing here changes what the agent learns until then.

    config.json holds them too, and a resumed run reads them from there unless you pass others.

    Attributes:
        checkpoint_every: Seconds between two checkpoints, more than 0.
        keep_replay: Keep checkpoints and replay buffer after the end, so that the run can be extended.
        keep_best: Keep the agent with the best evaluation so far in best.npz; of equal ones the earlier.
        stop_at: End training when the mean score of an evaluation reaches this; None never does.
        tensorboard: Write scalars for TensorBoard.
        wandb: Project of Weights & Biases, or None.
    """

    checkpoint_every: float = 600.0
    keep_replay: bool = False
    keep_best: bool = False
    stop_at: float | None = None
    tensorboard: bool = False
    wandb: str | None = None

    def __post_init__(self) -> None:
        if not self.checkpoint_every > 0.0:
            raise ValueError(f"checkpoint_every must be more than 0 seconds, got {self.checkpoint_every:g}.")
        if self.stop_at is not None and not math.isfinite(self.stop_at):
            raise ValueError(f"stop_at is a score, got {self.stop_at}.")

    @classmethod
    def of(cls, settings: Mapping[str, Any], file: Path) -> Habits:
        """Read habits from the settings of a run in a file.

        Raises:
            ValueError: If they are damaged.
        """
        found = settings.get("habits", {})
        try:
            habits = cls(**found)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file} is damaged: {found!r} are not the habits of a training.") from error
        return replace(habits, wandb=None)  # nothing is sent anywhere because a file says so


class Consumer(Protocol):
    """Receives all events of a training."""

    def __call__(self, event: Event) -> None:
        """Take an event."""

    def flush(self) -> None:
        """Hand everything to the system."""

    def close(self) -> None:
        """Write what is left."""


def train_in_directory(
    env: EnvSource,
    config: AgentConfig | None = None,
    *,
    folder: str | Path,
    seed: int = 0,
    device: str | torch.device = "cpu",
    precision: Precision | None = None,
    network: NetworkSource | None = None,
    env_threads: int = 0,
    resume: bool = False,
    habits: Habits | None = None,
    watch: Callable[[Event], object] = lambda event: None,
    progress: bool | Callable[[Training], Progress] = False,
    say: Callable[[str], object] = lambda sentence: None,
    signals: Signals | None = None,
) -> dict[str, Any]:
    """Train one agent to its end in a run directory; `svrl.runtime.run_directory` lists its content.

    The current number of torch's threads is a setting of the run like every other.

    Args:
        env: The name of an environment, or a function that creates your own.
        config: All settings; by default the preset of the environment's family.
        folder: A new or empty folder; with `resume` that of the run.
        seed: Seed of all random numbers.
        device: "cpu", "cuda", "cuda:1", or "auto": a GPU if there is one, or the device of a resumed run.
        precision: Precision of matrix products: "float32", or on a GPU "tf32", the default there, or "bf16".
        network: Your own network, a function from EnvSpec to an nn.Module. Resume a run with the same one.
        env_threads: Native threads of Atari's emulators; 0 lets ale-py choose. Their number changes no result.
        resume: Resume an interrupted run, or train a finished one whose replay was kept for more steps.
        habits: How to keep and show the run; by default `Habits()`, or those of a resumed run.
        watch: Called with every event, see `svrl.agents.events`. If it returns False, training ends with the current
            step: the run is finished, and its result has `stopped_early`.
        progress: True shows a line on stderr; a function creates another display.
        say: Called with notes and warnings, a sentence each.
        signals: The signals that the caller already holds back; by default this function holds them back.

    Returns:
        The content of result.json. `svrl.load_agent(folder)` loads the agent.

    Raises:
        Stopped: If Ctrl-C, SIGTERM or SIGHUP came; everything is saved, and `resume` continues.
        ValueError: If the folder is not free or holds another run, if an argument is wrong, or if the memory of the
            GPU is full.
    """
    if device == "auto":
        device = read_config(Path(folder)).get("device", "cpu") if resume else chosen_device(device)
    if precision is None:
        precision = read_config(Path(folder)).get("precision", "float32") if resume else default_precision(device)
    check_precision(precision, device)
    check_device(device)
    config = with_network(AgentConfig.for_env(name_of(env)) if config is None else config, network)
    asked = settings_of(
        name_of(env), config, seed=seed, device=str(device), threads=torch.get_num_threads(), precision=precision
    )
    if habits is None:
        habits = Habits.of(read_config(Path(folder)), Path(folder) / files.CONFIG) if resume else Habits()
    asked["habits"] = asdict(habits)
    make_progress = progress if callable(progress) else ProgressLine if progress else Unseen
    with ExitStack() as held:
        held.enter_context(at_work_on(device, Path(folder)))
        signals = signals or held.enter_context(Signals().held_back())
        run = held.enter_context(_opened(Path(folder), asked, resume))
        with _ONE_AT_A_TIME:
            signals.stop_if_came()
            training = Training(
                env,
                config,
                seed=seed,
                device=device,
                precision=precision,
                network=network,
                env_threads=env_threads,
                say=say,
            )
            held.enter_context(closing(training))
        session = TrainingSession(training, run, habits, signals, say)
        session.restore()
        session.train(make_progress, watch)
        result = result_of(session)
        session.finish(result)
    return result


@contextmanager
def _opened(path: Path, settings: dict[str, Any], resume: bool) -> Iterator[RunDirectory]:
    """Lock the folder of a run; a new run that fails before its first checkpoint is removed."""
    if resume:
        read_config(path)  # raises if there is nothing to resume
        with locked(path):
            yield RunDirectory.resume(path, settings)
        return
    how = {"begun": datetime.now(UTC).isoformat(timespec="microseconds"), "versions": versions()}
    how |= {"machine": machine(settings["device"]), "commit": commit()}
    run = RunDirectory.begin(path, {**settings, **how})
    with locked(path):
        try:
            yield run
        except Exception:
            run.take_back()
            raise


@contextmanager
def at_work_on(device: str | torch.device, folder: Path) -> Iterator[None]:
    """Make a GPU the current one, and turn an out-of-memory error into one sentence; on the CPU nothing.

    Args:
        device: The device of the run.
        folder: The folder of the run. The sentence names it if it holds a checkpoint.

    Raises:
        ValueError: If the GPU has no memory left.
    """
    if not is_gpu(device):
        yield
        return
    try:
        with torch.cuda.device(device):  # each thread has a current GPU of its own, at first GPU 0
            yield
    except RuntimeError as error:
        said = str(error)
        if not isinstance(error, torch.OutOfMemoryError) and not any(sign in said for sign in _FULL):
            raise
        asked, free = (re.search(pattern, said) for pattern in (f"Tried to allocate {_SIZE}", f"{_SIZE} is free"))
        sizes = [found[1] + what for found, what in ((asked, " was asked for"), (free, " is free")) if found]
        told = f"The memory of {device} is full{': ' if sizes else ''}{' and '.join(sizes)}. "
        told += "Lower --buffer-size, --n-envs or --batch-size, or train fewer at a time with --together."
        kept = any((folder / "checkpoints").glob("*.npz"))
        raise ValueError(f"{told} The last checkpoint is in {folder}." if kept else told) from error


class TrainingSession:
    """The part of a run that this process trains.

    Attributes:
        seconds: Duration of training, without evaluations.
        began_at: Steps of the run when this process began.
        q_star: The comparison with a planned Q*, on control tasks.
        stopped: Whether training was asked to end.
        best: Steps and mean score of the best evaluation, whose agent is kept.
    """

    def __init__(
        self, training: Training, run: RunDirectory, habits: Habits, signals: Signals, say: Callable[[str], object]
    ) -> None:
        self.training, self.run, self.habits, self.signals, self.say = training, run, habits, signals, say
        self.checkpoints = Checkpoints(run.path)
        self.seconds = 0.0
        self.began_at = 0
        self.q_star: QStarRows | None = None
        self.stopped = False
        self.best: dict[str, Any] | None = None
        self._consumers: list[Consumer] = []
        self._evaluating = 0.0
        self._saved = time.monotonic()
        self._saved_at = -1

    def restore(self) -> None:
        """Return to the newest checkpoint, if the run has one."""
        loaded = self.checkpoints.load(self.training.replay)
        if loaded is not None:
            self.training.restore(loaded.state)
            self._saved_at = self.training.steps
            if loaded.note:
                self.say(f"Note: {loaded.note}")
        elif rows := len(read_rows(self.run.path / files.EPISODES)):
            self.say(
                f"Note: {self.run.path} has no checkpoint, so training starts again at step 0, "
                f"and its {rows:,} episodes are played again."
            )
        self.began_at = self.training.steps
        if self.run.earlier_steps is not None:
            steps = self.training.config.steps
            self.say(f"Resuming {self.run.path} at step {self.training.steps:,} of {steps:,}.")

    def train(self, make_progress: Callable[[Training], Progress], watch: Callable[[Event], object]) -> None:
        """Train to the end of the run.

        Raises:
            Stopped: If a signal came; everything is saved.
        """
        with ExitStack() as at_the_end:
            at_the_end.callback(self._consumers.clear)
            with _ONE_AT_A_TIME:
                self.signals.stop_if_came()
                for consumer in self._make_consumers():
                    at_the_end.callback(consumer.close)
                    self._consumers.append(consumer)
            self.run.reopen()
            self._look_at_earlier_evaluations()
            _tell_of_the_rate(self.training, self.run, self.say)
            progress = make_progress(self.training)
            with progress.shown():
                self._stop_if_asked()
                self._follow(progress, watch)

    def _follow(self, progress: Progress, watch: Callable[[Event], object]) -> None:
        """Pass on every event, and save when a checkpoint is due."""
        began = before = time.monotonic()
        evaluations = last_rows(self.run.path / files.EVALUATIONS, 1)
        evaluated_at = int(evaluations[0]["steps"]) if evaluations else -1

        def told_of_games(done: int, of: int) -> None:
            progress.evaluating(done, of)
            self._stop_if_asked()

        events = with_evaluation(self.training, told_of_games, evaluated_at=evaluated_at, stopped=lambda: self.stopped)
        for event in events:
            if isinstance(event, Evaluated):
                self._evaluating += time.monotonic() - before
            for consumer in self._consumers:
                consumer(event)
            if isinstance(event, Evaluated):
                self._keep_if_best(event.steps, event.mean)
                self.stopped = self.stopped or self._is_enough(event.mean)
            if asks_to_stop(watch(event)):
                self.stopped = True
            if isinstance(event, Stepped):
                if self.signals.came is None:  # the terminal may be gone by now
                    progress()
                self._stop_if_asked()
                self._save_if_due(progress)
                before = time.monotonic()
        self.seconds = time.monotonic() - began - self._evaluating
        if self.q_star is not None:
            self.q_star.measure()

    def _is_enough(self, mean: float) -> bool:
        return self.habits.stop_at is not None and mean >= self.habits.stop_at

    def _keep_if_best(self, steps: int, mean: float) -> None:
        """Keep the agent if its evaluation, which has just ended, is the best so far."""
        if self.habits.keep_best and math.isfinite(mean) and (self.best is None or mean > self.best["mean"]):
            self._save()  # first, so that a resumed run never finds an agent of steps that it has yet to take
            Agent.of(self.training).save(self.run.path / files.BEST)
            self.best = {"steps": steps, "mean": mean}

    def _look_at_earlier_evaluations(self) -> None:
        """Apply evaluations before the checkpoint to a resumed run; later rows are already gone."""
        rows = [row for row in read_rows(self.run.path / files.EVALUATIONS) if row.get("mean") is not None]
        if not rows:
            return
        best, last = max(rows, key=lambda row: row["mean"]), rows[-1]  # of equal ones the first
        if self.habits.keep_best:
            kept = _steps_of(self.run.path / files.BEST)
            if kept == best["steps"]:
                self.best = {"steps": kept, "mean": best["mean"]}
            elif best["steps"] != self.training.steps:
                self.say(
                    f"Note: {self.run.path / files.BEST} is not the agent of step {best['steps']:,}, which has the "
                    "best evaluation so far, so the best is kept from here on."
                )
        if last["steps"] == self.training.steps:
            self._keep_if_best(last["steps"], last["mean"])
            self.stopped = self._is_enough(last["mean"]) and not self.run.grows

    def _make_consumers(self) -> Iterator[Consumer]:
        """Those that may fail come first. The rows come last, because they drop what came after the checkpoint."""
        since = self.training.steps
        if self.habits.tensorboard:
            from svrl.training.scalars import to_tensorboard

            yield to_tensorboard(self.run.path / files.TENSORBOARD, since=since)
        if self.habits.wandb is not None:
            from svrl.training.scalars import to_wandb

            yield to_wandb(self.habits.wandb, self.run.path, self.run.config)
        if self.training.spec.family == "control":
            self.q_star = QStarRows(self.run, self.training)
            yield self.q_star
        yield Rows(self.run, since)

    def _stop_if_asked(self) -> None:
        if self.signals.came is not None:
            self._save()
            self.signals.stop_if_came()

    def _save_if_due(self, progress: Progress) -> None:
        """Save if the last checkpoint is old, and show if the next step leads to an evaluation."""
        config, steps = self.training.config, self.training.steps
        every = config.eval_every
        if self.stopped or steps >= config.steps or (every and (steps + config.n_envs) // every > steps // every):
            progress.say("evaluating")
        if time.monotonic() - self._saved >= self.habits.checkpoint_every:
            self._save()

    def _save(self) -> None:
        """Rows first: every step that a checkpoint holds has its rows."""
        for consumer in self._consumers:
            consumer.flush()
        if self.training.steps != self._saved_at and self.training.steps > 0:
            self.checkpoints.save(self.training.capture(), self.training.replay)
            self._saved_at = self.training.steps
        self._saved = time.monotonic()

    def finish(self, result: dict[str, Any]) -> None:
        """Write the agent, its curve and the result; remove checkpoints unless `keep_replay`."""
        with _ONE_AT_A_TIME:
            from svrl.plots.learning import draw_learning
            from svrl.plots.style import save_figure

        if self.habits.keep_replay:
            self._save()
        path, config = self.run.path, self.training.config
        Agent.of(self.training).save(path / files.AGENT)
        curves, evaluations = ([read_rows(path / name)] for name in (files.EPISODES, files.EVALUATIONS))
        title = f"{self.training.env}, {config.arm}, seed {self.training.seed}"
        with _ONE_AT_A_TIME, writing(path / files.CURVE) as temporary:
            figure = draw_learning({config.arm: curves}, evaluations={config.arm: evaluations}, title=title)
            save_figure(figure, temporary)
        self.run.finish(result, keep_state=self.habits.keep_replay)


def _steps_of(agent: Path) -> int | None:
    """Steps of the agent in a file; None if there is no such file, or if it is damaged."""
    try:
        return int(json.loads(read_arrays(agent)["about"])["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tell_of_the_rate(training: Training, run: RunDirectory, say: Callable[[str], object]) -> None:
    """Say if more steps make a decayed learning rate go up again."""
    config, updates = training.config, training.updates
    if run.earlier_steps is None or not run.grows:
        return
    now, then = (config.replace(steps=steps).learning_rate_at(updates) for steps in (run.earlier_steps, config.steps))
    if then > now:
        say(
            f"Note: the learning rate falls over all steps. It is {now:.3g} here and goes up to {then:.3g} "
            f"with {config.steps:,} steps instead of {run.earlier_steps:,}."
        )


class Rows:
    """Write events as rows on disk.

    Args:
        run: The run directory of the files.
        since: The step that the run resumes from; rows after it are dropped.
    """

    def __init__(self, run: RunDirectory, since: int) -> None:
        names = {EpisodeEnded: files.EPISODES, Learned: files.LEARNING, Evaluated: files.EVALUATIONS}
        self._logs = {kind: RowLog(run.path / name, up_to=since) for kind, name in names.items()}

    def __call__(self, event: Event) -> None:
        """Append the event's row, if it has one."""
        if log := self._logs.get(type(event)):
            log.append(asdict(event) | ({"mean": event.mean} if isinstance(event, Evaluated) else {}))

    def flush(self) -> None:
        """Hand all rows to the system."""
        for log in self._logs.values():
            log.flush()

    def close(self) -> None:
        """Write what is left."""
        for log in self._logs.values():
            log.close()
