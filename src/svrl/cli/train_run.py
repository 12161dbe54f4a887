"""One training run: events go to rows, pictures and checkpoints, and a signal loses nothing.

A checkpoint is written every few minutes, at the end, when a signal comes, and before a long evaluation, so that
a signal need not wait until that is over. Checkpoints are made at `Stepped`, the last event of a step:
the rows of a step and its checkpoint belong together.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console

from svrl.cli.train_progress import TrainProgress
from svrl.runs import training_run as files
from svrl.runs.rows import RowLog, last_rows

if TYPE_CHECKING:
    from svrl.agents.checkpoint import Checkpoints
    from svrl.agents.events import Event
    from svrl.agents.training import Training
    from svrl.cli.train_options import TrainRequest
    from svrl.runs.training_run import TrainingRun

LONG_EVALUATION = 2.0
"""Seconds of an evaluation that is worth a checkpoint before it."""


class Stopped(BaseException):
    """A signal came, and what was done is on disk."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Whether Ctrl-C or SIGTERM came.

    Attributes:
        came: The number of the signal, or None.
        at_once: Raise `Stopped` from where the program is; set while all that was done is on disk.
    """

    def __init__(self) -> None:
        self.came: int | None = None
        self.at_once = False

    @contextmanager
    def held_back(self) -> Iterator[Signals]:
        """Take note of the first signal instead of ending; a second one is not held back."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        earlier = {number: signal.signal(number, self._hold) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self.came = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self.at_once:
            raise Stopped(number)


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How a run is kept and shown; nothing here changes what is learned.

    Attributes:
        checkpoint_every: Seconds between two checkpoints.
        keep_replay: Keep checkpoints and replay memory after the end, so that the run can be extended.
        tensorboard: Write scalars for TensorBoard.
        wandb: Project of Weights & Biases, or None.
    """

    checkpoint_every: float = 600.0
    keep_replay: bool = False
    tensorboard: bool = False
    wandb: str | None = None


class Consumer(Protocol):
    """Somebody who listens to events."""

    def __call__(self, event: Event) -> None:
        """Take an event."""
        ...

    def flush(self) -> None:
        """Hand everything to the system."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class Rows:
    """Events as rows on disk."""

    def __init__(self, run: TrainingRun, since: int) -> None:
        from svrl.agents.events import EpisodeEnded, Evaluated, Learned

        names = {EpisodeEnded: files.EPISODES, Learned: files.LEARNING, Evaluated: files.EVALUATIONS}
        self._logs = {kind: RowLog(run.path / name, up_to=since) for kind, name in names.items()}
        # Going on from the very end evaluates once more; the row is there already.
        done = last_rows(run.path / files.EVALUATIONS, 1)
        self._evaluated_at = done[0]["steps"] if done else None

    def __call__(self, event: Event) -> None:
        """Append the event's row, if it has one."""
        log = self._logs.get(type(event))
        if log is None:
            return
        row = asdict(event)
        if "scores" in row:
            if event.steps == self._evaluated_at:
                return
            self._evaluated_at = event.steps
            row["mean"] = event.mean  # type: ignore[attr-defined]
        log.append(row)

    def flush(self) -> None:
        """Hand all rows to the system."""
        for log in self._logs.values():
            log.flush()

    def close(self) -> None:
        """Write what is left."""
        for log in self._logs.values():
            log.close()


class QStarRows:
    """The error against the planned Q* at every event of diagnostics.

    Attributes:
        last: The newest row, or None.
        reason: Why there is none, in a sentence; empty where there is one.
    """

    def __init__(self, run: TrainingRun, training: Training) -> None:
        from svrl.agents.events import Learned
        from svrl.experiments.q_star import QStarError, why_unknown

        self._training, self._moment = training, Learned
        self._error: QStarError | None = None
        self.reason = why_unknown(training.env, training.config)
        try:
            self._error = QStarError.for_training(training)
        except ValueError as error:
            self.reason = str(error)
        self._log = RowLog(run.path / files.Q_STAR, up_to=training.steps)
        rows = last_rows(run.path / files.Q_STAR, 1)
        self.last: dict[str, Any] | None = rows[0] if rows else None

    def __call__(self, event: Event) -> None:
        """Measure and append a row."""
        if isinstance(event, self._moment):
            self.measure()

    def measure(self) -> None:
        """A row of this moment, unless there is one."""
        if self._error is not None and (self.last is None or self.last["steps"] != self._training.steps):
            self.last = self._error.event_row(self._training)
            self._log.append(self.last)

    def flush(self) -> None:
        """Hand all rows to the system."""
        self._log.flush()

    def close(self) -> None:
        """Write what is left."""
        self._log.close()


