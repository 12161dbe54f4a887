"""StructuredTargets: all of SV-RL.

The values of a batch of states form a matrix, states by actions, that is often nearly of low rank.
Observe each entry with probability p, complete the rest by matrix estimation, and let targets be
formed from the result (section 4.2 of "Harnessing Structures for Value-Based Planning and
Reinforcement Learning", ICLR 2020). One call takes all K matrices of a burst of updates.

Scaling comes before estimation and is undone after it, because shrinkage pulls entries towards 0:
`minmax` maps the smallest and the largest entry of the whole matrix, observed or not, to -1 and 1 and
clips to that range, as the authors' program does; `row` takes out the mean of each row's observed
entries, which leaves the structure of the advantage. A row with no observed entry tells nothing about
itself: it keeps its values, where the authors' program gives it the middle of the range. So does a
matrix whose estimate is not finite.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from svrl.agents.config import AUTHORS_STRUCTURE, AgentConfig, Output, Scale, Value
from svrl.agents.cuda_graph import pinned
from svrl.matrix import ESTIMATORS
from svrl.matrix.estimate import Estimator
from svrl.matrix.scaling import complete_scaled
from svrl.matrix.soft_impute import SoftImpute

AUTHORS_STEPS = 100
"""Most iterations of an estimation, as in the authors' program."""


class Completion(NamedTuple):
    """Completed matrices and how they came about.

    Attributes:
        matrix: (..., B, A).
        mask: (..., B, A), bool: what was observed.
        estimate: (..., B, A), what the estimator says about every entry, in the units of the values.
        rank: (...), of the estimates.
        code: (...), how each estimation ended; 0 is success, see `svrl.matrix.Outcome`.
    """

    matrix: Tensor
    mask: Tensor
    estimate: Tensor
    rank: Tensor
    code: Tensor

    def __repr__(self) -> str:
        low, high = (int(end) for end in self.rank.aminmax())
        ranks = f"rank {low}" if low == high else f"ranks {low} to {high}"
        return f"Completion({tuple(self.matrix.shape)}, {self.mask.float().mean():.0%} observed, {ranks})"


def _soft_impute() -> Estimator:
    return SoftImpute(tolerance=1e-3, max_steps=AUTHORS_STEPS)


