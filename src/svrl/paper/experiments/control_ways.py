"""An addition: which setting of structure matters, on control tasks with many actions.

The two ways of `control_learning` differ in two settings at once, and both keep the authors' share of observed
entries, shrinkage and output. Here each is changed alone: first the two, then, with rows centred and the completed
matrix's value, which is where an estimate can enter a target, the others. Everything else is that experiment's, and so
are its runs of plain DQN and of the two ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from svrl.paper.claim import Evidence
from svrl.paper.experiment import Budget, Experiment
from svrl.paper.experiments import control_learning
from svrl.paper.experiments.control_learning import BY, ENVS, less_loss
from svrl.paper.experiments.gains import Panels, improvement_claim
from svrl.paper.experiments.training_figures import draw_dot, draw_even_chance
from svrl.paper.experiments.trainings import TrainingPlan, envs_of, title_of, values
from svrl.plots.style import BLUE, GREEN, GREY, ORANGE, empty_figure, letter, new_figure
from svrl.runs.spec import RunSpec
from svrl.stats import interval_if_several

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Way:
    """One way to form targets.

    Attributes:
        name: What it is called in claims and pictures.
        arm: Of `svrl.agents.config.ARMS`, from which it starts.
        changes: What it changes of that.
    """

    name: str
    arm: str = "sv-dqn"
    changes: Mapping[str, Any] = field(default_factory=dict)


PLAIN = Way(name="plain", arm="dqn")
AUTHORS = Way(name="authors")
BOTH = Way(name="rows centred + network's value", arm="sv-dqn-network")
CENTRED = Way(name="rows centred", changes={"scale": "row"})
NETWORK = Way(name="network's value", changes={"next_value_from": "network"})
ESTIMATE = Way(name="rows centred + estimate", changes={"scale": "row", "output": "estimate"})
HALF = Way(name="rows centred + half observed", changes={"scale": "row", "p": 0.5})
SHRUNK_LESS = Way(name="rows centred + less shrinkage", changes={"scale": "row", "ratio": 0.002})
KNOWN = (PLAIN, AUTHORS, BOTH)
"""Those of `control_learning`."""
CHANGED = (CENTRED, NETWORK, ESTIMATE, HALF, SHRUNK_LESS)
WAYS = (*KNOWN, *CHANGED)

_CHANGES = frozenset(name for way in WAYS for name in way.changes)


def way_of(settings: Mapping[str, Any]) -> Way:
    """The way of a run, from its settings.

    Raises:
        LookupError: If it is none of these.
    """
    changes = {name: value for name, value in settings["overrides"].items() if name in _CHANGES}
    for way in WAYS:
        if (way.arm, way.changes) == (settings["arm"], changes):
            return way
    raise LookupError(f"No way starts from {settings['arm']} and changes {changes}.")


def _runs(plan: TrainingPlan, envs: Iterable[str], ways: Iterable[Way]) -> tuple[RunSpec, ...]:
    return tuple(run for way in ways for run in plan.runs(envs, (way.arm,), **way.changes))


def _piece_of(run: RunSpec) -> str:
    """What is judged together: all tasks and seeds of a way."""
    return way_of(run.settings).name


SHORT = replace(control_learning.SHORT, seeds=5)
"""Of the ways that are new here; the others have the ten seeds of `control_learning`."""

BUDGETS = {
    "smoke": Budget(
        runs=_runs(control_learning.SMOKE, ENVS[:1], (PLAIN, AUTHORS, HALF)),
        words="three-motor pendulum with 8 actions, 150 steps, preset smoke, 1 seed",
    ),
    "laptop": Budget(
        runs=_runs(control_learning.LAPTOP, ENVS[:1], WAYS),
        words="three-motor pendulum, 64 actions, 30,000 steps, 3 seeds",
    ),
    "short": Budget(
        runs=_runs(control_learning.SHORT, ENVS, KNOWN) + _runs(SHORT, ENVS, CHANGED),
        words="4 tasks, 64 actions, 30,000 steps; 10 seeds of the ways of control_learning, 5 of any other",
        piece_of=_piece_of,
    ),
    "full": Budget(runs=_runs(control_learning.FULL, ENVS, WAYS), words="4 tasks, 64 actions, 200,000 steps, 20 seeds"),
}


def by_way(evidence: Evidence) -> Evidence:
    """The same with the name of its way as the arm of every run, which distinguishes trainings."""
    runs = (replace(kept, settings={**kept.settings, "arm": way_of(kept.settings).name}) for kept in evidence.runs)
    return replace(evidence, runs=tuple(runs))


def ways_of(named: Evidence) -> list[Way]:
    """Those that are there beside plain DQN, which comes first; none without it."""
    return [way for way in WAYS if envs_of(named, ENVS, (PLAIN.name, way.name))]


_claim = partial(
    improvement_claim,
    "ways",
    envs=ENVS,
    measure=less_loss,
    read=by_way,
    paper="not in the paper",
    by=BY,
    difference="by how much less it loses: of interquartile means over all tasks of losses divided by the other's "
    "mean; of the losses themselves where there is one task. At short scale five seeds stand against ten. Six claims "
    "are judged so, each by itself",
)
_OVER_PLAIN = "With rows centred and the completed matrix's value, {} than plain DQN."
CLAIMS = (
    _claim(
        "centring-alone-improves-on-the-authors",
        CENTRED.name,
        "Rows centred instead of scaled to [-1, 1], all else the authors', lose less than the authors' way.",
        plain=AUTHORS.name,
    ),
    _claim(
        "the-networks-value-alone-improves-on-the-authors",
        NETWORK.name,
        "The network's value instead of the completed matrix's, all else the authors', loses less than their way.",
        plain=AUTHORS.name,
    ),
    *(
        _claim(name, way.name, _OVER_PLAIN.format(words), plain=PLAIN.name)
        for name, way, words in (
            ("completed-values-improve", CENTRED, "structure loses less"),
            ("estimates-improve", ESTIMATE, "the estimate of all entries as the target loses less"),
            ("fewer-entries-improve", HALF, "half of the entries lose less"),
            ("less-shrinkage-improves", SHRUNK_LESS, "a tenth of the authors' shrinkage loses less"),
        )
    ),
)

_COLOURS = {PLAIN.name: BLUE, AUTHORS.name: ORANGE}
"""The others are all of one colour: their names stand beside them."""


def draw(figure_id: str, evidence: Evidence) -> Figure:
    """A column a task, a row a way, with 95% intervals."""
    named = by_way(evidence)
    names = [way.name for way in ways_of(named)]
    if len(names) < 2:
        return empty_figure("no way to add structure is complete in this budget")
    envs = envs_of(named, ENVS, names)
    figure = new_figure(1.9 * len(envs) + 4.4, 0.32 * len(names) + 1.5)
    *panels, last = figure.subplots(1, len(envs) + 1, sharey=True, squeeze=False)[0]
    for row, name in enumerate(names):
        colour = _COLOURS.get(name, GREEN)
        for panel, env in zip(panels, envs, strict=True):
            (losses,) = values(named, name, (env,), lambda kept: -less_loss(kept))
            draw_dot(panel, row, float(losses.mean()), interval_if_several(losses), colour, name)
            if name == PLAIN.name:
                panel.axvline(losses.mean(), color=GREY, linewidth=0.8)
            panel.set(title=title_of(env), xlabel="policy loss")
        if name != PLAIN.name:
            draw_dot(last, row, *Panels.of(named, PLAIN.name, name, envs, less_loss).improvement, colour, name)
    draw_even_chance(last, "loses less than plain")
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)
    letter([*panels, last])
    return figure


EXPERIMENT = Experiment(
    name="control_ways",
    title="ways to add structure, one setting at a time",
    says={
        "ways": "The authors' way and ours differ in two settings, and with the network's value no estimate enters a "
        "target at all. Here each setting is changed alone: the scaling and the value from the authors' way, and, with "
        "rows centred and the completed matrix's value, the output, the share of observed entries and the shrinkage."
    },
    budgets=BUDGETS,
    picture=draw,
    claims=CLAIMS,
)
