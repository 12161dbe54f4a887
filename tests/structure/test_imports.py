"""Imports point one way. The rule is read off the syntax trees, lazy imports included."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "svrl"

# A package may import those with a smaller number, and itself.
LAYERS = {
    "runtime": 0,
    "stats": 0,
    "matrix": 1,
    "mdp": 2,
    "envs": 3,
    "planning": 4,
    "agents": 4,
    "plots": 5,
    "integrations": 5,
    "training": 7,
    "runs": 8,
    "paper": 9,
    "cli": 10,
}

# Heavy or optional libraries, and who may import them.
RESERVED = {
    "matplotlib": {"plots"},
    "typer": {"cli"},
    "rich": {"cli"},
    "gymnasium": {"envs", "integrations"},
    "ale_py": {"envs", "integrations"},
    "minatar": {"envs", "integrations"},
    "stable_baselines3": {"integrations"},
    "fancyimpute": set(),
    "benchmarks": set(),  # beside the package, and on top of it
    "sklearn": {"integrations"},
    "quantecon": {"integrations"},
    "mdpsolver": set(),
    "sb3_contrib": {"integrations"},
    "tianshou": {"integrations"},
    "torchrl": {"integrations"},
    "tensordict": {"integrations"},
    "ray": {"integrations", "runs"},
    "pyarrow": {"runs"},
}

FILES = sorted(ROOT.rglob("*.py"))


def package_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    top = parts[0].removesuffix(".py")
    return top if len(parts) > 1 or top in LAYERS else ""  # stats.py is a layer of its own


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imported(path: Path) -> list[str]:
    return names_in(tree_of(path))


def names_in(tree: ast.AST) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} has a relative import; write it out"
            found += [node.module or ""] + [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def breaches(package: str, names: list[str]) -> list[str]:
    found = []
    for name in names:
        top, _, rest = name.partition(".")
        if top in RESERVED and package not in RESERVED[top]:
            found.append(name)
        target = rest.split(".")[0]
        known = top == "svrl" and target in LAYERS and target != package
        if known and LAYERS[target] >= LAYERS[package]:
            found.append(name)
    return found


def test_imports_point_down() -> None:
    assert FILES
    assert {package_of(path) for path in FILES} - {""} <= set(LAYERS), "a package has no place in the order of layers"
    # The package's own files may only reach for the command line and what they re-export.
    found = {str(path.relative_to(ROOT)): breaches_of(path) for path in FILES if package_of(path)}
    assert {path: names for path, names in found.items() if names} == {}


def breaches_of(path: Path) -> list[str]:
    # A type costs nothing at run time, and the paper's experiments draw: what they need of matplotlib they load then.
    found = breaches(package_of(path), imported(path))
    if any(name.startswith("matplotlib") for name in found):
        allowed = set(names_for_types(path))
        if package_of(path) == "paper":
            allowed |= set(imported(path)) - set(names_at_import(path))
        found = [name for name in found if not (name in allowed and name.startswith("matplotlib"))]
    return found


def names_at_import(path: Path) -> list[str]:
    """What is imported with the file itself, not when one of its functions is called."""
    return [
        name
        for part in tree_of(path).body
        if not isinstance(part, ast.FunctionDef | ast.ClassDef)
        for name in names_in(part)
    ]


def names_for_types(path: Path) -> list[str]:
    """What is imported for types only, and not elsewhere in the file."""
    blocks = [
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    ]
    found = [name for block in blocks for part in block.body for name in names_in(part)]
    return [name for name in found if imported(path).count(name) == found.count(name)]


def test_a_breach_would_be_found() -> None:
    assert breaches("matrix", ["svrl.cli.main"]) == ["svrl.cli.main"]
    assert breaches("agents", ["svrl.planning.plan"]) == ["svrl.planning.plan"]
    assert breaches("matrix", ["matplotlib.pyplot"]) == ["matplotlib.pyplot"]
    assert breaches("cli", ["svrl.matrix", "rich.table"]) == []
