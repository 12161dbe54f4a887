"""Events of training as scalars, for TensorBoard and for Weights & Biases (online, or WANDB_MODE=offline)."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, kw_only=True)
class Scalars:
    """Writes the numbers of events to a logger.

    Attributes:
        write: Called with numbers by name, and their step.
        flush: Writes everything to disk.
        close: Writes everything and ends.
    """

    write: Callable[[dict[str, float], int], object]
    flush: Callable[[], None]
    close: Callable[[], None]

    def __call__(self, event: Event) -> None:
        """Write the numbers of an event, if it has any."""
        if scalars := scalars_of(event):
            self.write(scalars, event.steps)


def to_tensorboard(folder: Path, *, since: int = 0) -> Scalars:
    """Write scalars for TensorBoard to `folder`.

    Args:
        folder: TensorBoard's `--logdir`.
        since: The step that the run resumes from; TensorBoard hides what was written after it.

    Raises:
        ImportError: If tensorboard is not installed; the message has the command that installs it.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ImportError('TensorBoard needs tensorboard: pip install "svrl[tensorboard]"') from error
    writer = SummaryWriter(log_dir=str(folder), purge_step=since + 1 if since else None)

    def write(scalars: dict[str, float], steps: int) -> None:
        for name, value in scalars.items():
            writer.add_scalar(name, value, steps)

    return Scalars(write=write, flush=writer.flush, close=writer.close)


def to_wandb(project: str, folder: Path, config: Mapping[str, Any]) -> Scalars:
    """Write scalars to a project of Weights & Biases.

    Args:
        project: Name of the project.
        folder: The run directory; its name is the name of the run.
        config: The content of config.json. A resumed run keeps its id; a new one in the same folder gets another.

    Raises:
        ImportError: If wandb is not installed; the message has the command that installs it.
    """
    try:
        library = importlib.import_module("wandb")
    except ImportError as error:
        raise ImportError('W&B needs wandb: pip install "svrl[wandb]"') from error
    text = f"{folder.name} {config.get('env')} {config.get('seed')} {config.get('begun')}"
    run = library.init(
        project=project,
        dir=str(folder),
        name=folder.name,
        id=hashlib.sha256(text.encode()).hexdigest()[:16],
        resume="allow",
        config=dict(config),
    )
    run.define_metric("*", step_metric="steps")
    # The library sends by itself.
    return Scalars(
        write=lambda scalars, steps: run.log({**scalars, "steps": steps}), flush=lambda: None, close=run.finish
    )
