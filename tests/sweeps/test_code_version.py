from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import svrl
from svrl.sweeps.code_version import COMPUTES, code_version, digest_of

PACKAGE = Path(svrl.__file__).parent
ONLY_DRAWS_PRINTS_OR_STARTS = {
    "__init__.py",
    "__main__.py",
    "experiments/__init__.py",
    "reporting/__init__.py",
    "reporting/tables.py",
    "plots/__init__.py",
    "plots/planning.py",
    "plots/style.py",
    "cli/__init__.py",
    "cli/answers.py",
    "cli/main.py",
    "cli/plan_files.py",
    "cli/torch_threads.py",
}
OTHER_COMMANDS = ("bench", "complete", "evaluate", "matrix_files", "paper", "rank", "run_agent", "runs", "sweep")
OTHER_COMMANDS += ("train", "watch")
"""Main imports the modules of all commands, whose names begin so."""
PROGRAM = """
import runpy, sys
sys.argv = ["svrl", *sys.argv[1:]]
try:
    runpy.run_module("svrl", run_name="__main__")
except SystemExit as end:
    assert not end.code
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] == "svrl":
        print("imported", module.__file__)
"""


def is_covered(path: str) -> bool:
    return any(path == part or path.startswith(f"{part}/") for part in COMPUTES)


def is_of_another_command(path: str) -> bool:
    return path.startswith(tuple(f"cli/{name}{end}" for name in OTHER_COMMANDS for end in (".py", "_")))


def test_all_that_a_plan_imports_is_in_the_code_s_name_or_only_draws_prints_or_starts(tmp_path):
    words = "plan toy --states 20 --actions 6 --iterations 3 --starts 5 --compare --out"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words.split(), str(tmp_path / "run")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "run" / "result.json").exists()
    lines = [line.removeprefix("imported ") for line in done.stdout.splitlines() if line.startswith("imported ")]
    imported = {Path(line).relative_to(PACKAGE).as_posix() for line in lines}
    assert {"cli/plan_request.py", "planning/score.py", "planning/plan.py"} <= imported
    rest = {path for path in imported if not is_covered(path)} - ONLY_DRAWS_PRINTS_OR_STARTS
    assert not {path for path in rest if not is_of_another_command(path)}


def test_what_is_named_is_there():
    for part in COMPUTES:
        assert (PACKAGE / part).exists(), part


def test_the_digest_follows_what_computes_and_nothing_else(tmp_path):
    copy = tmp_path / "svrl"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    first = digest_of(copy)
    assert first == digest_of(PACKAGE)
    assert code_version() == f"{svrl.__version__}-{first[:8]}"
    for path in ("cli/main.py", "sweeps/store.py", "plots/style.py"):
        (copy / path).write_text("# changed\n")
    assert digest_of(copy) == first
    seen = {first}
    for path in ("planning/score.py", "cli/plan_report.py", "cli/plan_request.py", "mdp/toy.py"):
        (copy / path).write_text("# changed\n")
        seen.add(digest_of(copy))
    assert len(seen) == 5
