"""Scripts in examples/ run in this process: what they import is there already, which is most of their time."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def output_of(
    script: Path,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    smaller: Mapping[str, str] | None = None,
) -> str:
    """What a script prints when it is started in `folder`.

    Args:
        script: It runs as `python script` does, without arguments.
        folder: Where it is started, and may write.
        capsys: Takes what is printed.
        monkeypatch: Gives the working directory and the arguments back.
        smaller: Parts of the script's text, each there once, and what stands for them in a copy that runs.
    """
    if smaller:
        text = script.read_text(encoding="utf-8")
        for part, other in smaller.items():
            assert text.count(part) == 1, f"{script.name} has not {part!r} once: say anew how it is made smaller"
            text = text.replace(part, other)
        script = folder / script.name
        script.write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [str(script)])
    capsys.readouterr()
    runpy.run_path(str(script), run_name="__main__")
    return capsys.readouterr().out
