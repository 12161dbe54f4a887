"""How a sweep stands: every run with its state, its progress and its score, and all of them together.

A look reads what lies in the store and asks nobody. Others write while it reads, so a run that cannot be read is read
once more, and then shown as unreadable; a look does not fail for it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

from svrl.runs import scores
from svrl.runs.spec import SUBJECT, RunSpec, shown
from svrl.runs.store import STATES, State, Store, failure_of, this_version
from svrl.runs.train_run import STRUCTURE, TRAIN

LAST_LINES = 20
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
_TOLD_OTHERWISE = (*SUBJECT.values(), "seed", "agent", "structured", "method")
"""Settings that are the subject, the seed or the arm."""


@dataclass(frozen=True, kw_only=True)
class RunView:
    """One run at the moment of a look.

    Attributes:
        id: The hash of its configuration.
        label: A name for people.
        kind: train or plan.
        subject: Its environment or task.
        arm: What is compared, as dqn or sv-dqn.
        variant: The arm with the settings that vary within the sweep.
        seed: Of everything random.
        state: done, running, failed, stopped or waiting.
        steps: Agent steps so far; iterations of a finished plan.
        steps_in_all: Steps at its end; None if only its method knows.
        steps_per_second: Of a running one since it was begun or resumed; of a finished training over its whole time.
        eta_seconds: Until it is done, if it runs.
        score: Its number, by the measure of the sweep.
        attempts: How often it was begun.
        reason: Why it failed, or the last line that a running one printed.
        last_lines: What a failed one printed last.
        seconds: Time of all attempts of a finished one.
    """

    id: str
    label: str
    kind: str
    subject: str
    arm: str
    variant: str
    seed: int
    state: State = "waiting"
    steps: int = 0
    steps_in_all: int | None = None
    steps_per_second: float | None = None
    eta_seconds: float | None = None
    score: float | None = None
    attempts: int = 0
    reason: str = ""
    last_lines: tuple[str, ...] = ()
    seconds: float | None = None

    def as_json(self) -> dict[str, Any]:
        """For the answer to --json."""
        return {**vars(self), "last_lines": list(self.last_lines)}


@dataclass(frozen=True, kw_only=True)
class Overview:
    """A sweep at one moment.

    Attributes:
        name: Of the sweep.
        time: When it was looked at, in seconds since 1970.
        runs: Its runs, in its order.
        groups: For every subject and variant, over seeds.
        variants: For every variant over all subjects; none where scores have no common scale.
        measure: What the runs are compared by.
        notes: What a person should know before comparing them.
    """

    name: str
    time: float
    runs: tuple[RunView, ...]
    groups: tuple[scores.Group, ...]
    variants: tuple[scores.Group, ...]
    measure: scores.Measure
    notes: tuple[str, ...] = ()

    def count(self, state: State) -> int:
        """Runs in that state."""
        return sum(run.state == state for run in self.runs)

    @property
    def is_over(self) -> bool:
        """Whether all runs are done or failed."""
        return all(run.state in ("done", "failed") for run in self.runs)

    @property
    def eta_seconds(self) -> float | None:
        """Until all are done that have not failed: the mean time of a finished run, for each that is left."""
        taken = [run.seconds for run in self.runs if run.seconds]
        running = self.count("running")
        left = len(self.runs) - self.count("done") - self.count("failed")
        # Those that run are half done, on the average.
        return fmean(taken) * (left - 0.5 * running) / running if taken and running else None

    def as_json(self) -> dict[str, Any]:
        """For the answer to --json and the table; lists, texts and numbers only."""
        in_all = [run.steps_in_all for run in self.runs]
        speeds = [run.steps_per_second for run in self.runs if run.state == "running" and run.steps_per_second]
        best = scores.best_of(self.measure, map(_scored, self.runs))
        labels = {run.id: run.label for run in self.runs}
        return {
            "name": self.name,
            "code": " ".join(filter(None, this_version())),
            "time": self.time,
            "measure": vars(self.measure).copy(),
            "totals": {
                "runs": len(self.runs),
                "states": {state: self.count(state) for state in STATES},
                "steps": sum(run.steps for run in self.runs),
                "steps_in_all": None if None in in_all else sum(steps or 0 for steps in in_all),
                "steps_per_second": sum(speeds) if speeds else None,
                "eta_seconds": self.eta_seconds,
                "best": None if best is None else {"id": best.id, "label": labels[best.id], "score": best.score},
            },
            "variants": [group.as_json() for group in self.variants],
            "groups": [group.as_json() for group in self.groups],
            "runs": [run.as_json() for run in self.runs],
            "notes": list(self.notes),
        }


def look(store: Store, specs: Sequence[RunSpec], *, name: str = "", before: Overview | None = None) -> Overview:
    """See how runs stand.

    Args:
        store: Where they are.
        specs: The runs.
        name: Of their sweep.
        before: An earlier look at the same runs; those that were done are not read again.
    """
    now, names, measure = time.time(), varied(specs), scores.measure_of(specs)
    done = {run.id: run for run in before.runs if run.state == "done"} if before else {}
    runs = tuple(done.get(spec.id) or _view(store, spec, names, measure, now) for spec in specs)
    scored = [_scored(run) for run in runs]
    finished = [run.id for run in runs if run.state == "done"]
    notes = before.notes if before and len(done) == len(finished) else tuple(store.notes_on_versions(finished))
    return Overview(
        name=name,
        time=now,
        runs=runs,
        groups=scores.groups_of(measure, scored),
        variants=scores.variants_of(measure, scored),
        measure=measure,
        notes=notes,
    )


def varied(specs: Iterable[RunSpec]) -> list[str]:
    """Names of the settings that differ between the runs, in the order in which the runs name them."""
    every = list(specs)
    names = dict.fromkeys(name for spec in every for name in spec.given if name not in _TOLD_OTHERWISE)
    return [name for name in names if len({_key(value_of(spec, name)) for spec in every if _has(spec, name)}) > 1]


def value_of(spec: RunSpec, name: str) -> Any:
    """A setting of a run, written in its sweep or not; None if it has no use for it."""
    return spec.given.get(name, spec.settings.get(name)) if _has(spec, name) else None


def variant_of(spec: RunSpec, names: Sequence[str]) -> str:
    """As in "sv-dqn batch_size=64", of the settings in `names`."""
    values = {name: value_of(spec, name) for name in names}
    return " ".join([spec.arm, *(f"{name}={shown(value)}" for name, value in values.items() if value is not None)])


def _has(spec: RunSpec, name: str) -> bool:
    """A plain agent has fields of structure too, which decide nothing."""
    return name in spec.given or not (spec.kind == TRAIN and name in STRUCTURE and not spec.settings["structured"])


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _view(store: Store, spec: RunSpec, names: Sequence[str], measure: scores.Measure, now: float) -> RunView:
    what: dict[str, Any] = {
        "id": spec.id,
        "label": spec.label,
        "kind": spec.kind.name,
        "subject": spec.subject,
        "arm": spec.arm,
        "variant": variant_of(spec, names),
        "seed": spec.seed,
        "steps_in_all": spec.steps,
    }
    said = ""
    for _ in range(2):
        try:
            return RunView(**{**what, **_progress(store, spec, measure, now)})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            said = str(error.strerror if isinstance(error, OSError) and error.strerror else error)
    return RunView(**what, state="failed", reason=f"Its files cannot be read: {said}")


def _progress(store: Store, spec: RunSpec, measure: scores.Measure, now: float) -> dict[str, Any]:
    """The fields of a run that change."""
    run, state = spec.id, store.state(spec.id)
    if state == "waiting":
        return {"state": state}
    attempts = store.attempts(run)
    begun = [row for row in attempts if "began" in row]
    found: dict[str, Any] = {"state": state, "attempts": len(begun)}
    if state == "done":
        result = store.result(run) or {}
        steps = int(result.get("steps") or result.get("iterations") or 0)
        return found | {
            "steps": steps,
            "steps_in_all": steps,
            "steps_per_second": result.get("steps_per_second"),
            "score": scores.finished_score(measure, spec, result),
            "seconds": sum(float(row.get("seconds") or 0.0) for row in attempts),
        }
    steps = store.steps(run)
    episodes = store.rows(run, "episodes.jsonl", scores.LAST_GAMES) if spec.kind == TRAIN else []
    found |= {"steps": steps, "score": scores.score_so_far(measure, spec, episodes)}
    if state == "failed":
        row = failure_of(attempts) or {}
        lines = row.get("last_lines") or store.log_tail(run, LAST_LINES)
        return found | {"reason": _plain(row.get("reason", "")), "last_lines": tuple(map(_plain, lines))}
    if state == "running" and begun:
        seconds = now - datetime.fromisoformat(begun[-1]["began"]).timestamp()
        made = steps - int(begun[-1].get("steps", 0))
        if made > 0 and seconds > 0:
            found["steps_per_second"] = made / seconds
            found["eta_seconds"] = None if spec.steps is None else max(0, spec.steps - steps) * seconds / made
        found["reason"] = next((said for line in reversed(store.log_tail(run, 3)) if (said := _plain(line))), "")
    return found


def _scored(run: RunView) -> scores.Scored:
    return scores.Scored(id=run.id, subject=run.subject, variant=run.variant, state=run.state, score=run.score)


def _plain(line: object) -> str:
    """A line that a program printed, without colours, and without what it wrote over."""
    said = str(line).rstrip().rsplit("\r", 1)[-1]
    return _CONTROL.sub("", said).rstrip()
