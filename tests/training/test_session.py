from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import svrl
from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig
from svrl.agents.events import Evaluated, Event, Stepped
from svrl.agents.learner import weights_of
from svrl.agents.progress import Unseen
from svrl.agents.training import Training
from svrl.runtime.rows import read_rows
from svrl.runtime.stop_signals import Stopped
from svrl.training.session import Habits, at_work_on, train_in_directory

ENV = "CartPole-v1"
SMOKE = AgentConfig.for_env(ENV, "smoke", hidden=(16,), steps=200)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pictures, which take longer than everything else."""
    monkeypatch.setattr("svrl.plots.style.save_figure", lambda figure, path: path.write_bytes(b"picture"))


def at_step(number: int, act: Callable[[], object]) -> Callable[[Event], None]:
    def watch(event: Event) -> None:
        if isinstance(event, Stepped) and event.steps == number:
            act()

    return watch


def assert_same_weights(folder: Path, wanted: dict[str, np.ndarray]) -> None:
    found = weights_of(svrl.load_agent(folder).network)
    for name, array in wanted.items():
        assert np.array_equal(found[name], array), name


def test_the_agent_is_that_of_train_and_everybody_hears_the_same(tmp_path: Path):
    seen: list[Event] = []
    heard: list[Event] = []
    result = train_in_directory(ENV, SMOKE, folder=tmp_path / "run", seed=3, watch=seen.append)
    agent = svrl.train(ENV, SMOKE, seed=3, watch=heard.append)
    assert seen == heard
    assert_same_weights(tmp_path / "run", weights_of(agent.network))
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result
    assert (result["env"], result["steps"], result["seed"], result["device"]) == (ENV, 200, 3, "cpu")
    assert result["threads"] == torch.get_num_threads()
    assert len(read_rows(tmp_path / "run" / "episodes.jsonl")) == result["episodes"]


def test_a_signal_saves_and_resume_continues(tmp_path: Path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    train_in_directory(ENV, SMOKE, folder=straight)
    stop = at_step(70, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Stopped) as stopped:
        train_in_directory(ENV, SMOKE, folder=broken, watch=stop)
    assert stopped.value.number == signal.SIGTERM
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert not (broken / "result.json").exists()
    first: list[Event] = []
    train_in_directory(ENV, SMOKE, folder=broken, resume=True, watch=first.append)
    assert first[0].steps == 71
    assert_same_weights(broken, weights_of(svrl.load_agent(straight).network))
    assert read_rows(broken / "episodes.jsonl") == read_rows(straight / "episodes.jsonl")


def test_a_resume_without_a_checkpoint_says_that_it_begins_anew(tmp_path: Path):
    run, said = tmp_path / "run", []
    with pytest.raises(Stopped):
        train_in_directory(ENV, SMOKE, folder=run, watch=at_step(150, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    before = len(read_rows(run / "episodes.jsonl"))
    assert before > 0
    shutil.rmtree(run / "checkpoints")
    result = train_in_directory(ENV, SMOKE, folder=run, resume=True, say=said.append)
    assert any(f"starts again at step 0, and its {before} episodes are played again" in sentence for sentence in said)
    assert len(read_rows(run / "episodes.jsonl")) == result["episodes"]


def own_env() -> gymnasium.Env:
    return gymnasium.make(ENV)


def test_your_own_environment(tmp_path: Path):
    config = SMOKE.replace(steps=100)
    stop = at_step(60, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(Stopped):
        train_in_directory(own_env, config, folder=tmp_path / "run", watch=stop)
    with pytest.raises(ValueError, match="a run on own_env, and CartPole-v1 was asked for"):
        train_in_directory(ENV, config, folder=tmp_path / "run", resume=True)
    assert train_in_directory(own_env, config, folder=tmp_path / "run", resume=True)["env"] == "own_env"


def test_progress_and_notes_are_handed_in(tmp_path: Path):
    class Counting(Unseen):
        def __init__(self, training: Training) -> None:
            calls.append(f"{training.env}")

        def __call__(self) -> None:
            calls.append("step")

        def say(self, what: str) -> None:
            calls.append(what)

        def evaluating(self, done: int, of: int) -> None:
            calls.append("game")

    calls: list[str] = []
    said: list[str] = []
    config = SMOKE.replace(structured=True, steps=60, learning_starts=32, eval_episodes=2)
    train_in_directory(ENV, config, folder=tmp_path / "run", progress=Counting, say=said.append)
    assert calls == [ENV, *["step"] * 60, "evaluating", "game", "game"]
    assert said == ["Warning: on CartPole-v1 2 actions leave little structure to find."]


def test_a_run_that_fails_before_its_first_checkpoint_leaves_nothing(tmp_path: Path):
    with pytest.raises(ZeroDivisionError):
        train_in_directory(ENV, SMOKE, folder=tmp_path / "run", watch=at_step(50, lambda: 1 / 0))
    assert list(tmp_path.iterdir()) == []
    habits = Habits(checkpoint_every=1e-9)
    with pytest.raises(ZeroDivisionError):
        train_in_directory(ENV, SMOKE, folder=tmp_path / "run", habits=habits, watch=at_step(50, lambda: 1 / 0))
    with pytest.raises(ValueError, match="unfinished run"):
        train_in_directory(ENV, SMOKE, folder=tmp_path / "run")
    assert train_in_directory(ENV, SMOKE, folder=tmp_path / "run", resume=True)["steps"] == 200


def test_a_longer_run_tells_of_its_learning_rate_which_is_the_learners(tmp_path: Path):
    config = SMOKE.replace(learning_rate_left=0.0)
    said: list[str] = []
    train_in_directory(ENV, config, folder=tmp_path / "run", habits=Habits(keep_replay=True), say=said.append)
    assert said == []
    longer = config.replace(steps=400)
    train_in_directory(ENV, longer, folder=tmp_path / "run", resume=True, say=said.append)
    training = Training(ENV, longer)
    for event in training.events():
        if event.steps == 200:
            then = longer.learning_rate_at(training.updates)
    # The rate of the last update is that after all updates but one.
    last = training.learner.optimiser.param_groups[0]["lr"]
    assert last == pytest.approx(longer.learning_rate_at(training.updates - 1))
    training.close()
    assert said[0] == f"Resuming {tmp_path / 'run'} at step 200 of 400."
    assert len(said) == 2
    assert f"It is 0 here and goes up to {then:.3g} with 400 steps instead of 200." in said[1]


def test_what_cannot_be_had_is_refused_before_a_folder_is_made(tmp_path: Path):
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="checkpoint_every must be more than 0 seconds"):
            Habits(checkpoint_every=seconds)
    for precision, device in (("bf16", "cpu"), ("tf32", torch.device("cpu")), ("half", "cuda")):
        with pytest.raises(ValueError, match="precision"):
            train_in_directory(ENV, SMOKE, folder=tmp_path / "run", device=device, precision=precision)
    assert list(tmp_path.iterdir()) == []


SAID_BY_TORCH = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 139.81 GiB of which 812.00 MiB is "
    "free. Process 7 has 139.01 GiB memory in use."
)
ADVICE = "Lower --buffer-size, --n-envs or --batch-size, or train fewer at a time with --together."


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (torch.OutOfMemoryError(SAID_BY_TORCH), f"is full: 2.50 GiB was asked for and 812.00 MiB is free. {ADVICE}"),
        (RuntimeError("CUDA error: out of memory"), f"is full. {ADVICE}"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), f"is full. {ADVICE}"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), None),
        (KeyError("x"), None),
    ],
    ids=["torch", "driver", "library", "another error of the GPU", "another error"],
)
def test_only_a_full_gpu_becomes_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str | None
):
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())

    def message(device: str) -> str:
        with pytest.raises(Exception) as raised, at_work_on(device, tmp_path):  # noqa: PT011
            raise error
        assert (raised.value is error) == (sentence is None or device == "cpu")
        return str(raised.value)

    message("cpu")
    if sentence is None:
        message("cuda:0")
        return
    assert message("cuda:0") == f"The memory of cuda:0 {sentence}"
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "000000001.npz").write_bytes(b"")
    assert message("cuda:0").endswith(f"{ADVICE} The last checkpoint is in {tmp_path}.")


# Ending early.


@pytest.mark.parametrize("no", [False, np.False_])
def test_a_callback_ends_training(tmp_path: Path, no: object):
    """Training ends with the step under way, as if it had been asked for so many steps."""
    run, straight = tmp_path / "run", tmp_path / "straight"
    asked: list[int] = []

    def watch(event: Event) -> object:
        asked.append(event.steps)
        return no if event.steps >= 90 else 0  # 0 is no answer

    config = SMOKE.replace(eval_episodes=3)
    result = train_in_directory(ENV, config, folder=run, watch=watch)
    wanted = train_in_directory(ENV, config.replace(steps=90), folder=straight)
    assert (result["steps"], result["stopped_early"], wanted["stopped_early"]) == (90, True, False)
    assert result["evaluation"] == wanted["evaluation"]
    assert set(asked[asked.index(90) :]) == {90}
    assert_same_weights(run, weights_of(svrl.load_agent(straight).network))
    assert json.loads((run / "result.json").read_text()) == result
    assert read_rows(run / "episodes.jsonl") == read_rows(straight / "episodes.jsonl")
    with pytest.raises(ValueError, match="holds a finished run"):
        train_in_directory(ENV, config, folder=run, resume=True)


def test_a_run_that_ended_early_goes_on_if_its_replay_was_kept(tmp_path: Path):
    run, straight = tmp_path / "run", tmp_path / "straight"
    habits = Habits(keep_replay=True)
    train_in_directory(ENV, SMOKE, folder=run, habits=habits, watch=lambda event: event.steps < 90)
    result = train_in_directory(ENV, SMOKE.replace(steps=250), folder=run, resume=True)
    train_in_directory(ENV, SMOKE.replace(steps=250), folder=straight)
    assert (result["steps"], result["stopped_early"]) == (250, False)
    assert_same_weights(run, weights_of(svrl.load_agent(straight).network))


def test_a_score_that_is_enough(tmp_path: Path):
    config = SMOKE.replace(eval_every=40, eval_episodes=3)
    train_in_directory(ENV, config, folder=tmp_path / "all")
    means = {row["steps"]: row["mean"] for row in read_rows(tmp_path / "all" / "evaluations.jsonl")}
    enough = sorted(means.values())[2]
    first = next(steps for steps, mean in means.items() if mean >= enough)
    habits = Habits(stop_at=enough)
    result = train_in_directory(ENV, config, folder=tmp_path / "run", habits=habits)
    assert (result["steps"], result["evaluation"]["steps"], result["stopped_early"]) == (first, first, first < 200)
    # It was good enough, and the process was killed before it could say so.
    broken = tmp_path / "broken"
    with pytest.raises(ZeroDivisionError):
        train_in_directory(
            ENV,
            config,
            folder=broken,
            habits=Habits(stop_at=enough, checkpoint_every=1e-9),
            watch=at_step(first, lambda: 1 / 0),
        )
    assert train_in_directory(ENV, config, folder=broken, resume=True)["steps"] == first
    for score in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="stop_at is a score"):
            Habits(stop_at=score)


# The best agent.

BEST = SMOKE.replace(steps=240, eval_every=20, eval_episodes=2)
KEEP = Habits(keep_best=True)


def test_the_best_agent_is_kept(tmp_path: Path):
    seen: dict[int, dict[str, np.ndarray]] = {}
    run = tmp_path / "run"
    training: list[Training] = []

    class Remembering(Unseen):
        def __init__(self, now: Training) -> None:
            training.append(now)

    def watch(event: Event) -> None:
        if isinstance(event, Evaluated):
            seen[event.steps] = {name: array.copy() for name, array in weights_of(training[0].network).items()}

    # With this seed the last evaluation is as good as the best one.
    result = train_in_directory(ENV, BEST, folder=run, seed=14, habits=KEEP, progress=Remembering, watch=watch)
    means = {row["steps"]: row["mean"] for row in read_rows(run / "evaluations.jsonl")}
    wanted = max(means, key=lambda steps: means[steps])  # the first of equal ones
    assert list(means.values()).count(means[wanted]) > 1, "a tie"
    assert result["best"] == {"steps": wanted, "mean": means[wanted]}
    best = svrl.load_agent(run, best=True)
    assert (best.steps, svrl.load_agent(run).steps) == (wanted, 240)
    for name, array in weights_of(best.network).items():
        assert np.array_equal(array, seen[wanted][name]), name
    assert "best" not in train_in_directory(ENV, SMOKE, folder=tmp_path / "other")


@pytest.mark.parametrize("trouble", ["a signal", "killed after a step", "killed before it was written", "killed after"])
@pytest.mark.parametrize("at", [60, 120])
def test_a_resumed_run_keeps_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str, at: int):
    straight, run = tmp_path / "straight", tmp_path / "run"
    # With this seed the evaluations after 20, 60, 100, 120 and 200 steps are each better than all before.
    wanted = train_in_directory(ENV, BEST, folder=straight, seed=26, habits=KEEP)

    def kill(self: Agent, path: Path) -> None:
        if self.steps >= at and trouble.startswith("killed before"):
            raise KeyboardInterrupt
        save(self, path)
        if self.steps >= at and trouble == "killed after":
            raise KeyboardInterrupt

    def watch(event: Event) -> None:
        if event.steps == at and isinstance(event, Stepped):
            if trouble == "a signal":
                os.kill(os.getpid(), signal.SIGTERM)
            elif trouble == "killed after a step":
                raise KeyboardInterrupt

    save = Agent.save
    with monkeypatch.context() as patch:
        patch.setattr(Agent, "save", kill)
        with pytest.raises((KeyboardInterrupt, Stopped)):
            train_in_directory(ENV, BEST, folder=run, seed=26, habits=KEEP, watch=watch)
    assert not (run / "result.json").exists()
    said: list[str] = []
    result = train_in_directory(ENV, BEST, folder=run, seed=26, resume=True, say=said.append)
    assert [sentence for sentence in said if sentence.startswith("Note")] == []
    assert result["best"] == wanted["best"]
    assert_same_weights(run, weights_of(svrl.load_agent(straight).network))
    assert (run / "best.npz").read_bytes() == (straight / "best.npz").read_bytes()
    assert read_rows(run / "evaluations.jsonl") == read_rows(straight / "evaluations.jsonl")


def test_a_best_agent_that_is_lost_is_told(tmp_path: Path):
    run, said = tmp_path / "run", []
    train_in_directory(ENV, BEST, folder=run, habits=Habits(keep_best=True, keep_replay=True))
    rows = read_rows(run / "evaluations.jsonl")
    (run / "best.npz").write_bytes(b"damaged")
    longer = BEST.replace(steps=300)
    result = train_in_directory(ENV, longer, folder=run, resume=True, say=said.append)
    assert any(f"best.npz is not the agent of step {best_of(rows)['steps']}" in sentence for sentence in said)
    later = [row for row in read_rows(run / "evaluations.jsonl") if row["steps"] >= 240]
    assert result["best"] == best_of(later)
    assert svrl.load_agent(run, best=True).steps == best_of(later)["steps"]


def best_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    best = max(rows, key=lambda row: row["mean"])
    return {"steps": best["steps"], "mean": best["mean"]}


# Devices and progress.


def test_auto_is_written_as_what_was_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    run = tmp_path / "run"
    with pytest.raises(ValueError, match="There is no device 'gpu'"):
        train_in_directory(ENV, SMOKE, folder=run, device="gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    stop = at_step(70, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Stopped):
        train_in_directory(ENV, SMOKE, folder=run, device="auto", watch=stop)
    assert json.loads((run / "config.json").read_text())["device"] == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # there is a GPU now, and the run stays where it was
    assert capsys.readouterr().err == ""
    result = train_in_directory(ENV, SMOKE, folder=run, device="auto", resume=True, progress=True)
    assert result["device"] == "cpu"
    assert capsys.readouterr().err.startswith("200 of 200 steps, ")
