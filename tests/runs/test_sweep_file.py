"""From a sweep file to its runs: what may stand in it, which runs it makes, and some of them by --where."""

from __future__ import annotations

import csv
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from svrl.runs.plan_run import PlanSettings
from svrl.runs.spec import Effort, RunSpec
from svrl.runs.sweep_file import chosen, parse_sweep, read_sweep, runs_of, shipped

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
CART = '[axes]\nenv = "CartPole-v1"\n'
TOY = 'kind = "plan"\n[axes]\ntask = "toy"\n'
TWO_BY_TWO = '[fixed]\npreset = "smoke"\n[axes]\nenv = "CartPole-v1"\narm = ["dqn", "sv-dqn"]\nseeds = 2\n'
THREE_OF_FOUR = TWO_BY_TWO + '[[exclude]]\narm = "sv-dqn"\nseed = 1\n'


def runs(text: str, where: dict[str, Any] | None = None, **changes: Any) -> list[RunSpec]:
    specs = runs_of(parse_sweep(text, "trial"), changes)
    return specs if where is None else chosen("The sweep trial has", specs, where)[0]


def told(specs: list[RunSpec], *names: str) -> list[tuple[Any, ...]]:
    values = {"arm": lambda spec: spec.arm, "env": lambda spec: spec.subject, "task": lambda spec: spec.subject}
    return [tuple(values[name](spec) if name in values else spec.settings[name] for name in names) for spec in specs]


def test_a_whole_file_is_read():
    sweep = parse_sweep(WHOLE, "file")
    assert (sweep.name, sweep.kind, sweep.text) == ("trial", "train", WHOLE)
    assert sweep.fixed == {"preset": "smoke", "steps": 1000}
    assert sweep.axes == {"env": ["CartPole-v1"], "arm": ["dqn", "sv-dqn"]}
    assert (sweep.include, sweep.exclude) == ([{"arm": "double"}], [{"arm": "dqn"}])
    assert sweep.effort == Effort(cores=2, gpus=0.25, memory_gb=4, hours=1.5)


def test_a_file_is_named_after_itself_unless_it_says_otherwise(tmp_path):
    path = tmp_path / "my-sweep.toml"
    path.write_text(CART)
    assert (read_sweep(path).name, read_sweep(str(path)).kind) == ("my-sweep", "train")
    path.write_text(f'name = "other"\n{CART}')
    assert read_sweep(path).name == "other"


MISTAKES = {
    "axis = 1": ("'axis'", "Did you mean axes?"),
    "colour = 1": ("'colour'", "It has axes, budget"),
    "[axes\n": ("no TOML", "line 1"),
    "x = " + "[" * 5_000 + "]" * 5_000: ("nested too deeply",),
    'kind = "evaluate"': ("train or plan", "'evaluate'"),
    "fixed = 3": ("fixed is a table", "[fixed]"),
    "axes = []": ("axes is a table", "[axes]"),
    "include = 1": ("include is a list of tables", "[[include]]"),
    "[exclude]\nseed = 1": ("exclude is a list of tables", "[[exclude]]"),
    "exclude = [{}]": ("exclude is a list of tables", "[[exclude]]"),
    "[resources]\ncore = 1": ("'core'", "Did you mean cores?"),
    "[resources]\ncores = 0": ("cores", "at least 1", "0"),
    "[resources]\ncores = 1.5": ("cores", "whole number", "1.5"),
    "[resources]\ngpus = -1": ("gpus", "-1"),
    "[resources]\ngpus = 1.5": ("one GPU", "1.5"),
    '[resources]\nmemory_gb = "much"': ("memory_gb", "'much'"),
    "[budget]\nstep = 1": ("'step'", "Did you mean steps?"),
    "[budget]\nhours = 0": ("hours", "above 0"),
    'name = "../elsewhere"': ("name consists of", "'../elsewhere'"),
    'name = ".."': ("begins with a letter or a digit", "'..'"),
    "name = 3": ("name consists of", "3"),
    f"{CART}learning_rat = 1.0": ("'learning_rat'", "Did you mean learning_rate?"),
    f"{CART}threads = 2": ("threads", "cores in [resources]"),
    '[axes]\nenv = "atari/pung"': ("'atari/pung'", "Did you mean atari/pong?"),
    '[axes]\nenv = "nothing/*"': ("'nothing/*'",),
    "[axes]\nseeds = 2": ("Every run needs an env", "None"),
    "[axes]\nenv = 3": ("Every run needs an env", "3"),
    f"{CART}seed = []": ("axis seed has no value",),
    f"{CART}seed = [-1]": ("seed", "-1"),
    f'{CART}seed = ["a"]': ("seed", "'a'"),
    f"{CART}seed = 0\nseeds = 2": ("seed has no place beside it",),
    f"{CART}seeds = 0": ("seeds is one number", "seed = [...]"),
    f"{CART}seeds = [1, 2]": ("seeds is one number", "seed = [...]"),
    f"{CART}seeds = 1_000_000_000_000": ("seeds is at most 100,000, got 1,000,000,000,000",),
    f'{CART}arm = "sv-dqn"\nagent = "dqn"': ("arm stands for agent and structured", "agent"),
    f'{CART}preset = "tiny"': ("tiny",),
    f"{CART}p = {{a = 1}}": ("p",),
    f"{CART}device = ['cpu', 'cuda']": ("device says where",),
    f"{CART}[budget]\nsteps = 0": ("steps", "[1, inf)"),
    f"{CART}[budget]\nsteps = 1e6": ("steps is a whole number", "1000000.0"),
    'kind = "plan"\n[axes]\ntask = "toys"': ("'toys'", "Did you mean toy?"),
    f"{TOY}steps = 3": ("'steps'",),
    f"{TWO_BY_TWO}[[exclude]]\nsed = 0\n": ("no setting 'sed'",),
    f'{TWO_BY_TWO}[[exclude]]\nenv = "Cart*"\n': ("trial has no run",),
}


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text[-40:])
def test_a_mistake_is_answered_with_one_sentence(text):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        runs(text)
    said = str(raised.value)
    for words in MISTAKES[text]:
        assert words in said
    assert "\n" not in said
    assert said.endswith((".", "?"))


