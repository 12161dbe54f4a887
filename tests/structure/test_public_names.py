"""Every public name is documented: a docstring, and a place in the API pages."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import svrl

API_PAGES = "\n".join(page.read_text() for page in sorted((Path(__file__).parents[2] / "docs" / "api").glob("*.md")))


@pytest.mark.parametrize("name", svrl.__all__)
def test_is_documented(name: str) -> None:
    value = getattr(svrl, name)
    assert inspect.getdoc(value), f"{name} has no docstring"
    assert re.search(rf"^::: svrl\.[\w.]*\b{name}$", API_PAGES, re.MULTILINE), f"{name} is missing from docs/api"


@pytest.mark.parametrize("name", [n for n in svrl.__all__ if inspect.isclass(getattr(svrl, n))])
def test_methods_are_documented(name: str) -> None:
    value = getattr(svrl, name)
    bare = [
        method
        for method, body in vars(value).items()
        if not method.startswith("_") and (inspect.isroutine(body) or isinstance(body, property))
        if not inspect.getdoc(getattr(value, method))
    ]
    assert bare == []


def test_every_public_name_of_a_package_is_documented() -> None:
    for package in svrl._PACKAGES:
        for name in importlib.import_module(f"svrl.{package}").__all__:
            value = getattr(importlib.import_module(f"svrl.{package}"), name)
            assert not callable(value) or inspect.getdoc(value), f"{package}.{name} has no docstring"


def test_the_top_level_is_small() -> None:
    assert len(svrl.__all__) < 60
    assert set(svrl.__all__) <= set(dir(svrl))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Softimpute'\. Did you mean SoftImpute\?"):
        _ = svrl.Softimpute


def test_a_name_of_a_package_is_pointed_to() -> None:
    with pytest.raises(AttributeError, match=r"It is svrl\.planning\.SampledMax\.$"):
        _ = svrl.SampledMax


def test_a_name_of_an_integration_is_pointed_to() -> None:
    with pytest.raises(AttributeError, match=r"It is in svrl\.integrations\.stable_baselines3"):
        _ = svrl.StructuredDQN
    for name, place in svrl._ELSEWHERE.items():
        source = Path(svrl.__file__).parent / "integrations" / f"{place.split(' ')[0]}.py"
        assert re.search(rf"^(class|def) {name}\b", source.read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "code", ["import svrl.cli.main", "from svrl.envs.make import known_environments; known_environments()"]
)
def test_help_and_completion_wait_for_nothing_heavy(code: str) -> None:
    heavy = ("torch", "numba", "scipy", "matplotlib", "numpy", "gymnasium", "ale_py", "minatar")
    code += f"; import sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
