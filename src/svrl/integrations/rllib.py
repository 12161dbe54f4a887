"""RLlib's DQN with structure, on its new API stack.

    StructuredDQNConfig()                                   in place of DQNConfig()
    StructuredDQNConfig().training(structure=0.5)           p = 0.5
    DQNConfig().learners(learner_class=StructuredDQNLearner)        the same for your own configuration

Env runners, replay, priorities, n-step returns and the loss are RLlib's. The learner hands RLlib's own loss another
matrix of values at the next states, and RLlib forms its targets from that. Who chooses and who values is the table of
`svrl.agents.targets`, where `double_q` is its "double"; dueling networks give values as well. With num_atoms > 1 the
expected values of the network that chooses are completed, and the target network's distributions stay.

Where a module gives -inf (or RLlib's FLOAT_MIN) as a value, the action is invalid: the entry is never observed, and
stays. RLlib's own code then neither explores nor chooses it.

Masks are drawn from the configuration's seed and the number of updates, which is in the learner's state and so in
every checkpoint. With several learners each completes the part of the batch that it has, with masks of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from svrl.agents.structured_targets import OUR_WAY, StructuredTargets
from svrl.agents.targets import completes_online
from svrl.integrations.agents import checked_every, rule_of, valid_actions, values_to_maximise
from svrl.integrations.pytorch import structured
from svrl.integrations.target_hook import ranks_of
from svrl.integrations.versions import changed, require

require("ray")
from ray.rllib.algorithms.dqn import DQNConfig  # noqa: E402
from ray.rllib.algorithms.dqn.dqn_learner import QF_NEXT_PREDS, QF_TARGET_NEXT_PREDS  # noqa: E402
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner  # noqa: E402
from ray.rllib.core import COMPONENT_OPTIMIZER  # noqa: E402

RANK_EVERY = 100
"""Updates between two looks at the ranks, if nothing is said."""
_UPDATES = "structured_updates"
_NOT_SAID: Any = object()


class StructuredDQNLearner(DQNTorchLearner):
    """RLlib's DQN learner, whose loss sees completed values at the next states.

    It reads `structure` and `rank_every` from the configuration's `learner_config_dict`; `StructuredDQNConfig` puts
    them there. With structure None it is the plain learner and a rank monitor: rank_99, rank_9999 and
    row_centred_rank_99 of the target network's values, before completion, are logged with the module's losses.

    Attributes:
        structure: What is done to values; None does nothing.
        rank_every: Updates between two looks at the ranks.
        updates: Losses formed so far, for each module.
    """

    def build(self) -> None:
        """RLlib's, and what structure needs to know.

        Raises:
            ValueError: If a setting is wrong, or a network has a memory.
        """
        super().build()
        settings = self.config.learner_config_dict
        self.structure = rule_of(settings.get("structure", OUR_WAY))
        self.rank_every = checked_every(settings.get("rank_every", RANK_EVERY))
        self.updates: dict[str, int] = {}
        self._ranks: dict[str, dict[str, float]] = {}
        self._loss_formed = False
        for name, module in self.module.items():
            if self.structure is not None and module.unwrapped().is_stateful():
                raise ValueError(
                    f"Structure needs a batch of states, and the module {name!r} has a memory and learns from "
                    "sequences. Take a model without an LSTM, or structure=None."
                )

    def compute_loss_for_module(
        self, *, module_id: str, config: DQNConfig, batch: dict[str, Any], fwd_out: dict[str, Any]
    ) -> Tensor:
        """RLlib's loss, of completed values."""
        seen = _Answers(fwd_out)
        updates = self.updates.get(module_id, 0)
        if self.structure is not None:
            seed = (self.config.seed or 0) + (self._learner_index << 32)
            seen.update(_replaced(fwd_out, config, self.structure, seed=seed, updates=updates))
        loss: Tensor = super().compute_loss_for_module(module_id=module_id, config=config, batch=batch, fwd_out=seen)
        if self.structure is not None and _key(config, self.structure) not in seen.asked:
            raise changed("ray", f"RLlib formed a loss without {_key(config, self.structure)!r}")
        self.updates[module_id] = updates + 1
        self._loss_formed = True
        if updates % self.rank_every == 0 or module_id not in self._ranks:
            self._ranks[module_id] = ranks_of(fwd_out[QF_TARGET_NEXT_PREDS])
        # At every update: RLlib forgets a metric that an update does not log.
        self.metrics.log_dict(self._ranks[module_id], key=module_id, window=1)
        return loss

    def apply_gradients(self, gradients_dict: Mapping[Any, Any]) -> None:
        """RLlib's, for a loss that was formed here."""
        if self.structure is not None and not self._loss_formed:
            raise RuntimeError(
                "RLlib makes a step without a loss of this learner, so its targets are not structured. Use a module "
                "without a loss of its own; if it has none, RLlib has changed: use a version that was tested."
            )
        self._loss_formed = False
        super().apply_gradients(gradients_dict)

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """RLlib's, and the number of updates where the optimiser's state is asked for; weights alone have none."""
        state: dict[str, Any] = super().get_state(components, not_components=not_components, **kwargs)
        return {**state, _UPDATES: dict(self.updates)} if COMPONENT_OPTIMIZER in state else state

    def set_state(self, state: dict[str, Any]) -> None:
        """RLlib's, and the number of updates.

        A state with an optimiser is a learner's: a plain one's has no number, and counting begins anew. Weights
        alone leave the number as it is.
        """
        super().set_state(state)
        # A checkpoint keeps the module in a folder of its own, so the optimiser tells a learner's state from weights.
        if COMPONENT_OPTIMIZER in state:
            self.updates = dict(state.get(_UPDATES, {}))


