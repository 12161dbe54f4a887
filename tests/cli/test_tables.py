"""Tables in a terminal: what they say, and that they fit."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from svrl.cli.tables import comparison_table, number, sweep_view
from svrl.runtime.names import duration

STATES = ("done", "running", "failed", "stopped", "waiting")


def run(at: int, state: str, **more: Any) -> dict[str, Any]:
    made = {
        "id": f"{at:016x}",
        "kind": "train",
        "label": f"atari/montezuma_revenge sv-dueling seed {at}",
        "state": state,
    }
    made |= {"steps": 120_000, "steps_in_all": 15_000_000, "steps_per_second": 33.3, "eta_seconds": 4e5}
    return made | {"score": 0.5, "attempts": 2, "reason": "", "last_lines": []} | more


def group(subject: str | None, variant: str, **more: Any) -> dict[str, Any]:
    made = {"subject": subject, "variant": variant, "runs": 3, "done": 3, "scored": 3, "provisional": False}
    made |= {"subjects": 1, "subjects_scored": 1, "best": 1.25}
    made |= {"mean": 0.5, "mean_low": 0.25, "mean_high": 0.75, "iqm": 0.4, "iqm_low": None, "iqm_high": None}
    return made | more


def overview(runs: list[dict[str, Any]], groups=(), variants=(), **measure: Any) -> dict[str, Any]:
    states = {state: sum(one["state"] == state for one in runs) for state in STATES}
    totals = {"runs": len(runs), "states": states, "steps": 600_000_000, "steps_in_all": 8_010_000_000}
    totals |= {
        "steps_per_second": 1333.0,
        "eta_seconds": 12_000.0,
        "best": {"id": "a", "label": "the best", "score": 5.2},
    }
    told = {"name": "human_normalised", "text": "human-normalised score", "less_is_better": False, "reason": ""}
    return {
        "name": "paper-57",
        "code": "0.1.0-abc",
        "time": 0.0,
        "measure": told | measure,
        "totals": totals,
        "variants": list(variants),
        "groups": list(groups),
        "runs": runs,
    }


def printed(view: Any, width: int) -> str:
    console = Console(width=width, force_terminal=False, color_system=None)
    with console.capture() as said:
        console.print(view)
    return said.get()


MANY = [
    *(run(at, "done") for at in range(40)),
    *(run(at, "running") for at in range(40, 60)),
    *(
        run(at, "failed", reason="The loss is NaN at update 12,345 of seed 2. Lower learning_rate.")
        for at in range(60, 75)
    ),
    *(run(at, "waiting") for at in range(75, 534)),
]
GROUPS = [group(f"atari/game_{at}", "sv-dueling batch_size=64", scored=3 * (at < 90)) for at in range(114)]
OVER_ALL = [
    group(None, "dqn", subjects=57, subjects_scored=7, iqm_low=0.3, iqm_high=0.5),
    group(None, "sv-dqn", subjects=57, subjects_scored=6, iqm_low=0.3, iqm_high=0.5),
]


@pytest.mark.parametrize("width", [80, 110, 200])
def test_it_fits_and_says_what_it_leaves_out(width):
    text = printed(sweep_view(overview(MANY, GROUPS, OVER_ALL), width=width), width)
    assert max(map(len, text.splitlines())) <= width
    assert "✓ 40 done   ▶ 20 running   ✗ 15 failed   · 459 waiting" in text
    assert "600M of 8.01G steps · 1.33k steps/s · about 3 h 20 min left" in text
    assert "best so far: 520.0%  the best" in text
    assert "and 102 more" in text  # groups: 114 without those shown
    assert "and 8 more" in text  # running
    assert "and 3 more" in text  # failed
    assert "The loss is NaN" in text
    assert len(text.splitlines()) < 100


def test_a_score_is_the_interquartile_mean_over_subjects_or_the_mean_of_one():
    text = printed(sweep_view(overview(MANY, GROUPS[:1], OVER_ALL), width=80), 80)
    lines = {line.split()[0]: line.split() for line in reversed(text.splitlines()) if line.strip()}
    assert lines["all"] == ["all", "(7", "of", "57)", "dqn", "3/3", "40.0%", "[30.0%,", "50.0%]", "125.0%"]
    assert lines["atari/game_0"][-4:] == ["50.0%", "[25.0%,", "75.0%]", "125.0%"]
    assert "interquartile mean over all subjects, mean of one subject." in " ".join(text.split())
    assert "do not compare yet" in " ".join(text.split())


def test_numbers_of_runs_under_way_are_marked_and_missing_scales_explained():
    groups = [group("CartPole-v1", "dqn", provisional=True, mean_low=None), group("Acrobot-v1", "dqn")]
    told = overview(MANY[:3], groups, name="score_last_100", reason="scores of 2 environments are on 2 scales")
    text = " ".join(printed(sweep_view(told, width=120), 120).split())
    assert "~0.5" in text
    assert "~: runs under way are counted." in text
    assert "No number over all: scores of 2 environments are on 2 scales." in text
    one = [group(None, "dqn", subjects=57, subjects_scored=1)]
    assert "all (" not in printed(sweep_view(overview(MANY, GROUPS, one), width=120), 120)


@pytest.mark.parametrize(
    ("measure", "score", "text"),
    [
        ("human_normalised", 1.234, "123.4%"),
        ("policy_loss_relative", 1.234e-6, "0.000123%"),
        ("score_last_100", 1234.56, "1235"),
        ("score_last_100", None, "-"),
    ],
)
def test_scores_are_written_by_their_measure(measure, score, text):
    assert number(overview([], name=measure), score) == text


def test_a_label_is_neither_markup_nor_steers_the_terminal():
    runs = [run(0, "running", label="[red]x[/red] \x1b[2Jx"), run(1, "failed", reason="[b] \x1b]0;title\x07")]
    text = printed(sweep_view(overview(runs), width=90), 90)
    assert "[red]x[/red]" in text
    assert "[b]" in text
    assert "\x1b[2J" not in text
    assert "\x1b]0" not in text
    assert r"\x1b[2Jx" in text


def test_a_sweep_that_has_not_begun_is_a_short_text():
    view = overview([run(at, "waiting") for at in range(4)])
    view["totals"] |= {"steps": 0, "steps_per_second": None, "eta_seconds": None, "best": None}
    assert printed(sweep_view(view, width=80), 80).split()[-3:] == ["·", "4", "waiting"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.4, "0 s"), (59.6, "60 s"), (600, "10 min"), (12_000, "3 h 20 min"), (259_200, "3 days")],
)
def test_durations_are_rough(seconds, text):
    assert duration(seconds) == text


# Plans.


def row(method: str, **more: object) -> dict[str, object]:
    numbers = {"iterations": 7, "sweep_equivalents": 1.25, "seconds_backup": 0.5, "seconds_estimate": 0.25}
    worth = {"policy_loss_relative": 0.031, "discounted_return": 12.5, "metric": 0.75}
    return {"method": method, **numbers, **worth, "policy_followed_by": "interpolated Q", "outcome": "", **more}


def test_the_table_says_who_looked_actions_up_and_who_diverged():
    from svrl.planning.plan import DIVERGED

    rows = [
        row("svp"),
        row("sampled-max", policy_followed_by="nearest grid point"),
        row("paper-svp", outcome=DIVERGED, policy_loss_relative=None),
        {"method": "async", "reason": "It could not."},
    ]
    text = printed(comparison_table(rows, title="a task", metric="norm_rad"), 80)
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}
    assert lines["svp"] == ["7", "1.25", "0.500", "0.250", "3.10%", "12.5", "0.75"]
    assert lines["sampled-max"][-2:] == ["12.5*", "0.75*"]
    assert lines["paper-svp"][0] == "!"
    assert "diverge" in text
    assert "?" in lines["paper-svp"]
    assert lines["async"] == ["-"] * 7
    assert "nearest grid point" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_without_a_metric_there_is_no_column_for_it():
    text = printed(comparison_table([row("svp", metric=None)], title="a task", metric=None), 80)
    assert "0.75" not in text
    assert "*:" not in text
