"""Processes that work on runs, forked from a server that has imported everything: each begins in a moment.

The server has one thread and has not touched a card, so what it forks is as good as new. What it has forked saves and
ends when the process is gone that asked for it (`svrl.sweeps.child.end_with`), and the server after that.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

from svrl.sweeps.run_spec import Kind
from svrl.sweeps.work import Terms, work_on

_ALWAYS = ("svrl.sweeps.forked", "svrl.sweeps.work_together", "svrl.cli.main", "matplotlib.backends.backend_agg")
_OF_KIND: dict[Kind, tuple[str, ...]] = {
    # Making an optimiser imports torch._dynamo, which takes longer than all the rest.
    "train": (
        "torch._dynamo",
        "gymnasium",
        "svrl.agents.evaluation",
        "svrl.cli.train_runs",
        "svrl.envs.classic",
        "svrl.plots.learning",
        "svrl.reporting.tables",
    ),
    "plan": (
        "svrl.cli.plan_files",
        "svrl.cli.plan_report",
        "svrl.cli.plan_run",
        "svrl.planning.checkpoint",
        "svrl.planning.score",
        "svrl.plots.planning",
        "svrl.reporting.tables",
    ),
}
LOST = 255
"""Exit code of a process whose server is gone: nobody knows how it ends."""


def fork_server(kinds: Iterable[Kind]) -> ForkServerContext:
    """Forks processes from one that has imported what commands of these kinds need; started by the first of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_ALWAYS, *(name for kind in sorted(set(kinds)) for name in _OF_KIND[kind])])
    # A Ctrl-C while the server imports would end it with a traceback; born deaf, it leaves that to this process.
    resource_tracker.ensure_running()  # first, because whoever starts it hears again
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)
    return context


class Forked:
    """A process at work.

    Args:
        context: Forks it.
        address: Of the store.
        code: The code version.
        runs: Ids of the runs.
        terms: What they may take.
    """

    def __init__(
        self, context: ForkServerContext, address: str, code: str, runs: tuple[str, ...], terms: Terms
    ) -> None:
        self._told, telling = context.Pipe(duplex=False)
        self._process: ForkServerProcess = context.Process(
            target=_work, args=(address, code, runs, terms, telling), daemon=False
        )
        self._process.start()
        telling.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def code(self) -> int:
        """How it ended: its exit code, minus the number of the signal that ended it, or LOST; 0 before that."""
        return self._process.exitcode or 0

    @property
    def waited_for(self) -> list[int]:
        """What is ready when it ends; nothing if nobody would know."""
        return [self._process.sentinel] if self._process.exitcode is None else []

    def is_over(self) -> bool:
        """Whether it has ended."""
        return not self._process.is_alive() and (self.code != LOST or not _exists(self.pid))

    def why_broken(self) -> str:
        """Why it could not write to the store; empty if it did not say."""
        with suppress(EOFError, OSError):
            if self._told.poll():
                return str(self._told.recv())
        return ""

    def tell_to_stop(self) -> None:
        """It saves and ends."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """It ends at once."""
        self._send(signal.SIGKILL)

    def forget(self) -> None:
        """Let go of what is held for it; after its end."""
        self._told.close()
        self._process.join()
        self._process.close()

    def _send(self, number: int) -> None:
        # Not by the process's own methods: they do nothing once the server is gone.
        if not self.is_over():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _work(address: str, code: str, runs: tuple[str, ...], terms: Terms, telling: Connection) -> None:
    tell: Callable[[str], None] = telling.send
    sys.exit(_code(address, code, runs, terms, tell))


def _code(address: str, code: str, runs: Sequence[str], terms: Terms, tell: Callable[[str], None]) -> int:
    if len(runs) == 1:
        return work_on(address, code, runs[0], terms, tell)
    from svrl.sweeps.work_together import work_on_several  # torch with it, which whoever asks has no use for

    return work_on_several(address, code, runs, terms, tell)


def _exists(process: int) -> bool:
    """Whether a process is there; one that has ended and that nobody has waited for is not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc/self").exists():
        return True
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] not in ("Z", "X")
