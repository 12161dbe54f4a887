from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import resource
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from training_runs import SMOKE, assert_same_run, interrupting, names, sending, weights

from svrl.agents import evaluation
from svrl.cli.train import TrainProgress
from svrl.runtime.rows import read_rows

KINDS = {
    "plain": ((), signal.SIGINT),
    "structured": (("--structured", "--agent", "double"), signal.SIGTERM),
    "n_envs": (("--n-envs", 3, "--act-lag", 1, "--eval-every", 50), signal.SIGHUP),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_run_becomes_what_it_would_have_been(svrl, tmp_path, monkeypatch, plain, kind):
    options, number = KINDS[kind]
    command = (*SMOKE, *options, "--steps", 300)
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    assert svrl(*command, "--out", straight).exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(TrainProgress, "__call__", interrupting(47, sending(number)))
        result = svrl(*command, "--out", broken)
    assert result.exit_code == 128 + number
    assert not (broken / "result.json").exists()
    line = result.stderr.strip().splitlines()[-1]
    assert "Traceback" not in result.stderr
    again = shlex.split(line.split("Resume with: svrl ")[1])
    assert again == ["train", "--resume", str(broken)]
    refused = svrl(*command, "--out", broken)
    assert refused.exit_code == 2
    assert "--resume" in refused.stderr
    result = svrl(*again)
    assert result.exit_code == 0, result.stderr
    assert_same_run(straight, broken)
    assert not {"checkpoints", "replay"} & names(broken)


@pytest.mark.parametrize(
    ("every", "which"), [(0, 1), (100, 1), (100, 2)], ids=["the last", "the first of many", "after a short one"]
)
def test_a_signal_does_not_wait_for_an_evaluation(svrl, tmp_path, monkeypatch, plain, every, which):
    command = (*SMOKE, "--eval-every", every, "--eval-episodes", 4)
    straight, broken, real, begun = tmp_path / "straight", tmp_path / "broken", evaluation.evaluate, []
    assert svrl(*command, "--out", straight).exit_code == 0

    def evaluate(*arguments, progress, **options):
        begun.append("an evaluation")

        def told(done: int, of: int) -> None:
            if len(begun) == which:
                sending(signal.SIGTERM)()
                progress(done, of)
                pytest.fail("waited")

        return real(*arguments, progress=told, **options)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "TICK", 0.0)
        patch.setattr(evaluation, "evaluate", evaluate)
        result = svrl(*command, "--out", broken)
    assert (result.exit_code, len(begun)) == (143, which), result.stderr
    assert svrl(*command, "--out", broken, "--resume").exit_code == 0
    assert_same_run(straight, broken)


def test_a_run_outlives_its_terminal(tmp_path):
    """The terminal is gone when the run saves: nothing that it says may keep it from that."""
    run = tmp_path / "run"
    child, terminal = pty.fork()
    if child == 0:
        command = (*SMOKE, "--steps", 200_000, "--checkpoint-every", 1000, "--out", run)
        os.execv(sys.executable, [sys.executable, "-m", "svrl", *map(str, command)])
    while not (run / "episodes.jsonl").exists():
        if select.select([terminal], [], [], 0.05)[0]:
            os.read(terminal, 1 << 16)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + signal.SIGHUP
    assert (run / "checkpoints" / "000000001.npz").exists()


@pytest.mark.parametrize("more", [(), ("--preset", "classic"), ("--p", 0.5)])
def test_another_environment_is_said_before_all_else(svrl, tmp_path, trained, more):
    result = svrl("train", "Acrobot-v1", *more, "--out", trained, "--resume")
    assert result.exit_code == 2
    assert "holds a run on control/inverted-pendulum, and Acrobot-v1 was asked for" in result.stderr
    assert result.stderr.count("\n") == 1


def test_only_steps_may_grow(svrl, svrl_json, tmp_path, monkeypatch, plain):
    straight, run = tmp_path / "straight", tmp_path / "run"
    svrl_json(*SMOKE, "--steps", 300, "--out", straight)
    with monkeypatch.context() as patch:
        patch.setattr(TrainProgress, "__call__", interrupting(100, sending(signal.SIGINT)))
        assert svrl(*SMOKE, "--steps", 200, "--out", run).exit_code == 130
    result = svrl(*SMOKE, "--steps", 200, "--buffer-size", 500, "--out", run, "--resume")
    assert result.exit_code == 2
    assert "buffer-size was 1000 and is 500" in result.stderr
    config = json.loads((run / "config.json").read_text())
    config["versions"]["torch"] = "1.0"
    (run / "config.json").write_text(json.dumps(config))
    assert svrl_json(*SMOKE, "--steps", 300, "--out", run, "--resume")["steps"] == 300
    assert_same_run(straight, run)
    assert json.loads((run / "config.json").read_text())["steps"] == 300


