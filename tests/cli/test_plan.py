from __future__ import annotations

import json
import shlex
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from training_runs import unexplained

from svrl.cli import answers
from svrl.mdp.grid import GridMDP
from svrl.mdp.tasks import TASKS, inverted_pendulum
from svrl.planning import checkpoint, score
from svrl.planning.catalogue import IN_THE_LOOP, METHODS
from svrl.planning.plan import Run
from svrl.planning.score import Judge, Recorder
from svrl.runs import plan_run
from svrl.runtime.run_directory import RunDirectory
from svrl.runtime.stop_signals import ONE_REQUEST

SMALL = ("plan", "inverted-pendulum", "--states", "10x10", "--actions", 15, "--starts", 20, "--threads", 1)
TIMINGS = ("seconds_backup", "seconds_estimate", "break_even_cost", "break_even_cost_against_value_iteration")
SVP = (*SMALL, "--p", 0.5, "--iterations", 25)
KEYS = {"task", "variant", "method", "estimator", "p", "states", "actions", "seed", "iterations", "backups"}
KEYS |= {"sweep_equivalents", "seconds_backup", "seconds_estimate", "policy_loss", "policy_loss_relative", "outcome"}
KEYS |= {"rank_99", "rank_tight", "rank_99_centred", "rank_tight_centred", "discounted_return", "optimal_return"}
KEYS |= {"metric", "certified_error", "break_even_cost"}
FILES = {"config.json", "rows.jsonl", "policy.npy", "values.npy", "result.json", "convergence.png"}
PICTURES = {"policy.png", "trajectories.png"}


