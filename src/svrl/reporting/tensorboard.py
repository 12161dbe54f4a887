"""Events of training as scalars for TensorBoard."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from svrl.agents.events import EpisodeEnded, Evaluated, Event, Learned

PACKAGE = "tensorboard"
MISSING = 'TensorBoard needs tensorboard: pip install "svrl[tensorboard]"'


def scalars_of(event: Event) -> dict[str, float]:
    """What an event has to say in numbers, by name; empty for one that says nothing.

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
        since: The step that the run goes on from; what was written after it is hidden.

    Raises:
        ImportError: If tensorboard is not installed, with the command that installs it.
    """

    def __init__(self, folder: Path, *, since: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(MISSING) from error
        purge = since + 1 if since else None
        self._writer = SummaryWriter(log_dir=str(folder), purge_step=purge)

    def __call__(self, event: Event) -> None:
        """Write what the event says."""
        for name, value in scalars_of(event).items():
            self._writer.add_scalar(name, value, event.steps)

    def flush(self) -> None:
        """Hand everything to the system."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()
