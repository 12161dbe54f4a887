"""A process that is told to stop says how its run ended, whenever that comes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.sweeps.local_rig import plans, trainings

from svrl.runs.stop_signals import Signals
from svrl.sweeps import work, work_together
from svrl.sweeps.child import Told, told_once
from svrl.sweeps.outcome import DONE, FAILED, STOPPED
from svrl.sweeps.states import state_of
from svrl.sweeps.store import open_store

SPEC, OTHER = trainings(100, seeds=2)


def ended_with(target: Callable[..., None], *given: str) -> int | None:
    """The exit code of a process as engines fork them: of threads it has its first one only."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["svrl.sweeps.work_together", "svrl.plots.learning"])
    process = context.Process(target=target, args=given)
    process.start()
    process.join()
    return process.exitcode


def tell_at(moment: str, address: str, together: str = "") -> None:
    """Work on the run, and be told to stop when a function of `svrl.sweeps.work` is called."""
    module: Any = work_together if together else work
    original = getattr(module, moment)

    def told_now(*given: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.2)  # the thread that waits for it has passed it on by now
        return original(*given, **named)

    code = open_store(address).code
    setattr(module, moment, told_now)
    if together:
        sys.exit(work_together.work_on_several(address, code, (SPEC.id, OTHER.id), work.Terms(together=2)))
    sys.exit(work.work_on(address, code, SPEC.id, work.Terms()))


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


@pytest.mark.parametrize("moment", ["stay_on", "open_store"])
@pytest.mark.parametrize("together", ["", "together"])
def test_told_before_a_run_has_begun_it_begins_none(tmp_path, moment, together):
    store = open_store(tmp_path)
    for spec in (SPEC, OTHER):
        store.add(spec)
    assert ended_with(tell_at, moment, str(tmp_path), together) == STOPPED
    assert store.attempts(SPEC.id) == store.attempts(OTHER.id) == []


def test_a_damaged_run_fails_with_what_is_damaged(tmp_path):
    store = open_store(tmp_path)
    (plan,) = plans()
    store.add(plan)
    config = tmp_path / store.code / plan.id / "run" / "config.json"
    config.parent.mkdir()
    config.write_text("{")
    assert work.work_on(str(tmp_path), store.code, plan.id, work.Terms()) == FAILED
    last = store.attempts(plan.id)[-1]
    assert last["outcome"] == "failed"
    assert "config.json" in last["reason"]


def test_it_interrupts_where_it_may_and_only_once():
    told = Told()
    told.hear(signal.SIGINT, None)
    with pytest.raises(KeyboardInterrupt), told.interrupts():
        raise AssertionError("it had come before")
    with told.interrupts():
        told.hear(signal.SIGINT, None)


def tell_three_times_in_a_command() -> None:
    """As commands do: the first is taken note of, and a second would end the process at once."""
    with told_once() as told, told.interrupts(), Signals().held_back() as signals:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
        assert signals.came == signal.SIGINT
    assert told.came()


def tell_at_the_end() -> None:
    with told_once() as told:
        os.kill(os.getpid(), signal.SIGTERM)
        while not told.came():
            time.sleep(0.01)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # pending, for this thread alone
        assert signal.SIGTERM in signal.sigpending()
    assert signal.SIGTERM not in signal.sigpending()


@pytest.mark.parametrize("told", [tell_three_times_in_a_command, tell_at_the_end])
def test_nobody_is_ended_who_was_told_before(told):
    assert ended_with(told) == 0


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
    assert told.came()
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == deaf


def test_the_first_sigterm_is_passed_on_and_handlers_are_put_back():
    assert ended_with(tell_three_times) == 0
