"""How a sweep stands: every run with its state, its progress and its score, and all of them together.

A look only reads the store and contacts no process. Others write while it reads, so a run that cannot be read is read
once more, and then shown as unreadable; a look does not fail for it.

The score of a training is the mean of its last 100 games, so far if it goes on. Where all subjects are Atari games it
is human-normalised, (score - random) / (human - random). The score of a plan is what its policy loses against the
optimum, over the range of the optimal values: less is better.

Scores are taken together over the seeds of a variant on a subject: of the finished runs, or, where none is finished, of
those under way, which is said. Over several subjects only scores of one scale are taken together, so raw scores of
several environments are not. Subjects weigh the same. Intervals are of 95%, by the rules of `svrl.stats`; the
interquartile mean of fewer than ten runs of one subject has none, since the bootstrap's is too narrow there.
"""

from __future__ import annotations

import functools
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any

from svrl.runs.spec import SUBJECT, RunSpec, shown
from svrl.runs.store import STATES, Store, failure_of, this_version
from svrl.runs.train_run import STRUCTURE, TRAIN

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")

LAST_GAMES = 100
LAST_LINES = 20
_TOLD_OTHERWISE = (*SUBJECT.values(), "seed", "agent", "structured", "method")
"""Settings that are the subject, the seed or the arm."""

Row = dict[str, Any]


def look(store: Store, specs: Sequence[RunSpec], *, name: str = "", before: Mapping[str, Any] | None = None) -> Row:
    """See how runs stand.

    Args:
        store: Where they are.
        specs: The runs.
        name: Of their sweep.
        before: An earlier look at the same runs; those that were done are not read again.

    Returns:
        The answer to `svrl sweep status --json`: lists, texts and numbers only.

        - name, code (svrl's version), time (seconds since 1970), and notes for a person who compares the runs.
        - measure: what the runs are compared by (name, text, less_is_better), and the reason why that may not be taken
          together over subjects; empty if it may.
        - totals: of all runs, with eta_seconds until all are done and the best run.
        - runs: each with id, label, kind, subject, arm, variant (the arm with the settings that vary), seed, state,
          steps (of a plan, iterations), steps_in_all, steps_per_second, eta_seconds, score, attempts, the reason why it
          failed, last_lines of a failed one, and seconds of a finished one.
        - groups: for each subject and variant, over seeds, how many runs there are, are done and are scored, the mean
          and interquartile mean (iqm) of the scores with their intervals, and the best; provisional if those that are
          scored are under way.
        - variants: the same for each variant over all subjects; none where scores have no common scale.
    """
    now, names, measure = time.time(), varied(specs), _measure_of(specs)
    done = {run["id"]: run for run in before["runs"] if run["state"] == "done"} if before else {}
    runs = [done.get(spec.id) or _run(store, spec, names, measure, now) for spec in specs]
    finished = [run["id"] for run in runs if run["state"] == "done"]
    same = before is not None and len(done) == len(finished)
    cells: dict[tuple[str, str], list[Row]] = {}
    for run in runs:
        cells.setdefault((run["subject"], run["variant"]), []).append(run)
    subjects, variants = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True)) if cells else ([], [])
    by_subject = sorted(cells.items(), key=lambda cell: subjects.index(cell[0][0]))
    return {
        "name": name,
        "code": this_version(),
        "time": now,
        "measure": measure,
        "totals": _totals(runs, measure),
        "variants": [
            _group(measure, None, variant, [some for (_, its), some in cells.items() if its == variant])
            for variant in variants
            if len(subjects) > 1 and not measure["reason"]
        ],
        "groups": [_group(measure, subject, variant, [some]) for (subject, variant), some in by_subject],
        "runs": runs,
        "notes": before["notes"] if before is not None and same else store.notes_on_versions(finished),
    }


def varied(specs: Sequence[RunSpec]) -> list[str]:
    """Names of the settings that differ between the runs, in the order in which the runs name them."""
    names = dict.fromkeys(name for spec in specs for name in spec.given if name not in _TOLD_OTHERWISE)
    return [name for name in names if len({repr(value_of(spec, name)) for spec in specs if _has(spec, name)}) > 1]


