from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from svrl.runtime.stop_signals import ONE_REQUEST, Signals, Stopped


def test_a_second_signal_is_not_held_back():
    steps = []

    def twice() -> None:
        with Signals().held_back() as signals:
            os.kill(os.getpid(), signal.SIGINT)
            steps.append(signals.came)
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            steps.append("one wish")
            time.sleep(ONE_REQUEST)
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("not reached")

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        twice()
    assert steps == [signal.SIGINT, "one wish"]
    signals = Signals()
    signals.at_once = True
    with pytest.raises(Stopped), signals.held_back():
        os.kill(os.getpid(), signal.SIGTERM)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.fixture
def hang_up() -> Iterator[Callable[[Any], None]]:
    """Sets what SIGHUP does, whatever it did to the tests: nohup lets them ignore it."""
    earlier = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, earlier)


def test_a_terminal_that_is_closed_is_one_wish_however_many_say_so(hang_up):
    hang_up(signal.SIG_DFL)
    with Signals().held_back() as signals:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(2 * ONE_REQUEST)
    assert signals.came == signal.SIGHUP


def test_a_run_below_nohup_does_not_hear_of_it(hang_up):
    hang_up(signal.SIG_IGN)
    with Signals().held_back() as signals:
        os.kill(os.getpid(), signal.SIGHUP)
    assert signals.came is None


def test_every_thread_says_for_itself_when_it_may_stop():
    signals, seen = Signals(), []

    def work() -> None:
        signals.stop_if_safe()
        signals.at_once = True
        with pytest.raises(Stopped) as stopped:
            signals.stop_if_safe()
        seen.append(stopped.value.number)

    with signals.held_back():
        os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert seen == [signal.SIGINT]
        assert not signals.at_once
        signals.stop_if_safe()
        with pytest.raises(Stopped):
            signals.stop_if_came()
