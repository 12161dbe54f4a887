from __future__ import annotations

import subprocess
import sys

import pytest

from svrl.sweeps.outcome import reason_in

BOX = """Usage: svrl plan [OPTIONS] TASK
Try 'svrl plan --help' for help.
╭─ Error ───────────────────────────────╮
│ No such option: --no-thing            │
╰───────────────────────────────────────╯
"""
WRAPPED = """╭─ Error ────────────────────╮
│ Invalid value for '--seed': │
│ 'x' is not a valid integer. │
╰─────────────────────────────╯
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOX, "No such option: --no-thing"),
        (WRAPPED, "Invalid value for '--seed': 'x' is not a valid integer."),
        ("one\ntwo\n\n  \n", "two"),
        ("one\n──────\n-----\n", "one"),
        ("Error: first.\nError: second.\nthird\n", "second."),
        (BOX + "Error: said plainly.\n", "said plainly."),
        ("Traceback (most recent call last):\n  File x\nValueError: bad\n", "ValueError: bad"),
        ("╭──╮\n╰──╯\n", ""),
        ("", ""),
    ],
)
def test_the_reason_is_the_sentence_that_says_it(text, reason):
    assert reason_in(text.splitlines()) == reason


def test_the_reason_of_a_real_usage_error():
    done = subprocess.run(
        [sys.executable, "-m", "svrl", "plan", "toy", "--no-such-thing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "No such option: --no-such-thing" in reason_in(done.stderr.splitlines())
    assert not set(reason_in(done.stderr.splitlines())) & set("╭╮╰╯│─")