def value_of(spec: RunSpec, name: str) -> Any:
    """A setting of a run, written in its sweep or not; None if it has no use for it."""
    return spec.given.get(name, spec.settings.get(name)) if _has(spec, name) else None


def _has(spec: RunSpec, name: str) -> bool:
    """A plain agent has fields of structure too, which decide nothing."""
    return name in spec.given or not (spec.kind == TRAIN and name in STRUCTURE and not spec.settings["structured"])


def _totals(runs: Sequence[Row], measure: Row) -> Row:
    states = {state: sum(run["state"] == state for run in runs) for state in STATES}
    in_all = [run["steps_in_all"] for run in runs]
    speeds = [run["steps_per_second"] for run in runs if run["state"] == "running" and run["steps_per_second"]]
    taken = [run["seconds"] for run in runs if run["seconds"]]
    running, left = states["running"], len(runs) - states["done"] - states["failed"]
    best = None if measure["reason"] else _best(measure, runs)
    return {
        "runs": len(runs),
        "states": states,
        "steps": sum(run["steps"] for run in runs),
        "steps_in_all": None if None in in_all else sum(in_all),
        "steps_per_second": sum(speeds) if speeds else None,
        # The mean time of a finished run, for each that is left; those that run are half done, on the average.
        "eta_seconds": fmean(taken) * (left - 0.5 * running) / running if taken and running else None,
        "best": best and {name: best[name] for name in ("id", "label", "score")},
    }


# A run.


def _run(store: Store, spec: RunSpec, names: Sequence[str], measure: Row, now: float) -> Row:
    values = {name: value_of(spec, name) for name in names}
    varying = [f"{name}={shown(value)}" for name, value in values.items() if value is not None]
    run: Row = {
        "id": spec.id,
        "label": spec.label,
        "kind": spec.kind.name,
        "subject": spec.subject,
        "arm": spec.arm,
        "variant": " ".join([spec.arm, *varying]),
        "seed": spec.seed,
        "state": "waiting",
        "steps": 0,
        "steps_in_all": spec.steps,
        "attempts": 0,
        "reason": "",
        "last_lines": [],
        **dict.fromkeys(("steps_per_second", "eta_seconds", "score", "seconds")),
    }
    said = ""
    for _ in range(2):
        try:
            return run | _progress(store, spec, measure, now)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            said = str(error)
    return run | {"state": "failed", "reason": f"Its files cannot be read: {said}"}


def _progress(store: Store, spec: RunSpec, measure: Row, now: float) -> Row:
    """The fields of a run that change."""
    run, state = spec.id, store.state(spec.id)
    if state == "waiting":
        return {}
    attempts = store.attempts(run)
    begun = [row for row in attempts if "began" in row]
    found: Row = {"state": state, "attempts": len(begun)}
    if state == "done":
        result = store.result(run) or {}
        steps = int(result.get("steps") or result.get("iterations") or 0)
        plan = measure["name"] == "policy_loss_relative"
        return found | {
            "steps": steps,
            "steps_in_all": steps,
            "steps_per_second": result.get("steps_per_second"),
            "score": _scaled(measure, spec, result.get("policy_loss_relative" if plan else "score_last_100")),
            "seconds": sum(float(row.get("seconds") or 0.0) for row in attempts),
        }
    steps = store.steps(run)
    episodes = store.rows(run, "episodes.jsonl", LAST_GAMES) if spec.kind == TRAIN else []
    scores = [row["score"] for row in episodes if _is_number(row.get("score"))]
    found |= {"steps": steps, "score": _scaled(measure, spec, fmean(scores) if scores else None)}
    if state == "failed":
        row = failure_of(attempts) or {}
        lines = row.get("last_lines") or store.log_tail(run, LAST_LINES)
        return found | {"reason": _plain(row.get("reason", "")), "last_lines": [_plain(line) for line in lines]}
    if state == "running" and begun:
        seconds = now - datetime.fromisoformat(begun[-1]["began"]).timestamp()
        made = steps - int(begun[-1].get("steps", 0))
        if made > 0 and seconds > 0:
            found["steps_per_second"] = made / seconds
            found["eta_seconds"] = None if spec.steps is None else max(0, spec.steps - steps) * seconds / made
        found["reason"] = next((said for line in reversed(store.log_tail(run, 3)) if (said := _plain(line))), "")
    return found


