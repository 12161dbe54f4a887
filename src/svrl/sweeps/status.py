"""How a sweep stands: every run with its state, its progress and its score, and all of them together.

A look reads what lies in the store and asks nobody. Others write while it reads, so a run that cannot be read is read
once more, and then said to be unreadable; a look does not fail for it. A look that knows the one before it reads
finished runs no more, and measures the speed of the others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from svrl.sweeps import pace, scores
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import STATES, State, failure_of, state_of, steps_done
from svrl.sweeps.store import Store
from svrl.sweeps.variants import ONCE_MORE, ids_of, specs_of, variant_of, varied

LAST_LINES = 20
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True, kw_only=True)
class RunView:
    """One run at the moment of a look.

    Attributes:
        id: The hash of its configuration.
        label: What to call it.
        kind: train or plan; empty if it is not known yet.
        subject: Its environment or task.
        arm: What is compared, as dqn or sv-dqn.
        variant: The arm with the settings that vary within the sweep.
        seed: Of everything random.
        state: done, running, failed, stopped or waiting.
        steps: Agent steps so far; iterations of a finished plan.
        steps_in_all: Steps at its end; None if only its method knows.
        steps_per_second: Of a running one, and of a finished training over its whole time.
        eta_seconds: Until it is done, if it runs.
        score: Its number, by the measure of the sweep.
        attempts: How often it was begun.
        reason: Why it failed, or the last line that a running one printed.
        last_lines: What a failed one printed last.
        seconds: Time of all attempts of a finished one.
        marks: Looks that its speed is measured by.
    """

    id: str
    label: str
    kind: str = ""
    subject: str = ""
    arm: str = ""
    variant: str = ""
    seed: int | None = None
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
    marks: tuple[pace.Mark, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """For the answer to --json."""
        return {name: value for name, value in vars(self).items() if name not in ("marks", "seconds", "last_lines")} | {
            "last_lines": list(self.last_lines)
        }


@dataclass(frozen=True, kw_only=True)
class Overview:
    """A sweep at one moment.

    Attributes:
        name: Of the sweep; empty for runs that were given by their ids.
        code: The code version of its runs.
        time: When it was looked at, in seconds since 1970.
        runs: Its runs, in its order.
        groups: For every subject and variant, over seeds.
        variants: For every variant over all subjects; none where scores have no common scale.
        measure: What the runs are compared by.
        specs: What the runs are.
    """

    name: str
    code: str
    time: float
    runs: tuple[RunView, ...]
    groups: tuple[scores.Group, ...]
    variants: tuple[scores.Group, ...]
    measure: scores.Measure
    specs: Mapping[str, RunSpec | None] = field(repr=False, default_factory=dict)

    def count(self, state: State) -> int:
        """Runs in that state."""
        return sum(run.state == state for run in self.runs)

    @property
    def is_over(self) -> bool:
        """Whether all runs are done or failed."""
        return all(run.state in ("done", "failed") for run in self.runs)

    @property
    def steps_per_second(self) -> float | None:
        """Of all running runs together."""
        known = [run.steps_per_second for run in self.runs if run.state == "running"]
        speeds = [speed for speed in known if speed is not None]
        return sum(speeds) if speeds else None

    @property
    def eta_seconds(self) -> float | None:
        """Until all are done that have not failed."""
        left = [run for run in self.runs if run.state not in ("done", "failed")]
        speed = self.steps_per_second
        steps = [run.steps_in_all - run.steps for run in left if run.steps_in_all is not None]
        if speed and len(steps) == len(left):
            return sum(steps) / speed
        taken = [run.seconds for run in self.runs if run.seconds is not None]
        return pace.seconds_left_by_runs(taken, self.count("running"), len(left))

    def as_json(self) -> dict[str, Any]:
        """For the answer to --json, the table and the page; lists, texts and numbers only."""
        in_all = [run.steps_in_all for run in self.runs]
        best = scores.best_of(self.measure, map(_scored, self.runs))
        labels = {run.id: run.label for run in self.runs}
        return {
            "name": self.name,
            "code": self.code,
            "time": self.time,
            "measure": vars(self.measure).copy(),
            "totals": {
                "runs": len(self.runs),
                "states": {state: self.count(state) for state in STATES},
                "steps": sum(run.steps for run in self.runs),
                "steps_in_all": None if None in in_all else sum(steps or 0 for steps in in_all),
                "steps_per_second": self.steps_per_second,
                "eta_seconds": self.eta_seconds,
                "best": None if best is None else {"id": best.id, "label": labels[best.id], "score": best.score},
            },
            "variants": [group.as_json() for group in self.variants],
            "groups": [group.as_json() for group in self.groups],
            "runs": [run.as_json() for run in self.runs],
        }


def look(
    store: Store,
    sweep: str | Sequence[str] | Sequence[RunSpec],
    *,
    before: Overview | None = None,
    now: float | None = None,
) -> Overview:
    """See how the runs of a sweep stand.

    Args:
        store: Where they are.
        sweep: The name of a sweep, or its runs, or their ids.
        before: An earlier look at the same sweep.
        now: Seconds since 1970; the clock's by default.

    Raises:
        ValueError: If the store has no sweep of that name.
    """
    now = time.time() if now is None else now
    given = {one.id: one for one in sweep if isinstance(one, RunSpec)} if not isinstance(sweep, str) else {}
    ids = list(given) or ids_of(store, cast("str | Sequence[str]", sweep))
    specs = specs_of(store, ids, before.specs if before else given)
    known = [spec for spec in specs.values() if spec is not None]
    names, measure = varied(known), scores.measure_of(known)
    earlier = {run.id: run for run in before.runs} if before is not None and before.measure == measure else {}
    changing = [run for run in specs if run not in earlier or earlier[run].seconds is None]
    # A store far away reads what is small of all runs at once.
    near = store.looked_at(changing)
    runs = tuple(_view(near, run, spec, names, measure, earlier.get(run), now) for run, spec in specs.items())
    scored = [_scored(run) for run in runs if run.kind]
    return Overview(
        name=sweep if isinstance(sweep, str) else "",
        code=store.code,
        time=now,
        runs=runs,
        groups=scores.groups_of(measure, scored),
        variants=scores.variants_of(measure, scored),
        measure=measure,
        specs=specs,
    )


def _view(
    store: Store,
    run: str,
    spec: RunSpec | None,
    names: Sequence[str],
    measure: scores.Measure,
    earlier: RunView | None,
    now: float,
) -> RunView:
    if spec is None:
        return RunView(id=run, label=run)
    what: dict[str, Any] = {
        "id": run,
        "label": spec.label,
        "kind": spec.kind,
        "subject": spec.subject,
        "arm": spec.arm,
        "variant": variant_of(spec, names),
        "seed": spec.seed,
        "steps_in_all": spec.steps,
    }
    # The row that says how long it took comes after the result.
    if earlier is not None and earlier.seconds is not None and earlier.variant == what["variant"]:
        return earlier
    said = ""
    for _ in range(ONCE_MORE):
        try:
            return RunView(**{**what, **_progress(store, spec, run, measure, earlier, now)})
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            said = _sentence(error)
    return RunView(**what, state="failed", reason=f"Its files cannot be read: {said}")


def _progress(
    store: Store, spec: RunSpec, run: str, measure: scores.Measure, earlier: RunView | None, now: float
) -> dict[str, Any]:
    """The fields of a run that change."""
    state = state_of(store, run)
    if state == "waiting":
        return {"state": state}
    attempts = store.attempts(run)
    found: dict[str, Any] = {"state": state, "attempts": sum("began" in row for row in attempts)}
    if state == "done":
        return found | _of_result(spec, measure, store.result(run) or {}, attempts)
    steps = steps_done(store, run)
    episodes = store.rows(run, "episodes.jsonl", scores.LAST_GAMES) if spec.kind == "train" else []
    found |= {"steps": steps, "score": scores.score_so_far(measure, spec, episodes)}
    if state == "failed":
        row = failure_of(attempts) or {}
        lines = row.get("last_lines") or store.log_tail(run, LAST_LINES)
        return found | {"reason": _plain(row.get("reason", "")), "last_lines": tuple(map(_plain, lines))}
    if state == "running":
        found |= _speed(attempts, steps, spec.steps, earlier, now)
        found["reason"] = next((said for line in reversed(store.log_tail(run, 3)) if (said := _plain(line))), "")
    return found


def _speed(
    attempts: Sequence[Mapping[str, Any]], steps: int, in_all: int | None, earlier: RunView | None, now: float
) -> dict[str, Any]:
    begun = sum("began" in row for row in attempts)
    # Marks of another attempt, or of a run that was not at work, would measure its rest.
    same = earlier is not None and earlier.state == "running" and earlier.attempts == begun
    marks = pace.marks_after(earlier.marks if earlier is not None and same else (), now, steps)
    first = earlier.steps_per_second if earlier is not None and same else None
    speed = pace.measured(marks, first if first is not None else pace.since_begun(attempts, now, steps))
    return {"marks": marks, "steps_per_second": speed, "eta_seconds": pace.seconds_left(steps, in_all, speed)}


def _of_result(
    spec: RunSpec, measure: scores.Measure, result: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    steps = int(result.get("steps") or result.get("iterations") or 0)
    return {
        "steps": steps,
        "steps_in_all": steps,
        "steps_per_second": result.get("steps_per_second"),
        "score": scores.finished_score(measure, spec, result),
        "seconds": pace.seconds_taken(attempts),
    }


def _scored(run: RunView) -> scores.Scored:
    return scores.Scored(id=run.id, subject=run.subject, variant=run.variant, state=run.state, score=run.score)


def _plain(line: object) -> str:
    """A line that a program printed, without colours, and without what it wrote over."""
    said = str(line).rstrip().rsplit("\r", 1)[-1]
    return _CONTROL.sub("", said).rstrip()


def _sentence(error: Exception) -> str:
    """What went wrong; of the system's errors without the path, since a page shows it."""
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)
