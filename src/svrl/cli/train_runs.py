"""The runs that `svrl train` was asked for are made, one or several at a time, and what stops them is said."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from svrl.cli import train_options as asked
from svrl.cli.answers import BAD_INPUT, INTERRUPTED, BadInputError, answering, say, sentences
from svrl.cli.torch_threads import torch_threads
from svrl.cli.train_options import TrainRequest
from svrl.cli.train_progress import Board, TrainProgress

if TYPE_CHECKING:
    from svrl.runtime.stop_signals import Signals
    from svrl.training.population import PopulationError
    from svrl.training.session import Habits

CURVES = "learning_curves.png"


@dataclass(frozen=True, kw_only=True)
class Order:
    """How the runs of a command are made.

    Attributes:
        habits: How each is kept and shown.
        resume: Go on with those that were begun.
        together: Runs at a time.
        env_threads: Native threads of each run's environments; None leaves it to the number of runs.
        place: Folder of the run, or around several.
        again: The command that goes on with what this one began.
    """

    habits: Habits
    resume: bool
    together: int
    env_threads: int | None
    place: Path
    again: str


def train_single(request: TrainRequest, order: Order, signals: Signals) -> dict[str, Any]:
    """Train one run; what its result.json holds."""
    from svrl.training.session import train_in_directory

    with _stopping(order), sentences(), torch_threads(request.threads):
        return train_in_directory(
            request.env,
            request.config,
            folder=request.out,
            seed=request.seed,
            device=request.device,
            precision=request.precision,
            env_threads=order.env_threads or 0,
            resume=order.resume,
            habits=order.habits,
            progress=lambda training: TrainProgress(training, request.label),
            say=_once(say),
            signals=signals,
        )


def train_several(requests: Sequence[TrainRequest], order: Order, signals: Signals) -> list[dict[str, Any]]:
    """Train those runs that are not finished, and draw the curves of all; what their result.json hold."""
    from svrl.runtime.run_directory import RESULT

    _check_folders(requests, order.resume)
    left = [request for request in requests if not _is_enough(request)]
    if left:
        _train_population(left, order, signals)
    if len(requests) > 1:
        _draw(requests)
    return [json.loads((request.out / RESULT).read_text(encoding="utf-8")) for request in requests]


def _train_population(requests: Sequence[TrainRequest], order: Order, signals: Signals) -> None:
    from svrl.runtime.run_directory import CONFIG
    from svrl.training.population import Manner, Member, PopulationError, train_population

    together = min(order.together, len(requests))
    labels = {request.out: request.label for request in requests}
    board = Board(labels.values()) if together > 1 else None
    members = [
        Member(
            env=request.env,
            config=request.config,
            folder=request.out,
            seed=request.seed,
            device=request.device,
            precision=request.precision,
            threads=request.threads,
            # Some may not have begun when they were stopped.
            resume=order.resume and (request.out / CONFIG).exists(),
        )
        for request in requests
    ]
    manner = Manner(
        habits=order.habits,
        env_threads=order.env_threads or asked.default_env_threads(requests[0].env, together),
        progress=lambda member, training: TrainProgress(training, labels[member.folder], board),
        say=_once(say if board is None else board.say),
    )
    failed: PopulationError | None = None
    with _stopping(order), sentences(), ExitStack() as shown:
        if board is not None:
            shown.enter_context(board.bars)
        try:
            train_population(members, together=together, manner=manner, signals=signals)
        except PopulationError as error:
            failed = error
        except KeyboardInterrupt:
            if board is None:
                raise
            board.bars.stop()
            say(_at_once(order))
            os._exit(INTERRUPTED)  # the interpreter's end aborts below threads that are in the middle of native code
    if failed is not None:
        _end_with(failed, order)


def _check_folders(requests: Sequence[TrainRequest], resume: bool) -> None:
    """Of several runs, refuse all before the first is trained if one is there, or is another than was asked for."""
    from svrl.runtime.run_directory import CONFIG, refuse_other_settings, refuse_running
    from svrl.training.result import settings_as_begun, settings_of

    with sentences():
        for request in requests:
            refuse_running(request.out)
    for request in requests:
        if not (request.out / CONFIG).exists():
            continue
        if not resume:
            raise BadInputError(f"{request.out} holds a run. Add --resume to go on, or give another folder.")
        settings = settings_of(
            request.env,
            request.config,
            seed=request.seed,
            device=request.device,
            threads=request.threads,
            precision=request.precision,
        )
        with sentences():
            refuse_other_settings(request.out, settings_as_begun(request.out, settings), but=("steps",))


def _is_enough(request: TrainRequest) -> bool:
    """Whether a run is finished, with as many steps as are wanted."""
    from svrl.runtime.run_directory import is_finished, read_config

    if not is_finished(request.out):
        return False
    with sentences():
        return int(read_config(request.out).get("steps", 0)) >= request.config.steps


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


@contextmanager
def _stopping(order: Order) -> Iterator[None]:
    """End with the command that goes on, whatever stopped the runs."""
    with answering(_at_once(order), saved=_stopped(order)):
        try:
            yield
        except OSError as error:
            what = _of_the_system(error, order.place)
            if (order.place / "config.json").exists():
                what += f" The last checkpoint is in {order.place}."
                what += f" When that is repaired, go on with: {order.again}"
            raise BadInputError(what) from error


def _end_with(error: PopulationError, order: Order) -> None:
    """Name the runs that failed, each with its reason, and end; a mistake of the program ends with its traceback."""
    told: dict[str, list[str]] = {}
    mistakes = []
    for folder, failure in error.failures.items():
        sentence = _sentence_of(failure, folder)
        if sentence is None:
            mistakes.append(failure)
            sentence = f"{type(failure).__name__}: {failure}"
        told.setdefault(sentence, []).append(str(folder))
    for sentence, folders in told.items():
        say(f"Error: {', '.join(folders)} failed: {sentence}")
    if error.signal is not None:
        say(_stopped(order))
    elif any(order.place.glob("*/config.json")):
        say(f"What was done is in {order.place}. When that is repaired, go on with: {order.again}")
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
        return _of_the_system(known, folder)
    except Exception:
        return None


def _of_the_system(error: OSError, place: Path) -> str:
    return f"{error.filename or place}: {error.strerror or error}."


def _at_once(order: Order) -> str:
    return f"Stopped at once; the last checkpoint is in {order.place}. Go on with: {order.again}"


def _stopped(order: Order) -> str:
    return f"Stopped; what was done is in {order.place}. Go on with: {order.again}"


def _draw(requests: Sequence[TrainRequest]) -> None:
    """All curves in one picture, beside the runs."""
    from svrl.plots.learning import draw_learning
    from svrl.plots.style import save_figure
    from svrl.runtime import run_directory as files
    from svrl.runtime.files import writing
    from svrl.runtime.rows import read_rows

    curves: dict[str, list[Any]] = {}
    evaluations: dict[str, list[Any]] = {}
    for request in requests:
        curves.setdefault(request.config.arm, []).append(read_rows(request.out / files.EPISODES))
        evaluations.setdefault(request.config.arm, []).append(read_rows(request.out / files.EVALUATIONS))
    with writing(requests[0].out.parent / CURVES) as temporary:
        save_figure(draw_learning(curves, evaluations=evaluations, title=requests[0].env), temporary)
