"""Ways to add structure on the control tasks with many actions, one setting at a time.

The two ways of `control_learning` differ in two settings at once, and both keep the authors' share of observed
entries, shrinkage and output. Here each is changed alone: first the two, then, with rows centred and the completed
matrix's value, which is where an estimate can enter a target, the others. Everything else is that experiment's, and so
are its cells of plain DQN and of the two ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from svrl.paper.cell import Cell
from svrl.paper.control_learning import settings as learning
from svrl.paper.control_learning.settings import ENVS
from svrl.paper.experiment import Budget
from svrl.paper.training_cells.plan import TrainingPlan


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to form targets.

    Attributes:
        name: What it is called in claims and pictures.
        arm: Of `svrl.paper.training_cells.plan.ARMS`, from which it starts.
        changes: What it changes of that.
    """

    name: str
    arm: str
    changes: Mapping[str, Any] = field(default_factory=dict)


PLAIN = Way(name="plain", arm="dqn")
AUTHORS = Way(name="authors", arm="sv-dqn")
BOTH = Way(name="rows centred + network's value", arm="sv-dqn-network")
CENTRED = Way(name="rows centred", arm="sv-dqn", changes={"scale": "row"})
NETWORK = Way(name="network's value", arm="sv-dqn", changes={"value": "network"})
ESTIMATE = Way(name="rows centred + estimate", arm="sv-dqn", changes={"scale": "row", "output": "estimate"})
HALF = Way(name="rows centred + half observed", arm="sv-dqn", changes={"scale": "row", "observe": 0.5})
SHRUNK_LESS = Way(name="rows centred + less shrinkage", arm="sv-dqn", changes={"scale": "row", "ratio": 0.002})
KNOWN = (PLAIN, AUTHORS, BOTH)
"""Those of `control_learning`."""
CHANGED = (CENTRED, NETWORK, ESTIMATE, HALF, SHRUNK_LESS)
WAYS = (*KNOWN, *CHANGED)

_CHANGES = frozenset(name for way in WAYS for name in way.changes)


def way_of(settings: Mapping[str, Any]) -> Way:
    """The way of a cell, from its settings.

    Raises:
        LookupError: If it is none of these.
    """
    changes = {name: value for name, value in settings["overrides"].items() if name in _CHANGES}
    for way in WAYS:
        if (way.arm, way.changes) == (settings["arm"], changes):
            return way
    raise LookupError(f"No way starts from {settings['arm']} and changes {changes}.")


def _cells(plan: TrainingPlan, envs: Iterable[str], ways: Iterable[Way]) -> tuple[Cell, ...]:
    return tuple(cell for way in ways for cell in plan.cells(envs, (way.arm,), **way.changes))


def _piece_of(cell: Cell) -> str:
    """What is judged together: all tasks and seeds of a way."""
    return way_of(cell.settings).name


SHORT = replace(learning.SHORT, seeds=5)
"""Of the ways that are new here; the others have the ten seeds of `control_learning`."""

BUDGETS = {
    "smoke": Budget(
        cells=_cells(learning.SMOKE, ENVS[:1], (PLAIN, AUTHORS, HALF)),
        words="three-motor pendulum with 8 actions, 150 steps, preset smoke, 1 seed",
    ),
    "laptop": Budget(
        cells=_cells(learning.LAPTOP, ENVS[:1], WAYS),
        words="three-motor pendulum, 64 actions, 30,000 steps, 3 seeds",
    ),
    "short": Budget(
        cells=_cells(learning.SHORT, ENVS, KNOWN) + _cells(SHORT, ENVS, CHANGED),
        words="4 tasks, 64 actions, 30,000 steps; 10 seeds of the ways of control_learning, 5 of any other",
        piece_of=_piece_of,
    ),
    "full": Budget(cells=_cells(learning.FULL, ENVS, WAYS), words="4 tasks, 64 actions, 200,000 steps, 20 seeds"),
}
