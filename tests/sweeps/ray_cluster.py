"""A real Ray cluster on this machine: every node is `ray start` in a process of its own, ended by its number.

Every process of a node inherits a mark in its environment, by which all of them are found: workers, what workers
started, and what was left behind by a parent that is gone.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.sweeps.hosts import Host

MARK = "SVRL_TEST_NODE"
HOST = "127.0.0.2"
"""Of the head, on loopback; the other nodes have the addresses after it. Ray takes 127.0.0.1 for another one."""
_SMALL = ("--disable-usage-stats", "--num-gpus", "0", "--object-store-memory", str(100 * 2**20))
_HABITS = {
    "PYTHONUNBUFFERED": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A lost node is noticed in about two seconds, not twenty.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    # Others use this machine too: their memory shall not end our workers.
    "RAY_memory_monitor_refresh_ms": "0",
}


@dataclass(frozen=True, kw_only=True)
class Node:
    """`ray start --block` and what it started.

    Attributes:
        mark: In the environment of all its processes.
        process: The first of them.
    """

    mark: str
    process: subprocess.Popen[bytes]

    def processes(self, command: str = "") -> list[int]:
        """Numbers of all processes of the node whose command line contains this."""
        return [number for number in marked(self.mark) if command in command_line(number)]

    def kill(self) -> None:
        """End all of it at once, as when a machine loses its power."""
        end(self.mark)
        self.process.wait()


@dataclass(kw_only=True)
class Cluster:
    """Nodes on loopback.

    Attributes:
        address: Of the head.
        folder: Where Ray keeps its files.
        token: Lets a process in; of this cluster alone.
        around: Environment of all nodes, beside this process's.
        nodes: The head first.
    """

    address: str
    folder: Path
    token: str
    around: dict[str, str] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """What a process needs to be let in."""
        return {"RAY_ADDRESS": self.address, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def add(self, *, cpus: int = 1, on: Host | None = None) -> Node:
        """Start one more node, on this machine or on another; it is there when this returns."""
        address = on.address if on else f"127.0.0.{len(self.nodes) + 2}"
        words = ["--address", self.address, "--node-ip-address", address, "--num-cpus", str(cpus)]
        return self.start(words, on)

    def start(self, words: list[str], on: Host | None = None) -> Node:
        """Start a node with these options."""
        mark = uuid.uuid4().hex
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *_SMALL, *words]
        said = self.folder / f"start-{mark[:8]}.txt"
        with said.open("wb") as log:
            process = subprocess.Popen(
                [*(on.inside if on else []), *command],
                env={**os.environ, **_HABITS, **self.environment(), **self.around, MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        node = Node(mark=mark, process=process)
        self.nodes.append(node)
        while "Ray runtime started" not in (text := said.read_text(encoding="utf-8", errors="replace")):
            if process.poll() is not None:
                raise RuntimeError(f"ray start ended with {process.poll()} and said: {text}")
            time.sleep(0.05)
        return node


@contextmanager
def running_cluster(
    folder: Path, *, cpus: int = 1, environment: Mapping[str, str] | None = None, on: Host | None = None
) -> Iterator[Cluster]:
    """A cluster of one node; whatever happens, no process of it is left.

    Args:
        folder: For Ray's files; sockets are in it, so its name must be short.
        cpus: Of the head, which also works.
        environment: Of all nodes, beside this process's.
        on: The machine of the head.
    """
    address, port = (on.address, 6379) if on else (HOST, _free_port())
    cluster = Cluster(
        address=f"{address}:{port}", folder=folder, token=secrets.token_hex(32), around=dict(environment or {})
    )
    words = ["--head", "--port", str(port), "--node-ip-address", address, "--num-cpus", str(cpus)]
    try:
        cluster.start([*words, "--include-dashboard", "false", "--temp-dir", str(folder)], on)
        yield cluster
    finally:
        for node in reversed(cluster.nodes):
            node.kill()


def marked(mark: str) -> list[int]:
    """Numbers of the processes that have this mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


def command_line(number: int) -> str:
    """Of a process; empty if there is none."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def end(mark: str) -> None:
    """Kill all processes with a mark, and those they start meanwhile."""
    while numbers := [number for number in marked(mark) if command_line(number)]:
        for number in numbers:
            try:
                os.kill(number, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
