from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from svrl.paper import workers
from svrl.paper.workers import Workers
from svrl.runtime.stop_signals import Signals, Stopped

from . import calls

Call = tuple[Callable[..., Any], tuple[Any, ...]]
_others: set[BaseProcess] = set()


@pytest.fixture(autouse=True)
def remember_processes_of_other_tests() -> None:
    """Some may be left. Whoever waited for all processes to end would wait for those too, perhaps for ever."""
    _others.clear()
    _others.update(multiprocessing.active_children())


def children() -> list[BaseProcess]:
    """Processes that this test has started, and that have not ended."""
    return [process for process in multiprocessing.active_children() if process not in _others]


def carry_out(*given: Call, count: int = 2, meanwhile: Callable[[], None] = lambda: None) -> dict[int, Any]:
    """Results by number; `meanwhile` is called when the first ones have been given."""
    found, left = {}, list(enumerate(given))
    with Signals().held_back() as signals, Workers[int](count, signals) as pool:
        signals.at_once = True
        while left or pool.busy:
            while left and pool.free:
                tag, (function, args) = left.pop(0)
                pool.give(tag, function, *args)
            assert pool.busy <= count
            meanwhile()
            tag, found[tag] = pool.next()
    return found


def interrupt() -> None:
    raise KeyboardInterrupt


def begun(folder: Path) -> int:
    return len(list(folder.glob("begun*")))


@contextmanager
def sending(number: int, when: Callable[[], bool], every: float | None = None) -> Iterator[None]:
    """Send this process a signal when something is true; again and again until the end, if `every` says so."""
    over = threading.Event()

    def watch() -> None:
        while not when():
            time.sleep(0.02)
        os.kill(os.getpid(), number)
        while every is not None and not over.wait(every):
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_every_call_is_carried_out_by_one_of_so_many_processes() -> None:
    found = carry_out(*((calls.square_and_process, (x,)) for x in range(7)))
    assert {tag: square for tag, (square, _) in found.items()} == {x: x * x for x in range(7)}
    processes = {process for _, process in found.values()}
    assert len(processes) <= 2
    assert os.getpid() not in processes
    assert children() == []


@pytest.mark.parametrize(
    ("raised", "arrives", "words"),
    [(ZeroDivisionError, ZeroDivisionError, None), (calls.Unsendable, RuntimeError, "Unsendable: cannot be sent")],
)
def test_an_error_comes_with_its_traceback(raised, arrives, words) -> None:
    with pytest.raises(arrives, match=words) as caught:
        carry_out((calls.fail, (raised,)))
    assert "in fail" in caught.value.__notes__[0]


def test_after_an_error_the_others_are_carried_out_to_their_end(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        carry_out((calls.finish, (tmp_path, 0.5)), (calls.fail, (ZeroDivisionError,)))
    assert (tmp_path / "finished").exists()


def test_a_process_that_was_killed_is_named() -> None:
    with pytest.raises(ValueError, match=r"computed 0 was ended by SIGKILL; .* Lower --jobs"):
        carry_out((calls.end_oneself, (signal.SIGKILL,)))
    assert children() == []


@pytest.mark.parametrize("call", [calls.go_on_for_ever, calls.save_when_told])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_this_process_alone_stops_all(tmp_path: Path, number: int, call: Callable[[Path], object]) -> None:
    with sending(number, lambda: begun(tmp_path) == 2), pytest.raises(Stopped):
        carry_out((call, (tmp_path,)), (call, (tmp_path,)))
    assert len([path for path in tmp_path.iterdir() if path.name.startswith(("interrupted", "saved"))]) == 2
    assert children() == []


def test_ctrl_c_of_a_terminal_reaches_the_processes_once(tmp_path: Path) -> None:
    """It is sent to everybody; they are deaf to it, and are told by the first process alone."""

    def ctrl_c() -> None:
        while begun(tmp_path) < 2:
            time.sleep(0.02)
        for process in children():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGINT)
        time.sleep(0.2)
        assert list(tmp_path.glob("interrupted*")) == []
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(*[(calls.go_on_for_ever, (tmp_path,))] * 2, meanwhile=ctrl_c)
    assert len(list(tmp_path.glob("interrupted*"))) == 2


def blocked(process: int) -> set[int]:
    """Signals that a process is deaf to."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk", "SigIgn"))]
    return {number for number in (signal.SIGINT, signal.SIGTERM) if any(mask >> (number - 1) & 1 for mask in masks)}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_the_first_process_of_a_program_is_born_deaf_too(tmp_path: Path) -> None:
    """A helper process of the standard library, started before the first, makes its parent hear again."""
    resource_tracker._resource_tracker._stop()
    born: list[set[int]] = []

    def look() -> None:
        born.extend(blocked(process.pid or 0) for process in children())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(*[(calls.go_on_for_ever, (tmp_path,))] * 2, meanwhile=look)
    assert born == [{signal.SIGINT, signal.SIGTERM}] * 2


def test_a_signal_while_a_process_is_being_started_stops_its_call_too(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        carry_out((calls.go_on_for_ever, (tmp_path,)), meanwhile=interrupt)
    assert children() == []


def test_a_call_that_cannot_be_sent_is_not_waited_for() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        carry_out((calls.square_and_process, (lambda: 1,)))
    assert children() == []


@pytest.mark.parametrize("threads", [0, 1])
def test_an_answer_that_was_heard_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Other threads hear what this one is deaf to, and it is this one that is interrupted."""
    received, sent, over = workers._received, [], threading.Event()

    def then_ctrl_c(connection: Any) -> Any:
        answer = received(connection)
        if not sent:
            sent.append(os.kill(os.getpid(), signal.SIGINT))
            time.sleep(0.2)  # until another thread has heard it
        return answer

    for _ in range(threads):
        threading.Thread(target=over.wait).start()
    monkeypatch.setattr(workers, "_received", then_ctrl_c)
    with pytest.raises(Stopped):
        carry_out((calls.square_and_process, (3,)))
    over.set()
    assert children() == []


def test_a_signal_while_a_process_is_started_waits_until_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class InterruptedAtBirth(workers._Worker):
        def __init__(self) -> None:
            super().__init__()
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)

    monkeypatch.setattr(workers, "_Worker", InterruptedAtBirth)
    with pytest.raises(Stopped):
        carry_out((calls.go_on_for_ever, (tmp_path,)))
    assert children() == []


def test_a_second_ctrl_c_waits_for_nobody(tmp_path: Path) -> None:
    # The last one may come when all is over.
    with pytest.raises(KeyboardInterrupt), sending(signal.SIGINT, lambda: begun(tmp_path) == 1, every=0.5):
        carry_out((calls.deaf, (tmp_path,)))
    while children():
        time.sleep(0.02)
