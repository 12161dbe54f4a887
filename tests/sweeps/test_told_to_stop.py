"""A process that is told to stop says how its run ended, whenever that comes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.sweeps.local_rig import trainings

from svrl.sweeps import work
from svrl.sweeps.child import Told, told_once
from svrl.sweeps.outcome import DONE, STOPPED
from svrl.sweeps.states import state_of
from svrl.sweeps.store import open_store

SPEC = trainings(100)[0]


def ended_with(target: Callable[..., None], *given: str) -> int | None:
    """The exit code of a process as engines fork them: of threads it has its first one only."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["svrl.sweeps.work_together", "svrl.reporting.learning_figure"])
    process = context.Process(target=target, args=given)
    process.start()
    process.join()
    return process.exitcode


def tell_at(moment: str, address: str) -> None:
    """Work on the run, and be told to stop when a function of `svrl.sweeps.work` is called."""
    original = getattr(work, moment)

    def told_now(*given: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)  # the thread that waits for it has passed it on by now
        return original(*given, **named)

    setattr(work, moment, told_now)
    sys.exit(work.work_on(address, open_store(address).code, SPEC.id, work.Terms()))


@pytest.mark.parametrize(
    ("moment", "ended", "code"),
    [
        ("beginning", "stopped", STOPPED),
        ("command", "stopped", STOPPED),
        ("outcome_of", "done", DONE),
        ("ending", "done", DONE),
    ],
)
def test_every_attempt_that_began_has_an_end(tmp_path, moment, ended, code):
    store = open_store(tmp_path)
    store.add(SPEC)
    assert ended_with(tell_at, moment, str(tmp_path)) == code
    attempts = store.attempts(SPEC.id)
    assert [row["outcome"] for row in attempts if "outcome" in row] == [ended]
    assert "outcome" in attempts[-1]
    assert state_of(store, SPEC.id) == ("done" if ended == "done" else "waiting")


def test_it_interrupts_where_it_may_and_only_once():
    told = Told()
    told.hear(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt), told.interrupts():
        raise AssertionError("it had come before")
    with told.interrupts():
        told.hear(signal.SIGINT, None)


def tell_three_times_and_wait(told: Told) -> None:
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(6000):
        time.sleep(0.01)
    raise AssertionError(f"nothing came: {vars(told)}")


def tell_three_times() -> None:
    before = signal.getsignal(signal.SIGINT)
    deaf = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) | {signal.SIGINT}  # as whom engines fork
    with pytest.raises(KeyboardInterrupt), told_once() as told, told.interrupts():
        tell_three_times_and_wait(told)
    assert told.came.is_set()
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == deaf


def test_the_first_sigterm_is_passed_on_and_handlers_are_put_back():
    assert ended_with(tell_three_times) == 0
