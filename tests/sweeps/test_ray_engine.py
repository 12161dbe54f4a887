"""Sweeps on a real Ray cluster of two nodes, whose workers and nodes are killed, beside the same sweep undisturbed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="Ray is not installed here; make test-integrations installs it")

from tests.sweeps.hosts import two_hosts, why_none
from tests.sweeps.object_store import BUCKET, REASON, ObjectStore, object_store
from tests.sweeps.ray_cluster import Cluster, Node, command_line, running_cluster

from svrl.runs.rows import read_rows
from svrl.sweeps.code_version import code_version
from svrl.sweeps.grid import runs_of
from svrl.sweeps.local_engine import run_locally
from svrl.sweeps.one_run import job_of
from svrl.sweeps.outcome import DONE
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.store import LocalStore, open_store
from svrl.sweeps.sweep_file import parse_sweep
from svrl.sweeps.work import Terms

CHECKPOINT_EVERY = 0.5
ROWS = ("episodes.jsonl", "learning.jsonl", "evaluations.jsonl")
TRAININGS = """
kind = "train"
[fixed]
preset = "classic"
steps = 1500
learn_from = 200
log_every = 250
eval_every = 500
eval_episodes = 2
[axes]
env = "CartPole-v1"
arm = ["dqn", "sv-dqn", "double"]
"""
PLANS = """
kind = "plan"
[fixed]
states = 60
actions = 20
[axes]
task = "toy"
method = ["svp", "value-iteration"]
"""
LONG = TRAININGS.replace("1500", "200_000")
DRIVER = """
import json, sys
from svrl.sweeps.engine import Effort
from svrl.sweeps.grid import runs_of
from svrl.sweeps.ray_engine import run_on_ray
from svrl.sweeps.sweep_file import Resources, parse_sweep

class Printed:
    def begins(self, spec): self.say("begins", spec.id)
    def ends(self, spec, ended, reason): self.say("ends", spec.id, ended, reason)
    def looks(self): pass
    def notes(self, sentence): self.say("notes", sentence)
    def say(self, *words): print(json.dumps(words), flush=True)

given = json.loads(sys.argv[1])
specs = [spec for text in given["sweeps"] for spec in runs_of(parse_sweep(text, "test"))]
try:
    summary = run_on_ray(
        specs, given["store"], cluster=given["cluster"], resources=Resources(**given["resources"]),
        effort=Effort(**given["effort"]), listener=Printed(),
    )
except ValueError as error:
    sys.exit(f"ValueError: {error}")
