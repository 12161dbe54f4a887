"""Tianshou 2's Q-learning with structure.

    StructuredDQN(policy=policy, optim=optim, ...)                    in place of DQN(policy=policy, optim=optim, ...)
    StructuredDQN(policy=policy, optim=optim, structure=0.5, ...)     p = 0.5
    StructuredDQN(policy=policy, optim=optim, structure=None, ...)    the library's own agent, and its ranks

Everything else is the library's. While an algorithm asks its policy for the values of next states, a forward hook on
the policy changes the answer, once for each update; returns over n steps, discounts, priorities and losses are then
the library's own code.

| algorithm        | what is completed                                                                           |
|------------------|---------------------------------------------------------------------------------------------|
| DQN              | values (B, A), as the table of `svrl.agents.targets` says; `is_double` is its "double"      |
| QRDQN, IQN       | means of the quantiles (B, A); all quantiles of an action move by what its mean moved       |
| C51, RainbowDQN  | expected values of the online network (B, A), which choose; distributions stay as they are  |

With value "network" QRDQN and IQN let the online network's completed means choose, and keep the target network's
quantiles. For C51 and Rainbow `next_value_from` is ignored: a distribution over fixed atoms cannot be
moved. Dueling is a matter of the network. BDQN and FQF have no structured form here.

Where observations have a mask of valid actions, `obs.mask`, the others are never observed and never chosen.

Approximate ranks of the next states' values, before they are completed, are among the statistics of an update, which
the trainer logs: update/rank_99 and so on. Means count where there are quantiles or atoms.

Masks are drawn from `seed` and the number of updates, a buffer of the algorithm: `state_dict` holds it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any

import torch
from torch import Tensor

from svrl.agents.structured_targets import OUR_WAY, StructuredTargets
from svrl.agents.targets import completes_online, only_valid
from svrl.integrations.agents import StructuredModule, checked_every, values_to_maximise
from svrl.integrations.pytorch import structured
from svrl.integrations.target_hook import RANKS, ranks_of
from svrl.integrations.versions import require

require("tianshou")
from tianshou.algorithm import C51, DQN, IQN, QRDQN, RainbowDQN  # noqa: E402
from tianshou.algorithm.modelfree.dqn import QLearningOffPolicyAlgorithm  # noqa: E402
from tianshou.data import Batch, to_numpy  # noqa: E402


class StructuredLearning(StructuredModule, QLearningOffPolicyAlgorithm):
    """What the structured algorithms share. No algorithm by itself.

    Each takes all that the library's class takes, and three more: `structure`, a `StructuredTargets`, a probability p,
    or None for no structure; `seed`, for the masks; and `rank_every`, updates after which ranks are computed again,
    the ones in between carry the last ones.

    Attributes:
        ranks: The last ones that were computed.
    """

    _atoms = False

    def __init__(
        self,
        *,
        structure: StructuredTargets | float | None = OUR_WAY,
        seed: int = 0,
        rank_every: int = 100,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.structure_seed = seed
        self.rank_every, self._updates_seen = checked_every(rank_every), 0
        self.ranks: dict[str, float] = {}
        self._values: Tensor | None = None
        self.structure = structure

    def _preprocess_batch(self, batch: Any, buffer: Any, indices: Any) -> Any:
        self._completions = 0  # an update that was interrupted leaves one behind
        return super()._preprocess_batch(batch, buffer, indices)

    def _target_q(self, buffer: Any, indices: Any) -> Tensor:
        return self._structured(super()._target_q, buffer, indices)

    def _structured(self, bootstrap: Callable[..., Tensor], *arguments: Any) -> Tensor:
        """What the library computes from a policy whose answers are structured."""
        with self.policy.register_forward_hook(self._replace, with_kwargs=True):
            return bootstrap(*arguments)

    def _replace(self, policy: Any, positional: Any, named: dict[str, Any], answer: Batch) -> Batch | None:
        """Structure in a policy's answer, or None where the answer stays."""
        self._values = answer.logits.detach()  # the target network is asked last
        rule, double = self.structure, getattr(self, "is_double", True)
        if rule is None:
            return None
        alone = not self.use_target_network
        online, target = alone or named.get("model") is None, alone or named.get("model") is self.model_old
        chooses = self._atoms or completes_online(double, rule.next_value_from)
        if not (online if chooses else target):
            return None
        valid = getattr(positional[0].obs, "mask", None)
        if valid is not None:
            valid = torch.as_tensor(valid, dtype=torch.bool, device=answer.logits.device)
        if chooses:
            values = self._completed(structured, policy.compute_q_value(answer.logits, None), action_mask=valid)
            answer.act = to_numpy(only_valid(values, valid).argmax(dim=1))
        elif answer.logits.ndim == 3:  # quantiles, which the library keeps as (B, A, N)
            quantiles = answer.logits.transpose(1, 2)
            answer.logits = self._completed(values_to_maximise, quantiles, action_mask=valid).transpose(1, 2)
        else:
            answer.logits = self._completed(values_to_maximise, answer.logits, action_mask=valid)
        return answer

    def _update_with_batch(self, batch: Any) -> Any:
        stats = super()._update_with_batch(batch)
        if self.structure is not None:
            self._end_update("tianshou")
        if self._updates_seen % self.rank_every == 0 and self._values is not None:
            self.ranks = ranks_of(self.policy.compute_q_value(self._values, None))
        self._updates_seen += 1
        known = {field.name: getattr(stats, field.name) for field in fields(stats)}
        kind: Any = type(stats)
        return _with_ranks(kind)(**known, **self.ranks)


class StructuredDQN(StructuredLearning, DQN):
    """DQN, double as in the library unless is_double=False, whose next states are valued by a completed matrix."""


class StructuredQRDQN(StructuredLearning, QRDQN):
    """QR-DQN structured through the means of its quantiles."""


class StructuredIQN(StructuredLearning, IQN):
    """IQN structured through the means of its samples."""


class StructuredCategorical(StructuredLearning):
    """What C51 and Rainbow share, whose `_target_q` asks no network. No algorithm by itself."""

    _atoms = True

    def _target_dist(self, batch: Any) -> Tensor:
        return self._structured(super()._target_dist, batch)


class StructuredC51(StructuredCategorical, C51):
    """C51 whose next actions are chosen by completed expected values."""


class StructuredRainbow(StructuredCategorical, RainbowDQN):
    """Rainbow whose next actions are chosen by completed expected values."""


@functools.cache
def _with_ranks(stats: type) -> type:
    """A class of statistics with ranks: the library logs the fields of a dataclass."""
    ranks = [(name, float | None, None) for name in RANKS]
    return make_dataclass("StatsWithRanks", ranks, bases=(stats,), kw_only=True)
