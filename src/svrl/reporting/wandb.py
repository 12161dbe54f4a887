"""Events of training for Weights & Biases, online or offline (WANDB_MODE=offline)."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svrl.agents.events import Event
from svrl.reporting.tensorboard import scalars_of

MISSING = 'W&B needs wandb: pip install "svrl[wandb]"'


class WandB:
    """Sends scalars of events to a project.

    Args:
        project: Name of the project.
        folder: The run directory; its name is the name of the run.
        config: What config.json holds. A run that is resumed goes on under the same id.

    Raises:
        ImportError: If wandb is not installed, with the command that installs it.
    """

    def __init__(self, project: str, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            library = importlib.import_module("wandb")
        except ImportError as error:
            raise ImportError(MISSING) from error
        self._run = library.init(
            project=project,
            dir=str(folder),
            name=folder.name,
            id=identity(folder, config),
            resume="allow",
            config=dict(config),
        )
        self._run.define_metric("*", step_metric="steps")

    def __call__(self, event: Event) -> None:
        """Send what the event says."""
        scalars = scalars_of(event)
        if scalars:
            self._run.log({**scalars, "steps": event.steps})

    def flush(self) -> None:
        """Nothing to do: the library sends by itself."""

    def close(self) -> None:
        """Wait until everything has been sent."""
        self._run.finish()


def identity(folder: Path, config: Mapping[str, Any]) -> str:
    """An id that a run keeps when it is resumed, and that a new run in the same folder does not get."""
    text = f"{folder.name} {config.get('env')} {config.get('seed')} {config.get('begun')}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
