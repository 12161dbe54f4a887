"""Hooks on a target network: structure, and a look at ranks, for scripts that are touched nowhere else.

    structure(target_network)            before the training loop of a script in the manner of CleanRL
    RankMonitor(target_network)          changes nothing; .ranks() says how low-rank the last values were

Whatever the target network says from then on is completed before the script sees it, once for each of its calls. So
it fits agents that ask the target network for nothing but the values of next states, and take their maximum or the
value of an action that the online network chose: DQN and double DQN, dueling or not, n-step or not.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.agents import rule_of, valid_actions
from svrl.integrations.pytorch import structured, structured_quantiles
from svrl.matrix.rank import approximate_rank

RANKS = ("rank_99", "rank_9999", "row_centred_rank_99")
_REPLACING = StructuredTargets(next_value_from="completed")
"""Ours as far as values that are replaced can be: rows centred."""


def ranks_of(q: Tensor) -> dict[str, float]:
    """Approximate ranks of values (..., B, A), means over the leading axes.

    Nothing if values are not finite, or mark invalid actions (see `valid_actions`): such a matrix has gaps.

    Returns:
        rank_99 (the paper's), rank_9999, and row_centred_rank_99, that of the advantages.
    """
    q = q.detach()
    if not bool((torch.isfinite(q) & valid_actions(q)).all()):
        return {}
    q = q.float()
    ranks = approximate_rank(q), approximate_rank(q, energy=0.9999), approximate_rank(q, centre_rows=True)
    means = (float(torch.as_tensor(rank, dtype=torch.float32).mean()) for rank in ranks)
    return dict(zip(RANKS, means, strict=True))


class RankMonitor:
    """Watches a network and changes nothing, until `remove` or the end of a `with` block.

        with RankMonitor(target_network) as monitor:
            ...
            log(monitor.ranks())

    It keeps a reference to the last output: an update costs nothing more.

    Attributes:
        updates: Batches that the network was asked for.
        quantiles: Whether it gives quantiles (B, N, A), whose means count, and not values (B, A).
    """

    def __init__(self, network: nn.Module, *, quantiles: bool = False) -> None:
        name = type(self).__name__
        if not isinstance(network, nn.Module):
            raise ValueError(f"{name} takes the target network, a torch.nn.Module, got {type(network).__name__}.")
        self.updates, self.quantiles = 0, quantiles
        self._last: Tensor | None = None
        self._handle = network.register_forward_hook(self._see)

    def _see(self, network: nn.Module, inputs: Any, output: Any) -> Tensor | None:
        """Look at an output, or replace it."""
        if isinstance(output, Tensor):
            self._last = output.detach()
            self.updates += 1
        return None

    def ranks(self) -> dict[str, float]:
        """Approximate ranks of the last batch, as the network gave it; nothing before the first. See `ranks_of`."""
        if self._last is None:
            return {}
        return ranks_of(self._last.mean(1) if self.quantiles else self._last)

    def remove(self) -> None:
        """Detach it; the network says again what it computes."""
        self._handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.remove()


class TargetHook(RankMonitor):
    """Structure attached to a network, by `structure`.

    Attributes:
        rule: What is done to values.
        seed: For the masks.
        updates: Batches completed so far.
    """

    def __init__(
        self, network: nn.Module, rule: StructuredTargets | float | None, *, seed: int, quantiles: bool
    ) -> None:
        self.rule = rule_of(rule, usual=_REPLACING) or _REPLACING
        self.seed = seed
        hooks = network._forward_hooks.values() if isinstance(network, nn.Module) else ()
        if any(isinstance(getattr(hook, "__self__", None), TargetHook) for hook in hooks):
            raise ValueError("This network is structured already. Remove its hook before attaching another.")
        if self.rule.next_value_from == "network":
            raise ValueError(
                "A hook can only replace values, and value='network' keeps them and changes the choice. "
                "Give the rule value='completed', or use structured_values() where the targets are formed."
            )
        super().__init__(network, quantiles=quantiles)

    def __repr__(self) -> str:
        kind = ", quantiles=True" if self.quantiles else ""
        return f"TargetHook({self.rule!r}, seed={self.seed}, updates={self.updates}{kind})"

    def _see(self, network: nn.Module, inputs: Any, output: Any) -> Tensor:
        wanted = 3 if self.quantiles else 2
        if not isinstance(output, Tensor) or output.ndim != wanted:
            got = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            said = "quantiles (B, N, A)" if self.quantiles else "values (B, A)"
            raise ValueError(
                f"A structured network gives {said}, and this one gave {got}. "
                "Attach the hook to the module whose output the targets are formed from; for quantiles, with "
                "quantiles=True."
            )
        # A GPU would have to be waited for, so there only the first batch is looked at; a compiler cannot look.
        looked_at = not torch.compiler.is_compiling() and (self.updates == 0 or not output.is_cuda)
        if looked_at and not bool(torch.isfinite(output).all()):
            raise ValueError(
                "Values that are not finite cannot be completed, and this network gave some. "
                "Mask actions where they are chosen, not in the network; NaN means that training has broken down."
            )
        make = structured_quantiles if self.quantiles else structured
        whole = make(output, seed=self.seed, updates=self.updates, rule=self.rule)
        self._last = output.detach()
        self.updates += 1
        return whole

    def state_dict(self) -> dict[str, int]:
        """What a checkpoint has to hold, so that the run draws on as it would have."""
        return {"seed": self.seed, "updates": self.updates}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume from there."""
        self.seed, self.updates = int(state["seed"]), int(state["updates"])

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
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
        rule: What is done to values, with `next_value_from` "completed", or the probability p alone; the default
            centres rows.
        seed: For the masks.
        quantiles: Whether the network gives quantiles, whose means are completed.

    Returns:
        The hook: `with structure(network): ...` removes it at the end, `hook.remove()` at once; `hook.ranks()` says
        how low-rank the last batch was.
    """
    return TargetHook(target_network, rule, seed=seed, quantiles=quantiles)
