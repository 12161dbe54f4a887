"""The table of a sweep: what it says, and that it fits."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from svrl.reporting.sweep_table import duration, number, sweep_view, totals_lines

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
    made |= {"subjects": 1, "subjects_scored": 1, "best": 1.25, "best_run": "a"}
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


@pytest.mark.parametrize("width", [80, 100, 110, 140, 200])
def test_it_fits_and_says_what_it_leaves_out(width):
    text = printed(sweep_view(overview(MANY, GROUPS, OVER_ALL), width=width, most=12), width)
    assert max(map(len, text.splitlines())) <= width
    assert "✓ 40 done   ▶ 20 running   ✗ 15 failed   · 459 waiting" in text
    assert "600M of 8.01G steps · 1.33k steps/s · about 3 h 20 min left" in text
    assert "best so far: 520.0%  the best" in text
    assert "and 102 more" in text  # groups: 114 without those shown
    assert "and 8 more" in text  # running
    assert "and 3 more" in text  # failed
    assert "The loss is NaN" in text
    assert len(text.splitlines()) < 100


def test_a_wide_one_has_both_means_and_a_narrow_one_says_which():
    view = overview(MANY, GROUPS[:1], OVER_ALL)
    wide, narrow = (printed(sweep_view(view, width=width), width) for width in (140, 80))
    line = next(line for line in wide.splitlines() if "all (7 of 57)" in line)
    assert line.split()[4:] == ["dqn", "3/3", "40.0%", "[30.0%,", "50.0%]", "50.0%", "[25.0%,", "75.0%]", "125.0%"]
    line = next(line for line in narrow.splitlines() if "all (7 of 57)" in line)
    assert line.split()[6:] == ["40.0%", "[30.0%,", "50.0%]", "125.0%"]
    line = next(line for line in narrow.splitlines() if "atari/game_0" in line)
    assert line.split()[-4:] == ["50.0%", "[25.0%,", "75.0%]", "125.0%"]
    assert "all: IQM; others: mean." in " ".join(narrow.split())
    assert "do not compare yet" in " ".join(wide.split())


def test_numbers_of_runs_under_way_are_marked_and_missing_scales_explained():
    groups = [group("CartPole-v1", "dqn", provisional=True, mean_low=None), group("Acrobot-v1", "dqn")]
    told = overview(MANY[:3], groups, name="score_last_100", reason="scores of 2 environments are on 2 scales")
    text = " ".join(printed(sweep_view(told, width=120), 120).split())
    assert "~0.5" in text
    assert "~ of runs under way." in text
    assert "No number over all: scores of 2 environments are on 2 scales." in text


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


def test_a_variant_with_one_subject_has_no_line_over_all():
    one = [group(None, "dqn", subjects=57, subjects_scored=1)]
    assert "all (" not in printed(sweep_view(overview(MANY, GROUPS, one), width=120), 120)


def test_markup_in_a_label_is_text():
    text = printed(
        sweep_view(overview([run(0, "running", label="[red]x[/red]"), run(1, "failed", reason="[b]")]), width=90), 90
    )
    assert "[red]x[/red]" in text
    assert "[b]" in text


def test_a_label_does_not_steer_the_terminal():
    runs = [run(0, "running", label="\x1b[2Jx"), run(1, "failed", reason="\x1b]0;title\x07")]
    text = printed(sweep_view(overview(runs), width=90), 90)
    assert "\x1b[2J" not in text
    assert "\x1b]0" not in text
    assert r"\x1b[2Jx" in text


def test_every_state_that_has_runs_is_in_the_bar():
    runs = [run(0, "failed"), run(1, "running"), *(run(at, "waiting") for at in range(998))]
    bar = totals_lines(overview(runs), width=80).plain.splitlines()[1]
    assert (bar.count("✗"), bar.count("▓"), len(bar)) == (1, 1, 79)


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
