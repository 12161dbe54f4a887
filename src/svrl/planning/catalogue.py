"""The planning methods by the names that the command line and run directories use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from svrl.matrix import USVT, Estimator, FactorALS, HardImpute, NuclearNorm, RowMean, SoftImpute
from svrl.planning.averaged import AveragedStructuredIteration, AveragedValueIteration
from svrl.planning.baselines import (
    AsyncValueIteration,
    CoarseActions,
    IncumbentIteration,
    RowMeanUpdate,
    SampledMax,
)
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.method import Method
from svrl.planning.policy_iteration import ModifiedPolicyIteration, PolicyIteration
from svrl.planning.svp import StructuredValueIteration, paper_svp
from svrl.planning.value_iteration import ValueIteration
from svrl.runtime.names import nearest_name


@dataclass(frozen=True)
class Entry:
    """A method of the catalogue.

    Attributes:
        method: The method with its defaults.
        noisy: Whether it plans from samples.
        baseline: Whether comparisons show it next to SVP.
    """

    method: Method
    noisy: bool = False
    baseline: bool = False

    @property
    def takes(self) -> frozenset[str]:
        """The options of `make_method` that it takes: its fields, and rank if its estimator has one."""
        own = {option for option in ("p", "estimator", "rank", "final_sweep") if hasattr(self.method, option)}
        return frozenset(own | {"rank"} if hasattr(getattr(self.method, "estimator", None), "rank") else own)


METHODS: dict[str, Entry] = {
    entry.method.name: entry
    for entry in (
        Entry(StructuredValueIteration()),
        Entry(paper_svp(), baseline=True),
        Entry(AveragedStructuredIteration(), noisy=True),
        Entry(CrossValueIteration()),
        Entry(ValueIteration(), noisy=True),
        Entry(PolicyIteration()),
        Entry(ModifiedPolicyIteration()),
        Entry(AsyncValueIteration(), baseline=True),
        Entry(AveragedValueIteration(), noisy=True, baseline=True),
        Entry(SampledMax(), baseline=True),
        Entry(RowMeanUpdate(), baseline=True),
        Entry(IncumbentIteration(), noisy=True, baseline=True),
        Entry(CoarseActions(), baseline=True),
    )
}

NOISY_ITERATIONS = 90
"""Iterations of value iteration from samples, unless you give a number."""

# Inside value iteration an estimator runs hundreds of times from a good start, so it gets few steps each time.
IN_THE_LOOP: dict[str, Callable[[int | None], Estimator]] = {
    "factor-als": lambda rank: FactorALS(rank=rank or 10, ridge=1e-3, max_steps=1, tolerance=1e-6),
    "soft-impute": lambda rank: SoftImpute(ratio=1 / 50, tolerance=1e-3, max_steps=100, output="fill"),
    "hard-impute": lambda rank: HardImpute(rank=rank or 10, max_steps=20),
    "usvt": lambda rank: USVT(),
    "nuclear-norm": lambda rank: NuclearNorm(),
    "row-mean": lambda rank: RowMean(),
}


def make_method(
    name: str,
    *,
    p: float | None = None,
    estimator: str | None = None,
    rank: int | None = None,
    final_sweep: bool | None = None,
    iterations: int | None = None,
) -> Method:
    """Create a method by its name. Options that are None keep the method's defaults.

    Raises:
        ValueError: If there is no such method or estimator, or the method does not take an option.
    """
    if name not in METHODS:
        raise ValueError(f"There is no method {name!r}. {nearest_name(name, METHODS)}")
    entry = METHODS[name]
    given = {"p": p, "estimator": estimator, "rank": rank, "final_sweep": final_sweep}
    options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
    if strange := sorted(set(options) - entry.takes):
        raise ValueError(
            f"{name} has no option {strange[0].replace('_', '-')}: "
            f"it takes {', '.join(sorted(entry.takes)).replace('_', '-') or 'no such option'}."
        )
    if estimator is not None and estimator not in IN_THE_LOOP:
        raise ValueError(f"There is no estimator {estimator!r}. {nearest_name(estimator, IN_THE_LOOP)}")
    if rank is not None and estimator not in (None, "factor-als", "hard-impute"):
        raise ValueError(f"{estimator} finds its rank itself: leave rank out, or use factor-als or hard-impute.")
    if "estimator" in entry.takes and not (estimator is None and rank is None):
        options["estimator"] = IN_THE_LOOP[estimator or "factor-als"](options.pop("rank", None))
    if iterations is not None:
        options["max_iterations"] = iterations
    return replace(entry.method, **options)  # type: ignore[type-var]


def most_iterations(name: str, iterations: int | None, *, noisy: bool) -> int | None:
    """The `iterations` for `make_method`; None keeps the method's default.

    Noise has no natural end: without a limit, value iteration would sample for hours.
    """
    return NOISY_ITERATIONS if name == "value-iteration" and noisy and iterations is None else iterations