def _plain(line: object) -> str:
    """A line that a program printed, without colours, and without what it wrote over."""
    return _CONTROL.sub("", str(line).rstrip().rsplit("\r", 1)[-1]).rstrip()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# Scores.


def _measure_of(specs: Sequence[RunSpec]) -> Row:
    """What runs are compared by; it follows from what they are, not from how far they came."""
    kinds, subjects = {spec.kind.name for spec in specs}, {spec.subject for spec in specs}
    name, text, reason = "score_last_100", "score, mean of the last 100 games", ""
    if len(kinds) > 1:
        name, text, reason = "", "no common score", "trainings and plans have no common score"
    elif kinds == {"plan"}:
        name, text = "policy_loss_relative", "relative policy loss, less is better"
    elif subjects and all(subject.startswith("atari/") for subject in subjects):
        name, text = "human_normalised", "human-normalised score, mean of the last 100 games"
    elif len(subjects) > 1:
        reason = f"scores of {len(subjects)} environments are on {len(subjects)} scales"
    return {"name": name, "text": text, "less_is_better": name == "policy_loss_relative", "reason": reason}


def _scaled(measure: Row, spec: RunSpec, score: Any) -> float | None:
    if not _is_number(score) or not measure["name"]:
        return None
    if measure["name"] != "human_normalised":
        return float(score)
    from svrl.envs.atari_games import human_normalised

    try:
        return human_normalised(spec.subject, float(score))
    except ValueError:  # a game without a human score
        return None


def _best(measure: Row, runs: Iterable[Row]) -> Row | None:
    scored = [run for run in runs if run["score"] is not None]
    choose = min if measure["less_is_better"] else max
    return choose(scored, key=lambda run: run["score"]) if scored else None


def _group(measure: Row, subject: str | None, variant: str, by_subject: Sequence[Sequence[Row]]) -> Row:
    """Runs that differ by their seeds only, or those of a variant on all subjects."""
    runs = [run for some in by_subject for run in some]
    done = sum(run["state"] == "done" for run in runs)
    states = ("done",) if done else ("running", "stopped")
    counted = [[run for run in some if run["state"] in states and run["score"] is not None] for some in by_subject]
    counted = [some for some in counted if some]
    flat = [run for some in counted for run in some]
    best = _best(measure, flat)
    return {
        "subject": subject,
        "variant": variant,
        "runs": len(runs),
        "done": done,
        "scored": len(flat),
        "subjects": len(by_subject),
        "subjects_scored": len(counted),
        "provisional": bool(flat) and not done,
        **dict.fromkeys(f"{name}{end}" for name in ("mean", "iqm") for end in ("", "_low", "_high")),
        **_means(tuple(tuple(run["score"] for run in some) for some in counted)),
        "best": best and best["score"],
    }


@functools.lru_cache(maxsize=4096)
def _means(scores: tuple[tuple[float, ...], ...]) -> Row:
    """Means and intervals of the scores of each subject. They are asked for again and again while nothing changes."""
    if not scores:
        return {}
    import numpy as np

    from svrl import stats

    games = [np.array(seeds, float) for seeds in scores]
    found: Row = {"mean": float(stats.mean_score(games)), "iqm": float(stats.iqm(games))}
    if max(map(len, scores)) > 1:
        ends = stats.mean_interval(scores[0]) if len(scores) == 1 else stats.mean_over_games_interval(games)
        if ends is not None:
            found["mean_low"], found["mean_high"] = ends
        if sum(map(len, scores)) >= stats.FEW or len(scores) > 1:
            found["iqm_low"], found["iqm_high"] = stats.stratified_interval(stats.iqm, games)
    return found
