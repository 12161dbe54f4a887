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
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from svrl.runs.driver import Driver, Listener, News, Pool, Summary
from svrl.runs.spec import Effort, RunSpec
from svrl.runs.store import RUN, Store, open_store
from svrl.runs.train_run import TRAIN
from svrl.runs.work import Ended, carry_out, threads_of
from svrl.runtime.device import is_gpu, usable_cores
from svrl.runtime.stop_signals import Signals, Stopped

ITS_GPU = "cuda"
"""What a worker calls its GPU: it sees no other."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_locally(
    specs: Sequence[RunSpec],
    address: str,
    *,
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
    room = Room.of(effort, {spec.device for spec in specs}, listener.notes)
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
    def of(cls, effort: Effort, devices: Iterable[str], note: Callable[[str], object] = str) -> Room:
        """Room for runs.

        Args:
            effort: How many at a time are asked for, and what one takes.
            devices: That they ask for: cpu, cuda, cuda:1.
            note: Takes what a person should know about it.

        Raises:
            ValueError: If a device is not here.
        """
        cores, gpus = usable_cores(), _gpus(list(devices))
        each = min(effort.cores, cores)
        if each < effort.cores:
            note(f"Note: runs ask for {effort.cores} cores each, and this machine lends {each}.")
        together = int(1 / effort.gpus + 1e-9) if effort.gpus else 1
        by_cores, by_memory = cores // each, cores * together
        if effort.memory_gb:
            has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
            by_memory = max(1, int(has / effort.memory_gb))
            if by_memory < (len(gpus) * together or by_cores):
                note(
                    f"Note: {by_memory} runs at a time, because each may take {effort.memory_gb:g} GB of the "
                    f"machine's {has:.0f}."
                )
        gpus = dict(list(gpus.items())[: min(effort.jobs or len(gpus), by_memory)])
        together = min(together, max(1, by_memory // len(gpus))) if gpus else 1
        return cls(cores=each, jobs=effort.jobs or min(by_cores, by_memory), gpus=gpus, together=together)

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
    """This process, with one run at a time. The run hears a signal itself, so there is nothing to stop or to close."""

    def __init__(self, store: Store, effort: Effort, signals: Signals) -> None:
        self._store, self._effort, self._signals = store, replace(effort, cores=1), signals
        self._spec: RunSpec | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether it has a run."""
        return self._spec is not None

    def take(self, spec: RunSpec) -> bool:
        """Take a run; False if it has one."""
        free = self._spec is None
        self._spec = self._spec or spec
        return free

    def news(self, seconds: float) -> Iterator[News]:
        """Tell that a run begins, do it, and tell how it ended."""
        if self._spec is None:
            time.sleep(seconds)
            return
        spec, self._spec = self._spec, None
        yield News(spec)
        yield News(spec, *carry_out(self._store, spec, self._effort, self._signals, to_log=False))


