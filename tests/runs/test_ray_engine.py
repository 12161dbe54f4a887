"""A sweep on a real Ray cluster of two nodes on this machine: a worker and a node are killed, and nothing is lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed here; make test-integrations installs it")

import ray
from ray.cluster_utils import Cluster
from tests.runs.local_rig import Told, all_of, at_first, has_checkpoint, leftovers, plans, runs, trainings

from svrl.runs.local import run_locally
from svrl.runs.ray_pool import run_on_ray
from svrl.runs.spec import Effort
from svrl.runs.store import Store

LONG = trainings(6000, seeds=2, arms=("dqn", "sv-dqn"), log_every=500)
OFTEN = Effort(checkpoint_every=0.3)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that has no room for runs, and two nodes that have room for two each."""
    # A lost node is noticed in about two seconds, not twenty; other programs' memory ends no worker.
    monkeypatch.setenv("RAY_health_check_initial_delay_ms", "1000")
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_timeout_ms", "2000")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    found.nodes_of_runs = [found.add_node(num_cpus=2) for _ in range(2)]
    yield found
    ray.shutdown()
    found.shutdown()


def outcomes(place: Path, run: str) -> list[str]:
    return [row["outcome"] for row in Store(place).attempts(run) if "outcome" in row]


def test_a_killed_worker_and_a_killed_node_change_nothing(cluster: Any, tmp_path: Path) -> None:
    specs = [*LONG, *plans(2)]
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    assert run_locally(specs, str(straight)).count("done") == len(specs)
    killed: list[int] = []

    def kill() -> None:
        """A worker first, then a node with all that works there."""
        killed.append(int(Store(broken).attempts(LONG[0].id)[-1]["pid"]))
        os.kill(killed[0], signal.SIGKILL)
        cluster.remove_node(cluster.nodes_of_runs.pop(), allow_graceful=False)

    told = Told(at_first(lambda: has_checkpoint(broken, LONG[0]), kill))
    found = run_on_ray(specs, str(broken), cluster=cluster.address, effort=OFTEN, listener=told)
    assert found.count("done") == len(specs), found.failures
    assert killed
    assert all_of(broken, specs) == all_of(straight, specs)
    assert leftovers(broken) == []
    assert [outcomes(broken, spec.id) for spec in specs] == [["done"]] * len(specs)
    begun = [sum("began" in row for row in Store(broken).attempts(spec.id)) for spec in specs]
    assert sum(begun) > len(specs)
    assert sorted(run for run, ended, _ in told.ended if ended == "done") == sorted(spec.id for spec in specs)


def test_a_signal_saves_failures_stop_nobody_and_the_same_call_resumes(cluster: Any, tmp_path: Path) -> None:
    stop = at_first(lambda: has_checkpoint(tmp_path, LONG[0]), lambda: os.kill(os.getpid(), signal.SIGTERM))
    found = run_on_ray(LONG[:2], str(tmp_path), cluster=cluster.address, effort=OFTEN, listener=Told(stop))
    assert found.stopped == signal.SIGTERM
    assert "stopped" in found.states.values()
    assert outcomes(tmp_path, LONG[0].id) in (["stopped"], ["done"])
    wrong = runs('[fixed]\npreset = "smoke"\nenv = "Nope-v3"')
    found = run_on_ray([*wrong, *LONG[:2]], str(tmp_path), cluster=cluster.address, effort=OFTEN)
    assert "There is no environment 'Nope-v3'" in found.failures[wrong[0].id]
    assert found.count("done") == 2
    straight = tmp_path / "straight"
    run_locally(LONG[:2], str(straight))
    assert all_of(tmp_path, LONG[:2]) == all_of(straight, LONG[:2])


def test_a_run_whose_worker_is_killed_too_often_fails(cluster: Any, tmp_path: Path) -> None:
    spec, killed = LONG[0], set[int]()

    def kill(told: Told) -> None:
        attempts = Store(tmp_path).attempts(spec.id)
        if attempts and attempts[-1].get("pid", 0) not in {*killed, 0}:
            killed.add(attempts[-1]["pid"])
            os.kill(attempts[-1]["pid"], signal.SIGKILL)

    found = run_on_ray([spec], str(tmp_path), cluster=cluster.address, effort=Effort(retries=1), listener=Told(kill))
    assert len(killed) == 2
    assert "Its Ray worker or its node was lost" in found.failures[spec.id]


def test_a_cluster_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"No Ray cluster can be reached at 127\.0\.0\.2:1"):
        run_on_ray(LONG[:1], str(tmp_path), cluster="127.0.0.2:1")
