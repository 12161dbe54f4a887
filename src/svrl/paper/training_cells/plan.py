"""Cells of training: which environment, which arm, which seed, for how long.

The settings of a cell are

    env, arm, seed, preset, steps     what `svrl train` would be asked for
    overrides                         changes to the preset
    batches, states                   of the rank study at the end: so many batches of 32 out of so many states

and nothing else changes what a cell comes to. The kind of a cell has the name of its family, because the
families need different extras; the computation is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from svrl.agents.config import AUTHORS_STRUCTURE, OUR_STRUCTURE
from svrl.paper.cell import Cell, Kind
from svrl.paper.training_cells.compute import implied, train_and_study
from svrl.paper.training_cells.reading import title_of
from svrl.paper.training_cells.together import train_together

_AGENTS = ("dqn", "double", "dueling")
_WAYS: dict[str, dict[str, Any]] = {
    "{}": AUTHORS_STRUCTURE,  # of no use to a plain agent, but the configurations of kept cells stay what they were
    "sv-{}": {"structured": True, **AUTHORS_STRUCTURE},
    "sv-{}-network": {"structured": True, **OUR_STRUCTURE},
}
"""Plain; structured as the authors have it; and ours, with rows centred and actions valued by the target network."""

ARMS: dict[str, dict[str, Any]] = {
    way.format(agent): {"agent": agent, **changes} for way, changes in _WAYS.items() for agent in _AGENTS
}
"""What each arm changes, whatever the preset's own way of structure is."""

VERSION = 1


def _kind(name: str, extra: str = "") -> Kind:
    return Kind(
        name=name, version=VERSION, compute=train_and_study, extra=extra, together=train_together, implied=implied
    )


ATARI = _kind("training-atari", "atari")
MINATAR = _kind("training-minatar", "minatar")
CLASSIC = _kind("training-classic")
_KINDS = {"atari": ATARI, "minatar": MINATAR}
_RATES = {"atari": 90.0, "minatar": 160.0}
_RATE = 700.0
"""Agent steps a second on one core with the updates of the preset, about: for estimates of time only."""
_MINUTES_BESIDE = {"atari": 0.05}
"""Of evaluation and rank study, at least; little elsewhere."""


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How every agent of a budget is trained.

    Attributes:
        preset: Of `svrl.agents.config`.
        steps: Agent steps of each training.
        seeds: How many; they are 0, 1, ...
        overrides: Changes to the preset.
        batches, states: Of the rank study.
    """

    preset: str
    steps: int
    seeds: int
    overrides: Mapping[str, Any] = field(default_factory=dict)
    batches: int = 10_000
    states: int = 20_000

    def cells(self, envs: Iterable[str], arms: Iterable[str], **overrides: Any) -> tuple[Cell, ...]:
        """One for each environment, arm and seed, in this order.

        Args:
            envs: Names of environments.
            arms: Of `ARMS`.
            **overrides: More changes to the preset.
        """
        arms = tuple(arms)
        changes = {**self.overrides, **overrides}
        return tuple(
            training_cell(
                env=env,
                arm=arm,
                seed=seed,
                preset=self.preset,
                steps=self.steps,
                overrides=changes,
                batches=self.batches,
                states=self.states,
            )
            for env in envs
            for arm in arms
            for seed in range(self.seeds)
        )


def piece_of(cell: Cell) -> str:
    """What is judged together: all arms and seeds of one technique, environment and batch size.

    As in "Frostbite", "Frostbite with double DQN" or "Seaquest with batches of 128".
    """
    settings = cell.settings
    name = title_of(settings["env"])
    technique = ARMS[settings["arm"]]["agent"]
    size = settings["overrides"].get("batch_size")
    return (
        name
        + (f" with {technique} DQN" if technique != "dqn" else "")
        + (f" with batches of {size}" if size is not None else "")
    )


def training_cell(
    *,
    env: str,
    arm: str,
    seed: int,
    preset: str,
    steps: int,
    overrides: Mapping[str, Any],
    batches: int,
    states: int,
) -> Cell:
    """One training, see the top of this file.

    Raises:
        ValueError: If there is no such arm.
    """
    if arm not in ARMS:
        raise ValueError(f"There is no arm {arm!r}. Choose one of {', '.join(ARMS)}.")
    family = env.partition("/")[0] if "/" in env else ""
    settings = {
        "env": env,
        "arm": arm,
        "seed": seed,
        "preset": preset,
        "steps": steps,
        "overrides": dict(sorted(overrides.items())),
        "batches": batches,
        "states": states,
    }
    harder = overrides.get("batch_size", 32) / 32 if family == "atari" else 1.0
    if family == "minatar":
        harder = overrides.get("updates_per_step", 1.0)
    minutes = steps / _RATES.get(family, _RATE) / 60 * harder + _MINUTES_BESIDE.get(family, 0.02)
    return Cell(kind=_KINDS.get(family, CLASSIC), settings=settings, weight=minutes)
