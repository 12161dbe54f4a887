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
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from svrl import __version__
from svrl.runs.spec import Effort, RunSpec, Work
from svrl.runs.store import LOG, RUN, BusyError, Store, failure_of
from svrl.runtime.device import torch_threads, usable_cores
from svrl.runtime.provenance import commit, provenance
from svrl.runtime.run_directory import CHECKPOINT, CONFIG, RESULT, STATE, read_config
from svrl.runtime.stop_signals import Signals, Stopped

Ended = Literal["done", "failed", "stopped", "killed", "busy", "broken"]
"""How an attempt ended. busy: another process has the run. broken: the store cannot be written to, so no run can go on.
"""
LAST_LINES = 20
_OF_THE_STORE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE)


def carry_out(
    store: Store,
    spec: RunSpec,
    effort: Effort,
    signals: Signals,
    *,
    device: str | None = None,
    together: int = 0,
    begun: Callable[[], None] = lambda: None,
    to_log: bool = True,
) -> tuple[Ended, str]:
    """Do a run, or what is left of it, in this process and under the lock of its folder.

    Args:
        store: Where it is.
        spec: The run.
        effort: How it is done.
        signals: Held back by the caller. When one came, the run saves and stops.
        device: In place of the run's: "cuda", where this process sees one GPU only.
        together: Runs that share this process's GPU. If several, each is in a thread, and what belongs to the whole
            process is left as it is: torch's threads, and where output goes.
        begun: Called when the run is held.
        to_log: Write what it prints to its log.txt.

    Returns:
        How it ended, and why in one sentence; empty if there is nothing to say.
    """
    run = spec.id
    try:
        with store.working_on(run) as folder:
            if store.result(run) is not None:
                _complete(store, run)
                return "busy", ""
            attempts = store.attempts(run)
            if failure_of(attempts) is not None:
                return "busy", ""
            number, began = 1 + sum("began" in row for row in attempts), time.monotonic()
            who = {"host": socket.gethostname(), "pid": os.getpid(), "svrl": __version__, "commit": commit()}
            store.note(run, {"attempt": number, **who, "began": now(), "steps": store.steps(run)})
            clear_remains(folder)
            begun()
            error: BaseException | None = None
            try:
                with _output_to(folder / LOG) if to_log and together <= 1 else nullcontext():
                    _compute(store, spec, effort, signals, device=device or spec.device, together=together)
            except (Exception, Stopped, SystemExit) as raised:  # whatever it is, it is this run's alone
                error = raised
            signals.at_once = False
            ended, reason = _outcome(folder, error)
            row: dict[str, Any] = {"outcome": "stopped" if ended == "broken" else ended, "reason": reason}
            if error is not None and reason:
                with suppress(OSError):
                    _log(folder, error)
                row["last_lines"] = store.log_tail(run, LAST_LINES)
            seconds = round(time.monotonic() - began, 3)
            store.note(run, {"attempt": number, "ended": now(), **row, "seconds": seconds})
            return ended, reason
    except BusyError:
        return "busy", ""
    except OSError as failure:
        return "broken", sentence_of(failure, store.address)


def _compute(store: Store, spec: RunSpec, effort: Effort, signals: Signals, *, device: str, together: int) -> None:
    """Compute in the run directory, and write what comes back.

    Raises:
        Stopped: If a signal came; what can be saved is saved.
        ValueError: If a setting is wrong, or the run fails in another way that it can name.
    """
    began, folder = time.monotonic(), store.folder(spec.id) / RUN
    threads = threads_of(folder, effort.cores)
    work = Work(
        folder=folder,
        device=device,
        env_threads=max(1, usable_cores() // together) if together else threads,
        effort=effort,
        signals=signals,
        after=tuple(store.folder(run.id) / RUN for run in spec.after),
    )
    with torch_threads(threads) if together <= 1 else nullcontext():
        signals.at_once = not spec.kind.resumes
        signals.stop_if_safe()
        result = spec.kind.compute(spec.settings, work)
    if result is not None:
        signals.at_once = False  # what is computed is kept
        told = provenance(device=device, command=effort.command, seconds=time.monotonic() - began)
        if any(told.get(name, "") != value for name, value in result.trained.items()):
            told["trained"] = result.trained
        store.keep(spec, result, told)


def _outcome(folder: Path, error: BaseException | None) -> tuple[Ended, str]:
    if (folder / RUN / RESULT).exists():
        return "done", ""
    if error is None or isinstance(error, Stopped):
        return "stopped", ""
    if isinstance(error, OSError) and error.errno in _OF_THE_STORE:
        return "broken", sentence_of(error, str(folder))
    return "failed", str(error) if isinstance(error, ValueError | ImportError) else f"{type(error).__name__}: {error}"


def _log(folder: Path, error: BaseException) -> None:
    lines = [] if isinstance(error, ValueError) else traceback.format_exception(error)
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write("".join([*lines, f"Error: {error}\n"]))


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
            _complete(store, run)


def _complete(store: Store, run: str) -> None:
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