@dataclass(frozen=True, kw_only=True)
class StructuredTargets:
    """(K, B, A) -> (K, B, A): sub-sample and complete matrices of values.

    The defaults are the way that our runs favour; `AUTHORS_WAY` is the authors'.

    Attributes:
        p: Probability p in (0, 1] that an entry is observed.
        rise: Updates over which p rises linearly to 1; 0 keeps it.
        estimator: Any of `svrl.matrix`; its own output and centring are best left at their defaults.
        scale: "none", "minmax" or "row"; the module says what they do.
        output: "fill" keeps the observed entries, bit for bit, as the authors' program does; "estimate" takes all
            entries from the estimator, as the paper's text does.
        value: "completed" or "network": what an agent does with the matrix, see `svrl.agents.targets`.
    """

    p: float = 0.9
    rise: int = 0
    estimator: Estimator = field(default_factory=_soft_impute)
    scale: Scale = "row"
    output: Output = "fill"
    next_value_from: Value = "network"

    def __post_init__(self) -> None:
        if not callable(self.estimator):
            raise ValueError(f"StructuredTargets needs an estimator such as SoftImpute(), got {self.estimator!r}.")
        if not isinstance(self.p, float | int) or not 0.0 < self.p <= 1.0:
            raise ValueError(f"StructuredTargets observes with a probability in (0, 1], got {self.p}.")
        if self.rise < 0:
            raise ValueError(f"StructuredTargets needs rise >= 0 updates, got {self.rise}.")
        for name, got, choices in (
            ("scale", self.scale, get_args(Scale)),
            ("output", self.output, get_args(Output)),
            ("next_value_from", self.next_value_from, get_args(Value)),
        ):
            if got not in choices:
                raise ValueError(f"StructuredTargets has {name} {', '.join(choices)}, got {got!r}.")

    @classmethod
    def from_config(cls, config: AgentConfig) -> StructuredTargets | None:
        """What a configuration asks for; None is the plain agent.

        Raises:
            ValueError: If there is no such estimator, or its rank is missing.
        """
        if not config.structured:
            return None
        if config.estimator not in ESTIMATORS:
            raise ValueError(f"There is no estimator {config.estimator!r}. Choose one of {', '.join(ESTIMATORS)}.")
        return cls(
            p=config.p,
            rise=config.p_rise,
            estimator=_estimator(config),
            scale=config.scale,
            output=config.output,
            next_value_from=config.next_value_from,
        )

    def probability(self, updates: int) -> float:
        """p after so many updates."""
        if self.rise == 0:
            return self.p
        return min(1.0, self.p + (1.0 - self.p) * updates / self.rise)

    def __call__(self, q: Tensor, generator: torch.Generator, *, updates: int = 0) -> Completion:
        """Complete matrices of values.

        Args:
            q: (B, A), or (K, B, A) for K updates in a row; not changed.
            generator: For the masks, on q's device.
            updates: Made before the first of these.
        """
        check_values(q)
        if not isinstance(generator, torch.Generator):
            raise ValueError(
                f"StructuredTargets draws masks from a torch.Generator on {q.device}, got {type(generator).__name__}."
            )
        return self.complete(q, self.draw(q.shape, generator, updates=updates))

    def draw(self, shape: tuple[int, ...], generator: torch.Generator, *, updates: int = 0) -> Tensor:
        """What is observed of matrices (B, A), or (K, B, A) for K updates in a row; on the generator's device."""
        uniform = torch.rand(shape, generator=generator, device=generator.device)
        if self.rise and len(shape) == 3:
            steps = torch.tensor([self.probability(updates + k) for k in range(shape[0])])
            return uniform < pinned(steps, uniform).to(uniform.device, non_blocking=True).view(-1, 1, 1)
        return uniform < self.probability(updates)

    def complete(self, q: Tensor, mask: Tensor) -> Completion:
        """Complete matrices (..., B, A) of which the entries in `mask` are observed.

        Half precision is computed in float32. On a GPU Soft-Impute does all of it in one launch.
        """
        if q.dtype in (torch.float16, torch.bfloat16):
            whole = self.complete(q.float(), mask)
            return whole._replace(matrix=whole.matrix.to(q.dtype))  # what was kept comes back bit for bit
        found = complete_scaled(self.estimator, q, mask, scale=self.scale, fill=self.output == "fill")
        return Completion(found.matrix, mask, found.estimate, found.rank, found.code)


OUR_WAY = StructuredTargets()
AUTHORS_WAY = StructuredTargets(**AUTHORS_STRUCTURE)
"""As the authors' program has it: `scale` "minmax", `next_value_from` "completed"."""


def check_values(q: object) -> None:
    """Refuse what is no matrix of numbers.

    Raises:
        ValueError: If so.
    """
    if not isinstance(q, Tensor):
        raise ValueError(f"StructuredTargets takes a torch tensor (..., B, A), got {type(q).__name__}.")
    if q.ndim < 2 or 0 in q.shape or not q.dtype.is_floating_point:
        kind = str(q.dtype).removeprefix("torch.")
        raise ValueError(
            f"StructuredTargets takes floating-point matrices (..., B, A), none of them empty; got {kind} of shape "
            f"{tuple(q.shape)}."
        )


def _estimator(config: AgentConfig) -> Estimator:
    make, name = ESTIMATORS[config.estimator], config.estimator
    if config.rank and name not in ("hard-impute", "factor-als"):
        raise ValueError(f"{name} has no rank to set, only hard-impute and factor-als have; got rank {config.rank}.")
    if name == "soft-impute":
        return make(ratio=config.ratio, tolerance=config.tolerance, max_steps=AUTHORS_STEPS)
    if name == "hard-impute" and not config.rank:
        raise ValueError("hard-impute cannot find the rank by itself: set rank to 1 or more, got 0.")
    return make(rank=config.rank) if config.rank else make()