def test_the_sentence_names_the_file(tmp_path):
    path = tmp_path / "mine.toml"
    for content, words in ((b"axis = 1", "a sweep has no 'axis'"), (b"\xff\xfe", "'utf-8' codec can't decode")):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"mine\.toml: {words}"):
            read_sweep(path)


def test_every_combination_is_a_run_in_the_order_of_the_file():
    assert told(runs(TWO_BY_TWO), "arm", "seed") == [("dqn", 0), ("dqn", 1), ("sv-dqn", 0), ("sv-dqn", 1)]
    swapped = told(runs('[axes]\nseed = [3, 1]\nenv = ["CartPole-v1", "Acrobot-v1"]'), "seed", "env")
    assert swapped == [(3, "CartPole-v1"), (3, "Acrobot-v1"), (1, "CartPole-v1"), (1, "Acrobot-v1")]


def test_fixed_settings_and_the_budget_are_every_run_s():
    specs = runs(TWO_BY_TWO + "[budget]\nsteps = 70\n")
    assert {(spec.steps, spec.settings["steps"], spec.settings["preset"]) for spec in specs} == {(70, 70, "smoke")}
    plans = runs(TOY + "[budget]\nsteps = 7")
    assert (plans[0].settings["iterations"], plans[0].steps) == (7, 7)


def test_included_grids_take_the_place_of_axes_and_no_run_comes_twice():
    specs = runs(TWO_BY_TWO + '[[include]]\narm = ["double", "dqn"]\n')
    assert told(specs[:4], "arm", "seed") == told(runs(TWO_BY_TWO), "arm", "seed")
    assert told(specs[4:], "arm", "seed") == [("double", 0), ("double", 1)]
    agents = runs(TWO_BY_TWO + '[[include]]\nagent = "dueling"\nstructured = [false, true]\n')
    assert told(agents, "arm")[4:] == [("dueling",), ("dueling",), ("sv-dueling-network",), ("sv-dueling-network",)]


def test_exclude_leaves_out_runs_in_which_everything_holds():
    text = TWO_BY_TWO + '[[exclude]]\narm = "sv-dqn"\nseed = [1, 2]\n'
    assert told(runs(text), "arm", "seed") == [("dqn", 0), ("dqn", 1), ("sv-dqn", 0)]
    assert told(runs(text + "[[exclude]]\nseed = 0\n"), "arm", "seed") == [("dqn", 1)]


def test_changes_take_the_place_of_what_the_file_says():
    changed = runs(TWO_BY_TWO, batch_size=5, seed=9)
    assert told(changed, "arm", "batch_size", "seed") == [("dqn", 5, 9), ("sv-dqn", 5, 9)]
    assert told(runs(TWO_BY_TWO, arm="double"), "arm", "seed") == [("double", 0), ("double", 1)]
    with pytest.raises(ValueError, match="Did you mean batch_size"):
        runs(TWO_BY_TWO, batch_sise=5)


