"""TorchRL's losses with structure, against the library itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

pytest.importorskip("torchrl", reason="TorchRL is missing; make test-integrations installs it")

from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from tests.integrations.ladder import Ladder
from tests.integrations.torchrl_rig import (
    ACTIONS,
    ATOMS,
    BATCH,
    SPECS,
    WIDTH,
    Kept,
    batch_of,
    by_trainer,
    chosen,
    distributional,
    loss_of,
    masked_batch,
    same,
    train,
    values_of,
)
from torchrl.data import MultiOneHot
from torchrl.envs import ActionMask, Compose, DTypeCastTransform, GymWrapper, TransformedEnv
from torchrl.modules import MLP, DistributionalQValueActor, QValueActor, QValueModule
from torchrl.objectives import DistributionalDQNLoss, DQNLoss, SoftUpdate, ValueEstimators

from svrl import StructuredTargets
from svrl.heads import LowRankHead, ridge_in_backward, ridge_of
from svrl.integrations.pytorch import structured, structured_values
from svrl.integrations.target_hook import ranks_of
from svrl.integrations.torchrl import LogRanks, StructuredDistributionalDQNLoss, StructuredDQNLoss

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("space", list(SPECS))
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("value", ["completed", "network"])
def test_losses_are_those_of_the_table(space: str, double: bool, value: Any) -> None:
    rule = StructuredTargets(p=0.6, next_value_from=value)
    loss = loss_of(space=space, structure=rule, seed=3, double_dqn=double, reduction="none")
    train_first = loss_of(space=space, structure=rule)
    train(train_first, SoftUpdate(train_first, eps=0.9), times=5, space=space)
    loss.load_state_dict(train_first.state_dict())
    batch = batch_of(space, seed=9)
    after = batch["next", "observation"]
    target, online = (values_of(loss, after, online=flag) for flag in (False, True))
    worth = structured_values(target, rule, online_q=online if double else None, seed=3, updates=5)
    wanted = batch["next", "reward"].squeeze(-1) + 0.9 * worth * ~batch["next", "done"].squeeze(-1)
    errors = chosen(values_of(loss, batch["observation"], online=True), batch["action"]) - wanted
    torch.testing.assert_close(loss(batch)["loss"], errors.square())
    torch.testing.assert_close(batch["td_error"].squeeze(-1), errors.square())


def test_all_next_states_of_a_call_are_one_matrix() -> None:
    loss = loss_of(structure=StructuredTargets(p=0.6, next_value_from="completed"), reduction="none")
    loss.make_value_estimator(ValueEstimators.TDLambda, gamma=0.9, lmbda=0.8)
    batch = batch_of(shape=(3, 4))
    batch["steps_to_next_obs"] = torch.arange(12).view(3, 4, 1) % 3 + 1
    values = values_of(loss, batch["next", "observation"], online=False)
    filled = structured(values.reshape(12, ACTIONS), 0.6, updates=0).view(3, 4, ACTIONS)
    wanted = loss._value_estimator.value_estimate(batch, next_value=filled.amax(-1, keepdim=True)).squeeze(-1)
    errors = chosen(values_of(loss, batch["observation"], online=True), batch["action"]) - wanted
    torch.testing.assert_close(loss(batch)["loss"], errors.square())


def test_completed_expected_values_choose_among_distributions() -> None:
    plain, ours = (
        distributional(DistributionalDQNLoss, reduction="none"),
        distributional(structure=0.5, reduction="none"),
    )
    batch = batch_of(seed=2)
    log_p = values_of(ours, batch["next", "observation"], online=True)
    expected = (log_p.exp() * torch.linspace(-2, 2, ATOMS).view(-1, 1)).sum(-2)
    moved = structured(expected, 0.5, updates=0).argmax(-1) != expected.argmax(-1)
    moved &= ~batch["next", "terminated"].squeeze(-1)
    assert 0 < int(moved.sum()) < BATCH
    differs = ~torch.isclose(plain(batch.clone())["loss"], ours(batch.clone())["loss"])
    assert torch.equal(differs, moved)


def test_only_updates_are_counted() -> None:
    loss = loss_of(structure=0.5)
    batch = batch_of()
    with torch.no_grad():
        looked = [float(loss(batch)["loss"]) for _ in range(2)]
    assert int(loss.structure_updates) == 0
    assert looked[0] == looked[1] == float(loss(batch)["loss"])
    assert int(loss.structure_updates) == 1
    assert float(loss(batch)["loss"]) != looked[0]


@pytest.mark.parametrize("double", [False, True])
def test_compiles_into_one_graph(double: bool) -> None:
    torch._dynamo.reset()
    eager, ours = (loss_of(structure=0.5, double_dqn=double) for _ in range(2))
    updaters = [SoftUpdate(loss, eps=0.9) for loss in (eager, ours)]
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    said = train(eager, updaters[0], times=5)
    for _ in range(2):  # the library itself is compiled twice: it remembers names of entries at the first call
        compiled(batch_of())["loss"].backward()
    ours.structure_updates.zero_()
    with torch._dynamo.config.patch(error_on_recompile=True):
        # Estimation stops at a tolerance of 1e-3, so rounding may cost it a step.
        assert train(compiled, updaters[1], times=5) == pytest.approx(said, rel=1e-3)
    assert int(ours.structure_updates) == 5


def test_a_library_that_forms_targets_in_another_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, atoms = loss_of(), distributional()
    for cls in (DQNLoss, DistributionalDQNLoss):
        monkeypatch.setattr(cls, "forward", lambda self, tensordict: TensorDict({"loss": torch.zeros(())}))
    for loss in (ours, atoms):
        with pytest.raises(RuntimeError, match="made an update with 0 completed matrices in place of 1"):
            loss(batch_of())
        assert int(loss.structure_updates) == 0


def test_refuses_what_has_no_matrix() -> None:
    spec = MultiOneHot([2, 3])
    values = TensorDictModule(
        MLP(in_features=WIDTH, out_features=5), in_keys=["observation"], out_keys=["action_value"]
    )
    several = TensorDictSequential(values, QValueModule(spec=spec, var_nums=[2, 3]))
    with pytest.raises(ValueError, match="one discrete action, categorical or one-hot, got mult_one_hot"):
        StructuredDQNLoss(several, action_space=spec)
    plain = StructuredDQNLoss(several, action_space=spec, structure=None, double_dqn=True)
    with pytest.raises(ValueError, match="one discrete action, categorical or one-hot, got mult_one_hot"):
        plain.structure = 0.5
    assert plain.double_dqn
    assert plain.structure is None
    net = MLP(in_features=WIDTH, out_features=(ATOMS, ACTIONS))
    support = torch.linspace(-2, 2, ATOMS)
    masked = DistributionalQValueActor(net, spec=SPECS["categorical"], support=support, action_mask_key="action_mask")
    with pytest.raises(ValueError, match="give a masked action the expected value 0"):
        StructuredDistributionalDQNLoss(masked, gamma=0.9)


@pytest.mark.parametrize("space", list(SPECS))
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("value", ["completed", "network"])
def test_masked_actions_are_neither_observed_nor_chosen(space: str, double: bool, value: Any) -> None:
    rule = StructuredTargets(p=0.6, next_value_from=value)
    settings = {"space": space, "double_dqn": double}
    first = loss_of(structure=None, **settings)
    train(first, SoftUpdate(first, eps=0.9), times=5, space=space)
    loss = loss_of(structure=rule, seed=3, action_mask_key="action_mask", reduction="none", **settings)
    loss.load_state_dict(first.state_dict(), strict=False)
    batch, after = masked_batch(space=space), masked_batch(space=space)["next"]
    target, online = (values_of(first, after["observation"], online=flag) for flag in (False, True))
    worth = structured_values(
        target, rule, online_q=online if double else None, seed=3, updates=0, action_mask=after["action_mask"]
    )
    wanted = after["reward"].squeeze(-1) + 0.9 * worth * ~after["done"].squeeze(-1)
    errors = chosen(values_of(first, batch["observation"], online=True), batch["action"]) - wanted
    torch.testing.assert_close(loss(batch)["loss"], errors.square())
    assert LogRanks(loss)(masked_batch(space=space)) == {}


@pytest.mark.parametrize("double", [False, True])
def test_a_mask_of_all_actions_is_no_mask(double: bool) -> None:
    plain, masked = (loss_of(structure=0.5, double_dqn=double, action_mask_key=key) for key in (None, "action_mask"))
    for seed in range(5):
        for loss in (plain, masked):
            loss(masked_batch(all_valid=True, seed=seed))["loss"].backward()
    assert all(
        torch.equal(a.grad, b.grad)
        for a, b in zip(plain.parameters(), masked.parameters(), strict=True)
        if a.requires_grad
    )
    assert LogRanks(masked)(masked_batch(all_valid=True)) == LogRanks(plain)(masked_batch(all_valid=True)) != {}


def test_masks_compile_into_one_graph() -> None:
    torch._dynamo.reset()
    eager, ours = (loss_of(structure=0.5, double_dqn=True, action_mask_key="action_mask") for _ in range(2))
    said = torch.compile(ours, fullgraph=True, backend="aot_eager")(masked_batch())["loss"]
    assert float(said) == pytest.approx(float(eager(masked_batch())["loss"]), rel=1e-3)


def ladder() -> TransformedEnv:
    env = GymWrapper(Ladder(), categorical_action_encoding=True)
    cast = DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
    return TransformedEnv(env, Compose(cast, ActionMask()))


@pytest.mark.parametrize("double", [False, True])
def test_a_trainer_with_masks_makes_no_invalid_move(double: bool) -> None:
    plain, whole, ours = (
        by_trainer(cls, frames=600, env=ladder(), double_dqn=double, **settings)
        for cls, settings in ((DQNLoss, {}), (StructuredDQNLoss, {"structure": 1.0}), (StructuredDQNLoss, {}))
    )
    assert same(plain, whole)
    assert not same(plain, ours)
    with ours.value_network_params.to_module(ours.value_network):
        assert len(ladder().rollout(20, ours.value_network)) <= 4


@pytest.mark.parametrize("cls", [DQNLoss, StructuredDQNLoss])
def test_ranks_are_those_of_the_target_network(cls: type) -> None:
    loss, batch = loss_of(cls), batch_of()
    before = copy.deepcopy(loss.state_dict())
    log = LogRanks(loss, every=2)
    assert log(batch) == ranks_of(values_of(loss, batch["next", "observation"], online=False))
    assert log(batch) is None
    assert log(batch) is not None
    assert all(torch.equal(value, before[name]) for name, value in loss.state_dict().items())
    again = LogRanks(loss, every=2)
    again.load_state_dict(log.state_dict())
    assert again(batch) is None
    atoms = distributional()
    log_p = values_of(atoms, batch["next", "observation"], online=False)
    expected = (log_p.exp() * torch.linspace(-2, 2, ATOMS).view(-1, 1)).sum(-2)
    assert LogRanks(atoms)(batch) == ranks_of(expected)
    for wrong, said in (((nn.Linear(1, 1), 1), "got Linear"), ((loss, 0), "1 or more, got 0")):
        with pytest.raises(ValueError, match=said):
            LogRanks(wrong[0], every=wrong[1])


def test_a_trainer_without_hidden_entries_is_the_library_and_logs_ranks() -> None:
    kept = Kept()
    plain, ours = by_trainer(DQNLoss, frames=400), by_trainer(StructuredDQNLoss, frames=400, structure=1.0, logger=kept)
    assert same(plain, ours)
    assert int(ours.structure_updates) == 24
    assert {value for name, value in kept.rows if name == "rank_99"} <= {1.0, 2.0}
    assert any(name == "rank_99" for name, _ in kept.rows)


@pytest.mark.parametrize("cls", [DQNLoss, StructuredDQNLoss])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_ridge_in_backward_is_the_ridge_in_the_loss(cls: type, compiled: bool) -> None:
    torch._dynamo.reset()

    def trained(ridge: str) -> Any:
        torch.manual_seed(0)
        body = MLP(in_features=WIDTH, out_features=16, num_cells=[16], activate_last_layer=True)
        network = nn.Sequential(body, LowRankHead(16, ACTIONS, rank=4, ridge=0.1))
        if ridge == "in backward":
            ridge_in_backward(network)
        spec = SPECS["categorical"]
        loss = cls(QValueActor(network, in_keys=["observation"], spec=spec), action_space=spec, delay_value=True)
        loss.make_value_estimator(gamma=0.9)
        call = torch.compile(loss, fullgraph=True, backend="aot_eager") if compiled else loss
        updater, optimiser = SoftUpdate(loss, eps=0.9), torch.optim.Adam(loss.parameters(), lr=1e-2)
        for update in range(5):
            value = call(batch_of(seed=update))["loss"]
            optimiser.zero_grad()
            (value + ridge_of(network) if ridge == "in the loss" else value).backward()
            optimiser.step()
            updater.step()
        return loss

    ours, other = trained("in backward"), trained("in the loss")
    for one, two in zip(ours.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, two)
    assert not same(trained("nowhere"), ours)
