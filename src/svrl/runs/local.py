"""Runs on one machine: worker processes, one run at a time each; on a GPU one process, with runs side by side.

A worker is spawned, takes runs until there are none, and lives as long as its driver. If the driver ends, however it
ends, its workers save and end. A worker that is killed is replaced, and its run is resumed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from svrl.runs.driver import Driver, Effort, Listener, News, Pool, Summary
from svrl.runs.spec import RunSpec, Terms, with_forerunners
from svrl.runs.store import LOG, RUN, Store, open_store
from svrl.runs.sweep_file import Resources
from svrl.runs.train_run import TRAIN, member
from svrl.runs.work import Attempt, Ended, carry_out, threads_of
from svrl.runtime.device import is_gpu, usable_cores
from svrl.runtime.stop_signals import Signals, Stopped

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_locally(
    specs: Sequence[RunSpec],
    address: str,
    *,
    resources: Resources | None = None,
    effort: Effort | None = None,
    listener: Listener | None = None,
    signals: Signals | None = None,
    here: bool = False,
) -> Summary:
    """Work on all runs that are neither done nor failed, and return when nothing is left or a signal came.

    Call it below `if __name__ == "__main__":`, because it starts processes.

    Args:
        specs: The runs; those that they come after are done too.
        address: The folder of the store.
        resources: What one run takes.
        effort: How they are worked on.
        listener: Follows the sweep.
        signals: Those that the caller holds back already; by default they are held back here.
        here: In this process, one after another: quicker for runs that take less than the start of a process.

    Raises:
        ValueError: If runs need a GPU that is not here.
        OSError: If the store cannot be written to before anything has begun.
        KeyboardInterrupt: At a second Ctrl-C; processes are killed, and runs resume from their last checkpoints.
    """
    effort, listener, store = effort or Effort(), listener or Listener(), open_store(address)
    room = Room.of(resources or Resources(), effort.jobs, {spec.device for spec in specs}, listener.notes)
    specs = with_forerunners(specs)
    for spec in specs:
        store.add(spec)
    with ExitStack() as held:
        signals = signals or held.enter_context(Signals().held_back())
        pool = HerePool(store, effort, signals) if here else LocalPool(store, room, effort)
        held.callback(pool.close)
        return Driver(store, pool, signals, effort, listener).run(specs)


@dataclass(frozen=True, kw_only=True)
class Room:
    """What this machine has for runs.

    Attributes:
        cores: CPU threads of one run.
        jobs: Runs at a time on CPUs.
        gpus: GPUs that are used, as torch and as CUDA_VISIBLE_DEVICES name them.
        together: Runs at a time on one GPU.
    """

    cores: int
    jobs: int
    gpus: dict[str, str]
    together: int

    @classmethod
    def of(
        cls,
        resources: Resources,
        jobs: int | None,
        devices: Iterable[str],
        note: Callable[[str], object] = str,
    ) -> Room:
        """Room for runs.

        Args:
            resources: What one takes.
            jobs: Runs at a time; None takes as many as fit.
            devices: That they ask for: cpu, cuda, cuda:1.
            note: Takes what a person should know about it.

        Raises:
            ValueError: If a device is not here.
        """
        cores = usable_cores()
        each = min(resources.cores, cores)
        if each < resources.cores:
            note(f"Note: runs ask for {resources.cores} cores each, and this machine lends {each}.")
        gpus = _gpus(list(devices))
        together = int(1 / resources.gpus + 1e-9) if resources.gpus else 1
        by_cores, by_memory = cores // each, cores * together
        if resources.memory_gb:
            has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
            by_memory = max(1, int(has / resources.memory_gb))
            if by_memory < (len(gpus) * together or by_cores):
                note(
                    f"Note: {by_memory} runs at a time, because each may take {resources.memory_gb:g} GB of the "
                    f"machine's {has:.0f}."
                )
        most = min(jobs or len(gpus), by_memory)
        gpus = dict(list(gpus.items())[:most])
        together = min(together, max(1, by_memory // len(gpus))) if gpus else 1
        return cls(cores=each, jobs=jobs or min(by_cores, by_memory), gpus=gpus, together=together)

    @property
    def at_a_time(self) -> int:
        """Runs at a time."""
        return len(self.gpus) * self.together or self.jobs


def _gpus(devices: Sequence[str]) -> dict[str, str]:
    if not any(map(is_gpu, devices)):
        return {}
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise ValueError(
            "The sweep asks for device cuda, and torch finds no CUDA device here. Add --set device=cpu, or run it "
            "where there is one."
        )
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = listed.split(",") if listed else [str(number) for number in range(count)]
    gpus = {f"cuda:{number}": names[number].strip() for number in range(count)}
    for device in devices:
        if is_gpu(device) and device not in ("cuda", *gpus):
            raise ValueError(f"The sweep asks for device {device}, and torch finds {', '.join(gpus)} here.")
    return gpus


class HerePool(Pool):
    """This process, with one run at a time."""

    def __init__(self, store: Store, effort: Effort, signals: Signals) -> None:
        self._store, self._terms, self._signals = store, effort.terms(1, None), signals
        self._spec: RunSpec | None = None
        self._told = False

    @property
    def is_at_work(self) -> bool:
        """Whether it has a run."""
        return self._spec is not None

    def take(self, spec: RunSpec) -> bool:
        """Take a run; False if it has one."""
        if self._spec is not None:
            return False
        self._spec, self._told = spec, False
        return True

    def news(self, seconds: float) -> list[News]:
        """Tell that a run begins, and then do it."""
        if self._spec is None:
            time.sleep(seconds)
            return []
        if not self._told:
            self._told = True
            return [News("begins", self._spec)]
        spec, self._spec = self._spec, None
        return [News("ended", spec, *carry_out(self._store, spec, self._terms, self._signals, to_log=False))]

    def stop(self) -> None:
        """Nothing: the run that it has hears the signal itself, or has not begun."""

    def close(self) -> None:
        """Nothing."""


@dataclass(eq=False, kw_only=True)
class _Worker:
    """A process of the pool.

    Attributes:
        together: Runs that it works on at a time.
        sort: What its runs have in common; see `_sort`.
        gpu: The one that it has, or None.
        open: Runs that it has and that have not ended.
        begun: Those of them that it has said it began.
        leaving: It was told to stop, so it takes no more runs.
    """

    process: Any
    pipe: Connection
    together: int
    sort: tuple[Any, ...]
    gpu: str | None = None
    open: dict[str, RunSpec] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    leaving: bool = False


class LocalPool(Pool):
    """Worker processes on this machine. Runs on CPUs wait until those on GPUs are over."""

    def __init__(self, store: Store, room: Room, effort: Effort) -> None:
        self._store, self._room, self._effort = store, room, effort
        self._workers: list[_Worker] = []
        self._context = multiprocessing.get_context("spawn")

    @property
    def is_at_work(self) -> bool:
        """Whether a worker has runs that have not ended."""
        return any(worker.open for worker in self._workers)

    def take(self, spec: RunSpec) -> bool:
        """Hand a run to a worker; False if there is no room now."""
        on_gpu = is_gpu(spec.device)
        if not on_gpu and any(worker.open and worker.gpu for worker in self._workers):
            return False
        worker = self._worker_for(spec, self._sort(spec)) if on_gpu else self._worker_on_cpu()
        if worker is None:
            return False
        worker.open[spec.id] = spec
        with suppress(OSError):  # it has died, which `news` will notice
            worker.pipe.send(spec)
        return True

    def _worker_on_cpu(self) -> _Worker | None:
        mine = [worker for worker in self._workers if worker.gpu is None]
        idle = [worker for worker in mine if not worker.open and not worker.leaving]
        return idle[0] if idle else self._start() if len(mine) < self._room.jobs else None

    def _worker_for(self, spec: RunSpec, sort: tuple[Any, ...]) -> _Worker | None:
        """A worker with room on a GPU that a run may use; one whose runs were of another sort is replaced."""
        fitting = [gpu for gpu in self._room.gpus if spec.device in ("cuda", gpu)]
        has = {worker.gpu: worker for worker in self._workers if worker.gpu in fitting}
        for worker in has.values():
            if worker.sort == sort and len(worker.open) < worker.together and not worker.leaving:
                return worker
        for gpu in fitting:
            if gpu not in has or not has[gpu].open:
                if gpu in has:
                    self._forget(has[gpu])
                return self._start(gpu, sort)
        return None

    def _sort(self, spec: RunSpec) -> tuple[Any, ...]:
        """Runs side by side in one process share torch's precision and number of threads; a plan has its own."""
        threads = threads_of(self._store.folder(spec.id) / RUN, self._room.cores)
        return (spec.kind.name if spec.kind == TRAIN else "", spec.settings.get("precision"), threads)

    def _start(self, gpu: str | None = None, sort: tuple[Any, ...] = ()) -> _Worker:
        side_by_side = self._room.together if gpu and sort[0] else 0
        terms = self._effort.terms(sort[-1] if sort else self._room.cores, "cuda" if gpu else None)
        pipe, other = self._context.Pipe()
        visible = self._room.gpus[gpu] if gpu else None
        process = self._context.Process(target=_serve, args=(other, self._store.root, terms, side_by_side, visible))
        # A worker that is still importing must not hear the Ctrl-C of the terminal; it inherits what is blocked here.
        resource_tracker.ensure_running()  # first, because it unblocks
        earlier = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, earlier)
        other.close()
        worker = _Worker(process=process, pipe=pipe, together=max(1, side_by_side), sort=sort, gpu=gpu)
        self._workers.append(worker)
        return worker

    def news(self, seconds: float) -> list[News]:
        """What workers said, and which are lost."""
        pipes = [worker.pipe for worker in self._workers]
        if not pipes:
            threading.Event().wait(seconds)
        ready = set(wait(pipes, seconds)) if pipes else set()
        found: list[News] = []
        for worker in [worker for worker in self._workers if worker.pipe in ready]:
            try:
                while worker.pipe.poll():
                    found += self._heard(worker, *worker.pipe.recv())
            except (EOFError, OSError):
                self._forget(worker)
                code = worker.process.exitcode
                for run, spec in worker.open.items():
                    told = code == 0 and run not in worker.begun  # to stop
                    found.append(
                        News("ended", spec, "stopped") if told else News("lost", spec, reason=_how_it_ended(code))
                    )
        return found

    def _heard(self, worker: _Worker, run: str, ended: Ended | None, reason: str) -> Iterator[News]:
        if ended is None:
            worker.begun.add(run)
            yield News("begins", worker.open[run])
        else:
            worker.leaving |= ended == "stopped"
            yield News("ended", worker.open.pop(run), ended, reason)

    def stop(self) -> None:
        """Send SIGTERM to all workers."""
        for worker in self._workers:
            worker.process.terminate()

    def close(self) -> None:
        """Kill workers that are at work, and let the others end."""
        for worker in list(self._workers):
            if worker.open:
                worker.process.kill()
            self._forget(worker)

    def _forget(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.pipe.close()  # a worker without runs ends when it sees that
        worker.process.join()


def _how_it_ended(code: int | None) -> str:
    if code is None or code >= 0:
        return f"The process ended with code {code} and did not say why; see log.txt."
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = " The system does that to processes when memory runs out." if -code == signal.SIGKILL else ""
    return f"The process was ended by {name}.{hint}"


def _serve(pipe: Connection, root: Path, terms: Terms, side_by_side: int, visible: str | None) -> None:
    """What a worker does: work on the runs that come through the pipe, one after another or side by side."""
    with suppress(OSError):
        os.setsid()  # Ctrl-C in the terminal reaches the driver alone, which tells its workers
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    signals = Signals()
    worker = _Served(pipe, Store(root), terms, signals)
    with suppress(Stopped, KeyboardInterrupt), signals.held_back():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        threading.Thread(target=_stop_with_driver, args=(signals,), daemon=True).start()
        worker.work_on_several(side_by_side) if side_by_side else worker.work_on_one_after_another()


def _stop_with_driver(signals: Signals) -> None:
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    if signals.came is None:
        os.kill(os.getpid(), signal.SIGTERM)


class _Served:
    """The worker's end of the pipe; on a GPU the queue of `train_queue`, asked by several threads."""

    def __init__(self, pipe: Connection, store: Store, terms: Terms, signals: Signals) -> None:
        self._pipe, self._store, self._terms, self._signals = pipe, store, terms, signals
        self._asking, self._telling = threading.Lock(), threading.Lock()
        self._attempts: dict[Path, Attempt] = {}

    def work_on_one_after_another(self) -> None:
        """Until there are no more, or a signal came."""
        while (spec := self._next_spec()) is not None:

            def begun(run: str = spec.id) -> None:
                self._tell(run, None)

            self._tell(spec.id, *carry_out(self._store, spec, self._terms, self._signals, begun))

    def work_on_several(self, together: int) -> None:
        """Work on so many at a time until there are no more, or a signal came."""
        from svrl.training.population import Manner, train_queue
        from svrl.training.session import Habits

        habits = Habits(checkpoint_every=self._terms.checkpoint_every, tensorboard=self._terms.tensorboard)
        manner = Manner(habits=habits, env_threads=max(1, usable_cores() // together), say=_to_the_log)
        train_queue(
            self.next, self.ended, together=together, threads=self._terms.threads, manner=manner, signals=self._signals
        )

    def next(self) -> Any:
        """The next run as a member of the population, held; None if there is none."""
        while (spec := self._next_spec()) is not None:
            try:
                attempt = Attempt.begin(self._store, spec)
            except OSError as error:
                self._tell(spec.id, "broken", str(error))
                continue
            if attempt is None:
                self._tell(spec.id, "busy")
                continue
            self._tell(spec.id, None)
            folder = attempt.folder / RUN
            try:
                found = member(spec.settings, folder, self._terms, self._terms.device or spec.device)
            except ValueError as error:
                self._tell(spec.id, *attempt.end(error))
                continue
            self._attempts[folder] = attempt
            return found
        return None

    def ended(self, member: Any, outcome: Any) -> None:
        """A run of the population is over."""
        attempt = self._attempts.pop(member.folder)
        self._tell(attempt.spec.id, *attempt.end(outcome if isinstance(outcome, Exception) else None))

    def _next_spec(self) -> RunSpec | None:
        with self._asking:
            while self._signals.came is None:
                try:
                    if self._pipe.poll(0.2):
                        return self._pipe.recv()
                except (EOFError, OSError):
                    return None
        return None

    def _tell(self, run: str, ended: Ended | None, reason: str = "") -> None:
        with self._telling, suppress(OSError):  # the driver may be gone
            self._pipe.send((run, ended, reason))


def _to_the_log(member: Any, sentence: str) -> None:
    with (member.folder.parent / LOG).open("a", encoding="utf-8") as log:
        log.write(f"{sentence}\n")
