from __future__ import annotations

from pathlib import Path

import pytest

from svrl.runs.grid import runs_of
from svrl.runs.sweep_file import Budget, Resources, parse_sweep, read_sweep, shipped

WHOLE = """
name = "trial"
kind = "train"
[fixed]
preset = "smoke"
[axes]
env = ["CartPole-v1"]
arm = ["dqn", "sv-dqn"]
[[include]]
arm = "double"
[[exclude]]
arm = "dqn"
[resources]
cores = 2
gpus = 0.25
memory_gb = 4
[budget]
steps = 1_000
hours = 1.5
"""


def test_a_whole_file_is_read():
    sweep = parse_sweep(WHOLE, "file")
    assert (sweep.name, sweep.kind, sweep.text) == ("trial", "train", WHOLE)
    assert sweep.fixed == {"preset": "smoke"}
    assert sweep.axes == {"env": ["CartPole-v1"], "arm": ["dqn", "sv-dqn"]}
    assert sweep.include == ({"arm": "double"},)
    assert sweep.exclude == ({"arm": "dqn"},)
    assert sweep.resources == Resources(cores=2, gpus=0.25, memory_gb=4)
    assert sweep.budget == Budget(steps=1000, hours=1.5)


def test_a_file_is_named_after_itself_unless_it_says_otherwise(tmp_path):
    path = tmp_path / "my-sweep.toml"
    path.write_text('[axes]\nenv = "CartPole-v1"\n')
    assert read_sweep(path).name == "my-sweep"
    assert read_sweep(str(path)).kind == "train"
    path.write_text('name = "other"\n[axes]\nenv = "CartPole-v1"\n')
    assert read_sweep(path).name == "other"


MISTAKES = {
    "axis = 1": ("'axis'", "Did you mean axes?"),
    "colour = 1": ("'colour'", "It has axes, budget"),
    "[axes\n": ("no TOML", "line 1"),
    'kind = "evaluate"': ("train or plan", "'evaluate'"),
    "fixed = 3": ("fixed is a table", "[fixed]"),
    "axes = []": ("axes is a table", "[axes]"),
    "include = 1": ("include is a list of tables", "[[include]]"),
    "[exclude]\nseed = 1": ("exclude is a list of tables", "[[exclude]]"),
    "exclude = [{}]": ("exclude is a list of tables", "[[exclude]]"),
    "[resources]\ncore = 1": ("'core'", "Did you mean cores?"),
    "[resources]\ncores = 0": ("resources.cores", "at least 1", "0"),
    "[resources]\ncores = 1.5": ("resources.cores", "whole number", "1.5"),
    "[resources]\ngpus = -1": ("resources.gpus", "-1"),
    "[resources]\ngpus = 1.5": ("one GPU", "[resources] gpus must be at most 1, got 1.5."),
    '[resources]\nmemory_gb = "much"': ("resources.memory_gb", "'much'"),
    "[budget]\nstep = 1": ("'step'", "Did you mean steps?"),
    "[budget]\nsteps = 0": ("budget.steps", "at least 1"),
    "[budget]\nsteps = 1e6": ("budget.steps", "whole number", "1000000.0"),
    "[budget]\nhours = 0": ("budget.hours", "above 0"),
    'name = "../elsewhere"': ("name consists of", "'../elsewhere'"),
    'name = ".."': ("begins with a letter or a digit", "'..'"),
    "name = 3": ("name consists of", "3"),
    f"[axes]\nseed = {'[' * 5000}{']' * 5000}": ("nested too deeply",),
    f"[fixed.hidden{'.a' * 5000}]\nb = 1": ("nested too deeply",),
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[:40])
def test_a_mistake_is_answered_with_one_sentence(text):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        parse_sweep(text, "file")
    said = str(raised.value)
    for words in MISTAKES[text]:
        assert words in said
    assert "\n" not in said
    assert said.endswith((".", "?"))


SETTINGS = {
    '[axes]\nenv = "CartPole-v1"\nlearning_rat = 1.0': ("'learning_rat'", "Did you mean learning_rate?"),
    '[axes]\nenv = "CartPole-v1"\nthreads = 2': ("threads", "cores in [resources]"),
    '[axes]\nenv = "atari/pung"': ("'atari/pung'", "Did you mean atari/pong?"),
    '[axes]\nenv = "nothing/*"': ("'nothing/*'",),
    "[axes]\nseeds = 2": ("every run needs env", "None"),
    "[axes]\nenv = 3": ("every run needs env", "3"),
    '[axes]\nenv = "CartPole-v1"\nseed = []': ("axis seed has no value",),
    '[axes]\nenv = "CartPole-v1"\nseed = [-1]': ("seed", "-1"),
    '[axes]\nenv = "CartPole-v1"\nseed = ["a"]': ("seed", "'a'"),
    '[axes]\nenv = "CartPole-v1"\nseeds = 0': ("seeds is one number", "seed = [...]"),
    '[axes]\nenv = "CartPole-v1"\nseeds = [1, 2]': ("seeds is one number", "seed = [...]"),
    '[axes]\nenv = "CartPole-v1"\narm = "sv-dqn"\nagent = "dqn"': ("arm stands for agent and structured", "agent"),
    '[fixed]\nstructured = true\n[axes]\nenv = "CartPole-v1"\narm = "dqn"\nstructured = true': ("arm stands for",),
    '[axes]\nenv = "CartPole-v1"\npreset = "tiny"': ("tiny",),
    '[axes]\nenv = "CartPole-v1"\nobserve = {a = 1}': ("axis observe", "table"),
    'kind = "plan"\n[axes]\ntask = "toys"': ("'toys'", "Did you mean toy?"),
    'kind = "plan"\n[axes]\ntask = "toy"\nsteps = 3': ("'steps'",),
}


@pytest.mark.parametrize("text", SETTINGS)
def test_a_wrong_setting_is_answered_with_one_sentence(text):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        runs_of(parse_sweep(text, "file"))
    said = str(raised.value)
    for words in SETTINGS[text]:
        assert words in said
    assert "\n" not in said


def test_the_sentence_names_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("axis = 1")
    with pytest.raises(ValueError, match=r"mine\.toml: a sweep has no 'axis'"):
        read_sweep(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"mine\.toml is no text in UTF-8"):
        read_sweep(path)


def test_a_sweep_that_is_not_there_is_answered_with_the_nearest_name():
    with pytest.raises(ValueError, match="Did you mean paper-57"):
        read_sweep("papers-57")
    with pytest.raises(ValueError, match="Give a file, or one of batch-size, "):
        read_sweep(Path("somewhere/else.toml"))


def test_shipped_sweeps_are_read_by_their_names():
    assert set(shipped()) >= {"paper-57", "paper-control", "batch-size"}
    assert read_sweep("paper-57").name == "paper-57"
    assert read_sweep("paper-57.toml") == read_sweep("paper-57")