def test_a_finished_run_grows_if_its_memory_was_kept(svrl, svrl_json, tmp_path, plain):
    straight, run = tmp_path / "straight", tmp_path / "run"
    svrl_json(*SMOKE, "--steps", 300, "--out", straight)
    svrl_json(*SMOKE, "--steps", 200, "--out", run, "--keep-replay")
    assert {"checkpoints", "replay"} <= names(run)
    for again in ((), ("--resume",)):
        result = svrl(*SMOKE, "--steps", 200, "--out", run, *again)
        assert result.exit_code == 2
        assert "finished run" in result.stderr
    svrl_json(*SMOKE, "--steps", 300, "--out", run, "--resume")
    for name, array in weights(straight).items():
        assert np.array_equal(array, weights(run)[name]), name
    assert read_rows(straight / "episodes.jsonl") == read_rows(run / "episodes.jsonl")
    assert [row["steps"] for row in read_rows(run / "evaluations.jsonl")] == [200, 300]
    svrl_json(*SMOKE, "--steps", 350, "--out", run, "--resume")  # it was begun with --keep-replay, which stays
    result = svrl(*SMOKE, "--steps", 400, "--out", straight, "--resume")
    assert result.exit_code == 2
    assert "without --keep-replay" in result.stderr


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def refuse_memory(*_: object, **__: object) -> None:
    raise MemoryError


def refuse_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("trouble", ["damaged checkpoints", "no memory", "a missing extra"])
def test_a_finished_run_that_cannot_grow_stays_as_it_is(svrl, svrl_json, tmp_path, monkeypatch, plain, trouble):
    run = tmp_path / "run"
    svrl_json(*SMOKE, "--steps", 200, "--out", run, "--keep-replay")
    more: tuple[str, ...] = ()
    if trouble == "damaged checkpoints":
        for file in (run / "checkpoints").iterdir():
            file.write_bytes(file.read_bytes()[:-100])
    elif trouble == "no memory":
        monkeypatch.setattr("svrl.agents.training.Replay", refuse_memory)
    else:
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
        more = ("--tensorboard",)
    before = contents(run)
    assert {"result.json", "agent.npz", "learning_curve.png"} <= set(before)
    result = svrl(*SMOKE, "--steps", 300, "--out", run, "--resume", *more)
    assert result.exit_code == 2, result.stderr
    assert contents(run) == before
    assert svrl_json("eval", run, "--episodes", 1)["steps"] == 200


@pytest.mark.parametrize(
    ("target", "trouble", "code"),
    [
        ("svrl.agents.training.Replay", refuse_memory, 2),
        ("svrl.agents.checkpoint.Checkpoints.save", refuse_disk, 2),
        ("svrl.agents.training.Replay", lambda **_: None, 1),
        ("svrl.cli.train.TrainProgress.__call__", interrupting(60, lambda: int("x" + [])), 1),  # type: ignore
    ],
    ids=["no memory", "no room for a checkpoint", "an error at the start", "an error before the first checkpoint"],
)
def test_a_failed_start_leaves_its_folder_free(svrl, tmp_path, monkeypatch, plain, target, trouble, code):
    pytest.importorskip("tensorboard")
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(target, trouble)
        often = ("--checkpoint-every", 1e-9) if "save" in target else ()
        result = svrl(*SMOKE, "--tensorboard", *often, "--out", run)
    assert result.exit_code == code, result.stderr
    assert code == 2 or isinstance(result.exception, TypeError)
    assert "--resume" not in result.stderr
    assert not run.exists()
    assert svrl(*SMOKE, "--seed", 1, "--out", run).exit_code == 0


