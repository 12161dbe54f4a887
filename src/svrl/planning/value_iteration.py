"""Value iteration: v = max_a Q, Q = r + discount * P v, over and over.

Three rules to stop by:

span     discount / (1 - discount) * (max d - min d) <= tolerance for the change d of the last sweep. The
         values are then moved to the midpoint of their bounds (see `svrl.planning.certificate`): they are
         within tolerance / 2 of V*, and the policy loses no more than tolerance in any state.
sup      max |d| <= tolerance.
authors  mean d^2 < 1e-6 over all pairs of Q, from Q = 0, or 200 iterations: what the program of "Harnessing
         Structures for Value-Based Planning and Reinforcement Learning" (ICLR 2020) does.

With noisy backups every iteration samples all pairs once, and the rules are read off noisy changes. An equal
change of all states says nothing then, so that "span" asks for small changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from svrl.mdp.model import Model
from svrl.planning.certificate import discount_of, never_ends, value_offsets
from svrl.planning.meter import Meter
from svrl.planning.method import Found, State
from svrl.planning.plan import plan

AUTHORS_RESIDUAL = 1e-6
AUTHORS_ITERATIONS = 200
Stop = Literal["span", "sup", "authors"]


@dataclass(frozen=True, kw_only=True)
class ValueIteration:
    """Plain value iteration; plans on models and on samplers.

    Attributes:
        tolerance: Of the stop rules "span" and "sup".
        stop: When to stop, see above.
        max_iterations: Most sweeps.
    """

    tolerance: float = 1e-6
    stop: Stop = "span"
    max_iterations: int = 10_000

    def __post_init__(self) -> None:
        if self.stop not in _RULES:
            raise ValueError(f"ValueIteration has no stop rule {self.stop!r}: choose one of {', '.join(_RULES)}.")
        if not self.tolerance > 0.0:
            raise ValueError(f"ValueIteration needs a tolerance above 0, got {self.tolerance}.")
        if self.max_iterations < 1:
            raise ValueError(f"ValueIteration needs at least 1 iteration, got {self.max_iterations}.")

    @property
    def name(self) -> str:
        """Short name."""
        return "value-iteration"

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """Values 0, or those given; for the authors' rule Q is as large as its row's value."""
        v = torch.zeros(meter.n_states, dtype=torch.float64, device=meter.device) if v is None else v.clone()
        state = State(v=v)
        if self.stop == "authors":
            state.memory["q"] = v[:, None].expand(-1, meter.n_actions).clone()
        return state

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        """One sweep."""
        q, best, policy = self._sweep(meter, state.v, generator)
        endless = never_ends(meter.problem) and not meter.noisy
        offsets = value_offsets(best - state.v, discount_of(meter.problem), endless)
        sweep = _Sweep(before=state.v, best=best, offsets=offsets, q_before=state.memory.pop("q", None), q=q)
        state.residual = _RULES[self.stop](sweep)
        limit = AUTHORS_RESIDUAL if self.stop == "authors" else self.tolerance
        spent = self.stop == "authors" and state.iteration + 1 >= AUTHORS_ITERATIONS
        state.finished = state.residual <= limit or spent
        state.memory = {"policy": policy, "offsets": torch.tensor(offsets, dtype=torch.float64)}
        if self.stop == "authors" and q is not None:
            state.memory["q"] = q
        state.v = best
        return state

    def finish(self, meter: Meter, state: State, generator: torch.Generator) -> Found:
        """The last sweep's policy, and its values; moved to the midpoint of their bounds for "span"."""
        if "policy" not in state.memory:
            state = self.step(meter, state, generator)
        midpoint = self.stop == "span" and not meter.noisy
        v = state.v + float(state.memory["offsets"].mean()) if midpoint else state.v
        return Found(policy=state.memory["policy"], v=v, q=state.memory.get("q"))

    def _sweep(self, meter: Meter, v: Tensor, generator: torch.Generator) -> tuple[Tensor | None, Tensor, Tensor]:
        if self.stop != "authors" and not meter.noisy:
            return None, *meter.improve(v)
        q = meter.sample(v, generator) if meter.noisy else meter.backup(v)
        best = q.max(1)
        return q, best.values, best.indices


def paper_budget(model: Model) -> int:
    """Iterations of the authors' value iteration: what the paper gives every method on this model."""
    return plan(model, ValueIteration(stop="authors")).iterations


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    """What the rules look at: values and Q before and after, and the offsets of the bounds on V*."""

    before: Tensor
    best: Tensor
    offsets: tuple[float, float]
    q_before: Tensor | None
    q: Tensor | None


def _span(sweep: _Sweep) -> float:
    return sweep.offsets[1] - sweep.offsets[0]


def _sup(sweep: _Sweep) -> float:
    return float((sweep.best - sweep.before).abs().max())


def _mean_square(sweep: _Sweep) -> float:
    assert sweep.q is not None, "the authors' rule forms Q"
    assert sweep.q_before is not None, "the authors' rule starts from a Q"
    return float(sweep.q_before.sub_(sweep.q).square_().mean())


_RULES: dict[str, Callable[[_Sweep], float]] = {"span": _span, "sup": _sup, "authors": _mean_square}
