"""What a process does for one run: hold it, carry its command out, and write down how that ended.

A run is the command that anyone can type, `svrl train ENV ... --out FOLDER --resume`, carried out in this process.
"""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from svrl.runs.run_directory import CHECKPOINT, CONFIG, RESULT, read_config
from svrl.runs.training_run import STATE
from svrl.sweeps.child import Told, end_with, leave_the_terminal, see_only, stay_on, told_once, words_to
from svrl.sweeps.lease import LostLeaseError
from svrl.sweeps.outcome import BUSY, DONE, STOPPED, STORE_BROKEN, Outcome, outcome_of
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.store import LOG, RUN, BusyError, Store, Workplace, open_store, read_spec

SAVE_EVERY = 30.0
"""Seconds between two copies of a run to a store that is not a folder."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Under which a process works on a run; nothing here changes what is learned.

    Attributes:
        cores: Numbers of the cores to stay on; none given leaves it to the system.
        threads: CPU threads of a run that begins; one that goes on keeps its own.
        checkpoint_every: Seconds between two checkpoints of a training.
        parent: The process to end with.
        card: The one to see, as CUDA_VISIBLE_DEVICES names it, whatever number the run asked for: so a run can go on
            with another one. None leaves it to the settings.
        together: Runs at a time, where a process takes several one after another.
    """

    cores: tuple[int, ...] = ()
    threads: int = 1
    checkpoint_every: float = 60.0
    parent: int | None = None
    card: str | None = None
    together: int = 1


def on_stderr(sentence: str) -> None:
    """Say why no run can be worked on, to whoever started this process."""
    sys.stderr.write(f"Error: {sentence}\n")


def work_on(address: str, code: str, run: str, terms: Terms, tell: Callable[[str], None] = on_stderr) -> int:
    """Work on a run until it is done, fails, or is told to stop by SIGTERM.

    Args:
        address: Of the store.
        code: The code version.
        run: Its id.
        terms: What it may take.
        tell: Is told in one sentence why the store cannot be written to.

    Returns:
        What `Outcome.exit_code` says.
    """
    leave_the_terminal()
    try:
        with told_once() as told:
            end_with(terms.parent)
            stay_on(terms.cores)
            see_only(terms.card)
            store = open_store(address, code)
            if told.came():
                return STOPPED
            with store.working_on(run) as place:
                if (place.folder / RUN / RESULT).exists():
                    clear_remains(place.folder)
                    return DONE
                if told.came():  # to fetch a run may take a while
                    return STOPPED
                outcome = _attempt(store, run, place, terms, told)
                if outcome.store_broken:
                    tell(outcome.reason if address in outcome.reason else f"{address}: {outcome.reason}")
                return outcome.exit_code
    except (BusyError, LostLeaseError):
        return BUSY
    except OSError as error:
        tell(f"{error.filename or address}: {error.strerror or error}.")
        return STORE_BROKEN


def _attempt(store: Store, run: str, place: Workplace, terms: Terms, told: Told) -> Outcome:
    number = next_attempt(store.attempts(run))
    began = time.monotonic()
    store.note(run, beginning(number))
    try:
        clear_remains(place.folder)
        spec = read_spec(place.folder)
        with saved_now_and_then(place):
            outcome = _carry_out(spec, place.folder, terms, told)
    except ValueError as error:  # a file of the run is damaged
        outcome = Outcome(ended="failed", reason=str(error))
    place.save()
    store.note(run, ending(number, outcome, time.monotonic() - began))
    return outcome


def _carry_out(spec: RunSpec, folder: Path, terms: Terms, told: Told) -> Outcome:
    argv = command(spec, folder / RUN, terms)
    with words_to(folder / LOG) as words:
        code = run_command(argv, told)
    return outcome_of(code, (folder / RUN / RESULT).exists(), words.lines(), told=told.came())


def command(spec: RunSpec, folder: Path, terms: Terms) -> list[str]:
    """The words after "svrl"."""
    resume = (folder / CONFIG).exists()
    argv = spec.argv(folder, resume=resume, threads=terms.threads)
    if spec.kind == "train":
        argv += ["--checkpoint-every", f"{terms.checkpoint_every:g}"]
    elif resume:  # a plan does not look up by itself how many it was begun with
        argv += ["--threads", str(read_config(folder).get("threads", terms.threads))]
    if terms.card is not None:
        argv += ["--device", "cuda"]
    return argv


def run_command(argv: Sequence[str], told: Told | None = None) -> int:
    """Carry a command out as `python -m svrl` does; its exit code.

    Args:
        argv: The words after "svrl".
        told: Interrupts it.
    """
    earlier, sys.argv = sys.argv, ["svrl", *argv]
    try:
        with told.interrupts() if told else nullcontext():
            importlib.import_module("svrl.__main__").run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 130
    except BaseException:  # a mistake of the program fails this run, not the process that tells of it
        traceback.print_exc()
        return 1
    finally:
        sys.argv = earlier
    return 0


def clear_remains(folder: Path) -> None:
    """Remove what a killed process left behind.

    That is temporary files, a run directory without its config.json, and of a finished run what it would go on from.
    """
    for path in remains_in(folder):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def remains_in(folder: Path) -> list[Path]:
    """What `clear_remains` removes; somebody who works on the run has such files too."""
    run = folder / RUN
    if run.exists() and not (run / CONFIG).exists():
        return [run, *(path for path in folder.glob(".*") if path.is_file())]
    found = [path for path in folder.rglob(".*") if path.is_file()]
    if (run / RESULT).exists():
        found += [run / name for name in (*STATE, CHECKPOINT) if (run / name).exists()]
    return found


def next_attempt(attempts: Sequence[Mapping[str, Any]]) -> int:
    """Attempts are counted from 1."""
    return 1 + sum("began" in row for row in attempts)


def beginning(number: int) -> dict[str, Any]:
    """The row of an attempt that begins."""
    return {"attempt": number, "host": socket.gethostname(), "pid": os.getpid(), "began": now()}


def ending(number: int, outcome: Outcome, seconds: float, peak_gb: float | None = None) -> dict[str, Any]:
    """The row of an attempt that ended."""
    peak = _peak_gb() if peak_gb is None else peak_gb
    return {
        "attempt": number,
        "ended": now(),
        **outcome.as_json(),
        "seconds": round(seconds, 3),
        "peak_gb": round(peak, 3),
    }


def now() -> str:
    """As moments are written in attempts."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _peak_gb() -> float:
    """Most memory that this process has had, in 10^9 bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


@contextmanager
def saved_now_and_then(place: Workplace, every: float = SAVE_EVERY) -> Iterator[None]:
    """Copy what is done to the store while the run goes on; a copy that fails is tried again."""
    over = threading.Event()

    def save() -> None:
        while not over.wait(every):
            try:
                place.save()
            except LostLeaseError:
                os.kill(os.getpid(), signal.SIGTERM)  # somebody else has the run: what is done here from now on is lost
                return
            except OSError as error:
                sys.stderr.write(f"Warning: the run could not be copied to its store, which is tried again: {error}\n")

    saver = threading.Thread(target=save, daemon=True, name="saver")
    saver.start()
    try:
        yield
    finally:
        over.set()
        saver.join()
