"""Stores as sweeps leave them behind, written by hand: what readers have to make sense of."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from svrl import __version__
from svrl.runs.settings import PLAN
from svrl.runs.spec import RunSpec
from svrl.runs.store import Store
from svrl.runs.train_run import TRAIN
from svrl.runtime.provenance import commit


def training(env: str = "CartPole-v1", arm: str = "dqn", seed: int = 0, steps: int = 1000, **more: Any) -> RunSpec:
    agent, structured = arm.removeprefix("sv-"), arm.startswith("sv-")
    settings = {"env": env, "agent": agent, "structured": structured, "seed": seed, **more}
    others = {"batch_size": 32, "scale": "minmax", "next_value_from": "completed"}
    return RunSpec(kind=TRAIN, settings={**others, **settings, "steps": steps}, given=settings, steps=steps)


def plan(task: str = "toy", method: str = "svp", seed: int = 0, **more: Any) -> RunSpec:
    settings = {"task": task, "method": method, "seed": seed, **more}
    return RunSpec(kind=PLAN, settings={"p": None, **settings}, given=settings)


def sweep_of(root: Path, specs: Iterable[RunSpec], name: str = "trial") -> Store:
    store = Store(root)
    every = list(specs)
    for spec in every:
        store.add(spec)
    store.keep_sweep(name, {"name": name, "runs": [spec.id for spec in every]})
    return store


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def write_rows(store: Store, run: str, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
    folder = store.folder(run) / "run"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return folder / name


def games(scores: Iterable[float], length: int = 10, after: int = 0) -> list[dict[str, Any]]:
    """Rows of episodes.jsonl, a game every `length` steps."""
    rows = enumerate(scores, 1)
    return [
        {"steps": after + length * at, "updates": at, "env": 0, "score": float(score), "length": length}
        for at, score in rows
    ]


def begin(
    store: Store, spec: RunSpec, scores: Iterable[float] = (), *, began: float | None = None, length: int = 10
) -> str:
    """A run that was begun; it runs only if somebody holds it."""
    attempt = 1 + sum("began" in row for row in store.attempts(spec.id))
    who = {"host": "here", "pid": 1, "svrl": __version__, "commit": commit(), "steps": store.steps(spec.id)}
    store.note(spec.id, {"attempt": attempt, **who, "began": moment(time.time() if began is None else began)})
    write_rows(store, spec.id, "episodes.jsonl", games(scores, length))
    return spec.id


def end(store: Store, run: str, outcome: str, **more: Any) -> None:
    attempt = sum("began" in row for row in store.attempts(run))
    store.note(run, {"attempt": attempt, "ended": moment(time.time()), "outcome": outcome, "seconds": 20.0, **more})


def finish(store: Store, spec: RunSpec, score: float | None, **more: Any) -> str:
    """A finished run: a training of this score, or a plan that loses so much."""
    begin(store, spec, () if score is None or spec.kind == PLAN else [score])
    result: dict[str, Any] = {"run": "elsewhere", "arm": spec.arm, "seed": spec.seed}
    if spec.kind == TRAIN:
        result |= {"env": spec.subject, "steps": spec.steps, "score_last_100": score, "steps_per_second": 50.0}
    else:
        result |= {"task": spec.subject, "iterations": 80, "policy_loss_relative": score}
    (store.folder(spec.id) / "run" / "result.json").write_text(json.dumps(result | more))
    end(store, spec.id, "done")
    return spec.id