def test_two_processes_do_not_train_in_one_folder(svrl, tmp_path, plain):
    several = (*SMOKE, "--steps", 100, "--out", tmp_path)
    run = tmp_path / "double-seed0"
    assert svrl(*several, "--agents", "double").exit_code == 0
    folder = os.open(run, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    alone = (*SMOKE, "--steps", 200, "--agent", "double", "--out", run)
    try:
        commands = [(*several, "--agents", "dqn,double"), alone]
        results = [svrl(*command, *more) for command in commands for more in ((), ("--resume",))]
    finally:
        os.close(folder)
    for result in results:
        assert result.exit_code == 2
        assert f"{run} is being trained by another process" in result.stderr
        assert "--resume" not in result.stderr
    assert not (tmp_path / "dqn-seed0").exists(), "all are refused before the first is trained"


def program(*arguments: object, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "svrl", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **options
    )  # type: ignore[call-overload, no-any-return]


def test_a_killed_process_loses_at_most_the_last_interval(svrl, tmp_path, plain):
    command = (*SMOKE, "--steps", 2000, "--log-every", 500)
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    process = program(*command, "--out", broken, "--checkpoint-every", 0.05)
    try:
        while not (broken / "checkpoints").exists() or len(names(broken / "checkpoints")) < 2:
            assert process.poll() is None, process.stderr
            time.sleep(0.01)
    finally:
        process.kill()
        process.communicate()
    assert not (broken / "result.json").exists(), "it was killed in the middle"
    assert svrl(*command, "--out", straight).exit_code == 0
    result = svrl(*command, "--out", broken, "--resume")
    assert result.exit_code == 0, result.stderr
    assert_same_run(straight, broken)


def test_a_full_disk_is_said_in_one_sentence_and_loses_nothing(svrl, tmp_path, plain):
    command = (*SMOKE, "--steps", 700)
    run = tmp_path / "run"
    process = program(
        *command,
        "--out",
        run,
        "--checkpoint-every",
        0.05,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)),
    )
    _, errors = process.communicate()
    assert process.returncode == 2, errors
    assert errors.count("\n") == 1, errors
    assert re.match(rf"Error: {run}/[\w/]+\.(npz|png|json|jsonl): File too large", errors)
    assert "--resume" in errors
    result = svrl(*command, "--out", run, "--resume")
    assert result.exit_code == 0, result.stderr


def test_a_signal_before_the_first_step_leaves_a_run_to_resume(svrl, tmp_path, monkeypatch, plain):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    assert svrl(*SMOKE, "--out", straight).exit_code == 0
    with monkeypatch.context() as patch:
        made = TrainProgress.__init__

        def make(self: TrainProgress, *arguments: object) -> None:
            made(self, *arguments)  # type: ignore[arg-type]
            os.kill(os.getpid(), signal.SIGINT)

        patch.setattr(TrainProgress, "__init__", make)
        assert svrl(*SMOKE, "--out", broken).exit_code == 130
    assert names(broken) == {"config.json"}
    assert svrl(*SMOKE, "--out", broken, "--resume").exit_code == 0
    assert_same_run(straight, broken)


def test_an_error_after_a_checkpoint_leaves_a_run_to_resume(svrl, tmp_path, monkeypatch, plain):
    straight, run = tmp_path / "straight", tmp_path / "run"
    assert svrl(*SMOKE, "--out", straight).exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(TrainProgress, "__call__", interrupting(10, lambda: int("x" + [])))  # type: ignore[operator]
        assert svrl(*SMOKE, "--checkpoint-every", 1e-9, "--out", run).exit_code == 1
    assert svrl(*SMOKE, "--out", run, "--resume").exit_code == 0
    assert_same_run(straight, run)


def test_damaged_rows_are_told_and_counted(svrl, tmp_path, monkeypatch, plain):
    broken = tmp_path / "broken"
    with monkeypatch.context() as patch:
        patch.setattr(TrainProgress, "__call__", interrupting(200, sending(signal.SIGINT)))
        assert svrl(*SMOKE, "--out", broken).exit_code == 130
    rows = broken / "episodes.jsonl"
    rows.write_bytes(b"x" + rows.read_bytes())
    result = svrl(*SMOKE, "--out", broken, "--resume")
    assert result.exit_code == 0, result.stderr
    assert f"{rows} is damaged: rows are missing or changed" in result.stderr
    found = json.loads((broken / "result.json").read_text())
    assert found["episodes_reason"] == f"{len(read_rows(rows))} of them are in episodes.jsonl"
    assert found["episodes"] == len(read_rows(rows)) + 1
