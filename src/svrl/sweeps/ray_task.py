"""A run as a Ray task: what it takes, and what the worker does: start a process, watch it, tell how it ended.

The run is a process of its own, so that a crash, too much memory or SIGKILL hits it alone. It ends with its worker, and
saves before it does.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from svrl.sweeps.machine import memory_of
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.sweep_file import Resources

LOOK_EVERY = 0.2
"""Seconds between two looks at the process."""
_SAID = 4000
"""Characters of what it said beside its log that are told."""


def options_of(spec: RunSpec, resources: Resources) -> dict[str, float]:
    """What a task takes, in Ray's words; a run on a card whose share is not said takes all of it."""
    asked: dict[str, float] = {"num_cpus": resources.cores, "num_gpus": 0}
    if spec.device.startswith("cuda"):
        asked["num_gpus"] = resources.gpus or 1
    if resources.memory_gb:
        asked["memory"] = int(resources.memory_gb * 1e9)
    return asked


def room_on(asked: Mapping[str, float], node: Mapping[str, float]) -> int:
    """Tasks that a node has room for when it is empty."""
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    return min(int(node.get(names[name], 0) / amount) for name, amount in asked.items() if amount)


def listed(asked: Mapping[str, float]) -> str:
    """What a task takes, for a person."""
    words = {"num_cpus": "{:g} cores", "num_gpus": "{:g} cards", "memory": "{:.3g} bytes of memory"}
    return ", ".join(words[name].format(amount) for name, amount in asked.items() if amount)


def carry_out(job: Mapping[str, Any], *, memory_gb: float | None, on_a_card: bool) -> dict[str, Any]:
    """Work on a run until its process ends; if the task is cancelled, tell it to stop and wait until it has.

    Args:
        job: As `svrl.sweeps.one_run.job_of` makes it.
        memory_gb: The process is killed if it has more, in 10^9 bytes; None for no limit.
        on_a_card: The run sees the card, or the share of one, that Ray gave this task, whatever number it asked for.

    Returns:
        host, seconds, code (of the process; minus the signal that ended it), peak_gb, too_large (it was killed for
        its memory) and said (what it wrote to stderr, the end of it).
    """
    began = time.monotonic()
    card = os.environ.get("CUDA_VISIBLE_DEVICES") if on_a_card else None
    words = json.dumps({**job, "terms": {**job["terms"], "parent": os.getpid(), "card": card}})
    peak_gb, too_large, told = 0.0, False, False
    with _cancelled() as cancelled, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "svrl.sweeps.one_run", words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        while _is_at_work(process):
            working = _started_by(process.pid)
            used = memory_of(working)
            peak_gb = max(peak_gb, used)
            if working is not None and memory_gb is not None and used > memory_gb and not too_large:
                too_large = True
                os.kill(working, signal.SIGKILL)
            if cancelled.is_set() and not told:
                told = True  # once: a run that is told twice does not save
                process.terminate()
        said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID))
        text = said.read().decode("utf-8", "replace")
    return {
        "host": socket.gethostname(),
        "seconds": time.monotonic() - began,
        "code": process.returncode,
        "peak_gb": peak_gb,
        "too_large": too_large,
        "said": text,
    }


def _is_at_work(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(LOOK_EVERY)
    except subprocess.TimeoutExpired:
        return True
    return False


def _started_by(process: int) -> int | None:
    """The process that `svrl.sweeps.one_run` waits for; None if there is none, or the system does not say."""
    try:
        found = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    except OSError:
        return None
    return int(found[0]) if found else None


@contextmanager
def _cancelled() -> Iterator[threading.Event]:
    """Set when Ray cancels the task, which it does by a Ctrl-C in the main thread."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    earlier = signal.signal(signal.SIGINT, lambda number, frame: came.set())
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, earlier)
