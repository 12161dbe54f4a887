from __future__ import annotations

from pathlib import Path

import pytest
import torch

from svrl.agents.replay_room import free_bytes, free_ram

MACHINE = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    8000 kB\n"}
NESTED = {"proc/self/cgroup": "0::/user/job\n"}


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def limits(place: str, most: str, used: int, idle: int = 0) -> dict[str, str]:
    return {
        f"sys/fs/cgroup/{place}/memory.max": f"{most}\n",
        f"sys/fs/cgroup/{place}/memory.current": f"{used}\n",
        f"sys/fs/cgroup/{place}/memory.stat": f"anon 5\ninactive_file {idle}\nactive_file 7\n",
    }


OLD_LIMITS = {
    "proc/self/cgroup": "9:name=systemd:/\n5:cpu,cpuacct:/here\n4:memory:/docker/1f\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "4000000\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "1500000\n",
    "sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 300000\n",
}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, float("inf")),
        (MACHINE, 8000 * 1024),
        ({"proc/meminfo": "nonsense"}, float("inf")),
        (MACHINE | NESTED, 8000 * 1024),
        (MACHINE | NESTED | limits("user/job", "max", 100), 8000 * 1024),
        (MACHINE | NESTED | limits("user/job", "5000000", 1000000), 4000000),
        (MACHINE | NESTED | limits("user/job", "5000000", 1000000, idle=400000), 4400000),
        (MACHINE | NESTED | limits("user/job", "5000000", 6000000), 0),
        (MACHINE | NESTED | limits("user/job", "max", 1) | limits("user", "3000000", 1000000), 2000000),
        (MACHINE | NESTED | limits("user/job", "90000000000", 1), 8000 * 1024),
        (MACHINE | {"proc/self/cgroup": "0::/\n"} | limits("", "5000000", 1000000), 4000000),
        (NESTED | limits("", "5000000", 1000000), 4000000),
        (MACHINE | OLD_LIMITS, 2800000),
        (OLD_LIMITS, 2800000),
    ],
)
def test_the_least_that_anybody_leaves(tmp_path: Path, files: dict[str, str], free: float):
    assert free_ram(system(tmp_path, files)) == free


def test_this_machine_has_some():
    assert 1e6 < free_bytes(torch.device("cpu")) == pytest.approx(free_ram(), rel=0.5)
