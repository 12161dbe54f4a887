"""Tianshou 2's Q-learning with structure.

    StructuredDQN(policy=policy, optim=optim, ...)                    in place of DQN(policy=policy, optim=optim, ...)
    StructuredDQN(policy=policy, optim=optim, structure=0.5, ...)     p = 0.5
    RankLog(algorithm)                                                ranks in what the library logs, structure or not

Everything else is the library's. While an algorithm asks its policy for the values of next states, a forward hook on
the policy changes the answer, once for each update; returns over n steps, discounts, priorities and losses are then
the library's own code.

| algorithm        | what is completed                                                                           |
|------------------|---------------------------------------------------------------------------------------------|
| DQN              | values (B, A), as the table of `svrl.agents.targets` says; `is_double` is its "double"      |
| QRDQN, IQN       | means of the quantiles (B, A); all quantiles of an action move by what its mean moved       |
| C51, RainbowDQN  | expected values of the online network (B, A), which choose; distributions stay as they are  |

With value "network" QRDQN and IQN let the online network's completed means choose, and keep the target network's
quantiles. C51 and Rainbow need that value: a distribution over fixed atoms cannot be
moved. Dueling is a matter of the network. BDQN and FQF have no structured form here.

Masks are drawn from `seed` and the number of updates, a buffer of the algorithm: `state_dict` holds it. No random
number of the library's is used, so p = 1 with output "fill" gives exactly its own result.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any

import torch
from torch import Tensor

from svrl.agents.structured_targets import OUR_WAY, StructuredTargets
from svrl.integrations.pytorch import rule_of, structured, structured_quantiles
from svrl.integrations.rank_monitor import ranks_of
from svrl.integrations.versions import LIBRARIES, require

require("tianshou")
from tianshou.algorithm import BDQN, C51, DQN, IQN, QRDQN, RainbowDQN  # noqa: E402
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy, QLearningOffPolicyAlgorithm  # noqa: E402
from tianshou.data import Batch, to_numpy  # noqa: E402

RANKS = ("rank_99", "rank_9999", "row_centred_rank_99")


class StructuredLearning(QLearningOffPolicyAlgorithm):
    """What the structured algorithms share. No algorithm by itself.

    Attributes:
        structure_seed: For the masks.
        structure_updates: Made so far, a 0-d int64 tensor; there is none before the first structure.
    """

    structure_updates: Tensor
    _bootstrap = "_target_q"
    """The method that asks the policy for the next states."""

    def __init__(
        self, *, structure: StructuredTargets | float | None = OUR_WAY, seed: int = 0, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.structure_seed, self._completions = seed, 0
        self._set_structure(structure)

    @property
    def structure(self) -> StructuredTargets | None:
        """What is done to the values of next states; None does nothing. A probability p can be assigned, too."""
        return self._rule

    @structure.setter
    def structure(self, structure: StructuredTargets | float | None) -> None:
        self._set_structure(structure)

    def _set_structure(self, structure: StructuredTargets | float | None) -> None:
        rule = rule_of(structure)
        if rule is not None and not hasattr(self, "structure_updates"):
            _check(self)
            self.register_buffer("structure_updates", torch.zeros((), dtype=torch.int64))
        self._rule = rule

    def _preprocess_batch(self, batch: Any, buffer: Any, indices: Any) -> Any:
        self._completions = 0  # an update that was interrupted leaves one behind
        return super()._preprocess_batch(batch, buffer, indices)

    def _target_q(self, buffer: Any, indices: Any) -> Tensor:
        if self._bootstrap == "_target_q":
            return self._structured(super()._target_q, buffer, indices)
        return super()._target_q(buffer, indices)

    def _structured(self, bootstrap: Callable[..., Tensor], *arguments: Any) -> Tensor:
        """What the library computes from a policy whose answers are structured."""
        if self.structure is None:
            return bootstrap(*arguments)
        before = self._completions
        hook = self.policy.register_forward_hook(self._replace, with_kwargs=True)
        try:
            result = bootstrap(*arguments)
        finally:
            hook.remove()
        if self._completions != before + 1:
            raise RuntimeError(
                f"{type(self).__name__} completes one matrix for each batch, and this one took "
                f"{self._completions - before}. Tianshou asks for next states in another way than "
                f"{LIBRARIES['tianshou'].range} did."
            )
        return result

    def _replace(self, policy: Any, positional: Any, named: dict[str, Any], answer: Batch) -> Batch | None:
        """Structure in a policy's answer, or None where the answer stays."""
        rule, double = self.structure, getattr(self, "is_double", True)
        assert rule is not None
        alone = not self.use_target_network
        online, target = alone or named.get("model") is None, alone or named.get("model") is self.model_old
        if rule.value == "completed" and target:
            answer.logits = self._completed(answer.logits)
        elif rule.value == "network" and not double and target:
            # The library takes the maximum, and finds the network's value of the chosen action only.
            chosen = self._completed(answer.logits).argmax(1, keepdim=True)
            others = torch.ones_like(answer.logits, dtype=torch.bool).scatter(1, chosen, value=False)
            answer.logits = answer.logits.masked_fill(others, -torch.inf)
        elif rule.value == "network" and double and online:
            values = self._completed(policy.compute_q_value(answer.logits, None))
            allowed = getattr(positional[0].obs, "mask", None)
            answer.act = to_numpy(DiscreteQLearningPolicy.compute_q_value(policy, values, allowed).argmax(dim=1))
        else:
            return None
        self._completions += 1
        return answer

    def _completed(self, values: Tensor) -> Tensor:
        """Of values (B, A) or, as the library keeps them, quantiles (B, A, N)."""
        settings: dict[str, Any] = {
            "seed": self.structure_seed,
            "updates": self.structure_updates,
            "rule": self.structure,
        }
        if values.ndim == 3:
            return structured_quantiles(values.transpose(1, 2), **settings).transpose(1, 2)
        return structured(values, **settings)

    def _update_with_batch(self, batch: Any) -> Any:
        stats = super()._update_with_batch(batch)
        if self.structure is not None:
            if self._completions == 0:
                raise RuntimeError(
                    f"{type(self).__name__} made an update without structure: Tianshou did not call "
                    f"{self._bootstrap}, as {LIBRARIES['tianshou'].range} does."
                )
            self._completions = 0
            self.structure_updates += 1
        return stats


