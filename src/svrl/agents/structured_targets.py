"""StructuredTargets: the core of SV-RL.

The values of a batch of states form a matrix, states by actions, that is often nearly low rank. Each entry is observed
with probability p, matrix estimation completes the rest, and the result gives the targets (section 4.2 of "Harnessing
Structures for Value-Based Planning and Reinforcement Learning", ICLR 2020). One call completes all K matrices of a
burst of updates.

Values are scaled before estimation and scaled back after it, because shrinkage pulls entries towards 0: `minmax` maps
the smallest and the largest entry of the whole matrix, observed or not, to -1 and 1 and clips to that range, like the
authors' program; `row` subtracts the mean of each row's observed entries, which leaves the structure of the advantage.
A row with no observed entry keeps its values; the authors' program sets it to the middle of the range. A matrix whose
estimate is not finite also keeps its values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from svrl.agents.config import AUTHORS_STRUCTURE, CHOICES, AgentConfig, Output, Scale, Value
from svrl.agents.cuda_graph import pinned
from svrl.matrix import ESTIMATORS
from svrl.matrix.estimate import Estimator
from svrl.matrix.scaling import complete_scaled
from svrl.matrix.soft_impute import SoftImpute

AUTHORS_STEPS = 100
"""Most iterations of an estimation, as in the authors' program."""


