"""One run as one function call: hold its folder, carry it out, write down how that ended."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from svrl.runs.spec import RunSpec, Terms, Work
from svrl.runs.store import LOG, RUN, BusyError, Store, failure_of, this_version
from svrl.runtime.provenance import provenance
from svrl.runtime.run_directory import CHECKPOINT, CONFIG, RESULT, STATE, read_config
from svrl.runtime.stop_signals import Signals, Stopped
from svrl.runtime.threads import torch_threads

Ended = Literal["done", "failed", "stopped", "killed", "busy", "broken"]
"""How an attempt ended. busy: another process has the run. broken: the store cannot be written to, so no run can go on.
"""
LAST_LINES = 20
_OF_THE_STORE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE)
_AS_TORCH_SAYS_IT = ("iostream error", "PytorchStreamWriter failed", *map(os.strerror, _OF_THE_STORE))
"""torch.save hides the error number of a file that could not be written."""


class Attempt:
    """One attempt at a run, under the lock of its folder.

    Attributes:
        spec: The run.
        folder: The folder of the run in the store.
    """

    def __init__(self, store: Store, spec: RunSpec, held: ExitStack) -> None:
        self.spec, self.folder, run = spec, store.folder(spec.id), spec.id
        self._store, self._held = store, held
        self._number = 1 + sum("began" in row for row in store.attempts(run))
        self._began = time.monotonic()
        version, commit = this_version()
        who = {"host": socket.gethostname(), "pid": os.getpid(), "svrl": version, "commit": commit}
        store.note(run, {"attempt": self._number, **who, "began": now(), "steps": store.steps(run)})
        clear_remains(self.folder)

    @classmethod
    def begin(cls, store: Store, spec: RunSpec) -> Attempt | None:
        """Hold a run; None if another process holds it, has done it or has failed at it."""
        run = spec.id
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
            attempt = cls(store, spec, holding)
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
                    row["last_lines"] = self._store.log_tail(self.spec.id, LAST_LINES)
                seconds = round(time.monotonic() - self._began, 3)
                self._store.note(self.spec.id, {"attempt": self._number, "ended": now(), **row, "seconds": seconds})
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

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began


def carry_out(
    store: Store,
    spec: RunSpec,
    terms: Terms,
    signals: Signals,
    begun: Callable[[], None] = lambda: None,
    *,
    to_log: bool = True,
) -> tuple[Ended, str]:
    """Do a run, or what is left of it, in this process.

    Args:
        store: Where it is.
        spec: The run.
        terms: How it is done.
        signals: Held back by the caller. When one came, the run saves and stops.
        begun: Called when the run is held.
        to_log: Write what it prints to its log.txt.

    Returns:
        How it ended, and why in one sentence; empty if there is nothing to say.
    """
    try:
        attempt = Attempt.begin(store, spec)
        if attempt is None:
            return "busy", ""
        begun()
        error: BaseException | None = None
        try:
            with _output_to(attempt.folder / LOG) if to_log else nullcontext():
                _compute(store, attempt, terms, signals)
        except (Exception, Stopped, SystemExit) as raised:  # whatever it is, it is this run's alone
            error = raised
        signals.at_once = False
        return attempt.end(error)
    except OSError as failure:
        return "broken", sentence_of(failure, store.address)


def _compute(store: Store, attempt: Attempt, terms: Terms, signals: Signals) -> None:
    """Compute in the run directory, and write what comes back.

    Raises:
        Stopped: If a signal came; what can be saved is saved.
        ValueError: If a setting is wrong, or the run fails in another way that it can name.
    """
    spec, folder = attempt.spec, attempt.folder / RUN
    device = terms.device or spec.device
    with torch_threads(threads_of(folder, terms.threads)):
        work = Work(
            folder=folder,
            device=device,
            terms=terms,
            signals=signals,
            after=tuple(store.folder(run.id) / RUN for run in spec.after),
        )
        signals.at_once = not spec.kind.resumes
        signals.stop_if_safe()
        result = spec.kind.compute(spec.settings, work)
    if result is not None:
        signals.at_once = False  # what is computed is kept
        told = provenance(device=device, command=terms.command, seconds=attempt.seconds)
        if any(told.get(name, "") != value for name, value in result.trained.items()):
            told["trained"] = result.trained
        store.keep(spec, result, told)


def threads_of(folder: Path, otherwise: int) -> int:
    """CPU threads of a run; one that is resumed keeps its own. If its files are damaged, the run itself says so."""
    with suppress(ValueError):
        if (folder / CONFIG).exists():
            return int(read_config(folder).get("threads", otherwise))
    return otherwise


def tidy(store: Store, run: str) -> None:
    """Clean up after a process that was killed when its run was done but not yet recorded as such."""
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
    """Temporary files, a run directory without config.json and result.json, and the checkpoints of a finished run."""
    run = folder / RUN
    found = [path for path in folder.rglob(".*") if path.is_file()]
    if run.exists() and not (run / CONFIG).exists() and not (run / RESULT).exists():
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