class StructuredDQN(StructuredLearning, DQN):
    """DQN, double as in the library unless is_double=False, whose next states are valued by a completed matrix.

    Takes all that DQN takes, and `structure` (a `StructuredTargets`, a probability p, or None for no structure) and
    `seed`, for the masks.
    """


class StructuredQRDQN(StructuredLearning, QRDQN):
    """QR-DQN structured through the means of its quantiles. Takes all that QRDQN takes, `structure` and `seed`."""


class StructuredIQN(StructuredLearning, IQN):
    """IQN structured through the means of its samples. Takes all that IQN takes, `structure` and `seed`."""


class StructuredCategorical(StructuredLearning):
    """What C51 and Rainbow share. No algorithm by itself."""

    _bootstrap = "_target_dist"

    def _set_structure(self, structure: StructuredTargets | float | None) -> None:
        rule = rule_of(structure)
        if rule is not None and rule.value != "network":
            raise ValueError(
                f"{type(self).__name__} keeps distributions as they are, so structure can only choose: "
                f"give StructuredTargets(value='network'), got value={rule.value!r}."
            )
        super()._set_structure(rule)

    def _target_dist(self, batch: Any) -> Tensor:
        return self._structured(super()._target_dist, batch)


class StructuredC51(StructuredCategorical, C51):
    """C51 whose next actions are chosen by completed expected values. Takes all that C51 takes, and two more."""


class StructuredRainbow(StructuredCategorical, RainbowDQN):
    """Rainbow whose next actions are chosen by completed expected values. Takes all that RainbowDQN takes, and two
    more.
    """