class Completion(NamedTuple):
    """Completed matrices.

    Attributes:
        matrix: (..., B, A).
        mask: (..., B, A), bool: the observed entries.
        estimate: (..., B, A), the estimate of every entry, in the units of the values.
        rank: (...), ranks of the estimates.
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


@dataclass(frozen=True, kw_only=True)
class StructuredTargets:
    """Sub-sample and complete matrices of values, (K, B, A) -> (K, B, A).

    The defaults are the settings that our runs favour; `AUTHORS_WAY` has the authors' settings.

    Attributes:
        p: Probability in (0, 1] that an entry is observed.
        rise: Updates over which p rises linearly to 1; 0 keeps p constant.
        estimator: Any estimator of `svrl.matrix`; leave its own output and centring at their defaults.
        scale: "none", "minmax" or "row", as above.
        output: "fill" keeps the observed entries, bit for bit, as in the authors' program; "estimate" takes all
            entries from the estimator, as in the paper's text.
        next_value_from: "completed" or "network": how an agent uses the matrix, see `svrl.agents.targets`.
    """

    p: float = 0.9
    rise: int = 0
    estimator: Estimator = field(default_factory=lambda: SoftImpute(tolerance=1e-3, max_steps=AUTHORS_STEPS))
    scale: Scale = "row"
    output: Output = "fill"
    next_value_from: Value = "network"

    def __post_init__(self) -> None:
        if not callable(self.estimator):
            raise ValueError(f"StructuredTargets needs an estimator such as SoftImpute(), got {self.estimator!r}.")
        if not isinstance(self.p, float | int) or not 0.0 < self.p <= 1.0:
            raise ValueError(f"StructuredTargets needs a probability p in (0, 1], got {self.p}.")
        if self.rise < 0:
            raise ValueError(f"StructuredTargets needs rise >= 0 updates, got {self.rise}.")
        for name in ("scale", "output", "next_value_from"):
            if getattr(self, name) not in CHOICES[name]:
                words, got = ", ".join(CHOICES[name]), getattr(self, name)
                raise ValueError(f"StructuredTargets needs {name} to be one of {words}, got {got!r}.")

    @classmethod
    def from_config(cls, config: AgentConfig) -> StructuredTargets | None:
        """The rule of a configuration; None for a plain agent.

        Raises:
            ValueError: If there is no such estimator, or its rank is missing.
        """
        if not config.structured:
            return None
        name, rank = config.estimator, config.rank
        if name not in ESTIMATORS:
            raise ValueError(f"There is no estimator {name!r}. Choose one of {', '.join(ESTIMATORS)}.")
        if rank and name not in ("hard-impute", "factor-als"):
            raise ValueError(f"{name} has no rank to set, only hard-impute and factor-als have one; got rank {rank}.")
        if name == "hard-impute" and not rank:
            raise ValueError("hard-impute cannot find the rank by itself: set rank to 1 or more, got 0.")
        options: dict[str, Any] = {"rank": rank} if rank else {}
        if name == "soft-impute":
            options = {"ratio": config.ratio, "tolerance": config.tolerance, "max_steps": AUTHORS_STEPS}
        return cls(
            p=config.p,
            rise=config.p_rise,
            estimator=ESTIMATORS[name](**options),
            scale=config.scale,
            output=config.output,
            next_value_from=config.next_value_from,
        )

    def captures(self, batch_size: int, n_actions: int, device: torch.device) -> bool:
        """Whether a CUDA graph can contain the estimation: that of Soft-Impute, if its kernel takes the matrices."""
        return isinstance(self.estimator, SoftImpute) and self.estimator.captures(batch_size, n_actions, device)

    def probability(self, updates: int) -> float:
        """p after this many updates."""
        if self.rise == 0:
            return self.p
        return min(1.0, self.p + (1.0 - self.p) * updates / self.rise)

    def __call__(
        self, q: Tensor, generator: torch.Generator, *, updates: int = 0, action_mask: Tensor | None = None
    ) -> Completion:
        """Complete matrices of values.

        Args:
            q: (B, A), or (K, B, A) for K updates in a row; does not change.
            generator: Draws the masks, on q's device.
            updates: Updates before the first of these.
            action_mask: bool, of q's shape: the valid actions; None if all are valid.
        """
        check_values(q)
        if not isinstance(generator, torch.Generator):
            raise ValueError(
                f"StructuredTargets draws masks from a torch.Generator on {q.device}, got {type(generator).__name__}."
            )
        return self.complete(q, self.draw(q.shape, generator, updates=updates), action_mask)

    def draw(self, shape: tuple[int, ...], generator: torch.Generator, *, updates: int = 0) -> Tensor:
        """Draw the observed entries of matrices (B, A), or (K, B, A) for K updates, on the generator's device."""
        uniform = torch.rand(shape, generator=generator, device=generator.device)
        if self.rise and len(shape) == 3:
            steps = torch.tensor([self.probability(updates + k) for k in range(shape[0])])
            return uniform < pinned(steps, uniform).to(uniform.device, non_blocking=True).view(-1, 1, 1)
        return uniform < self.probability(updates)

    def complete(self, q: Tensor, mask: Tensor, action_mask: Tensor | None = None) -> Completion:
        """Complete matrices (..., B, A) from the entries in `mask`.

        Half precision is computed in float32. On a GPU Soft-Impute needs one launch for everything.

        Args:
            q: The matrices.
            mask: bool, of q's shape: the observed entries.
            action_mask: bool, of q's shape: the valid actions. The others are never observed and keep their values,
                which may be anything, including -inf.
        """
        if q.dtype in (torch.float16, torch.bfloat16):
            whole = self.complete(q.float(), mask, action_mask)
            return whole._replace(matrix=whole.matrix.to(q.dtype))  # observed entries come back bit for bit
        if action_mask is not None:
            # The row's best valid action stands in for the others, and the matrix's best in a row that has no valid
            # action (a terminal state): invalid entries must not change the range of the scaling.
            best = q.masked_fill(~action_mask, -torch.inf).amax(-1, keepdim=True)
            best = torch.where(action_mask.any(-1, keepdim=True), best, best.amax(-2, keepdim=True))
            whole = self.complete(torch.where(action_mask, q, best), mask & action_mask)
            return whole._replace(matrix=torch.where(action_mask, whole.matrix, q))
        found = complete_scaled(self.estimator, q, mask, scale=self.scale, fill=self.output == "fill")
        return Completion(found.matrix, mask, found.estimate, found.rank, found.code)


OUR_WAY = StructuredTargets()
AUTHORS_WAY = StructuredTargets(**AUTHORS_STRUCTURE)
"""The settings of the authors' program: `scale` "minmax", `next_value_from` "completed"."""


def check_values(q: object) -> None:
    """Raise ValueError unless q is a tensor of matrices (..., B, A) of floating-point numbers."""
    if not isinstance(q, Tensor):
        raise ValueError(f"StructuredTargets takes a torch tensor (..., B, A), got {type(q).__name__}.")
    if q.ndim < 2 or 0 in q.shape or not q.dtype.is_floating_point:
        kind = str(q.dtype).removeprefix("torch.")
        raise ValueError(
            f"StructuredTargets takes floating-point matrices (..., B, A), none of them empty; got {kind} of shape "
            f"{tuple(q.shape)}."
        )