@dataclass(eq=False, kw_only=True)
class _Worker:
    """A process of the pool.

    Attributes:
        together: Runs that it works on at a time.
        sort: What its runs have in common; see `_sort`.
        gpu: The one that it has, or None.
        open: Runs that it has and that have not ended.
        begun: Those that it has said it began.
        leaving: It was told to stop, so it takes no more runs.
    """

    process: Any
    pipe: Connection
    together: int
    sort: tuple[str, Any, int]
    gpu: str | None
    open: dict[str, RunSpec] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    leaving: bool = False

    def heard(self, run: str, ended: Ended | None, reason: str) -> News:
        """What it says about one of its runs."""
        if ended is None:
            self.begun.add(run)
            return News(self.open[run])
        self.leaving |= ended == "stopped"
        return News(self.open.pop(run), ended, reason)


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
        worker = self._worker_for(spec)
        if worker is None:
            return False
        worker.open[spec.id] = spec
        with suppress(OSError):  # it has died, which `news` will notice
            worker.pipe.send(spec)
        return True

    def _worker_for(self, spec: RunSpec) -> _Worker | None:
        """A worker with room; on a GPU one whose runs were of another sort is replaced."""
        sort, on_gpu = self._sort(spec), is_gpu(spec.device)
        if not on_gpu and any(worker.open and worker.gpu for worker in self._workers):
            return None
        gpus = [gpu for gpu in self._room.gpus if on_gpu and spec.device in ("cuda", gpu)]
        mine = [worker for worker in self._workers if worker.gpu in (gpus if on_gpu else [None])]
        for worker in mine:
            if worker.sort == sort and len(worker.open) < worker.together and not worker.leaving:
                return worker
        if not on_gpu:
            return self._start(None, sort) if len(mine) < self._room.jobs else None
        has = {worker.gpu: worker for worker in mine}
        for gpu in gpus:
            if gpu not in has or not has[gpu].open:
                if gpu in has:
                    self._forget(has[gpu])
                return self._start(gpu, sort)
        return None

    def _sort(self, spec: RunSpec) -> tuple[str, Any, int]:
        """Runs side by side in one process share torch's precision and number of threads; a plan has its own."""
        if not is_gpu(spec.device):
            return ("", None, self._room.cores)
        threads = threads_of(self._store.folder(spec.id) / RUN, self._room.cores)
        return (spec.kind.name if spec.kind == TRAIN else "", spec.settings.get("precision"), threads)

    def _start(self, gpu: str | None, sort: tuple[str, Any, int]) -> _Worker:
        together = (self._room.together if sort[0] else 1) if gpu else 0
        its = (self._room.gpus[gpu], ITS_GPU) if gpu else (None, None)
        pipe, other = self._context.Pipe()
        asked = (other, self._store.root, replace(self._effort, cores=sort[-1]), together, *its)
        process = self._context.Process(target=_serve, args=asked)
        # A worker that is still importing must not hear the Ctrl-C of the terminal; it inherits what is blocked here.
        resource_tracker.ensure_running()  # first, because it unblocks
        earlier = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, earlier)
        other.close()
        worker = _Worker(process=process, pipe=pipe, together=max(1, together), sort=sort, gpu=gpu)
        self._workers.append(worker)
        return worker

    def news(self, seconds: float) -> list[News]:
        """What workers said, and which are lost."""
        pipes = [worker.pipe for worker in self._workers]
        if not pipes:
            time.sleep(seconds)
        ready = set(wait(pipes, seconds)) if pipes else set()
        found: list[News] = []
        for worker in [worker for worker in self._workers if worker.pipe in ready]:
            try:
                while worker.pipe.poll():
                    found.append(worker.heard(*worker.pipe.recv()))
            except (EOFError, OSError):
                self._forget(worker)
                code = worker.process.exitcode
                found += [  # one that was told to stop ends with code 0, before it begins the rest
                    News(spec, "killed", _how_it_ended(code))
                    if code or spec.id in worker.begun
                    else News(spec, "stopped")
                    for spec in worker.open.values()
                ]
        return found

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


def _how_it_ended(code: int) -> str:
    if code > 0:
        return f"The process ended with code {code} and did not say why; see log.txt."
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = " The system does that to processes when memory runs out." if -code == signal.SIGKILL else ""
    return f"The process was ended by {name}.{hint}"


def _serve(
    pipe: Connection, root: Path, effort: Effort, together: int, visible: str | None, device: str | None
) -> None:
    """What a worker does: work on the runs that come through the pipe, one after another or several in threads."""
    with suppress(OSError):
        os.setsid()  # Ctrl-C in the terminal reaches the driver alone, which tells its workers
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    signals, store = Signals(), Store(root)
    asking, telling = threading.Lock(), threading.Lock()

    def next_run() -> RunSpec | None:
        with asking, suppress(EOFError, OSError):  # the driver may be gone
            while signals.came is None:
                if pipe.poll(0.2):
                    return pipe.recv()
        return None

    def tell(run: str, ended: Ended | None, reason: str = "") -> None:
        with telling, suppress(OSError):
            pipe.send((run, ended, reason))

    def work() -> None:
        while (spec := next_run()) is not None:
            begun = partial(tell, spec.id, None)
            found = carry_out(store, spec, effort, signals, device=device, together=together, begun=begun)
            if device is not None:
                from svrl.agents.cuda_graph import release

                release(device)
            tell(spec.id, *found)

    with suppress(Stopped, KeyboardInterrupt), signals.held_back():
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        threading.Thread(target=_stop_with_driver, args=(signals,), daemon=True).start()
        if together > 1:
            from svrl.training.population import in_threads

            in_threads(work, together, effort.cores)
        else:
            work()


def _stop_with_driver(signals: Signals) -> None:
    driver = multiprocessing.parent_process()
    assert driver is not None
    driver.join()
    if signals.came is None:
        os.kill(os.getpid(), signal.SIGTERM)