class RankLog:
    """Approximate ranks of next states' values, before they are completed, among the statistics of an update.

    The trainer logs them with the loss, as update/rank_99 and so on. Any Q-learning algorithm with values (B, A) can
    be watched, structured or not; means count where it has quantiles or atoms.
    """

    def __init__(self, algorithm: QLearningOffPolicyAlgorithm, *, every: int = 100) -> None:
        """Attach it.

        Args:
            algorithm: Is watched until `remove`.
            every: Updates after which ranks are computed again; those in between carry the last ones.
        """
        if not isinstance(algorithm, QLearningOffPolicyAlgorithm) or isinstance(algorithm, BDQN):
            raise ValueError(
                "RankLog watches a Q-learning algorithm with values (B, A), such as DQN, "
                f"got {type(algorithm).__name__}."
            )
        if every < 1:
            raise ValueError(f"RankLog computes ranks every 1 or more updates, got every={every}.")
        self.every, self.updates = every, 0
        self.ranks: dict[str, float] = {}
        self._algorithm = algorithm
        self._bootstrap = "_target_dist" if isinstance(algorithm, C51) else "_target_q"
        self._values: Tensor | None = None
        self._stats: type | None = None  # the library logs the fields of a dataclass
        if "_update_with_batch" in vars(algorithm):
            raise ValueError("This algorithm is watched already. Remove its RankLog before attaching another.")
        setattr(algorithm, self._bootstrap, self._asked)
        algorithm._update_with_batch = self._updated

    def remove(self) -> None:
        """Detach it."""
        for name in (self._bootstrap, "_update_with_batch"):
            vars(self._algorithm).pop(name, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_values": None, "_stats": None}  # the library saves whole algorithms

    def _asked(self, *arguments: Any) -> Tensor:
        hook = self._algorithm.policy.register_forward_hook(self._look)
        try:
            return getattr(type(self._algorithm), self._bootstrap)(self._algorithm, *arguments)
        finally:
            hook.remove()

    def _look(self, policy: Any, positional: Any, answer: Any) -> None:
        self._values = answer.logits  # the target network is asked last

    def _updated(self, batch: Any) -> Any:
        stats = type(self._algorithm)._update_with_batch(self._algorithm, batch)
        if self._values is None:
            raise RuntimeError(f"RankLog saw no value of a next state. Install Tianshou {LIBRARIES['tianshou'].range}.")
        if self.updates % self.every == 0:
            self.ranks = ranks_of(self._algorithm.policy.compute_q_value(self._values, None))
        self.updates += 1
        known = {field.name: getattr(stats, field.name) for field in fields(stats)}
        if self._stats is None:
            more = [(name, float | None, None) for name in RANKS]
            self._stats = make_dataclass("StatsWithRanks", more, bases=(type(stats),), kw_only=True)
        return self._stats(**known, **self.ranks)


def _check(algorithm: StructuredLearning) -> None:
    """Refuse a library that works in another way."""
    policy = algorithm.policy
    for there, what in (
        (isinstance(policy, DiscreteQLearningPolicy), "a policy of the kind DiscreteQLearningPolicy"),
        (callable(getattr(policy, "compute_q_value", None)), "compute_q_value of its policy"),
        ("model" in inspect.signature(policy.forward).parameters, "the argument model of its policy"),
        (callable(getattr(algorithm, algorithm._bootstrap, None)), algorithm._bootstrap),
        (callable(getattr(algorithm, "_preprocess_batch", None)), "_preprocess_batch"),
        (callable(getattr(algorithm, "_update_with_batch", None)), "_update_with_batch"),
        (hasattr(algorithm, "model_old") and hasattr(algorithm, "use_target_network"), "its target network"),
        (not isinstance(algorithm, DQN) or hasattr(algorithm, "is_double"), "is_double"),
    ):
        if not there:
            raise RuntimeError(
                f"{type(algorithm).__name__} relies on {what}, which is not there. "
                f"Install Tianshou {LIBRARIES['tianshou'].range}."
            )
