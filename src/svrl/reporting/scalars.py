"""Events of training as scalars, for TensorBoard and for Weights & Biases (online, or WANDB_MODE=offline)."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from svrl.agents.events import EpisodeEnded, Evaluated, Event, Learned


def scalars_of(event: Event) -> dict[str, float]:
    """The numbers of an event by name; empty for one that has none.

    Names are the fields' own, below episode/, learning/ and evaluation/.
    """
    if isinstance(event, EpisodeEnded):
        return {"episode/score": event.score, "episode/length": float(event.length)}
    if isinstance(event, Learned):
        fields = {name: value for name, value in asdict(event).items() if name != "steps" and value is not None}
        return {f"learning/{name}": float(value) for name, value in fields.items()}
    if isinstance(event, Evaluated):
        scalars = {"evaluation/score": event.mean}
        if event.human_normalised is not None:
            scalars["evaluation/human_normalised"] = event.human_normalised
        return scalars
    return {}


class TensorBoard:
    """Writes scalars of events below `folder`.

    Args:
        folder: Where TensorBoard shall look.
        since: The step that the run resumes from; what was written after it is hidden.

    Raises:
        ImportError: If tensorboard is not installed, with the command that installs it.
    """

    def __init__(self, folder: Path, *, since: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError('TensorBoard needs tensorboard: pip install "svrl[tensorboard]"') from error
        self._writer = SummaryWriter(log_dir=str(folder), purge_step=since + 1 if since else None)

    def __call__(self, event: Event) -> None:
        """Write the numbers of the event."""
        for name, value in scalars_of(event).items():
            self._writer.add_scalar(name, value, event.steps)

    def flush(self) -> None:
        """Hand everything to the system."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class WandB:
    """Sends scalars of events to a project of Weights & Biases.

    Args:
        project: Name of the project.
        folder: The run directory; its name is the name of the run.
        config: What config.json holds. A run that is resumed keeps its id; a new one in the same folder gets another.

    Raises:
        ImportError: If wandb is not installed, with the command that installs it.
    """

    def __init__(self, project: str, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            library = importlib.import_module("wandb")
        except ImportError as error:
            raise ImportError('W&B needs wandb: pip install "svrl[wandb]"') from error
        text = f"{folder.name} {config.get('env')} {config.get('seed')} {config.get('begun')}"
        self._run = library.init(
            project=project,
            dir=str(folder),
            name=folder.name,
            id=hashlib.sha256(text.encode()).hexdigest()[:16],
            resume="allow",
            config=dict(config),
        )
        self._run.define_metric("*", step_metric="steps")

    def __call__(self, event: Event) -> None:
        """Send the numbers of the event."""
        if scalars := scalars_of(event):
            self._run.log({**scalars, "steps": event.steps})

    def flush(self) -> None:
        """Nothing: the library sends by itself."""

    def close(self) -> None:
        """Wait until everything has been sent."""
        self._run.finish()