def test_wildcards_stand_for_environments_and_tasks():
    games = runs('[axes]\nenv = "atari/*"')
    assert len(games) == 57
    assert all(spec.subject.startswith("atari/") for spec in games)
    names = [spec.subject for spec in runs('[axes]\nenv = ["minatar/*", "atari/p*", "CartPole-v1"]')]
    assert names[-1] == "CartPole-v1"
    assert "atari/pong" in names
    assert sum(name.startswith("minatar/") for name in names) == 5
    tasks = {spec.subject for spec in runs('kind = "plan"\n[axes]\ntask = "*"')}
    assert {"toy", "inverted-pendulum", "mountain-car", "double-integrator", "cart-pole"} <= tasks


def test_an_option_that_a_run_has_no_use_for_makes_no_further_runs():
    text = f'{CART}arm = ["dqn", "sv-dqn"]\np = [0.5, 0.7, 0.9]\n'
    shares = [("dqn", None), ("sv-dqn", 0.5), ("sv-dqn", 0.7), ("sv-dqn", 0.9)]
    assert [(spec.arm, spec.given.get("p")) for spec in runs(text)] == shares
    plans = runs(f'{TOY}method = ["svp", "value-iteration"]\np = [0.2, 0.4]\n')
    assert told(plans, "method", "p") == [("svp", 0.2), ("svp", 0.4), ("value-iteration", None)]
    assert len(runs(f'{TOY}method = "value-iteration"\nrank = [1, 2]\nfinal_sweep = true\n')) == 1


GRIDS = 'kind = "plan"\n[axes]\ntask = "mountain-car"\nstates = ["10x10", 100, [10, 10], 2500, "20x20"]\n'


@pytest.mark.parametrize("wanted", ["10x10", "100", 100, [10, 10]])
def test_a_grid_is_one_however_it_is_written(wanted):
    assert told(runs(GRIDS), "states") == [("10x10",), ("50x50",), ("20x20",)]
    assert told(runs(GRIDS, where={"states": [wanted]}), "states") == [("10x10",)]
    left = runs(GRIDS + f"[[exclude]]\nstates = [{wanted!r}]\n")
    assert told(left, "states") == [("50x50",), ("20x20",)]


# Some of the runs.


def test_runs_are_found_by_what_was_set_and_by_what_follows_from_it():
    assert told(runs(TWO_BY_TWO, where={"arm": ["sv-*"], "seed": [1]}), "arm", "seed") == [("sv-dqn", 1)]
    assert told(runs(TWO_BY_TWO, where={"agent": ["dqn"], "structured": [False]}), "seed") == [(0,), (1,)]
    text = f'{TOY}method = ["svp", "value-iteration"]\n'
    assert told(runs(text, where={"p": [0.2], "estimator": ["factor-*"]}), "method") == [("svp",)]
    assert told(runs(f'{CART}hidden = ["8x4", "9"]\n', where={"hidden": ["8,4"]}), "hidden") == [([8, 4],)]
    both = '[axes]\nenv = ["CartPole-v1", "minatar/asterix"]'
    assert told(runs(both, where={"preset": ["minatar"]}), "env") == [("minatar/asterix",)]


@pytest.mark.parametrize("half", [0.5, "0.5", "0.50", ".5", "5e-1", "+0.5"])
@pytest.mark.parametrize("million", [1_000_000, 1e6, "1e6", "1000000.0"])
def test_numbers_are_compared_as_numbers(half, million):
    text = f'[fixed]\nsteps = 1_000_000\n{CART}arm = "sv-dqn"\np = [0.5, 0.7]\n'
    assert told(runs(text, where={"p": [half], "steps": [million]}), "p") == [(0.5,)]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ({"seed": [5, 6]}, "no run with seed=5 or 6. seed is 0 or 1."),
        ({"arm": ["sv-dqm"]}, "no run with arm=sv-dqm. Did you mean sv-dqn? arm is dqn or sv-dqn."),
        ({"structured": [1]}, "no run with structured=1. structured is False or True."),  # 1 is not true
        ({"hidden": ["9x9"]}, "no run with hidden=9x9. hidden is 64."),
        (
            {"seed": [0], "arm": ["double"], "env": ["A*"]},
            "no run with seed=0, arm=double, env=A*. arm is dqn or sv-dqn. env is CartPole-v1.",
        ),
        ({"arm": ["sv-dqn"], "seed": [1]}, "no run with arm=sv-dqn, seed=1. Some have each, and none has all of them."),
    ],
)
def test_what_matches_nothing_is_answered_with_what_there_is(where, sentence):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        runs(THREE_OF_FOUR, where=where)
    assert str(raised.value) == f"The sweep trial has {sentence}"