print(json.dumps(["summary", summary.states, summary.failures, summary.stopped, summary.broken]), flush=True)
"""
MAY_DIFFER = ("run", "out", "steps_per_second", "break_even_cost_against_value_iteration")
"""Names of rows and results that tell of time or place, beside those with "seconds" in them."""


class Driver:
    """A process that runs a sweep on the cluster, as `svrl sweep run` does."""

    def __init__(self, cluster: Cluster, store: str | Path, *sweeps: str, **given: Any) -> None:
        words = {
            "sweeps": sweeps,
            "store": str(store),
            "cluster": cluster.address,
            "resources": given.get("resources", {}),
            "effort": {"checkpoint_every": CHECKPOINT_EVERY, **given.get("effort", {})},
        }
        self.process = subprocess.Popen(
            [*given.get("inside", []), sys.executable, "-c", DRIVER, json.dumps(words)],
            env={**os.environ, **cluster.environment(), **given.get("environment", {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> tuple[list[list[Any]], str]:
        """What it told its listener, the summary last, and what it wrote to stderr."""
        said, errors = self.process.communicate()
        return [json.loads(line) for line in said.splitlines() if line.startswith("[")], errors


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore | None]:
    """An S3 server, if its libraries are there: nodes have to know it before they begin."""
    if any(importlib.util.find_spec(library) is None for library in ("moto", "s3fs", "flask")):
        yield None
        return
    with object_store() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(server: ObjectStore | None) -> Iterator[Cluster]:
    """The head, which also works; tests add their own second node."""
    folder = Path(tempfile.mkdtemp(prefix="svrl-ray-", dir="/tmp"))  # sockets need a short path
    (folder / "scratch").mkdir()
    environment = {"TMPDIR": str(folder / "scratch"), **(server.environment() if server else {})}
    try:
        with running_cluster(folder, environment=environment) as head:
            yield head
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def node(cluster: Cluster) -> Iterator[Node]:
    added = cluster.add()
    try:
        yield added
    finally:
        added.kill()


@pytest.fixture
def drivers() -> Iterator[list[Driver]]:
    begun: list[Driver] = []
    yield begun
    for driver in begun:
        driver.process.kill()
        driver.process.wait()


def test_a_killed_worker_and_a_killed_node_change_nothing(
    cluster: Cluster, node: Node, drivers: list[Driver], tmp_path: Path
) -> None:
    sweeps = (TRAININGS, PLANS)
    specs = [spec for text in sweeps for spec in runs_of(parse_sweep(text, "test"))]
    alone = LocalStore(root=tmp_path / "alone", code=code_version())
    store = LocalStore(root=tmp_path / "cluster", code=code_version())
    driver = Driver(cluster, store.root, *sweeps)
    drivers.append(driver)

    # A worker, in the middle of a training that has a checkpoint.
    victim = _wait_for(lambda: _training_on(cluster.nodes[0], store, specs), driver)
    os.kill(_worker_of(victim[0]), signal.SIGKILL)
    # Then a whole node.
    on_node = _wait_for(lambda: _training_on(node, store, specs), driver)
    node.kill()
    told, errors = driver.finish()

    assert driver.process.returncode == 0, errors
    assert told[-1] == ["summary", {spec.id: "done" for spec in specs}, {}, None, ""]
    for spec in specs:
        outcomes = [row["outcome"] for row in store.attempts(spec.id) if "outcome" in row]
        assert outcomes.count("done") == 1
        assert [row for row in told if row[0] == "ends" and row[1] == spec.id and row[2] == "done"], spec.label
    # Both went on: the one whose process could save, and the one whose process was killed with its node.
    assert [row["outcome"] for row in store.attempts(victim[1]) if "outcome" in row] == ["stopped", "done"]
    assert [row["outcome"] for row in store.attempts(on_node[1]) if "outcome" in row] == ["killed", "done"]
    assert ["ends", on_node[1], "killed"] in [row[:3] for row in told]

    run_locally(specs, alone.address)
    for spec in specs:
        names = ROWS if spec.kind == "train" else ()
        _assert_equal_runs(store.folder(spec.id) / "run", alone.folder(spec.id) / "run", names)


def test_a_machine_that_vanishes_is_not_waited_for(drivers: list[Driver], tmp_path: Path) -> None:
    """Killed processes close their connections; a machine without power does not, and Ray waits on for minutes."""
    if reason := why_none():
        pytest.skip(reason)
    specs = runs_of(parse_sweep(TRAININGS, "test"))
    alone = LocalStore(root=tmp_path / "alone", code=code_version())
    store = LocalStore(root=tmp_path / "cluster", code=code_version())
    with ExitStack() as held:
        here, there = held.enter_context(two_hosts())
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="svrl-ray-", dir="/tmp")))
        cluster = held.enter_context(running_cluster(folder, on=here))
        node = cluster.add(on=there)
        driver = Driver(cluster, store.root, TRAININGS, inside=here.inside)
        drivers.append(driver)
        lost = _wait_for(lambda: _training_on(node, store, specs), driver)[1]
        there.pull_the_cable()
        node.kill()
        told, errors = driver.finish()

    assert driver.process.returncode == 0, errors
    assert told[-1] == ["summary", {spec.id: "done" for spec in specs}, {}, None, ""]
    assert ["ends", lost, "killed", f"Its machine, {there.name}, was lost."] in told
    assert [row["outcome"] for row in store.attempts(lost) if "outcome" in row] == ["killed", "done"]
    assert [row["host"] for row in store.attempts(lost) if "began" in row] == [there.name, here.name]
    run_locally(specs, alone.address)
    for spec in specs:
        _assert_equal_runs(store.folder(spec.id) / "run", alone.folder(spec.id) / "run", ROWS)


def test_runs_that_are_done_are_not_begun_and_bad_ones_not_again(
    cluster: Cluster, drivers: list[Driver], tmp_path: Path
) -> None:
    store = LocalStore(root=tmp_path, code=code_version())
    bad = 'kind = "train"\n[fixed]\nenv = "CartPole-v2"\npreset = "smoke"\n'
    (wrong,) = runs_of(parse_sweep(bad, "test"))
    first, second = runs_of(parse_sweep(PLANS, "test"))
    store.add(first)
    assert _alone(store, first) == DONE

    drivers.append(driver := Driver(cluster, tmp_path, PLANS, bad))
    told, errors = driver.finish()

    assert driver.process.returncode == 0, errors
    assert told[-1][1] == {first.id: "done", second.id: "done", wrong.id: "failed"}
    assert "CartPole" in told[-1][2][wrong.id]
    assert [row[1] for row in told if row[0] == "begins"].count(first.id) == 0
    assert len(store.attempts(first.id)) == len(store.attempts(wrong.id)) == 2


def test_an_object_store_does_as_well(
    cluster: Cluster,
    server: ObjectStore | None,
    drivers: list[Driver],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if server is None:
        pytest.skip(REASON.format("moto, s3fs or flask"))
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    text = TRAININGS.replace('"dqn", "sv-dqn", "double"', '"sv-dqn"')
    (spec,) = runs_of(parse_sweep(text, "test"))
    drivers.append(driver := Driver(cluster, f"s3://{BUCKET}/sweeps", text))
    scratch = cluster.folder / "scratch"
    _wait_for(lambda: [*scratch.glob("svrl-run-*/**/checkpoints/*.npz")], driver)
    os.kill(_worker_of(cluster.nodes[0].processes("svrl.sweeps.one_run")[0]), signal.SIGKILL)
    told, errors = driver.finish()

    assert driver.process.returncode == 0, errors
    assert told[-1] == ["summary", {spec.id: "done"}, {}, None, ""]
    store = open_store(f"s3://{BUCKET}/sweeps")
    assert [row["outcome"] for row in store.attempts(spec.id) if "outcome" in row] == ["stopped", "done"]
    alone = LocalStore(root=tmp_path, code=code_version())
    assert _alone(alone, spec) == DONE
    for name in ROWS:
        rows = alone.rows(spec.id, name)
        assert rows
        assert _without_time(store.rows(spec.id, name)) == _without_time(rows), name
    assert _without_time(store.result(spec.id)) == _without_time(alone.result(spec.id))
    assert not [*scratch.glob("svrl-run-*")]


def test_a_signal_saves_and_the_same_command_goes_on(cluster: Cluster, drivers: list[Driver], tmp_path: Path) -> None:
    store = LocalStore(root=tmp_path, code=code_version())
    specs = runs_of(parse_sweep(LONG, "test"))
    for number in (signal.SIGINT, signal.SIGKILL):
        drivers.append(driver := Driver(cluster, tmp_path, LONG))
        run = _wait_for(lambda: _training_on(cluster.nodes[0], store, specs), driver)[1]
        driver.process.send_signal(number)
        told, errors = driver.finish()
        # Asked to stop, it waits for its runs; killed, it leaves it to Ray to end its workers, and to runs to save.
        _wait_for(lambda: not store.is_running(run) or number == signal.SIGINT)  # noqa: B023
        assert not store.is_running(run), errors
        assert store.attempts(run)[-1]["outcome"] == "stopped"
        if number == signal.SIGINT:
            assert told[-1][3] == number
            assert set(told[-1][1].values()) == {"stopped", "waiting"}
    assert len(store.attempts(run)) == 4
    # The lock is given back a moment before the process is gone.
    _wait_for(lambda: not cluster.nodes[0].processes("svrl.sweeps.one_run"))


def test_other_code_is_refused(cluster: Cluster, drivers: list[Driver], tmp_path: Path) -> None:
    import svrl

    changed = tmp_path / "src" / "svrl"
    shutil.copytree(Path(svrl.__file__).parent, changed, ignore=shutil.ignore_patterns("__pycache__"))
    with (changed / "matrix" / "__init__.py").open("a", encoding="utf-8") as file:
        file.write("# other code\n")
    environment = {"PYTHONPATH": str(changed.parent)}
    drivers.append(driver := Driver(cluster, tmp_path / "store", PLANS, environment=environment))
    told, errors = driver.finish()

    assert driver.process.returncode == 0, errors
    assert f"has svrl {code_version()} in {sys.prefix}, and the sweep was begun with " in told[-1][4]
    assert set(told[-1][1].values()) == {"waiting"}


def test_a_run_that_takes_too_much_memory_fails_alone(cluster: Cluster, drivers: list[Driver], tmp_path: Path) -> None:
    drivers.append(driver := Driver(cluster, tmp_path, PLANS, resources={"memory_gb": 0.05}))
    told, errors = driver.finish()

    assert driver.process.returncode == 0, errors
    assert set(told[-1][1].values()) == {"failed"}
    for reason in told[-1][2].values():
        assert "more than resources.memory_gb = 0.05" in reason


def test_a_cluster_that_does_not_answer_is_an_error(cluster: Cluster, drivers: list[Driver], tmp_path: Path) -> None:
    nowhere = Cluster(address="127.0.0.2:1", folder=tmp_path, token=cluster.token)
    drivers.append(driver := Driver(nowhere, tmp_path / "store", PLANS))
    _, errors = driver.finish()

    assert driver.process.returncode == 1
    assert errors.splitlines()[-1].startswith("ValueError: No Ray cluster can be reached at 127.0.0.2:1: ")


def _wait_for(look: Callable[[], Any], driver: Driver | None = None) -> Any:
    while not (found := look()):
        if driver is not None and driver.process.poll() is not None:
            pytest.fail(f"The sweep ended too early: {driver.finish()}")
        time.sleep(0.05)
    return found


def _training_on(node: Node, store: LocalStore, specs: Sequence[RunSpec]) -> tuple[int, str] | None:
    """A process of the node that trains and has a checkpoint, and its run."""
    for number in node.processes("svrl.sweeps.one_run"):
        for spec in specs:
            saved = (store.folder(spec.id) / "run" / "checkpoints").glob("*.npz")
            if spec.kind == "train" and spec.id in command_line(number) and any(saved) and store.is_running(spec.id):
                return number, spec.id
    return None


def _worker_of(number: int) -> int:
    """The Ray worker above a process."""
    while not command_line(number).startswith("ray::"):
        number = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[1])
    return number


def _alone(store: LocalStore, spec: RunSpec) -> int:
    """Do a run without Ray."""
    store.add(spec)
    job = job_of(store.address, store.code, spec.id, Terms(parent=os.getpid()))
    return subprocess.run([sys.executable, "-m", "svrl.sweeps.one_run", json.dumps(job)], check=False).returncode


def _assert_equal_runs(got: Path, wanted: Path, names: Sequence[str]) -> None:
    """All rows, which must be there in files of these names, and the result."""
    for name in names:
        assert read_rows(wanted / name), name
    for path in sorted(wanted.glob("*.jsonl")):
        assert _without_time(read_rows(got / path.name)) == _without_time(read_rows(path)), path.name
    assert _result(got) == _result(wanted)


def _result(run: Path) -> Any:
    return _without_time(json.loads((run / "result.json").read_text(encoding="utf-8")))


def _without_time(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: one for name, one in value.items() if name not in MAY_DIFFER and "second" not in name}
        return {name: _without_time(one) for name, one in kept.items()}
    return [_without_time(one) for one in value] if isinstance(value, list) else value
