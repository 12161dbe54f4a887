from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from local_rig import all_of, children_of, driver, is_there, leftovers, plans, trainings, written

from svrl.runs.local import run_locally
from svrl.runs.spec import Effort, RunSpec
from svrl.runs.store import Store

EVERY = 0.3
"""Seconds between two checkpoints."""


def kill_at_some_moment(process: subprocess.Popen[str], rng: random.Random) -> bool:
    """SIGKILL to a driver, alone or with all that it has started; whether it was still at work.

    The moment is while it starts, or while its runs are at work.
    """
    assert process.stdout is not None
    if rng.random() < 0.75:
        while not process.stdout.readline().startswith(("begins", "summary")):
            pass
        time.sleep(2.0 * rng.random())
    else:
        time.sleep(2.0 * rng.random())
    with_all = rng.random() < 0.5
    came_from_it = children_of(process.pid)
    was_at_work = process.poll() is None
    process.kill()
    for other in came_from_it if with_all else ():
        with suppress(ProcessLookupError):
            os.kill(other, signal.SIGKILL)
    process.stdout.close()
    process.wait()
    return was_at_work


def assert_each_was_done_once(place: Path, specs: list[RunSpec]) -> None:
    for spec in specs:
        attempts = Store(place).attempts(spec.id)
        assert [row["outcome"] for row in attempts if "outcome" in row].count("done") == 1
        assert [row["attempt"] for row in attempts if "began" in row] == list(
            range(1, 1 + sum("began" in row for row in attempts))
        )


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "steps"), [(4, 1500), (20, 5000)], ids=["4 times", "20 times"])
def test_a_sweep_whose_driver_is_killed_becomes_what_it_would_have_been(tmp_path, kills, steps):
    specs = [*trainings(steps, seeds=2, arms=("dqn", "sv-dqn"), log_every=500), *plans(1)]
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    assert run_locally(specs, str(straight), effort=Effort(checkpoint_every=EVERY)).count("done") == len(specs)
    rng, file = random.Random(kills), written(tmp_path, specs)
    at_work = [kill_at_some_moment(driver(file, broken, EVERY), rng) for _ in range(kills)]
    last = driver(file, broken, EVERY)
    out, errors = last.communicate()
    assert (last.returncode, errors) == (0, ""), out
    assert sum(at_work) == kills, "some were killed after the end"
    assert all_of(broken, specs) == all_of(straight, specs)
    assert leftovers(broken) == []
    assert_each_was_done_once(broken, specs)
    store = Store(broken)
    begun = [sum("began" in row for row in store.attempts(spec.id)) for spec in specs]
    assert sum(begun) > len(specs), "nothing was killed in the middle"
    assert {path.name for path in broken.iterdir()} == {"runs"}
    assert {path.name for path in store.folder("").iterdir()} == {spec.id for spec in specs}


def test_runs_of_a_killed_driver_save_and_end_by_themselves(tmp_path):
    specs = trainings(100_000)
    place = tmp_path / "store"
    process = driver(written(tmp_path, specs), place)
    store = Store(place)
    while not store.rows(specs[0].id, "learning.jsonl", 1) and process.poll() is None:
        time.sleep(0.02)
    came_from_it = children_of(process.pid)
    process.kill()
    process.communicate()
    while any(is_there(one) for one in came_from_it):
        time.sleep(0.02)
    assert [row["outcome"] for row in store.attempts(specs[0].id) if "outcome" in row] == ["stopped"]
    checkpoints = list((store.folder(specs[0].id) / "run" / "checkpoints").glob("[0-9]*.npz"))
    assert checkpoints
    assert not store.is_running(specs[0].id)
