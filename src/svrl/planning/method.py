"""What a planning method is: a frozen record that can begin, take one step, and finish.

A method keeps everything between two steps in a `State`, or in a dataclass of its own that extends it. Its fields are
tensors, estimates and plain values, which can be written to disk, so that a run that was interrupted goes on to exactly
the same result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from svrl.planning.meter import Meter


@dataclass(kw_only=True)
class State:
    """Where a method stands; methods add fields of their own.

    Attributes:
        v: Values of the states, (S,).
        iteration: Steps taken.
        residual: How far v moved in the last step, in the method's own measure; what the stop rule looks at.
        rank: Rank of the last estimate, where there is one.
        finished: Whether the method's own stop rule has fired.
        outcome: The empty sentence is success; otherwise what went wrong.
    """

    v: Tensor
    iteration: int = 0
    residual: float = float("inf")
    rank: int | None = None
    finished: bool = False
    outcome: str = ""


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """What a method hands over when it ends.

    Attributes:
        policy: Actions (S,), int64.
        v: Values (S,).
        q: Dense Q (S, A), or None where it was never formed.
        factors: left (S, r) and right (A, r) with Q = left @ right.mT, or None.
    """

    policy: Tensor
    v: Tensor
    q: Tensor | None = None
    factors: tuple[Tensor, Tensor] | None = None


@runtime_checkable
class Method(Protocol):
    """A way of planning. Its repr is its name in logs and run directories."""

    @property
    def name(self) -> str:
        """Short name, as on the command line."""

    @property
    def max_iterations(self) -> int:
        """Most steps to take; running out is an outcome, not an error."""

    def begin(self, meter: Meter, v: Tensor | None) -> State:
        """The state before the first step, from the values v (S,) if given."""

    def step(self, meter: Meter, state: Any, generator: torch.Generator) -> State:
        """One iteration. May change the state in place; sets `finished` when its stop rule fires."""

    def finish(self, meter: Meter, state: Any, generator: torch.Generator) -> MethodResult:
        """Policy and values at the end, with whatever last sweep the method makes."""
