"""RLlib's learner and configuration, structured, against its own; no cluster runs."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("ray", reason="RLlib is not installed here; make test-integrations installs it")

from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.dqn.dqn_catalog import DQNCatalog
from ray.rllib.algorithms.dqn.dqn_learner import QF_NEXT_PREDS, QF_PREDS, QF_TARGET_NEXT_PREDS, QF_TARGET_NEXT_PROBS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.core.rl_module.apis import SelfSupervisedLossAPI
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
from ray.rllib.utils.torch_utils import FLOAT_MIN
from tests.integrations.rllib_rig import (
    ACTIONS,
    MODULE,
    SEED,
    SMALL,
    Wheel,
    batch,
    flat_weights,
    learner,
    settled,
    update,
)

from svrl.agents.structured_targets import StructuredTargets
from svrl.heads import LowRankHead, ridge_in_backward, ridge_of
from svrl.integrations.pytorch import structured, structured_values
from svrl.integrations.rllib import StructuredDQNConfig, StructuredDQNLearner


@pytest.mark.parametrize("value", ["completed", "network"])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("n_step", [1, 3])
def test_the_loss_is_that_of_structured_targets_by_hand(value: str, double: bool, n_step: int) -> None:
    rule = StructuredTargets(p=0.5, next_value_from=value, scale="row")
    one = learner(structure=rule, double_q=double)
    for number in range(6):
        data = batch(number, n_step=n_step)[MODULE]
        data = {key: torch.as_tensor(column) for key, column in data.items()}
        with torch.no_grad():
            said = one.module[MODULE].forward_train(data)
        worth = structured_values(
            said[QF_TARGET_NEXT_PREDS],
            online_q=said[QF_NEXT_PREDS] if double else None,
            rule=rule,
            seed=SEED,
            updates=number,
        )
        targets = data["rewards"] + 0.99**n_step * (1 - data["terminateds"].float()) * worth
        chosen = said[QF_PREDS].gather(1, data["actions"][:, None]).squeeze(1)
        losses = torch.nn.functional.huber_loss(chosen, targets, reduction="none")
        found = update(one, number, n_step=n_step)
        assert found["qf_loss"] == pytest.approx(float((data["weights"] * losses).mean()), rel=1e-5)
        assert found["td_error_mean"] == pytest.approx(float((chosen - targets).abs().mean()), rel=1e-5)
    assert one.updates == {MODULE: 6}


class Masked(DefaultDQNTorchRLModule):
    """Two actions are invalid where the first number is positive, and all of them where the second is large."""

    invalid = -torch.inf

    def _qf_forward_helper(self, batch: dict, encoder: object, head: object) -> dict:
        said = super()._qf_forward_helper(batch, encoder, head)
        obs, first = batch["obs"], torch.arange(ACTIONS) < 2
        invalid = ((obs[:, :1] > 0) & first) | (obs[:, 1:2] > 1.0)
        return {**said, QF_PREDS: said[QF_PREDS].masked_fill(invalid, self.invalid)}


class MaskedByFloatMin(Masked):
    invalid = FLOAT_MIN


def masked_learner(module: type, config: DQNConfig | None = None, **training: object) -> DQNTorchLearner:
    spec = RLModuleSpec(module_class=module, model_config=SMALL)
    return (
        settled(config or StructuredDQNConfig(), **training).rl_module(rl_module_spec=spec).build_learner(env=Wheel())
    )


@pytest.mark.parametrize("module", [Masked, MaskedByFloatMin])
@pytest.mark.parametrize("value", ["completed", "network"])
@pytest.mark.parametrize("double", [False, True])
def test_invalid_actions_are_neither_observed_nor_chosen(module: type, value: str, double: bool) -> None:
    rule = StructuredTargets(p=0.5, next_value_from=value)
    one = masked_learner(module, structure=rule, double_q=double)
    for number in range(4):
        data = {key: torch.as_tensor(column) for key, column in batch(number)[MODULE].items()}
        none_valid = data["new_obs"][:, 1] > 1.0
        data["obs"][:, 1] = 0.0
        data["actions"][:] = 3
        data["terminateds"] |= none_valid
        with torch.no_grad():
            said = one.module[MODULE].forward_train(data)
        target, online = said[QF_TARGET_NEXT_PREDS], said[QF_NEXT_PREDS] if double else None
        valid = target > -1e30
        assert bool(none_valid.any())
        assert torch.equal(~valid.any(-1), none_valid)
        worth = structured_values(
            target.nan_to_num(neginf=7.0),
            online_q=online,
            rule=rule,
            seed=SEED,
            updates=number,
            action_mask=valid,
        )
        worth = torch.where(none_valid, 0.0, worth)
        targets = data["rewards"] + 0.99 * (1 - data["terminateds"].float()) * worth
        chosen = said[QF_PREDS][:, 3]
        losses = torch.nn.functional.huber_loss(chosen, targets, reduction="none")
        columns = SampleBatch({key: column.numpy() for key, column in data.items()})
        found = one.update(
            batch=MultiAgentBatch({MODULE: columns}, env_steps=len(targets)),
            timesteps={"num_env_steps_sampled_lifetime": 110 * number},
        )[MODULE]
        assert found["qf_loss"].peek() == pytest.approx(float((data["weights"] * losses).mean()), rel=1e-5)
        assert "rank_99" not in found


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("rule", [StructuredTargets(p=1.0), StructuredTargets(p=1.0, next_value_from="completed")])
def test_masked_with_nothing_hidden_is_the_library(double: bool, rule: StructuredTargets) -> None:
    plain = masked_learner(Masked, DQNConfig(), double_q=double)
    ours = masked_learner(Masked, structure=rule, double_q=double)
    for number in range(8):
        update(plain, number)
        update(ours, number)
    assert torch.equal(flat_weights(plain), flat_weights(ours))


def projected(probabilities: np.ndarray, reward: float, gamma: float, atoms: np.ndarray) -> np.ndarray:
    """The distribution of reward + gamma * Z on the atoms: each mass goes to its two neighbours."""
    result = np.zeros_like(atoms)
    for mass, atom in zip(probabilities, np.clip(reward + gamma * atoms, atoms[0], atoms[-1]), strict=True):
        place = (atom - atoms[0]) / (atoms[1] - atoms[0])
        low = int(np.floor(place))
        high = min(low + 1, len(atoms) - 1)
        result[low] += mass * (1 - (place - low))
        result[high] += mass * (place - low)
    return result


@pytest.mark.parametrize("double", [False, True])
def test_a_distribution_is_chosen_by_completed_expectations(double: bool) -> None:
    rule = StructuredTargets(p=0.5)
    one = learner(structure=rule, double_q=double, num_atoms=11, v_min=-2.0, v_max=2.0)
    atoms = np.linspace(-2.0, 2.0, 11)
    for number in range(3):
        data = {key: torch.as_tensor(column) for key, column in batch(number)[MODULE].items()}
        with torch.no_grad():
            said = one.module[MODULE].forward_train(data)
        choosing = said[QF_NEXT_PREDS if double else QF_TARGET_NEXT_PREDS]
        choice = structured(choosing, rule=rule, seed=SEED, updates=number).argmax(-1)
        rows = torch.arange(len(choice))
        kept = said[QF_TARGET_NEXT_PROBS][rows, choice].double().numpy()
        discounts = 0.99 * (1 - data["terminateds"].double().numpy())
        wanted = [projected(*row, atoms) for row in zip(kept, data["rewards"].double().numpy(), discounts, strict=True)]
        logs = said["qf_logits"][rows, data["actions"]].double().log_softmax(-1)
        losses = -(torch.tensor(np.stack(wanted)) * logs).sum(-1)
        assert update(one, number)["qf_loss"] == pytest.approx(float((data["weights"] * losses).mean()), rel=1e-5)


def test_a_state_holds_the_number_of_updates_and_weights_alone_do_not() -> None:
    first, second = learner(structure=0.5), learner(structure=0.5)
    for number in range(5):
        update(first, number)
    second.set_state(copy.deepcopy(first.get_state()))
    assert update(first, 5)["qf_loss"] == update(second, 5)["qf_loss"]
    assert first.updates == second.updates == {MODULE: 6}
    plain = learner(DQNConfig())
    second.set_state(plain.get_state(components="rl_module"))
    assert torch.equal(flat_weights(second), flat_weights(plain))
    assert second.updates == {MODULE: 6}
    second.set_state(plain.get_state())
    assert second.updates == {}


@pytest.mark.parametrize("what", ["forward_train", "complete_update"])
def test_rllibs_compiling_leaves_the_updates_as_they_are(what: str) -> None:
    torch._dynamo.reset()
    rule = StructuredTargets(
        p=0.5, next_value_from="completed"
    )  # a choice among equal values would follow the rounding
    compiled = settled(StructuredDQNConfig(), structure=rule).framework(
        torch_compile_learner=True,
        torch_compile_learner_what_to_compile=what,
        torch_compile_learner_dynamo_backend="aot_eager",
    )
    one, two = compiled.build_learner(env=Wheel()), learner(structure=rule)
    for number in range(4):
        update(one, number)
        update(two, number)
    assert one.updates == {MODULE: 4}
    assert torch.allclose(flat_weights(one), flat_weights(two), atol=1e-6)


def test_a_network_with_a_memory_is_refused() -> None:
    model = DefaultModelConfig(use_lstm=True, fcnet_hiddens=[16])
    with pytest.raises(ValueError, match="'default_policy' has a memory and learns from sequences"):
        settled(StructuredDQNConfig()).rl_module(model_config=model).build_learner(env=Wheel())
    config = settled(StructuredDQNConfig(), structure=None).rl_module(model_config=model)
    assert config.build_learner(env=Wheel()).structure is None


class Sequences(DefaultDQNTorchRLModule):
    def _forward_train(self, batch: dict) -> dict:
        said = super()._forward_train(batch)
        return {**said, QF_TARGET_NEXT_PREDS: said[QF_TARGET_NEXT_PREDS][None]}


class LossOfItsOwn(DefaultDQNTorchRLModule, SelfSupervisedLossAPI):
    def compute_self_supervised_loss(self, *, fwd_out: dict, **_: object) -> Tensor:
        return fwd_out[QF_PREDS].square().mean()


@pytest.mark.parametrize(
    ("module", "error", "sentence"),
    [
        (Sequences, ValueError, r"values \(B, A\) under 'qf_target_next_preds' .* got \(1, 24, 6\)"),
        (LossOfItsOwn, RuntimeError, "makes a step without a loss of this learner"),
    ],
)
def test_a_module_that_cannot_be_structured_is_refused(module: type, error: type, sentence: str) -> None:
    config = settled(StructuredDQNConfig()).rl_module(rl_module_spec=RLModuleSpec(module_class=module))
    with pytest.raises(error, match=sentence):
        update(config.build_learner(env=Wheel()), 0)


def test_a_loss_that_asks_for_something_else_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(self: object, *, module_id: str, config: object, batch: dict, fwd_out: dict) -> Tensor:
        return fwd_out[QF_PREDS].square().mean()

    monkeypatch.setattr(DQNTorchLearner, "compute_loss_for_module", loss)
    with pytest.raises(RuntimeError, match="formed a loss without 'qf_next_preds'"):
        update(learner(), 0)


def test_an_interrupted_update_does_not_stop_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = learner(structure=0.5), learner(structure=0.5)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(one, "compute_gradients", interrupt)
        with pytest.raises(KeyboardInterrupt):
            update(one, 0)
    other.updates[MODULE] = 1  # the interrupted update used a mask
    for number in (1, 2):
        update(one, number)
        update(other, number)
    assert one.updates == {MODULE: 3}
    assert torch.equal(flat_weights(one), flat_weights(other))
    with pytest.raises(RuntimeError, match="makes a step without a loss"):
        one.apply_gradients({})


def test_settings_stay_until_they_are_changed() -> None:
    config = StructuredDQNConfig().training(structure=0.7, rank_every=9).training(lr=1e-3, n_step=2)
    assert config.learner_config_dict == {"structure": StructuredTargets(p=0.7), "rank_every": 9}
    assert (config.lr, config.n_step) == (1e-3, 2)
    assert StructuredDQNConfig().learner_config_dict["structure"] == StructuredTargets()
    assert config.copy().training(structure=None).learner_config_dict["structure"] is None
    assert config.learner_config_dict["structure"].p == 0.7
    with pytest.raises(ValueError, match=r"1 or more, got 2\.5"):
        config.training(rank_every=2.5)


def test_a_configuration_that_became_rllibs_own_is_still_structured() -> None:
    """Tune hands on a dictionary, and the name DQN makes a DQNConfig of it."""
    config = settled(StructuredDQNConfig(), structure=0.7)
    other = DQNConfig().update_from_dict(config.to_dict())
    assert type(other) is DQNConfig
    built = other.build_learner(env=Wheel())
    assert isinstance(built, StructuredDQNLearner)
    assert built.structure == StructuredTargets(p=0.7)


def test_what_would_train_without_structure_is_refused() -> None:
    old = settled(StructuredDQNConfig()).api_stack(
        enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False
    )
    old.replay_buffer_config = {"type": "MultiAgentPrioritizedReplayBuffer"}
    with pytest.raises(ValueError, match="needs RLlib's new API stack, and it is switched off"):
        old.validate()
    with pytest.raises(ValueError, match="a learner that is structured, got DQNTorchLearner"):
        settled(StructuredDQNConfig()).learners(learner_class=DQNTorchLearner).validate()
    settled(StructuredDQNConfig()).validate()


class LowRankCatalog(DQNCatalog):
    def build_af_head(self, framework: str) -> LowRankHead:
        return LowRankHead(*self.latent_dims, self.action_space.n, rank=4, ridge=0.1)


class WithRidge(LowRankCatalog):
    def build_af_head(self, framework: str) -> LowRankHead:
        head = super().build_af_head(framework)
        ridge_in_backward(head)
        return head


class RidgeInTheLoss(StructuredDQNLearner):
    def compute_loss_for_module(self, *, module_id: str, **kwargs: object) -> Tensor:
        loss = super().compute_loss_for_module(module_id=module_id, **kwargs)
        return loss + ridge_of(self.module[module_id].af)


@pytest.mark.parametrize("structure", [0.5, None])
def test_a_ridge_in_backward_is_the_ridge_in_the_loss(structure: float | None, tmp_path: Path) -> None:
    def with_head(catalog: type, **learners: type) -> DQNTorchLearner:
        config = settled(StructuredDQNConfig(), structure=structure, dueling=False, lr=1e-2)
        spec = RLModuleSpec(catalog_class=catalog, model_config=SMALL)
        return config.rl_module(rl_module_spec=spec).learners(**learners).build_learner(env=Wheel())

    plain, ours = with_head(LowRankCatalog), with_head(WithRidge)
    other = with_head(LowRankCatalog, learner_class=RidgeInTheLoss)
    for number in range(6):
        for one in (plain, ours, other):
            update(one, number)
        if number == 2:
            loaded = with_head(WithRidge)
            loaded.restore_from_path(ours.save_to_path(str(tmp_path)))
            ours = loaded
    torch.testing.assert_close(flat_weights(ours), flat_weights(other))
    assert not torch.allclose(flat_weights(ours), flat_weights(plain), atol=1e-3)
