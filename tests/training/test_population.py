from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import svrl
from svrl.agents.config import AgentConfig
from svrl.agents.learner import weights_of
from svrl.agents.training import Training
from svrl.runtime.stop_signals import Signals, Stopped
from svrl.training.population import Manner, Member, PopulationError, train_population
from svrl.training.session import Unseen, train_in_directory

ENV = "CartPole-v1"
SMOKE = AgentConfig.for_env(ENV, "smoke", hidden=(16,), steps=150)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pictures, which take longer than everything else."""
    monkeypatch.setattr("svrl.plots.style.save_figure", lambda figure, path: path.write_bytes(b"picture"))


def members(place: Path, count: int, **options: object) -> list[Member]:
    return [Member(env=ENV, config=SMOKE, folder=place / str(seed), seed=seed, **options) for seed in range(count)]


def weights(folder: Path) -> dict[str, np.ndarray]:
    return weights_of(svrl.load_agent(folder).network)


def assert_same(one: Path, other: Path) -> None:
    for name, array in weights(one).items():
        assert np.array_equal(weights(other)[name], array), name
    assert (one / "episodes.jsonl").read_bytes() == (other / "episodes.jsonl").read_bytes()


class Counting(Unseen):
    """How many runs are under way, and what each does at its n-th step."""

    def __init__(self, seen: list[int], act: object = None) -> None:
        self._seen, self._act, self._steps = seen, act, 0

    def __call__(self) -> None:
        self._steps += 1
        self._seen.append(sum(thread.name.startswith("run ") for thread in threading.enumerate()))
        if self._steps == 60 and callable(self._act):
            self._act()


@pytest.mark.parametrize("together", [1, 2, 8])
def test_so_many_at_a_time_and_each_as_if_alone(tmp_path: Path, together: int):
    seen: list[int] = []
    results = train_population(
        members(tmp_path, 3), together=together, manner=Manner(progress=lambda *_: Counting(seen))
    )
    assert [result["seed"] for result in results] == [0, 1, 2]
    assert len(seen) == 450
    assert max(seen) == {1: 0, 2: 2, 8: 3}[together]
    train_in_directory(ENV, SMOKE, folder=tmp_path / "alone", seed=2)
    assert_same(tmp_path / "alone", tmp_path / "2")


def test_a_signal_stops_all_and_those_that_wait_do_not_begin(tmp_path: Path):
    signals = Signals()

    def send() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        wait()

    def wait() -> None:
        """Runs this short are else over before the main thread has looked."""
        while signals.came is None:
            time.sleep(0.001)

    def stop(member: Member, training: Training) -> Counting:
        return Counting([], send if member.seed == 0 else wait)

    with signals.held_back(), pytest.raises(Stopped) as stopped:
        train_population(members(tmp_path / "stopped", 3), together=2, manner=Manner(progress=stop), signals=signals)
    assert stopped.value.number == signal.SIGTERM
    assert {folder.name for folder in (tmp_path / "stopped").iterdir()} == {"0", "1"}
    again = [*members(tmp_path / "stopped", 2, resume=True), members(tmp_path / "stopped", 3)[2]]
    assert len(train_population(again, together=3)) == 3
    train_population(members(tmp_path / "straight", 3), together=1)
    for seed in range(3):
        assert_same(tmp_path / "straight" / str(seed), tmp_path / "stopped" / str(seed))


class Breaking(gymnasium.Wrapper):
    """Fails in the middle of its third game."""

    games = 0

    def reset(self, **options):
        self.games += 1
        return super().reset(**options)

    def step(self, action):
        if self.games == 3:
            raise RuntimeError("The cart has left the rails.")
        return super().step(action)


def breaking() -> gymnasium.Env:
    return Breaking(gymnasium.make(ENV))


def test_a_failure_is_told_at_the_end_and_keeps_no_memory(tmp_path: Path):
    held: list[weakref.ref[Training]] = []

    def watched(member: Member, training: Training) -> Unseen:
        if member.env is breaking:
            held.append(weakref.ref(training))
        return Unseen(training)

    first, second = members(tmp_path, 2)
    broken = Member(env=breaking, config=SMOKE, folder=tmp_path / "broken")
    with pytest.raises(PopulationError, match=r"broken failed: .*The cart has left the rails") as failed:
        train_population([broken, first, second], together=2, manner=Manner(progress=watched))
    assert list(failed.value.failures) == [tmp_path / "broken"]
    assert isinstance(failed.value, ValueError)
    assert failed.value.signal is None
    assert {folder.name for folder in tmp_path.iterdir()} == {"0", "1"}
    assert all((tmp_path / name / "result.json").exists() for name in "01")
    gc.collect()
    assert held[0]() is None, "the traceback would keep networks and memory on the GPU"


def test_what_cannot_be_shared_is_refused(tmp_path: Path):
    one, other = members(tmp_path, 2)
    for population, together, words in (
        ([one, one], 1, "its own folder"),
        ([one, Member(env=ENV, config=SMOKE, folder=other.folder, threads=2)], 2, "these want 2 and None"),
        ([one, other], 0, "at least one at a time"),
        ([], 1, "at least one run"),
    ):
        with pytest.raises(ValueError, match=words):
            train_population(population, together=together)
    assert list(tmp_path.iterdir()) == []