def test_an_unknown_name_is_answered_with_the_names_there_are():
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        runs(TWO_BY_TWO, where={"seed": [77], "sed": [0]})  # the first matches nothing, and the second is told
    said = str(raised.value)
    assert said.startswith("these runs have no setting 'sed'. Did you mean seed? They have env, arm, seed, ")
    for name in ("preset", "batch_size", "learning_rate", "p", "device"):
        assert name in said


def test_a_value_beside_others_that_matches_nothing_is_noted():
    specs = runs(THREE_OF_FOUR)
    found, notes = chosen("trial", specs, {"seed": [0, 99]})
    assert told(found, "arm", "seed") == [("dqn", 0), ("sv-dqn", 0)]
    assert notes == ["Note: none of these runs has seed=99. seed is 0 or 1."]
    assert chosen("trial", specs, {"seed": [0, 1], "env": ["Cart*"]})[1] == []


# What comes with svrl.


def test_a_sweep_that_is_not_there_is_answered_with_the_nearest_name():
    with pytest.raises(ValueError, match="Did you mean paper-57"):
        read_sweep("papers-57")
    with pytest.raises(ValueError, match="Give a file, or one of batch-size, "):
        read_sweep(Path("somewhere/else.toml"))


def test_shipped_sweeps_are_read_by_their_names():
    assert set(shipped()) >= {"paper-57", "paper-control", "batch-size"}
    assert read_sweep("paper-57").name == "paper-57"
    assert read_sweep("paper-57.toml") == read_sweep("paper-57")


def test_paper_57_is_57_games_and_16_of_them_with_more_agents():
    with (resources.files("svrl.envs") / "atari57.csv").open(encoding="utf-8") as file:
        games = {f"atari/{row['game']}" for row in csv.DictReader(file) if row["paper_double"] and row["paper_dueling"]}
    specs = runs_of(read_sweep("paper-57"))
    assert len(specs) == len({spec.id for spec in specs}) == 57 * 2 * 3 + 16 * 2 * 2 * 3 == 534
    arms = Counter(spec.arm for spec in specs)
    assert arms == {"dqn": 171, "sv-dqn": 171, "double": 48, "sv-double": 48, "dueling": 48, "sv-dueling": 48}
    assert {spec.subject for spec in specs if spec.arm == "sv-dueling"} == games
    assert (len(games), len({spec.subject for spec in specs})) == (16, 57)
    assert {(spec.seed, spec.device) for spec in specs} == {(0, "cuda"), (1, "cuda"), (2, "cuda")}
    smoke, _ = chosen(
        "It has", runs_of(read_sweep("paper-57"), {"preset": "smoke"}), {"arm": ["dqn", "sv-dqn"], "seed": [0]}
    )
    assert len(smoke) == 57 * 2, "the smoke test that the file names"


def test_batch_size_is_36_runs():
    specs = runs_of(read_sweep("batch-size"))
    assert len(specs) == 2 * 2 * 3 * 3 == 36
    assert Counter(spec.settings["batch_size"] for spec in specs) == {32: 12, 64: 12, 128: 12}
    assert {spec.subject for spec in specs} == {"atari/frostbite", "atari/seaquest"}
    paper = {spec.id for spec in runs_of(read_sweep("paper-57"))}
    assert sum(spec.id in paper for spec in specs) == 12, "batches of 32 are the paper's own runs, done once"


def test_paper_control_is_four_tasks_two_methods_and_the_optimum():
    specs, three = runs_of(read_sweep("paper-control")), ("inverted-pendulum", "mountain-car", "double-integrator")
    assert Counter((spec.subject, spec.arm) for spec in specs) == {
        **{(task, arm): 25 for task in three for arm in ("paper-svp", "svp")},
        **{("cart-pole", arm): 5 for arm in ("paper-svp", "svp")},
        **{(task, "value-iteration"): 1 for task in (*three, "cart-pole")},
    }
    for spec in specs:
        assert PlanSettings.of(spec.settings).written_out() == PlanSettings.of(spec.settings)
