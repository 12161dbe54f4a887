"""The computation of a cell: train in a folder, load the agent, study the rank of its Q, make rows.

A training that was interrupted goes on from its last checkpoint; one that ended is not repeated. Environments that
can be saved go on to the same rows. Atari's cannot: its games begin anew where a training is taken up, so a
training that was interrupted is a valid one, but not the same as one that was not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from svrl.paper.cell import CellResult, Work
from svrl.paper.training_cells.rows import rows_of_run, rows_of_study
from svrl.runtime.run_directory import CONFIG, RESULT, is_finished, read_config

if TYPE_CHECKING:
    from svrl.agents.config import AgentConfig
    from svrl.agents.training import Training
    from svrl.runtime.stop_signals import Signals

RUN = "run"
TRAINING = 0.95
"""Share of the progress that training is; the rest is the rank study."""
_NOTICEABLE = 0.002


def train_and_study(settings: Mapping[str, Any], work: Work) -> CellResult:
    """Rows of one training; `svrl.paper.training_cells.rows` says which.

    Raises:
        svrl.runtime.stop_signals.Stopped: If a signal came; the next call goes on.
        ValueError: If training diverged, or was begun on another device.
    """
    from svrl.agents.agent import load_agent
    from svrl.agents.diagnostics import rank_study

    folder = work.folder / RUN
    result = _result_of(settings, folder, work)
    study = rank_study(
        load_agent(folder, device=work.device),
        batches=settings["batches"],
        states=settings["states"],
        seed=settings["seed"],
        progress=lambda done, of: work.progress(TRAINING + (1.0 - TRAINING) * done / of),
    )
    rows = [*rows_of_run(folder, result), *rows_of_study(study.as_json())]
    return CellResult(rows=rows, trained=_trained(read_config(folder)))


def _trained(config: Mapping[str, Any]) -> dict[str, str]:
    """Where and with what a run was begun; runs of before do not say."""
    if "machine" not in config:
        return {}
    return {"machine": config["machine"], "torch": config["versions"]["torch"], "commit": config["commit"]}


def config_of(settings: Mapping[str, Any]) -> AgentConfig:
    """All settings of the agent of a cell."""
    from svrl.agents.config import AgentConfig
    from svrl.paper.experiments.trainings import ARMS

    changes = {**ARMS[settings["arm"]], **settings["overrides"], "steps": settings["steps"]}
    return AgentConfig.for_env(settings["env"], settings["preset"], **changes)


def implied(settings: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of the agent of a cell, by name."""
    return config_of(settings).as_json()


def _result_of(settings: Mapping[str, Any], folder: Path, work: Work) -> dict[str, Any]:
    """What result.json holds, after training where that is not over."""
    if is_finished(folder):
        return json.loads((folder / RESULT).read_text(encoding="utf-8"))
    from svrl.runtime.stop_signals import Signals
    from svrl.training.session import train_in_directory

    begun = (folder / CONFIG).exists()
    if begun:
        refuse_another_device(folder, work.device)
    with Signals().held_back() as signals:
        return train_in_directory(
            settings["env"],
            config_of(settings),
            folder=folder,
            seed=settings["seed"],
            device=work.device,
            resume=begun,
            progress=lambda training: Share(training, work.progress, signals),
            signals=signals,
        )


def refuse_another_device(folder: Path, device: str) -> None:
    """Raise ValueError if a training was begun on another device."""
    earlier = read_config(folder).get("device")
    if earlier != device:
        raise ValueError(
            f"{folder} holds a training that was begun on {earlier}, and {device} was asked for. "
            f"Go on with {earlier}, or delete the folder."
        )


class Share:
    """Tells the share that is done. Whoever listens may stop the training; then it is saved first."""

    def __init__(self, training: Training, tell: Callable[[float], None], signals: Signals) -> None:
        self._training, self._tell, self._signals = training, tell, signals
        self._told = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Nothing is shown here."""
        yield

    def __call__(self) -> None:
        """Tell it, if it has grown enough to be noticed."""
        from svrl.runtime.stop_signals import Stopped

        share = TRAINING * min(1.0, self._training.steps / self._training.config.steps)
        if share - self._told < _NOTICEABLE:
            return
        self._told = share
        try:
            self._tell(share)
        except Stopped as stopped:
            self._signals.came = stopped.number

    def say(self, what: str) -> None:
        """Nothing."""

    def evaluating(self, done: int, of: int) -> None:
        """Nothing."""

    def skip(self) -> None:
        """Nothing."""
