"""Checkpoints of a plan in progress: everything that its further steps depend on, bit for bit.

A run consists of its method's `State`, the ledger, the rows so far, and the generator's state. Files hold tensors and
plain numbers only, and reading a file runs no code from it.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from svrl.matrix import Estimate
from svrl.matrix.arrays import as_tensor
from svrl.mdp.model import Model, Sampler
from svrl.planning.method import Ledger, Meter, Method
from svrl.planning.plan import Plan, Run, TraceRow, advance, begin, conclude
from svrl.runtime.files import writing

FORMAT = 2
ESTIMATE = "estimate"


def plan_resumably(
    problem: Model | Sampler,
    method: Method,
    path: Path,
    *,
    seed: int = 0,
    every: float = 10.0,
    watch: Callable[[Run], None] | None = None,
    notes: dict[str, Any] | None = None,
) -> Plan:
    """Plan like `plan`, from the checkpoint at `path` if there is one, with exactly the same result.

    It writes a checkpoint at intervals, after the last step, and when `watch` raises Ctrl-C or another exception. An
    exception inside a step leaves the last checkpoint before that step.

    Args:
        problem: As for `plan`.
        method: As for `plan`.
        path: Path of the checkpoint, in an existing folder. Delete the file when you no longer need it.
        seed: As for `plan`. A checkpoint with another seed raises an error.
        every: Seconds between two checkpoints.
        watch: Called with the run after every iteration; its newest row is `run.trace[-1]`. A resumed run calls it
            again for the last iteration, because an exception may have cut that call short.
        notes: Further content, saved with every checkpoint and restored from it. Tensors, numbers, text, and lists and
            dicts of them.
    """
    notes = {} if notes is None else notes
    if path.exists():
        run, noted = load_run(path, problem, method)
        notes.update(noted)
    else:
        run = begin(problem, method, seed=seed)
    if run.seed != seed or len(run.state.v) != problem.n_states:
        raise ValueError(
            f"{path} holds a run with seed {run.seed} on {len(run.state.v)} states, "
            f"and this one has seed {seed} and {problem.n_states} states. Give each run its own folder."
        )

    if watch is not None and run.trace:
        watch(run)
    saved = time.monotonic()
    for _ in advance(problem, method, run):
        try:
            if watch is not None:
                watch(run)
        except BaseException:
            save_run(run, path, notes)
            raise
        if time.monotonic() - saved >= every:
            save_run(run, path, notes)
            saved = time.monotonic()
    save_run(run, path, notes)
    return conclude(problem, method, run)


def save_run(run: Run, path: Path, notes: Mapping[str, Any] | None = None) -> None:
    """Write a run between two of its steps, and notes. A failed write leaves the old file."""
    content = {
        "format": FORMAT,
        "seed": run.seed,
        "reach": run.reach,
        "state": {field.name: _plain(getattr(run.state, field.name)) for field in fields(run.state)},
        "ledger": asdict(run.ledger),
        "generator": run.generator.get_state(),
        "trace": [asdict(row) for row in run.trace],
        "notes": dict(notes or {}),
    }
    packed = io.BytesIO()
    torch.save(content, packed)
    with writing(path) as temporary:
        temporary.write_bytes(packed.getbuffer())  # torch's own writing hides the reason of a disk error


def load_run(path: Path, problem: Model | Sampler, method: Method) -> tuple[Run, dict[str, Any]]:
    """Read a run of the method, and its notes, onto the device of the problem.

    Raises:
        ValueError: If the file is damaged, or was written by another version or method.
    """
    device = problem.device
    content = _read(path, device)
    if content["format"] != FORMAT:
        raise ValueError(
            f"{path} was written by another version of svrl (format {content['format']}, not {FORMAT}). "
            "Delete it to start the run again."
        )
    generator = torch.Generator(device)
    generator.set_state(content["generator"].cpu())
    kind = type(method.begin(Meter(problem), None))
    if set(content["state"]) != {field.name for field in fields(kind)}:
        raise ValueError(f"{path} is not a run of {method.name}. Delete it to start the run again.")
    run = Run(
        state=kind(**{name: _restored(value) for name, value in content["state"].items()}),
        ledger=Ledger(**content["ledger"]),
        generator=generator,
        seed=content["seed"],
        reach=content["reach"],
        trace=[TraceRow(**row) for row in content["trace"]],
    )
    return run, content["notes"]


def _plain(value: Any) -> Any:
    """Convert a field of a state for the file: an estimate becomes a dict of its fields, as tensors."""
    if not isinstance(value, Estimate):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    if value.factors is not None:
        parts["factors"] = tuple(map(as_tensor, value.factors))
    return {ESTIMATE: {name: as_tensor(part) if isinstance(part, np.ndarray) else part for name, part in parts.items()}}


def _restored(value: Any) -> Any:
    return Estimate(**value[ESTIMATE]) if isinstance(value, dict) else value


def _read(path: Path, device: str | torch.device) -> dict[str, Any]:
    try:
        content = torch.load(path, map_location=device, weights_only=True)
        assert {"format", "seed", "reach", "state", "ledger", "generator", "trace", "notes"} <= set(content)
    except OSError:
        raise
    except Exception as error:  # a damaged archive fails in as many ways as it has parts
        raise ValueError(f"{path} is damaged and cannot be resumed from. Delete it to start the run again.") from error
    return content