class TrainingSession:
    """What this process does for a run, from where it stands to its end."""

    def __init__(self, training: Training, run: TrainingRun, habits: Habits, signals: Signals) -> None:
        from svrl.agents.checkpoint import Checkpoints

        self.training, self.run, self.habits, self.signals = training, run, habits, signals
        self.checkpoints: Checkpoints = Checkpoints(run.path)
        self.seconds = 0.0
        self.began_at = 0
        self.q_star: QStarRows | None = None
        self._evaluating = 0.0
        self._last_evaluation: float | None = None
        self._saved = time.monotonic()
        self._saved_at = -1

    def restore(self) -> None:
        """Go back to the newest checkpoint, if there is one."""
        loaded = self.checkpoints.load(self.training.replay)
        if loaded is not None:
            self.training.restore(loaded.state)
            self._saved_at = self.training.steps
            if loaded.note:
                Console(stderr=True, highlight=False, soft_wrap=True).print(f"Note: {loaded.note}", markup=False)
        self.began_at = self.training.steps

    def train(self, label: str) -> None:
        """To the end of the run.

        Raises:
            Stopped: If a signal came; everything is saved.
        """
        from svrl.agents.evaluation import with_evaluation
        from svrl.agents.events import Evaluated, Stepped

        consumers = self._consumers()
        progress = TrainProgress(self.training, label)
        try:
            with progress.shown():
                self._stop_if_asked(consumers)
                began = before = time.monotonic()
                if self.training.steps >= self.training.config.steps:
                    self._before_evaluation(consumers, progress)
                for event in with_evaluation(self.training, progress.evaluating):
                    if isinstance(event, Evaluated):
                        self._after_evaluation(time.monotonic() - before, progress)
                    for consumer in consumers:
                        consumer(event)
                    if isinstance(event, Stepped):
                        progress()
                        self._stop_if_asked(consumers)
                        self._save_if_due(consumers, progress)
                        before = time.monotonic()
                self.signals.at_once = False
                self.seconds = time.monotonic() - began - self._evaluating
                if self.q_star is not None:
                    self.q_star.measure()
        finally:
            self.signals.at_once = False
            for consumer in consumers:
                consumer.close()

    def _consumers(self) -> list[Consumer]:
        since = self.training.steps
        consumers: list[Consumer] = [Rows(self.run, since)]
        if self.training.spec.family == "control":
            self.q_star = QStarRows(self.run, self.training)
            consumers.append(self.q_star)
        if self.habits.tensorboard:
            from svrl.reporting.tensorboard import TensorBoard

            consumers.append(TensorBoard(self.run.path / "tensorboard", since=since))
        if self.habits.wandb is not None:
            from svrl.reporting.wandb import WandB

            consumers.append(WandB(self.habits.wandb, self.run.path, self.run.config))
        return consumers

    def _stop_if_asked(self, consumers: list[Consumer]) -> None:
        if self.signals.came is not None:
            self._save(consumers)
            raise Stopped(self.signals.came)

    def _save_if_due(self, consumers: list[Consumer], progress: TrainProgress) -> None:
        """A checkpoint if the last is old, or if the next step leads to an evaluation that may take long."""
        config, steps = self.training.config, self.training.steps
        every = config.eval_every
        evaluates = bool(every) and (steps + config.envs) // every > steps // every
        if steps >= config.steps or evaluates:
            self._before_evaluation(consumers, progress)
        elif time.monotonic() - self._saved >= self.habits.checkpoint_every:
            self._save(consumers)

    def _before_evaluation(self, consumers: list[Consumer], progress: TrainProgress) -> None:
        progress.say("evaluating")
        if self._last_evaluation is None or self._last_evaluation >= LONG_EVALUATION:
            self._save(consumers)
            self.signals.at_once = True
            if self.signals.came is not None:
                raise Stopped(self.signals.came)

    def _after_evaluation(self, seconds: float, progress: TrainProgress) -> None:
        self.signals.at_once = False
        self._last_evaluation = seconds
        self._evaluating += seconds
        progress.skip()

    def _save(self, consumers: list[Consumer]) -> None:
        """Rows first: whatever a checkpoint goes on from has its rows."""
        for consumer in consumers:
            consumer.flush()
        if self.training.steps != self._saved_at and self.training.steps > 0:
            self.checkpoints.save(self.training.capture(), self.training.replay)
            self._saved_at = self.training.steps
        self._saved = time.monotonic()

    def finish(self, result: dict[str, Any]) -> None:
        """Write the agent, its curve and the result; checkpoints go unless they shall stay."""
        from svrl.agents.agent import save_agent
        from svrl.reporting.learning_figure import draw_learning
        from svrl.reporting.planning_figures import save_figure
        from svrl.runs.rows import read_rows

        if self.habits.keep_replay:
            self._save([])
        path, config = self.run.path, self.training.config
        save_agent(path / files.AGENT, self.training)
        figure = draw_learning(
            {config.arm: [read_rows(path / files.EPISODES)]},
            evaluations={config.arm: [read_rows(path / files.EVALUATIONS)]},
            title=f"{self.training.env}, {config.arm}, seed {self.training.seed}",
        )
        with self.run.directory.writing(files.CURVE) as temporary:
            save_figure(figure, temporary)
        self.run.finish(result, keep_state=self.habits.keep_replay)


def carry_out(request: TrainRequest, run: TrainingRun, habits: Habits, signals: Signals) -> dict[str, Any]:
    """Train one run to its end and return what result.json holds.

    Raises:
        Stopped: If a signal came; everything is saved.
    """
    from svrl.agents.training import Training
    from svrl.cli.train_report import result_of, warn_of_few_actions

    training = Training.begin(request.env, request.config, seed=request.seed, device=request.device)
    try:
        warn_of_few_actions(training)
        session = TrainingSession(training, run, habits, signals)
        session.restore()
        session.train(f"{request.env} {request.config.arm} seed {request.seed}")
        result = result_of(request, session)
        session.finish(result)
    finally:
        training.close()
    return result
