from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.training import Training
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.tasks import inverted_pendulum
from svrl.runtime.device import check_device, free_bytes, free_in_groups, free_ram


def test_a_gpu_that_is_not_there_is_one_sentence() -> None:
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    with pytest.raises(ValueError, match=f"cuda:{there} is not available: torch finds"):
        check_device(f"cuda:{there}")
    with pytest.raises(ValueError, match=f"cuda:{there} is not available"):
        Training("CartPole-v1", AgentConfig.of("classic"), device=f"cuda:{there}")
    with pytest.raises(ValueError, match=f"cuda:{there} is not available"):
        GridMDP(inverted_pendulum(states=(5, 5), actions=3), device=f"cuda:{there}")
    with pytest.raises(ValueError, match=f"cuda:{there} is not available"):
        TabularMDP(transitions=np.full((2, 2, 2), 0.5), rewards=np.zeros((2, 2)), gamma=0.5, device=f"cuda:{there}")
    check_device("cpu")


def limits(place: str, most: str, used: int, cached: int = 0) -> dict[str, str]:
    return {
        f"{place}/memory.max": f"{most}\n",
        f"{place}/memory.current": f"{used}\n",
        f"{place}/memory.stat": f"anon 5\ninactive_file {cached}\nactive_file 7\n",
    }


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, float("inf")),
        (limits("user/job", "max", 100), float("inf")),
        (limits("user/job", "5000000", 1000000), 4000000),
        (limits("user/job", "5000000", 1000000, cached=400000), 4400000),
        (limits("user/job", "5000000", 6000000), 0),
        (limits("user/job", "max", 1) | limits("user", "3000000", 1000000), 2000000),
        (limits("", "5000000", 1000000), 4000000),
    ],
)
def test_the_least_that_a_group_leaves(tmp_path: Path, files: dict[str, str], free: float):
    for name, text in files.items():
        path = tmp_path / "groups" / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "own").write_text("4:memory:/old\n0::/user/job\n")
    assert free_in_groups(tmp_path / "own", tmp_path / "groups") == free
    assert free_in_groups(tmp_path / "no-such-file", tmp_path / "groups") == float("inf")


def test_this_machine_has_some():
    assert 1e6 < free_ram() <= psutil.virtual_memory().total
    assert free_bytes(torch.device("cpu")) == pytest.approx(free_ram(), rel=0.5)
