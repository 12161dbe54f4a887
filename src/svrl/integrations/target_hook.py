"""Structure as a hook on a target network: for scripts that cannot or shall not be touched elsewhere.

    structure(target_network)            before the training loop of a script in the manner of CleanRL

Whatever the target network says from then on is completed before the script sees it, once for each of its calls. So
it fits agents that ask the target network for nothing but the values of next states, and take their maximum or the
value of an action that the online network chose: DQN and double DQN, dueling or not, n-step or not.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.pytorch import rule_of, structured, structured_quantiles
from svrl.integrations.rank_monitor import ranks_of

_REPLACING = StructuredTargets(value="completed")
"""Ours as far as values that are replaced can be: rows centred."""


class TargetStructure:
    """A rule, a seed and a count of updates: what an integration has to keep.

    Attributes:
        rule: What is done to values.
        seed: For the masks.
        updates: Batches completed so far.
        quantiles: Whether it is called with quantiles (B, N, A), whose means are completed.
    """

    def __init__(
        self, rule: StructuredTargets | float | None = None, *, seed: int = 0, updates: int = 0, quantiles: bool = False
    ) -> None:
        self.rule = rule_of(rule, usual=_REPLACING) or _REPLACING
        self.seed, self.updates, self.quantiles = seed, updates, quantiles
        self._last: Tensor | None = None

    def __repr__(self) -> str:
        kind = ", quantiles=True" if self.quantiles else ""
        return f"{type(self).__name__}({self.rule!r}, seed={self.seed}, updates={self.updates}{kind})"

    def __call__(self, q: Tensor) -> Tensor:
        """Complete one batch and count it."""
        # A card would have to be waited for, so there only the first batch is looked at; a compiler cannot look.
        looked_at = not torch.compiler.is_compiling() and (self.updates == 0 or not q.is_cuda)
        if looked_at and not bool(torch.isfinite(q).all()):
            raise ValueError(
                "Values that are not finite cannot be completed, and this network gave some. "
                "Mask actions where they are chosen, not in the network; NaN means that training has broken down."
            )
        make = structured_quantiles if self.quantiles else structured
        whole = make(q, seed=self.seed, updates=self.updates, rule=self.rule)
        self._last = q.detach()
        self.updates += 1
        return whole

    def ranks(self) -> dict[str, float]:
        """Approximate ranks of the last batch, before it was completed; nothing before the first."""
        if self._last is None:
            return {}
        return ranks_of(self._last.mean(1) if self.quantiles else self._last)

    def state_dict(self) -> dict[str, int]:
        """What a checkpoint has to hold, so that the run draws on as it would have."""
        return {"seed": self.seed, "updates": self.updates}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on from there."""
        self.seed, self.updates = int(state["seed"]), int(state["updates"])


class TargetHook(TargetStructure):
    """Structure attached to a network, until `remove` or the end of a `with` block."""

    def __init__(
        self, network: nn.Module, rule: StructuredTargets | float | None, *, seed: int, quantiles: bool
    ) -> None:
        super().__init__(rule, seed=seed, quantiles=quantiles)
        if not isinstance(network, nn.Module):
            raise ValueError(f"structure() takes the target network, a torch.nn.Module, got {type(network).__name__}.")
        if any(isinstance(getattr(hook, "__self__", None), TargetHook) for hook in network._forward_hooks.values()):
            raise ValueError("This network is structured already. Remove its hook before attaching another.")
        if self.rule.value == "network":
            raise ValueError(
                "A hook can only replace values, and value='network' keeps them and changes the choice. "
                "Give the rule value='completed', or use structured_values() where the targets are formed."
            )
        self._handle = network.register_forward_hook(self._replace)

    def _replace(self, network: nn.Module, inputs: Any, output: Any) -> Tensor:
        wanted = 3 if self.quantiles else 2
        if not isinstance(output, Tensor) or output.ndim != wanted:
            got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            said = "quantiles (B, N, A)" if self.quantiles else "values (B, A)"
            raise ValueError(
                f"A structured network gives {said}, and this one gave {got}. "
                "Attach the hook to the module whose output the targets are formed from; for quantiles, with "
                "quantiles=True."
            )
        return self(output)

    def remove(self) -> None:
        """Detach it; the network says again what it computes."""
        self._handle.remove()

    def __enter__(self) -> TargetHook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
        if kind is None and self.updates == 0:
            raise ValueError(
                "The structured network was never asked for a value, so nothing was structured. "
                "Attach the hook to the target network itself, not to a copy or a wrapper of it."
            )


def structure(
    target_network: nn.Module, rule: StructuredTargets | float | None = None, *, seed: int = 0, quantiles: bool = False
) -> TargetHook:
    """Complete everything that a target network says.

    Args:
        target_network: Gives values (B, A), or quantiles (B, N, A). `load_state_dict` keeps the hook; a deep
            copy of the network gets a hook of its own.
        rule: What is done to values, with `value` "completed", or the probability p alone; rows are centred if nothing
            is said.
        seed: For the masks.
        quantiles: Whether the network gives quantiles, whose means are completed.

    Returns:
        The hook: `with structure(network): ...` removes it at the end, `hook.remove()` at once; `hook.ranks()` says
        how low-rank the last batch was.
    """
    return TargetHook(target_network, rule, seed=seed, quantiles=quantiles)