@pytest.fixture(scope="module")
def exact() -> tuple[GridMDP, np.ndarray]:
    """The small pendulum, and its optimal values by brute force."""
    model = GridMDP(inverted_pendulum(states=(10, 10), actions=15))
    v = torch.zeros(100, dtype=torch.float64)
    for _ in range(600):
        v = model.backup(v).max(1).values
    return model, v.numpy()


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without figures, which take longer than everything else."""
    monkeypatch.setattr("svrl.runs.plan_run._write_figures", lambda *_: None)


def values_of(model: GridMDP, policy: np.ndarray) -> np.ndarray:
    """Values of a policy by a dense solve."""
    chain = model.policy_chain(torch.from_numpy(policy))
    return np.linalg.solve(np.eye(100) - model.gamma * chain.transitions.to_dense().numpy(), chain.reward.numpy())


def test_names_for_completion_are_those_of_the_catalogues():
    assert set(plan_run.TASKS) == {"toy", *TASKS}
    assert set(plan_run.METHODS) == set(METHODS)
    assert set(plan_run.NOISY) == {name for name, entry in METHODS.items() if entry.noisy}
    assert set(plan_run.ESTIMATORS) == set(IN_THE_LOOP)


@pytest.mark.parametrize(
    ("options", "loss"),
    [
        (["--method", "svp", "--p", 0.5, "--iterations", 60], 1e-3),
        (["--method", "cross", "--rank", 10, "--iterations", 60], 1e-3),
        (["--method", "value-iteration"], 1e-7),
        (["--method", "averaged-svp", "--sample-noise", 0.05, "--iterations", 40], 0.3),
    ],
    ids=lambda options: "-".join(map(str, options)).replace("--", "") if isinstance(options, list) else "",
)
def test_json_of_methods(svrl_json, options, loss):
    row = svrl_json(*SMALL, *options)
    assert set(row) >= KEYS
    assert unexplained(row) == []
    assert (row["task"], row["variant"], row["states"], row["actions"]) == ("inverted-pendulum", "paper", "10x10", 15)
    assert row["method"] == options[1]
    assert row["sweep_equivalents"] == row["backups"] / 1500
    assert -1e-9 < row["policy_loss_relative"] < loss
    assert abs(row["optimum"]["policy_loss_relative"]) < 1e-8
    assert row["metric"]["name"] == "norm_rad"
    assert 0 < row["metric"]["optimal"] < 20
    assert 1 <= row["rank_99"] <= row["rank_tight"] <= 15
    assert 0 <= row["rank_99_centred"] <= row["rank_tight_centred"] <= 15


def test_numbers_against_brute_force(svrl_json, tmp_path, exact, plain):
    model, best = exact
    out = tmp_path / "run"
    row = svrl_json(*SVP, "--out", out, "--no-final-sweep")
    policy, q = np.load(out / "policy.npy"), np.load(out / "q.npy")
    loss = best - values_of(model, policy)
    assert row["policy_loss"] == pytest.approx(loss.mean(), rel=1e-6, abs=1e-7)
    assert row["policy_loss_relative"] == pytest.approx(loss.mean() / (best.max() - best.min()), rel=1e-6, abs=1e-7)
    assert loss.mean() <= row["policy_loss_bound"]
    assert np.abs(np.load(out / "values.npy") - best).max() <= row["value_error_bound"] + 1e-9
    energy = np.cumsum(np.linalg.svd(q.astype(float), compute_uv=False) ** 2)
    assert row["rank_99"] == int(np.argmax(energy >= 0.99 * energy[-1])) + 1
    centred = np.linalg.svd(q - q.mean(1, keepdims=True, dtype=float), compute_uv=False)[::-1] ** 2
    assert row["rank_tight_centred"] == int((np.cumsum(centred) > 1e-6 * centred.sum()).sum())
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in rows] == list(range(1, 26))
    assert rows[-1]["backups"] == row["backups"]
    assert rows[-1]["error"] == pytest.approx(np.abs(np.load(out / "values.npy") - best).max(), rel=1e-6)


def test_toy(svrl_json, tmp_path):
    out = tmp_path / "run"
    size = ("--states", 60, "--actions", 20, "--threads", 1)
    row = svrl_json("plan", "toy", *size, "--p", 0.5, "--iterations", 20, "--out", out)
    assert set(row) >= KEYS
    assert unexplained(row) == []
    assert row["metric"] is None
    assert row["variant_reason"]
    assert row["discounted_return"] <= row["optimal_return"] + 1e-9
    assert row["optimal_return"] - row["discounted_return"] == pytest.approx(row["policy_loss"], abs=1e-6)
    assert {path.name for path in out.iterdir()} == FILES | {"q.npy", "q.png"}


def test_the_run_directory(svrl, tmp_path):
    out = tmp_path / "runs" / "first"
    result = svrl(*SVP, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in out.iterdir()} == FILES | PICTURES | {"q.npy"}
    for picture in out.glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 5000
    assert json.loads((out / "config.json").read_text())["p"] == 0.5
    assert json.loads((out / "result.json").read_text())["out"] == str(out)
    for word in ("svp", "optimum", "sweeps", "norm_rad", "estimate of Q", "certified", str(out)):
        assert word in result.stdout.replace("\n", "") or word in result.stdout


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def sigterm() -> None:
    signal.raise_signal(signal.SIGTERM)


def exception() -> None:
    raise KeyboardInterrupt


def at_iteration(number: int, act: Callable[[], object], *, noted: bool = True) -> Callable[[pytest.MonkeyPatch], None]:
    """Something happens in an iteration, after it was noted or before."""

    def stop(patch: pytest.MonkeyPatch) -> None:
        original = Recorder.__call__

        def watch(self: Recorder, run: Run) -> None:
            if not noted and run.state.iteration == number:
                act()
            original(self, run)
            if noted and run.state.iteration == number:
                act()

        patch.setattr(Recorder, "__call__", watch)

    return stop


def twice() -> None:
    ctrl_c()
    time.sleep(2 * ONE_REQUEST)  # sooner it would be the same wish
    ctrl_c()
    pytest.fail("the second is not held back")


def before(owner: object, name: str, act: Callable[[], object]) -> Callable[[pytest.MonkeyPatch], None]:
    def stop(patch: pytest.MonkeyPatch) -> None:
        original = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **options: (act(), original(*args, **options))[1])

    return stop


def to_the_last_word(patch: pytest.MonkeyPatch) -> None:
    """A second signal within a tenth of a second is the same wish."""
    before(answers, "end", ctrl_c)(patch)
    before(Judge, "score", sigterm)(patch)


STOPS = {
    "svp": (["--p", 0.5], at_iteration(5, ctrl_c), 130),
    "paper-svp": (["--method", "paper-svp", "--p", 0.5], at_iteration(5, sigterm), 143),
    "averaged-svp": (["--method", "averaged-svp", "--sample-noise", 0.1], at_iteration(5, exception), 130),
    "other options": (["--no-final-sweep", "--noise", 0.25], at_iteration(2, exception), 130),
    "a second signal": (["--p", 0.5], at_iteration(2, twice, noted=False), 130),
    "heard twice": (["--p", 0.5], to_the_last_word, 143),
    "solving exactly": (["--p", 0.5], before(Judge, "__init__", sigterm), 143),
    "between two stages": (["--p", 0.5], before(checkpoint, "conclude", sigterm), 143),
    "judging": (["--p", 0.5], before(Judge, "score", sigterm), 143),
}


@pytest.mark.parametrize("where", STOPS)
def test_an_interrupted_run_is_resumed_to_the_same_bits(svrl, svrl_json, tmp_path, monkeypatch, plain, where):
    options, stop, code = STOPS[where]
    command = (*SMALL, "--iterations", 12, "--seed", 3, *options)
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    whole = svrl_json(*command, "--out", straight)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        stop(patch)
        result = svrl(*command, "--out", broken)
    assert result.exit_code == code, result.stderr
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    assert result.stderr.startswith("Stopped; what")
    assert result.stderr.count("\n") == 1
    saved = {"config.json"} if where == "solving exactly" else {"config.json", "checkpoint.pt"}
    assert {path.name for path in broken.iterdir()} == saved
    again = shlex.split(result.stderr.split("Resume with: svrl ")[1])
    assert again[again.index("--out") + 1] == str(broken)
    assert "--resume" in again
    resumed = svrl_json(*again)
    for name in sorted(path.name for path in straight.glob("*.npy")):
        assert np.array_equal(np.load(straight / name), np.load(broken / name)), name
    assert (broken / "rows.jsonl").read_text().count("\n") == (straight / "rows.jsonl").read_text().count("\n")
    assert untimed(resumed) == untimed(whole)
    assert not (broken / "checkpoint.pt").exists()


def untimed(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in {*TIMINGS, "out", "optimum"}}


def test_a_signal_while_the_run_is_being_finished_comes_too_late(svrl, tmp_path, monkeypatch, plain):
    """The command that resumes it would find a finished run."""
    original = RunDirectory.finish

    def finish(self: RunDirectory, result: object) -> None:
        sigterm()
        original(self, result)
        sigterm()

    monkeypatch.setattr(RunDirectory, "finish", finish)
    assert svrl(*SVP, "--out", tmp_path).exit_code == 0
    assert (tmp_path / "result.json").exists()
    assert not (tmp_path / "checkpoint.pt").exists()


def test_ctrl_c_without_out_writes_nothing(svrl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    at_iteration(2, exception)(monkeypatch)
    result = svrl(*SVP)
    assert result.exit_code == 130
    assert result.stderr == "Stopped; nothing was written.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("task", ["inverted-pendulum", "toy"])
def test_no_optimum_of_a_large_problem_where_none_was_asked_for(svrl, svrl_json, tmp_path, monkeypatch, task):
    monkeypatch.setattr(score, "MOST_ENTRIES", 99)
    size = [] if task == "toy" else ["--starts", 20]
    command = ("plan", task, "--states", 100, "--actions", 5, *size, "--iterations", 3, "--threads", 1)
    with monkeypatch.context() as patch:
        patch.setattr(score, "ModifiedPolicyIteration", None)
        row = svrl_json(*command, "--out", tmp_path / "run")
        said = svrl(*command).stdout
    assert set(row) >= KEYS
    assert unexplained(row) == []
    for name in ("optimum", "policy_loss", "policy_loss_relative", "optimal_return", "certified_error"):
        assert row[name] is None, name
    assert "ask for it with --compare or --backup-cost" in row["optimum_reason"]
    assert "ask for it with --compare or --backup-cost" in said
    assert row["sample_certificate"]["states"] == 1000
    assert row["sample_certificate"]["statement"] in said
    rows = [json.loads(line) for line in (tmp_path / "run" / "rows.jsonl").read_text().splitlines()]
    assert [line["error"] for line in rows] == [None] * 3
    assert svrl_json(*command, "--backup-cost", 1)["policy_loss"] is not None


def test_a_pipe_gets_a_line_that_says_what_is_being_done(svrl, monkeypatch):
    monkeypatch.setattr("svrl.cli.progress.LINE_EVERY", 0.6)
    at_iteration(2, lambda: time.sleep(1.0))(monkeypatch)
    result = svrl(*SVP, "--json")
    json.loads(result.stdout)
    stages = ("beginning", "building the table", "solving exactly", "svp: ", "judging")
    assert result.stderr.startswith(stages)


def test_compare(svrl_json, svrl):
    row = svrl_json(*SVP, "--compare", "--backup-cost", 1e9)
    rows = {other["method"]: other for other in row["comparison"]}
    wanted = ["svp", "optimum", "async", "sampled-max", "row-mean-update", "incumbent", "coarse", "paper-svp"]
    assert list(rows) == wanted
    assert unexplained(row) == []
    for name in set(wanted) - {"optimum"}:
        assert rows[name]["iterations"] == 25, name
    for name in ("async", "sampled-max", "row-mean-update", "paper-svp"):
        assert rows[name]["sweep_equivalents"] == pytest.approx(12.5, rel=0.1), name
    assert rows["coarse"]["sweep_equivalents"] == pytest.approx(25 * 10 / 15 + 1)
    assert rows["svp"]["policy_loss"] == row["policy_loss"]
    saved = 25 * 1500 - row["backups"]
    assert row["backups_saved_against_value_iteration"] == saved
    assert row["break_even_cost_against_value_iteration"] == pytest.approx(1e6 * row["seconds_estimate"] / saved)
    saved = round(1500 * rows["optimum"]["sweep_equivalents"]) - row["backups"]
    assert row["backups_saved"] == saved
    assert row["pays"] is (saved > 0)


def test_switches_reach_the_task(svrl_json):
    options = ("--variant", "authors", "--reward-offset", -2, "--time-step", 0.1)
    problem = svrl_json(*SMALL, "--method", "value-iteration", "--iterations", 3, *options)["problem"]
    assert (problem["variant"], problem["reward_offset"], problem["time_step"]) == ("authors", -2.0, 0.1)


def test_other_tasks(svrl_json, tmp_path):
    quick = ("--method", "value-iteration", "--iterations", 20, "--starts", 5, "--threads", 1)
    row = svrl_json("plan", "three-motor-pendulum", "--states", 49, "--actions", 27, *quick)
    assert (row["states"], row["actions"]) == ("7x7", 27)
    for task, actions in (("cart-pole", 5), ("planar-thrusters", 8), ("two-input-cart-pole", 9)):
        run = tmp_path / task
        row = svrl_json("plan", task, "--states", 256, "--actions", actions, *quick, "--out", run)
        assert (row["states"], row["actions"]) == ("4x4x4x4", actions)
        for picture in PICTURES:
            assert (run / picture).stat().st_size > 5000
    row = svrl_json("plan", "mountain-car", "--states", "8x9", "--actions", 5, *quick)
    assert row["metric"]["name"] == "time_to_goal"
