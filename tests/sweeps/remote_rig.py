"""A remote store of a run for tests: on memory://, file:// and s3://, and the files that a run leaves in it."""

from __future__ import annotations

import json
from pathlib import Path

from svrl.sweeps.lease import Timing
from svrl.sweeps.remote_store import RemoteStore
from svrl.sweeps.run_spec import RunSpec

CODE = "0.1.0-abcdef01"
SPEC = RunSpec(
    kind="train",
    settings={"env": "CartPole-v1", "preset": "smoke", "steps": 1200, "seed": 0},
    full={"env": "CartPole-v1", "agent": "dqn", "structured": False, "steps": 1200, "seed": 0},
    steps=1200,
)
RUN = SPEC.id
QUICK = Timing(renew=0.2, expire=2.0, settle=0.3)


def opened(address: str, timing: Timing = QUICK) -> RemoteStore:
    return RemoteStore(address=address, code=CODE, timing=timing)


def fill(folder: Path, number: int, *, result: bool = False) -> dict[str, bytes]:
    """Files of a run at its n-th checkpoint, as training leaves them."""
    run = folder / "run"
    for part in ("checkpoints", "replay"):
        (run / part).mkdir(parents=True, exist_ok=True)
    (run / "config.json").write_text('{"steps": 1200}')
    with (run / "episodes.jsonl").open("a") as rows:
        rows.write(json.dumps({"steps": 10 * number, "score": float(number)}) + "\n")
    with (folder / "log.txt").open("a") as log:
        log.write(f"line {number}\n")
    (run / "replay" / f"segment-{number:06d}.npz").write_bytes(bytes([number]) * 3000)
    (run / "checkpoints" / f"{number:09d}.npz").write_bytes(bytes([number]) * 2000)
    for old in (run / "checkpoints" / f"{number - 2:09d}.npz", run / "replay" / f"segment-{number - 2:06d}.npz"):
        old.unlink(missing_ok=True)
    if result:
        (run / "result.json").write_text('{"score_last_100": 9.5}')
    return content(folder)


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "spec.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def fetched(store: RemoteStore | str) -> dict[str, bytes]:
    """What the next owner finds."""
    with (opened(store) if isinstance(store, str) else store).working_on(RUN) as place:
        return content(place.folder)
