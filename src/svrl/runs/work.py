"""One run of a sweep as one function call: hold its folder, train or plan in it, write down how that ended."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from svrl.runs.run_spec import RunSpec
from svrl.runs.store import LOG, RUN, BusyError, Store, failure_of, read_spec, this_version
from svrl.runtime.run_directory import CHECKPOINT, CONFIG, RESULT, read_config
from svrl.runtime.stop_signals import Signals, Stopped
from svrl.runtime.training_run import STATE

Ended = Literal["done", "failed", "stopped", "killed", "busy", "broken"]
"""How an attempt ended. busy: another process has the run. broken: the store cannot be written to, so no run can go on.
"""
LAST_LINES = 20
_OF_THE_STORE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE)
_AS_TORCH_SAYS_IT = ("iostream error", "PytorchStreamWriter failed", *map(os.strerror, _OF_THE_STORE))
"""torch.save hides the error number of a file that could not be written."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """How a process works on runs; nothing here changes what is learned.

    Attributes:
        threads: CPU threads of a run that begins; one that is resumed keeps its own.
        checkpoint_every: Seconds between two checkpoints of a training.
        tensorboard: Write scalars for TensorBoard.
        device: In place of the one in the run's settings: "cuda", where this process sees one GPU only.
    """

    threads: int = 1
    checkpoint_every: float = 60.0
    tensorboard: bool = False
    device: str | None = None


class Attempt:
    """One attempt at a run, under the lock of its folder.

    Attributes:
        run: The id of the run.
        folder: The folder of the run in the store.
    """

    def __init__(self, store: Store, run: str, held: ExitStack) -> None:
        self.run, self.folder = run, store.folder(run)
        self._store, self._held = store, held
        self._number = 1 + sum("began" in row for row in store.attempts(run))
        self._began = time.monotonic()
        version, commit = this_version()
        who = {"host": socket.gethostname(), "pid": os.getpid(), "svrl": version, "commit": commit}
        store.note(run, {"attempt": self._number, **who, "began": now(), "steps": store.steps(run)})
        clear_remains(self.folder)

    @classmethod
    def begin(cls, store: Store, run: str) -> Attempt | None:
        """Hold a run; None if another process holds it, has done it or has failed at it."""
        with ExitStack() as holding:
            try:
                holding.enter_context(store.working_on(run))
            except BusyError:
                return None
            if store.result(run) is not None:
                _tidy(store, run)
                return None
            if failure_of(store.attempts(run)) is not None:
                return None
            attempt = cls(store, run, holding)
            attempt._held = holding.pop_all()
            return attempt

    def end(self, error: BaseException | None) -> tuple[Ended, str]:
        """Write down how it ended, and release the run.

        Args:
            error: What the run raised, or None.

        Returns:
            How it ended, and why in one sentence; empty if there is nothing to say.
        """
        try:
            with self._held:
                ended, reason = self._outcome(error)
                row: dict[str, Any] = {"outcome": "stopped" if ended == "broken" else ended, "reason": reason}
                if reason:
                    with suppress(OSError):
                        self._log(error)
                    row["last_lines"] = self._store.log_tail(self.run, LAST_LINES)
                seconds = round(time.monotonic() - self._began, 3)
                self._store.note(self.run, {"attempt": self._number, "ended": now(), **row, "seconds": seconds})
        except OSError as failure:
            return "broken", sentence_of(failure, self._store.address)
        return ended, reason

    def _outcome(self, error: BaseException | None) -> tuple[Ended, str]:
        if (self.folder / RUN / RESULT).exists():
            return "done", ""
        if error is None or isinstance(error, Stopped):
            return "stopped", ""
        said = str(error)
        if isinstance(error, OSError) and error.errno in _OF_THE_STORE:
            return "broken", sentence_of(error, str(self.folder))
        if any(words in said for words in _AS_TORCH_SAYS_IT):
            return "broken", f"{self.folder}: a file could not be written, as on a disk without room ({said})."
        if isinstance(error, ValueError | ImportError):
            return "failed", said
        return "failed", f"{type(error).__name__}: {said}"

    def _log(self, error: BaseException | None) -> None:
        if error is not None:
            lines = [] if isinstance(error, ValueError) else traceback.format_exception(error)
            with (self.folder / LOG).open("a", encoding="utf-8") as log:
                log.write("".join([*lines, f"Error: {error}\n"]))


def carry_out(
    store: Store, run: str, terms: Terms, signals: Signals, begun: Callable[[], None] = lambda: None
) -> tuple[Ended, str]:
    """Do a run, or what is left of it, in this process.

    Args:
        store: Where it is.
        run: Its id.
        terms: How it is done.
        signals: Held back by the caller. When one came, the run saves and stops.
        begun: Called when the run is held.

    Returns:
        How it ended, and why in one sentence; empty if there is nothing to say.
    """
    try:
        attempt = Attempt.begin(store, run)
        if attempt is None:
            return "busy", ""
        begun()
        error: BaseException | None = None
        try:
            with _output_to(attempt.folder / LOG):
                do_run(read_spec(attempt.folder), attempt.folder / RUN, terms, signals)
        except (Exception, Stopped, SystemExit) as raised:  # whatever it is, it is this run's alone
            error = raised
        signals.at_once = False
        return attempt.end(error)
    except OSError as failure:
        return "broken", sentence_of(failure, store.address)


def do_run(spec: RunSpec, folder: Path, terms: Terms, signals: Signals) -> None:
    """Train or plan in a run directory; resume what is there.

    Raises:
        Stopped: If a signal came; everything is saved.
        ValueError: If a setting is wrong, or the run fails in another way that it can name.
    """
    import torch

    threads = threads_of(folder, terms.threads)
    torch.set_num_threads(threads)
    resume = (folder / CONFIG).exists()
    device = terms.device or spec.device
    if spec.kind == "plan":
        from svrl.runs.plan_run import PlanSettings, plan_in_directory

        plan_in_directory(PlanSettings.of(spec.full), folder, resume=resume, signals=signals, device=device)
        return
    from svrl.training.session import Habits, train_in_directory

    train_in_directory(
        spec.subject,
        spec.agent_config(),
        folder=folder,
        seed=spec.seed,
        device=device,
        precision=spec.full["precision"],
        env_threads=threads,
        resume=resume,
        habits=Habits(checkpoint_every=terms.checkpoint_every, tensorboard=terms.tensorboard),
        say=lambda sentence: print(sentence, flush=True),  # noqa: T201, to log.txt
        signals=signals,
    )


def threads_of(folder: Path, otherwise: int) -> int:
    """CPU threads of a run; one that is resumed keeps its own. If its files are damaged, the run itself says so."""
    with suppress(ValueError):
        if (folder / CONFIG).exists():
            return int(read_config(folder).get("threads", otherwise))
    return otherwise


def tidy(store: Store, run: str) -> None:
    """Complete what a process left behind that was killed when all but that was done."""
    attempts = store.attempts(run)
    if remains_in(store.folder(run)) or (attempts and "began" in attempts[-1]):
        with suppress(BusyError, OSError), store.working_on(run):
            _tidy(store, run)


def _tidy(store: Store, run: str) -> None:
    clear_remains(store.folder(run))
    attempts = store.attempts(run)
    if attempts and "began" in attempts[-1]:
        store.note(run, {"attempt": attempts[-1]["attempt"], "ended": now(), "outcome": "done", "reason": ""})


def clear_remains(folder: Path) -> None:
    """Remove what a killed process left behind."""
    for path in remains_in(folder):
        if path.is_dir() and not path.is_symlink():  # of a link nothing but itself
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def remains_in(folder: Path) -> list[Path]:
    """Temporary files, a run directory without its config.json, and the checkpoints of a finished run."""
    run = folder / RUN
    found = [path for path in folder.rglob(".*") if path.is_file()]
    if run.exists() and not (run / CONFIG).exists():
        found.append(run)
    if (run / RESULT).exists():
        found += [run / name for name in (*STATE, CHECKPOINT) if (run / name).exists()]
    return found


def sentence_of(error: OSError, otherwise: str) -> str:
    """What the system said, with the file; `otherwise` is the place if it did not say which."""
    return f"{error.filename or otherwise}: {error.strerror or error}."


def now() -> str:
    """As moments are written in attempts."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Append everything that this process prints, also by libraries in C, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    earlier = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(log, number)
        yield
    finally:
        with suppress(OSError):  # on a full disk
            sys.stdout.flush()
            sys.stderr.flush()
        for number, copy in zip((1, 2), earlier, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(log)
