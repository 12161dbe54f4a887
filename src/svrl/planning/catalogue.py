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


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A method, and which of the general options it takes.

    Attributes:
        make: Builds it.
        takes: Names among p, estimator, rank, final_sweep.
        noisy: Whether it plans from samples.
        baseline: Whether comparisons show it beside SVP.
    """

    make: Callable[..., Method]
    takes: frozenset[str] = frozenset()
    noisy: bool = False
    baseline: bool = False


METHODS: dict[str, Entry] = {
    "svp": Entry(make=StructuredValueIteration, takes=frozenset({"p", "estimator", "rank", "final_sweep"})),
    "paper-svp": Entry(make=paper_svp, takes=frozenset({"p", "estimator", "final_sweep"}), baseline=True),
    "averaged-svp": Entry(make=AveragedStructuredIteration, takes=frozenset({"p", "rank"}), noisy=True),
    "cross": Entry(make=CrossValueIteration, takes=frozenset({"rank", "final_sweep"})),
    "value-iteration": Entry(make=ValueIteration, noisy=True),
    "policy-iteration": Entry(make=PolicyIteration),
    "modified-policy-iteration": Entry(make=ModifiedPolicyIteration),
    "async": Entry(make=AsyncValueIteration, takes=frozenset({"p"}), baseline=True),
    "averaged": Entry(make=AveragedValueIteration, takes=frozenset({"p"}), noisy=True, baseline=True),
    "sampled-max": Entry(make=SampledMax, takes=frozenset({"p"}), baseline=True),
    "row-mean-update": Entry(make=RowMeanUpdate, takes=frozenset({"p"}), baseline=True),
    "incumbent": Entry(make=IncumbentIteration, takes=frozenset({"p"}), noisy=True, baseline=True),
    "coarse": Entry(make=CoarseActions, baseline=True),
}

NOISY_ITERATIONS = 90
"""Of value iteration from samples, unless another number is given."""

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
    """A method by name; options that are None are left to it, and options that it has not are refused."""
    entry = METHODS.get(name)
    if entry is None:
        raise ValueError(_unknown("method", name, METHODS))
    given = {"p": p, "estimator": estimator, "rank": rank, "final_sweep": final_sweep}
    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    strange = sorted(set(options) - entry.takes)
    if strange:
        raise ValueError(
            f"{name} has no option {strange[0].replace('_', '-')}: "
            f"it takes {', '.join(sorted(entry.takes)).replace('_', '-') or 'no such option'}."
        )
    chosen = options.pop("estimator", None)
    if chosen is not None and chosen not in IN_THE_LOOP:
        raise ValueError(_unknown("estimator", chosen, IN_THE_LOOP))
    if chosen not in (None, "factor-als", "hard-impute") and "rank" in options:
        raise ValueError(f"{chosen} finds its rank itself: leave rank out, or use factor-als or hard-impute.")
    if name == "svp" and (chosen is not None or "rank" in options):
        options["estimator"] = IN_THE_LOOP[chosen or "factor-als"](options.pop("rank", None))
    last = options.pop("final_sweep", None) if name == "paper-svp" else None
    method = entry.make(**options, **({} if iterations is None else {"max_iterations": iterations}))
    if name == "paper-svp":
        changes: dict[str, Any] = {} if chosen is None else {"estimator": IN_THE_LOOP[chosen](None)}
        changes |= {} if last is None else {"final_sweep": last}
        method = replace(method, **changes)  # type: ignore[type-var]
    return method


def most_iterations(name: str, iterations: int | None, *, noisy: bool) -> int | None:
    """Most iterations as they are given to `make_method`; None leaves them to the method.

    Noise has no natural end: without a number value iteration would sample for hours.
    """
    return NOISY_ITERATIONS if name == "value-iteration" and noisy and iterations is None else iterations


def _unknown(what: str, name: str, known: dict[str, Any]) -> str:
    return f"There is no {what} {name!r}. {nearest_name(name, known)}"
