"""Machines of their own on this one: each a network namespace with an address and a name, joined by a cable.

A cable that is pulled tells nobody, unlike a process that is killed: what was on its way is never answered.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_CALLED = "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"


@dataclass(frozen=True, kw_only=True)
class Host:
    """One end of the cable.

    Attributes:
        name: What it calls itself.
        address: Of its end.
        namespace: In which it is.
        end: Of the cable.
    """

    name: str
    address: str
    namespace: str
    end: str

    @property
    def inside(self) -> list[str]:
        """Words before a command that is to run there."""
        called = [sys.executable, "-c", _CALLED, self.name]
        return ["ip", "netns", "exec", self.namespace, "unshare", "--uts", *called]

    def pull_the_cable(self) -> None:
        """Nothing comes or goes any more."""
        _ip("-n", self.namespace, "link", "set", self.end, "down")


def why_none() -> str:
    """Why there can be no hosts here; empty if there can."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    missing = [name for name in ("ip", "unshare") if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is missing: apt-get install iproute2 util-linux"
    tried = subprocess.run(["unshare", "--net", "--uts", "true"], check=False, capture_output=True)
    return "" if tried.returncode == 0 else "this machine allows no network namespaces"


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two that reach each other and nobody else."""
    mark = f"svrl{os.getpid()}"
    one, two = (
        Host(name=f"{name}-{mark}", address=f"10.91.7.{last}", namespace=f"{mark}{name}", end=f"{mark[:12]}{last}")
        for name, last in (("one", 1), ("two", 2))
    )
    try:
        for host in (one, two):
            _ip("netns", "add", host.namespace)
        _ip("link", "add", one.end, "netns", one.namespace, "type", "veth", "peer", two.end, "netns", two.namespace)
        for host in (one, two):
            _ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", host.end)
            for end in ("lo", host.end):
                _ip("-n", host.namespace, "link", "set", end, "up")
        yield one, two
    finally:
        for host in (one, two):
            subprocess.run(["ip", "netns", "delete", host.namespace], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
