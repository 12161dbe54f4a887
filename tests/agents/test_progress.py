"""The progress line of Python: in place in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace

import pytest

import svrl
from svrl.agents import evaluation, progress
from svrl.agents.config import AgentConfig
from svrl.agents.events import EpisodeEnded, Event

ENV = "CartPole-v1"
SMOKE = AgentConfig.for_env(ENV, "smoke", hidden=(16,), steps=300, eval_episodes=2)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=shown))  # pytest replaces the real one
    monkeypatch.setattr(progress, "REWRITE_EVERY", 0.0)
    monkeypatch.setattr(evaluation, "TICK", 0.0)
    return shown


WHOLE = r"300 of 300 steps, [\d,]+ steps/s, score [\d.]+ \(last \d+\)"


def test_in_a_terminal_the_line_is_rewritten_and_ends_clean(terminal: Terminal):
    svrl.train(ENV, SMOKE, progress=True)
    text = terminal.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\x1b[K\n")
    lines = [line.removesuffix("\x1b[K") for line in text.rstrip("\n").split("\r")[1:]]
    assert len(lines) > 300
    assert re.fullmatch(r"5 of 300 steps, [\d,]+ steps/s, \d+ s left", lines[4])
    assert re.fullmatch(r"200 of 300 steps, [\d,]+ steps/s, score [\d.]+ \(last \d+\), \d+ s left", lines[199])
    assert "300 of 300 steps, evaluating: 1 of 2 games" in lines
    assert re.fullmatch(WHOLE, lines[-1])


def test_the_score_is_the_mean_of_the_last_games(terminal: Terminal):
    scores: list[float] = []

    def watch(event: Event) -> None:
        scores.extend([event.score] if isinstance(event, EpisodeEnded) else [])

    svrl.train(ENV, SMOKE, seed=4, progress=True, watch=watch)
    assert terminal.getvalue().endswith(f"score {sum(scores) / len(scores):.4g} (last {len(scores)})\x1b[K\n")


def test_elsewhere_a_line_comes_every_ten_seconds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    svrl.train(ENV, SMOKE, progress=True)
    seen = capsys.readouterr()
    assert re.fullmatch(WHOLE + "\n", seen.err), "it took less"
    assert seen.out == ""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def watch(event: Event) -> None:
        now[0] = event.steps / 4

    svrl.train(ENV, SMOKE, progress=True, watch=watch)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["40", "80", "120", "160", "200", "240", "280", "300"]
    assert all("4 steps/s" in line for line in lines)
    assert "65 s left" in lines[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_it_ends_clean_after_an_error(terminal: Terminal, error: type[BaseException]):
    def watch(event: Event) -> None:
        if event.steps == 50:
            raise error

    with pytest.raises(error):
        svrl.train(ENV, SMOKE, progress=True, watch=watch)
    assert terminal.getvalue().endswith("\x1b[K\n")
    assert terminal.getvalue().split("\r")[-1].startswith("50 of 300 steps")


def test_notes_stand_on_lines_of_their_own(terminal: Terminal):
    training = svrl.Training(ENV, SMOKE, say=lambda sentence: terminal.write(f"{sentence}\n"))
    line = progress.ProgressLine(training)
    with line.shown():
        for event in training.events():
            line()
            if event.steps == 2:
                training.say("A note.")
                break
    training.close()
    assert "\r\x1b[KA note.\n\r" in terminal.getvalue()


def test_a_narrow_terminal_and_none_at_all(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(terminal, "fileno", lambda: 2, raising=False)
    monkeypatch.setattr("os.get_terminal_size", lambda _: type("Size", (), {"columns": 20}))
    svrl.train(ENV, SMOKE, progress=True)
    assert max(len(line.removesuffix("\x1b[K")) for line in terminal.getvalue().strip().split("\r")) == 19
    terminal.close()
    svrl.train(ENV, SMOKE, progress=True)
    monkeypatch.setattr(progress.sys, "stderr", None)
    svrl.train(ENV, SMOKE, progress=True)


def test_it_changes_nothing_and_is_off_by_default(capsys: pytest.CaptureFixture):
    seen: list[Event] = []
    heard: list[Event] = []
    svrl.train(ENV, SMOKE, watch=seen.append)
    assert capsys.readouterr().err == ""
    svrl.train(ENV, SMOKE, watch=heard.append, progress=True)
    assert seen == heard


def test_evaluations_show_their_games(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    agent = svrl.train(ENV, SMOKE)
    assert terminal.getvalue() == ""
    games = agent.evaluate(episodes=5, progress=True)
    assert games == agent.evaluate(episodes=5)
    text = terminal.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\r5 of 5 games\x1b[K\n")
    assert "\r2 of 5 games" in text
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(evaluation, "TICK", 1e9)
    agent.evaluate(episodes=3, progress=lambda done, of: told.append((done, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]
