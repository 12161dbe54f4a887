"""Several runs in one process, as on a card: each becomes what it would have become alone. Here on the CPU."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from tests.sweeps.local_rig import trainings, what_became_of

from svrl.runs.stop_signals import Signals
from svrl.sweeps.lease import LostLeaseError
from svrl.sweeps.outcome import STOPPED
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import state_of, steps_done
from svrl.sweeps.store import LocalStore, Place, Store, open_store
from svrl.sweeps.work import Terms, work_on
from svrl.sweeps.work_together import _Queue, work_on_several


def started(
    store: Store, specs: list[RunSpec], *, threads: int = 1, alone: bool = False, together: int = 8
) -> ForkServerProcess:
    """A process that works on runs."""
    ids = tuple(spec.id for spec in specs)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["svrl.sweeps.work_together", "svrl.plots.learning"])
    process = context.Process(target=work, args=(store.address, store.code, ids, threads, alone, together))
    process.start()
    return process


def work(address: str, code: str, ids: tuple[str, ...], threads: int, alone: bool, together: int) -> None:
    terms = Terms(threads=threads, checkpoint_every=0.3, together=together)
    sys.exit(work_on(address, code, ids[0], terms) if alone else work_on_several(address, code, ids, terms))


def stopped_in_the_middle(store: Store, specs: list[RunSpec]) -> int | None:
    """Tell a process to stop once all its runs have begun to play; its exit code."""
    process = started(store, specs)
    while not all(steps_done(store, spec.id) > 0 for spec in specs):
        assert process.is_alive()
        time.sleep(0.05)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    process.join()
    return process.exitcode


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    opened = open_store(tmp_path / "store")
    assert isinstance(opened, LocalStore)
    return opened


@pytest.fixture
def specs(store: LocalStore) -> list[RunSpec]:
    """Long enough to be stopped in the middle."""
    made = trainings(20_000, seeds=2)
    for spec in made:
        store.add(spec)
    return made


@pytest.mark.slow
def test_stopped_and_gone_on_with_they_become_what_they_are_alone(store, specs, tmp_path):
    assert stopped_in_the_middle(store, specs) == 3
    assert [state_of(store, spec.id) for spec in specs] == ["stopped", "stopped"]
    assert [store.attempts(spec.id)[-1]["outcome"] for spec in specs] == ["stopped", "stopped"]
    # With other cores, and therefore threads: runs that go on keep their own.
    process = started(store, specs, threads=2)
    process.join()
    assert process.exitcode == 0
    assert [state_of(store, spec.id) for spec in specs] == ["done", "done"]
    alone = LocalStore(root=tmp_path / "alone", code=store.code)
    for spec in specs:
        alone.add(spec)
        process = started(alone, [spec], alone=True)
        process.join()
        assert process.exitcode == 0
        assert what_became_of(alone.folder(spec.id) / "run") == what_became_of(store.folder(spec.id) / "run")


def test_who_is_busy_is_left_alone_and_failures_are_each_runs_own(store):
    good, bad, busy = trainings(200, seeds=3)
    bad = RunSpec(
        kind="train", settings={**bad.settings, "learning_rate": 1e30}, full={**bad.full, "learning_rate": 1e30}
    )
    for spec in (good, bad, busy):
        store.add(spec)
    with store.working_on(busy.id):
        process = started(store, [good, bad, busy])
        process.join()
    assert process.exitcode == 2
    assert [state_of(store, spec.id) for spec in (good, bad, busy)] == ["done", "failed", "waiting"]
    assert store.attempts(busy.id) == []
    assert f"seed {bad.seed}: the loss is not finite at update" in store.attempts(bad.id)[-1]["reason"]
    assert "not finite" not in "".join(store.log_tail(good.id, 50))


@pytest.mark.slow
def test_runs_that_were_begun_with_other_threads_wait_for_a_process_of_their_own(store, specs):
    for spec, threads in zip(specs, (1, 2), strict=True):
        process = started(store, [spec], threads=threads)
        while steps_done(store, spec.id) == 0:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGTERM)
        process.join()
    process = started(store, specs)
    process.join()
    assert process.exitcode == 0
    assert [state_of(store, spec.id) for spec in specs] == ["done", "stopped"]


def test_the_next_begins_when_one_is_over_and_each_is_held_for_its_own_time(store):
    specs = trainings(200, seeds=5)
    for spec in specs:
        store.add(spec)
    process = started(store, specs, together=2)
    process.join()
    assert process.exitcode == 0
    assert [state_of(store, spec.id) for spec in specs] == ["done"] * 5
    began, ended = (
        sorted(store.attempts(spec.id)[at][name] for spec in specs) for at, name in ((0, "began"), (1, "ended"))
    )
    assert began[1] < ended[0], "two beside each other"
    assert all(later >= earlier for later, earlier in zip(began[2:], ended, strict=False)), "and the next after one"


@pytest.fixture
def queue(store: LocalStore) -> Callable[..., _Queue]:
    """The queue of a process; nothing of it is trained."""

    def made(specs: list[RunSpec], signals: Signals | None = None) -> _Queue:
        for spec in specs:
            store.add(spec)
        return _Queue(store, [spec.id for spec in specs], Terms(together=2), signals or Signals())

    return made


def test_what_failed_elsewhere_while_it_waited_is_not_begun(store, queue):
    specs = trainings(200, seeds=2)
    handed_over = queue(specs)
    store.note(specs[0].id, {"attempt": 1, "outcome": "failed", "reason": "elsewhere"})
    assert handed_over.next().seed == specs[1].seed
    assert len(store.attempts(specs[0].id)) == 1


def test_a_signal_before_the_first_step_lets_go_of_what_was_begun(store, queue):
    class Late(Signals):
        """Comes when the first run has been begun."""

        @property
        def came(self) -> int | None:
            return signal.SIGTERM if store.attempts(specs[0].id) else None

    specs = trainings(200, seeds=2)
    stopped = queue(specs, Late())
    stopped.train()
    assert [row.get("outcome") for row in store.attempts(specs[0].id)] == [None, "stopped"]
    assert not store.is_running(specs[0].id)
    assert store.attempts(specs[1].id) == []


def test_a_run_whose_lease_was_lost_is_not_taken_for_one_that_failed(store, queue, monkeypatch):
    def lost(self: Place) -> None:
        raise LostLeaseError("it belongs to somebody else")

    handed_over = queue(trainings(200))
    member = handed_over.next()
    monkeypatch.setattr(Place, "save", lost)
    handed_over.ended(member, None)
    assert (handed_over.codes, handed_over.broken) == ([STOPPED], "")


def test_a_damaged_run_fails_alone(store):
    damaged, good = trainings(200, seeds=2)
    for spec in (damaged, good):
        store.add(spec)
    (store.folder(damaged.id) / "run").mkdir()
    (store.folder(damaged.id) / "run" / "config.json").write_text('{"steps"')
    process = started(store, [damaged, good], together=1)
    process.join()
    assert process.exitcode == 2
    assert [state_of(store, spec.id) for spec in (damaged, good)] == ["failed", "done"]
    assert "config.json" in store.attempts(damaged.id)[-1]["reason"]


def test_settings_that_are_refused_fail_their_own_run_only(store):
    good, bad = trainings(200, seeds=2)
    bad = RunSpec(kind="train", settings=bad.settings, full={**bad.full, "batch_size": -1})
    for spec in (bad, good):
        store.add(spec)
    process = started(store, [bad, good], together=1)
    process.join()
    assert process.exitcode == 2
    assert [state_of(store, spec.id) for spec in (bad, good)] == ["failed", "done"]
    assert "batch_size" in store.attempts(bad.id)[-1]["reason"]
