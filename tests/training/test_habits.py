"""When checkpoints are written, as a run is told to."""

from __future__ import annotations

from pathlib import Path

import pytest

from svrl.agents.config import AgentConfig
from svrl.agents.events import Evaluated, Event
from svrl.training.session import Habits, train_in_directory


@pytest.mark.parametrize("before", [True, False])
def test_a_checkpoint_before_the_evaluation_only_if_wanted(tmp_path: Path, before: bool) -> None:
    folder = tmp_path / "run"
    seen: list[bool] = []

    def watch(event: Event) -> None:
        if isinstance(event, Evaluated):
            seen.append(any((folder / "checkpoints").glob("*.npz")))

    config = AgentConfig.for_env("CartPole-v1", "smoke")
    result = train_in_directory(
        "CartPole-v1", config, folder=folder, habits=Habits(save_before_evaluation=before), watch=watch
    )
    assert seen == [before]
    assert result["steps"] == config.steps
    assert not (folder / "checkpoints").exists()
