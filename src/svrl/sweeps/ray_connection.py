"""Ray as a library: is it there, and does a cluster answer?"""

from __future__ import annotations

import importlib.metadata
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from svrl.integrations.versions import LIBRARIES, numbers


def check_ray() -> None:
    """Raise ValueError, with a sentence that says what to do, unless Ray can be worked with."""
    wanted = LIBRARIES["ray"]
    try:
        found = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(
            "A sweep on a cluster needs Ray, which is not installed. Run: pip install 'svrl[cluster]'"
        ) from None
    if not numbers(wanted.lowest) <= numbers(found) < numbers(wanted.below):
        raise ValueError(
            f"Sweeps on a cluster were tested with ray {wanted.range}, and {found} is installed. "
            "Run: pip install 'svrl[cluster]'"
        )


@contextmanager
def connected(cluster: str | None) -> Iterator[Any]:
    """Ray, connected; a connection that was there before stays."""
    import ray

    if ray.is_initialized():
        yield ray
        return
    if cluster is not None and "://" in cluster:
        raise ValueError(
            f"The address of a cluster is host:port, and the sweep runs on one of its nodes; got {cluster}."
        )
    if cluster not in (None, "auto", "local"):
        _refuse_silence(str(cluster))
    in_main_thread = threading.current_thread() is threading.main_thread()
    earlier = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=cluster, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as error:
        where = "here" if cluster is None else f"at {cluster}"
        raise ValueError(f"No Ray cluster can be reached {where}: {first_sentence(error)}") from error
    if in_main_thread:
        signal.signal(signal.SIGTERM, earlier)  # which Ray has taken
    try:
        yield ray
    finally:
        ray.shutdown()


def _refuse_silence(cluster: str) -> None:
    """Ray itself tries for minutes to reach an address where nobody is."""
    host, _, port = cluster.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"The address of a cluster is host:port, as in 10.0.0.1:6379; got {cluster}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"No Ray cluster can be reached at {cluster}: {error}. Start one with ray start --head."
        ) from error


def first_sentence(error: BaseException) -> str:
    """Of what an error says; Ray's go on for pages."""
    line = (str(error).strip().splitlines() or [f"{type(error).__name__}."])[0]
    return line.partition(". ")[0].rstrip(".") + "."
