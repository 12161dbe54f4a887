"""Our claims on single settings of structure, by the policy loss on control tasks with many actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from svrl.paper.claim import Claim, Finding
from svrl.paper.control_learning.claims import less_loss
from svrl.paper.control_learning.settings import ENVS
from svrl.paper.control_ways.settings import (
    AUTHORS,
    CENTRED,
    ESTIMATE,
    HALF,
    NETWORK,
    PLAIN,
    SHRUNK_LESS,
    WAYS,
    Way,
    way_of,
)
from svrl.paper.evidence import Evidence
from svrl.paper.training_cells.additions import SCALES
from svrl.paper.training_cells.gains import gain_of, shown
from svrl.paper.training_cells.reading import envs_of, target_push, title_of, values
from svrl.paper.training_cells.verdicts import improved, nothing_yet


def by_way(evidence: Evidence) -> Evidence:
    """The same with the name of its way as the arm of every cell, which is what trainings are told apart by."""
    cells = (replace(kept, settings={**kept.settings, "arm": way_of(kept.settings).name}) for kept in evidence.cells)
    return replace(evidence, cells=tuple(cells))


def ways_of(named: Evidence) -> list[Way]:
    """Those that are there beside plain DQN, which comes first; none without it."""
    return [way for way in WAYS if envs_of(named, ENVS, (PLAIN.name, way.name))]


def shows(figure: str, evidence: Evidence) -> bool:
    """Whether there is something to compare with plain DQN."""
    return len(ways_of(by_way(evidence))) > 1


def got(figure: str, evidence: Evidence) -> str:
    """How often each way loses less than plain DQN."""
    named = by_way(evidence)
    told = []
    for way in ways_of(named)[1:]:
        gain = gain_of(named, PLAIN.name, way.name, envs_of(named, ENVS, (PLAIN.name, way.name)), measure=less_loss)
        told.append(f"{way.name} {gain.improvement:.2f}{shown(gain.improvement_interval)}")
    return f"Probability to lose less than plain DQN: {'; '.join(told)}."


def _judge(way: Way, other: Way, evidence: Evidence) -> Finding:
    named = by_way(evidence)
    envs = envs_of(named, ENVS, (other.name, way.name))
    if not envs:
        return nothing_yet(evidence)
    gain = gain_of(named, other.name, way.name, envs, measure=less_loss)
    settling = SCALES if len(envs) == len(ENVS) else ()
    outright = f"All runs of {way.name} beat all of {other.name}"
    return improved(evidence, gain, _pushes(named, way, envs), settling, outright)


def _pushes(named: Evidence, way: Way, envs: Sequence[str]) -> str:
    """What completion did to targets, task by task: their values differ by orders of magnitude."""
    told = (f"{title_of(env)} {values(named, way.name, (env,), target_push)[0].mean():+.2g}" for env in envs)
    return f"Completion moved a target on average by: {', '.join(told)}."


def _claim(name: str, way: Way, other: Way, says: str) -> Claim:
    return Claim(
        name=name,
        figure="ways",
        section="",
        says=says,
        paper="not in the paper",
        test="Loss of the greedy policy, exact on the grid without noise, mean over the last quarter of training; "
        "holds if the interval of the probability of improvement over seeds, by resampling seeds within each task, "
        "lies above one half. Beside it stands by how much less it loses: of interquartile means over all tasks of "
        "losses divided by the other's mean; of the losses themselves where there is one task. At short scale five "
        "seeds stand against ten. Six claims are judged so, each by itself.",
        judge=partial(_judge, way, other),
        scales=SCALES,
    )


CLAIMS = (
    _claim(
        "centring-alone-improves-on-the-authors",
        CENTRED,
        AUTHORS,
        "Rows centred instead of scaled to [-1, 1], all else the authors', lose less than the authors' way.",
    ),
    _claim(
        "the-networks-value-alone-improves-on-the-authors",
        NETWORK,
        AUTHORS,
        "The network's value instead of the completed matrix's, all else the authors', loses less than their way.",
    ),
    *(
        _claim(name, way, PLAIN, f"With rows centred and the completed matrix's value, {words} than plain DQN.")
        for name, way, words in (
            ("completed-values-improve", CENTRED, "structure loses less"),
            ("estimates-improve", ESTIMATE, "the estimate of all entries as the target loses less"),
            ("fewer-entries-improve", HALF, "half of the entries lose less"),
            ("less-shrinkage-improves", SHRUNK_LESS, "a tenth of the authors' shrinkage loses less"),
        )
    ),
)