class StructuredDQNConfig(DQNConfig):
    """DQNConfig whose learner is structured; all else is RLlib's."""

    def __init__(self, algo_class: Any = None) -> None:
        super().__init__(algo_class=algo_class)
        # In fields that DQNConfig has, so that they arrive wherever RLlib or Tune turn a configuration into another.
        self.learners(
            learner_class=StructuredDQNLearner,
            learner_config_dict={"structure": OUR_WAY, "rank_every": RANK_EVERY},
        )

    def training(
        self, *, structure: Any = _NOT_SAID, rank_every: Any = _NOT_SAID, **kwargs: Any
    ) -> StructuredDQNConfig:
        """RLlib's settings, and two more.

        Args:
            structure: A `StructuredTargets`, a probability p, or None for the plain agent with ranks.
            rank_every: Updates between two looks at the ranks.
            kwargs: Whatever DQNConfig.training takes.

        Raises:
            ValueError: If a setting is wrong.
        """
        super().training(**kwargs)
        if structure is not _NOT_SAID:
            self.learners(learner_config_dict={"structure": rule_of(structure)})
        if rank_every is not _NOT_SAID:
            self.learners(learner_config_dict={"rank_every": checked_every(rank_every)})
        return self

    def validate(self) -> None:
        """RLlib's checks, and that the structured learner will be the one that learns.

        Raises:
            ValueError: If not.
        """
        super().validate()
        if not self.enable_rl_module_and_learner:
            raise ValueError(
                "StructuredDQNConfig needs RLlib's new API stack, and it is switched off. "
                "Leave enable_rl_module_and_learner=True."
            )
        if not issubclass(self.learner_class, StructuredDQNLearner):
            raise ValueError(
                f"StructuredDQNConfig needs a learner that is structured, got {self.learner_class.__name__}. "
                "Let it inherit from StructuredDQNLearner."
            )


class _Answers(dict[str, Any]):
    """What the networks said, and what of it was asked for."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        super().__init__(said)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)


def _key(config: DQNConfig, rule: StructuredTargets) -> str:
    """Whose values are completed; the module has the table."""
    value = "network" if config.num_atoms > 1 else rule.next_value_from
    return QF_NEXT_PREDS if completes_online(config.double_q, value) else QF_TARGET_NEXT_PREDS


def _replaced(
    fwd_out: Mapping[str, Any], config: DQNConfig, rule: StructuredTargets, *, seed: int, updates: int
) -> dict[str, Tensor]:
    """Other values, under the name by which RLlib's loss asks for them."""
    key = _key(config, rule)
    for name in (QF_TARGET_NEXT_PREDS, key):  # one network chooses, and the other may value
        said = fwd_out.get(name)
        if not isinstance(said, Tensor) or said.ndim != 2:
            got = tuple(said.shape) if isinstance(said, Tensor) else type(said).__name__
            raise ValueError(f"Structure needs values (B, A) under {name!r} of a module's forward_train, got {got}.")
    replace = structured if key == QF_NEXT_PREDS else values_to_maximise
    valid = valid_actions(fwd_out[key])
    action_mask = None if bool(valid.all()) else valid
    return {key: replace(fwd_out[key], rule=rule, seed=seed, updates=updates, action_mask=action_mask)}
