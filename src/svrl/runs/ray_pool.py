"""Runs on a Ray cluster: a task a run, in a folder that all nodes share.

Ray says where a run goes, and begins it again if its worker or its node is lost. The lock of the run's folder keeps a
second process away for as long as the first one lives, and the run resumes from its last checkpoint.
"""

from __future__ import annotations

import importlib.util
import logging
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from svrl.runs.driver import Driver, Listener, News, Pool, Summary
from svrl.runs.spec import Effort, RunSpec
from svrl.runs.store import Store, open_store
from svrl.runs.work import carry_out
from svrl.runtime.device import is_gpu
from svrl.runtime.stop_signals import Signals

BEGAN_EVERY, OLDEST = 2.0, 20
"""Seconds between two looks at which tasks have begun, and how many are looked at; Ray does not tell."""


def run_on_ray(
    specs: Sequence[RunSpec],
    address: str,
    *,
    cluster: str | None = None,
    effort: Effort | None = None,
    listener: Listener | None = None,
    signals: Signals | None = None,
) -> Summary:
    """Work on all runs that are neither done nor failed, and return when nothing is left or a signal came.

    Args:
        specs: The runs; those that they come after are done too.
        address: The folder of the store; the same one on every node.
        cluster: Address of Ray, as in host:6379. By default RAY_ADDRESS, then a cluster on this machine, then a new one
            that ends with this process.
        effort: How they are worked on; `jobs` is the most tasks at a time.
        listener: Follows the sweep.
        signals: Those that the caller holds back already; by default they are held back here.

    Raises:
        ValueError: If Ray is missing or no cluster answers.
        OSError: If the store cannot be written to before anything has begun.
    """
    if importlib.util.find_spec("ray") is None:
        raise ValueError("A sweep on a cluster needs Ray, which is not installed. Run: pip install 'svrl[cluster]'")
    effort, store = effort or Effort(), open_store(Path(address).absolute())
    with ExitStack() as held:
        signals = signals or held.enter_context(Signals().held_back())
        pool = RayPool(held.enter_context(_connected(cluster)), store, effort)
        return Driver(store, pool, signals, effort, listener or Listener()).run(specs)


class RayPool(Pool):
    """Tasks that Ray was given, which wait in Ray for room. Ray itself ends the tasks of a driver that is gone."""

    def __init__(self, ray: Any, store: Store, effort: Effort) -> None:
        self._ray, self._store, self._effort = ray, store, effort
        self._tasks: dict[Any, RunSpec] = {}
        self._begun: set[str] = set()
        self._looked = 0.0
        self._task = ray.remote(max_retries=effort.retries)(_task)

    @property
    def is_at_work(self) -> bool:
        """Whether Ray has tasks."""
        return bool(self._tasks)

    def take(self, spec: RunSpec) -> bool:
        """Give Ray a task; False if it has `jobs` already."""
        if self._effort.jobs is not None and len(self._tasks) >= self._effort.jobs:
            return False
        effort, device = self._effort, None
        asked: dict[str, float] = {"num_cpus": effort.cores}
        if is_gpu(spec.device):
            asked["num_gpus"], device = (
                effort.gpus or 1,
                "cuda",
            )  # the GPU, or the share of one, that Ray gives the task
        if effort.memory_gb:
            asked["memory"] = int(effort.memory_gb * 1e9)
        task = self._task.options(name=spec.label, **asked)
        self._tasks[task.remote(str(self._store.root), spec, effort, device)] = spec
        return True

    def news(self, seconds: float) -> list[News]:
        """Which tasks have begun or ended."""
        if not self._tasks:
            time.sleep(seconds)
            return []
        ended, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        return [*self._beginnings(), *(news for task in ended for news in self._end(task))]

    def _beginnings(self) -> Iterator[News]:
        if time.monotonic() - self._looked < BEGAN_EVERY:
            return
        self._looked = time.monotonic()
        for spec in [spec for spec in self._tasks.values() if spec.id not in self._begun][:OLDEST]:
            if self._store.is_running(spec.id):
                self._begun.add(spec.id)
                yield News(spec)

    def _end(self, task: Any) -> Iterator[News]:
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        spec = self._tasks.pop(task)
        try:
            ended, reason = self._ray.get(task)
        except TaskCancelledError:  # it had not begun
            ended, reason = "stopped", ""
        except RayTaskError as error:
            last = str(error).strip().splitlines()[-1]
            said = f"A node could not begin a run: {last} Install the same version of svrl on every machine."
            ended, reason = "broken", said
        except RayError as error:
            said = f"Its Ray worker or its node was lost: {_first_sentence(error)}"
            yield News(spec, "killed", said, for_good=True)
            return
        if ended != "busy" and spec.id not in self._begun and (ended, reason) != ("stopped", ""):
            yield News(spec)
        self._begun.discard(spec.id)
        yield News(spec, ended, reason)

    def stop(self) -> None:
        """Cancel all: those that have not begun go; those that have save, and end."""
        for task in self._tasks:
            self._ray.cancel(task, force=False)


def _task(root: str, spec: RunSpec, effort: Effort, device: str | None) -> tuple[str, str]:
    """What a Ray worker does. Ray cancels it by an interrupt, at which it saves and ends."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    with Signals().held_back() as signals:
        return carry_out(Store(Path(root)), spec, effort, signals, device=device)


@contextmanager
def _connected(cluster: str | None) -> Iterator[Any]:
    """Ray, connected; a connection that was there before stays."""
    import ray

    if ray.is_initialized():
        yield ray
        return
    if cluster is not None and "://" in cluster:
        raise ValueError(f"Give the address of a cluster as host:port, on one of its nodes; got {cluster}.")
    if cluster not in (None, "auto", "local"):  # Ray itself tries for minutes to reach an address that is silent
        host, _, port = str(cluster).rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
        except (OSError, OverflowError, ValueError) as error:
            said = f"No Ray cluster can be reached at {cluster}: {error}. Start one with ray start --head."
            raise ValueError(said) from error
    earlier = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=cluster, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
        where = "here" if cluster is None else f"at {cluster}"
        raise ValueError(f"No Ray cluster can be reached {where}: {_first_sentence(error)}") from error
    signal.signal(signal.SIGTERM, earlier)  # which Ray has taken
    try:
        yield ray
    finally:
        ray.shutdown()


def _first_sentence(error: BaseException) -> str:
    """The first sentence of an error; Ray's messages fill pages."""
    line = (str(error).strip().splitlines() or [f"{type(error).__name__}."])[0]
    return line.partition(". ")[0].rstrip(".") + "."
