"""Against the real Stable-Baselines3 and sb3-contrib: targets by hand, and the library's own tools around."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import make, spaces
from torch import Tensor, nn

pytest.importorskip("sb3_contrib", reason="needs stable-baselines3 and sb3-contrib; pip install 'svrl[sb3]'")

from sb3_contrib import QRDQN
from sb3_contrib.common.utils import quantile_huber_loss
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.dqn.policies import DQNPolicy
from tests.integrations.sb3_rig import ACTIONS, QUANTILES, SETUPS, SMALL, Drift, trained, weights

from svrl import AUTHORS_WAY, StructuredTargets
from svrl.agents.config import CHOICES
from svrl.heads import make_head, ridge_of
from svrl.integrations.pytorch import structured, structured_quantiles
from svrl.integrations.sb3_contrib import StructuredQRDQN
from svrl.integrations.stable_baselines3 import (
    HEAD_POLICIES,
    DoubleDQN,
    DuelingDQN,
    HeadPolicy,
    NatureConvolutions,
    StructuredDQN,
    networks_of,
)

ROWS = {
    "double": (None, True),
    "completed": (StructuredTargets(p=0.5, next_value_from="completed"), False),
    "network": (StructuredTargets(p=0.5), False),
    "double completed": (StructuredTargets(p=0.5, output="estimate", next_value_from="completed"), True),
    "double network": (StructuredTargets(p=0.5, rise=100), True),
}


def by_hand(row: str, rule: StructuredTargets | None, target: Tensor, online: Tensor, updates: int) -> Tensor:
    """Quantiles (B, N) of the action that is chosen, of quantiles (B, N, A); values are one quantile each."""
    draw = {"rule": rule, "seed": SMALL["seed"], "updates": updates}
    each, chooses = torch.arange(len(target)), online.mean(1)
    valued = target
    if "completed" in row:
        alone = target.shape[1] == 1  # a mean of one is the same number, and moving it rounds
        valued = structured(target[:, 0], **draw)[:, None] if alone else structured_quantiles(target, **draw)
    if row == "completed":
        chooses = valued.mean(1)
    elif "network" in row:
        chooses = structured((online if "double" in row else target).mean(1), **draw)
    return valued[each, :, chooses.argmax(1)]


def twin_of(model: Any, kind: type[OffPolicyAlgorithm]) -> Any:
    """The library's own class with the same networks: nothing of ours is left in its updates."""
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    return kind.load(file, device="cpu")


@pytest.mark.filterwarnings("ignore:`n_steps=3` is ignored")  # the library says so whenever it loads such a model
@pytest.mark.parametrize(
    ("ours", "library", "setup", "settings"),
    [
        (StructuredDQN, DQN, "one environment", {}),
        (StructuredDQN, DQN, "n-step", {}),
        (StructuredDQN, DQN, "one environment", {"dueling": True}),
        (StructuredQRDQN, QRDQN, "one environment", {"max_grad_norm": 10.0, **QUANTILES}),
    ],
)
@pytest.mark.parametrize("row", ROWS)
def test_updates_are_those_made_by_hand(row: str, ours: Any, library: Any, setup: str, settings: dict) -> None:
    rule, double = ROWS[row]
    model = trained(ours, setup, structure=rule, double=double, **settings)
    twin = twin_of(model, library)
    online_net, target_net = networks_of(twin)
    np.random.seed(8)  # noqa: NPY002 - what the library draws its batches from
    batches = [model.replay_buffer.sample(16) for _ in range(3)]
    first = model._n_updates
    np.random.seed(8)  # noqa: NPY002
    model.train(3, 16)

    for k, batch in enumerate(batches):
        with torch.no_grad():
            target, online = (net(batch.next_observations).view(16, -1, ACTIONS) for net in (target_net, online_net))
            discounts = 0.99 if batch.discounts is None else batch.discounts
            worth = by_hand(row, rule, target, online, first + k)
            wanted = batch.rewards + (1 - batch.dones) * discounts * worth
        now = online_net(batch.observations).view(16, -1, ACTIONS)[torch.arange(16), :, batch.actions.squeeze(1)]
        if library is DQN:
            loss = nn.functional.smooth_l1_loss(now, wanted)
        else:
            loss = quantile_huber_loss(now, wanted, sum_over_quantiles=True)
        twin.policy.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(twin.policy.parameters(), twin.max_grad_norm)
        twin.policy.optimizer.step()
    assert (batch.discounts is not None) == (setup == "n-step")
    assert all(torch.equal(a, b) for a, b in zip(weights(model), weights(twin), strict=True))


def test_dueling_network_is_value_and_advantage_without_mean() -> None:
    settings = {"net_arch": [32, 24, 16], "activation_fn": nn.Tanh}
    network, x = DuelingDQN("MlpPolicy", Drift(), policy_kwargs=settings, **SMALL).q_net, torch.randn(5, 3)
    *shared, head = network.q_net
    assert [layer.out_features for layer in shared if isinstance(layer, nn.Linear)] == [32, 24]
    hidden = nn.Sequential(*shared)(x)
    value, advantage = (torch.tanh(stream[0](hidden)) for stream in (head.value_hidden, head.advantage_hidden))
    assert value.shape == advantage.shape == (5, 16)
    value, advantage = head.value(value), head.advantage(advantage)
    torch.testing.assert_close(network(x), value + advantage - advantage.mean(1, keepdim=True))


def test_dueling_network_without_layers_has_two_linear_streams() -> None:
    network = DuelingDQN("MlpPolicy", Drift(), policy_kwargs={"net_arch": []}, **SMALL).q_net
    assert [tuple(weight.shape) for weight in network.parameters() if weight.ndim == 2] == [(ACTIONS, 3), (1, 3)]


def test_dueling_network_of_pictures_is_the_papers() -> None:
    env = FakeImageEnv(screen_height=84, screen_width=84, n_channels=4, discrete=True)
    for units, settings in ((512, None), (32, {"features_dim": 32})):  # the library's name for the units
        kwargs = {"policy_kwargs": {"features_extractor_kwargs": settings}}
        network = DuelingDQN("CnnPolicy", env, **{**SMALL, **kwargs, "buffer_size": 2}).q_net
        assert isinstance(network.features_extractor, NatureConvolutions)
        # Three convolutions; then 3136 features to 512 units and to a value, and to 512 units and 6 advantages.
        convolutions = 32 * (4 * 64 + 1) + 64 * (32 * 16 + 1) + 64 * (64 * 9 + 1)
        streams = 2 * units * (3136 + 1) + (units + 1) + 6 * (units + 1)
        assert sum(parameter.numel() for parameter in network.parameters()) == convolutions + streams


HEADS = {
    "low-rank": ("one environment", {"rank": 4}),
    "low-rank, pictures": ("pictures", {}),
    "low-rank, several inputs": ("several inputs", {"net_arch": [16]}),
    "additive+low-rank": ("one environment", {"head": "additive+low-rank", "axes": (2, 3), "net_arch": []}),
}


def with_head(case: str, kind: Any = DQN, **settings: Any) -> Any:
    """An agent after some updates, whose ridge is large enough to be seen."""
    setup, of_head = HEADS[case]
    policy, env, own = SETUPS[setup]
    settings = {"policy_kwargs": {"ridge": 0.1, **of_head}, "max_grad_norm": 1e9, **SMALL, **own, **settings}
    return kind(HEAD_POLICIES[policy], env(), **settings).learn(80)


@pytest.mark.parametrize("case", HEADS)
@pytest.mark.parametrize("loaded", [False, True])
def test_the_librarys_own_updates_have_the_ridge(case: str, loaded: bool) -> None:
    model = with_head(case)
    twin = twin_of(model, DQN) if loaded else model
    twin.replay_buffer, twin._logger = model.replay_buffer, model.logger
    alone = copy.deepcopy(model.q_net)  # a copy has no ridge
    np.random.seed(8)  # noqa: NPY002 - what the library draws its batches from
    batch = model.replay_buffer.sample(16)
    with torch.no_grad():
        worth = model.q_net_target(batch.next_observations).amax(1, keepdim=True)
        wanted = batch.rewards + (1 - batch.dones) * 0.99 * worth
    loss = nn.functional.smooth_l1_loss(alone(batch.observations).gather(1, batch.actions), wanted)
    alone.zero_grad()
    (loss + ridge_of(alone)).backward()
    np.random.seed(8)  # noqa: NPY002
    twin.train(1, 16)
    for one, other in zip(twin.q_net.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_a_head_is_that_of_its_name() -> None:
    for kind in CHOICES["head"]:
        settings = {"head": kind, "axes": [2, 3], "net_arch": [7], "rank": 5}
        head = DQN(HeadPolicy, Drift(), policy_kwargs=settings, **SMALL).q_net.q_net[-1]
        alone = make_head(kind, 3 if kind == "dueling" else 7, ACTIONS, axes=(2, 3), width=7, rank=5)
        assert {name: value.shape for name, value in head.state_dict().items()} == {
            name: value.shape for name, value in alone.state_dict().items()
        }
    with pytest.raises(ValueError, match="3 x 3 = 9; got 6"):
        DQN(HeadPolicy, Drift(), policy_kwargs={"head": "additive", "axes": (3, 3)}, **SMALL)


@pytest.mark.parametrize("case", HEADS)
def test_policies_and_networks_with_a_head_are_files(case: str, tmp_path: Path) -> None:
    model = with_head(case)
    for number, one in enumerate((model.policy, model.q_net)):
        one.save(tmp_path / str(number))
        other = type(one).load(tmp_path / str(number))
        assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_head_and_structure_go_together() -> None:
    model = with_head("low-rank", StructuredDQN, structure=0.5, double=True)
    assert model.ranks()["row_centred_rank_99"] <= 4
    assert not model.dueling


def test_custom_policies() -> None:
    class Wide(DQNPolicy):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "net_arch": [48]})

    class WideWithHead(HeadPolicy, Wide):
        pass

    assert not StructuredDQN(Wide, Drift(), double=True, **SMALL).learn(80).dueling
    shared: dict[str, Any] = {}
    assert StructuredDQN(WideWithHead, Drift(), dueling=True, policy_kwargs=shared, **SMALL).learn(80).dueling
    assert not StructuredDQN(WideWithHead, Drift(), policy_kwargs=shared, **SMALL).learn(80).dueling
    assert StructuredDQN(WideWithHead, Drift(), policy_kwargs={"head": "dueling"}, **SMALL).learn(80).dueling
    with pytest.raises(ValueError, match=r"^dueling=True needs a policy that takes a head, and Wide takes none\."):
        StructuredDQN(Wide, Drift(), dueling=True, **SMALL)
    with pytest.raises(ValueError, match=r"^dueling=True means head dueling, and policy_kwargs have head low-rank\."):
        StructuredDQN(WideWithHead, Drift(), dueling=True, policy_kwargs={"head": "low-rank"}, **SMALL)


def test_another_structure_when_loading(tmp_path: Path) -> None:
    trained(StructuredDQN, structure=0.9).save(tmp_path / "model")
    assert StructuredDQN.load(tmp_path / "model", structure=0.5).structure == StructuredTargets(p=0.5)
    assert StructuredDQN.load(tmp_path / "model", custom_objects={"structure": AUTHORS_WAY}).structure == AUTHORS_WAY
    assert StructuredDQN.load(tmp_path / "model", structure=None, double=True).double
    with pytest.raises(ValueError, match="probability"):
        StructuredDQN.load(tmp_path / "model", structure=2.0)
    with pytest.raises(ValueError, match="dueling=True needs"):
        StructuredDQN.load(tmp_path / "model", dueling=True)


def test_plain_files_can_be_loaded_and_structured_ones_by_the_library(tmp_path: Path) -> None:
    trained(DQN).save(tmp_path / "plain")
    loaded = StructuredDQN.load(tmp_path / "plain", env=Drift())
    assert loaded.structure == StructuredTargets()
    loaded.learn(100, reset_num_timesteps=False)
    loaded.save(tmp_path / "structured")
    library = DQN.load(tmp_path / "structured")
    assert all(torch.equal(a, b) for a, b in zip(weights(loaded), weights(library), strict=True))


class Rows(KVWriter):
    """What a model logs."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
        self.rows.append(dict(key_values))

    def close(self) -> None:
        pass


@pytest.mark.parametrize("structure", [StructuredTargets(p=0.5, rise=40), None])
def test_ranks_are_logged_where_the_library_logs(structure: StructuredTargets | None) -> None:
    kept, model = Rows(), StructuredDQN("MlpPolicy", Drift(), structure=structure, **SMALL)
    model.set_logger(Logger(None, [kept]))
    model.learn(150, log_interval=1)
    learning = [row for row in kept.rows if "train/loss" in row]
    assert len(kept.rows) > len(learning) > 2
    for row in kept.rows:
        assert ("structure/rank_99" in row) == ("train/loss" in row)
        if row in learning:
            assert 1 <= row["structure/rank_99"] <= row["structure/rank_9999"] <= ACTIONS
    p = None if structure is None else pytest.approx(0.5 + 0.5 * learning[-1]["train/n_updates"] / 40)
    assert learning[-1].get("structure/p") == p


class Normed(BaseFeaturesExtractor):
    def __init__(self, observation_space: spaces.Box) -> None:
        super().__init__(observation_space, 3)
        self.layers = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def test_double_leaves_batch_norm_and_dropout_alone() -> None:
    settings = {"policy_kwargs": {"features_extractor_class": Normed}}
    model = trained(DoubleDQN, **settings)
    assert model.q_net.features_extractor.layers[0].num_batches_tracked == model._n_updates
    # Nor does it draw random numbers: after an update the next one is the same.
    plain = trained(DQN, **settings)
    torch.manual_seed(0)
    plain.train(1, 16)
    after_plain = torch.rand(1)
    torch.manual_seed(0)
    model.train(1, 16)
    assert torch.equal(torch.rand(1), after_plain)


TRAIN = DQN.train


def asks_twice(self: DQN, gradient_steps: int, batch_size: int = 100) -> None:
    self.q_net_target(self.replay_buffer.sample(4).next_observations)
    TRAIN(self, gradient_steps, batch_size)


def asks_never(self: DQN, gradient_steps: int, batch_size: int = 100) -> None:
    self._n_updates += gradient_steps


@pytest.mark.parametrize(
    ("ours", "library", "changed", "times"),
    [(StructuredDQN, DQN, asks_twice, 2), (StructuredQRDQN, QRDQN, asks_never, 0)],
)
def test_a_library_that_changed_is_noticed(
    ours: Any, library: Any, changed: Any, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ours("MlpPolicy", Drift(), **SMALL)
    monkeypatch.setattr(library, "train", changed)
    with pytest.raises(RuntimeError, match=f"1 updates asked the target network {times} times"):
        model.learn(100)
    assert not networks_of(model)[1]._forward_hooks


def test_a_subclass_that_trains_by_itself_is_noticed() -> None:
    class Mine(StructuredDQN):
        train = DQN.train

    with pytest.raises(RuntimeError, match=r"Mine made \d+ updates, 0 of them with structured or double targets"):
        trained(Mine, structure=0.5)


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ours", "settings", "least"),
    [
        (StructuredDQN, {"double": True, "dueling": True}, 400),
        (StructuredQRDQN, {"policy_kwargs": {"net_arch": [128, 128], "n_quantiles": 10}}, 150),
    ],
    ids=["all three", "quantiles"],
)
def test_learns_cartpole(ours: Any, settings: dict[str, Any], least: float, one_thread: None) -> None:
    model = ours(
        "MlpPolicy",
        "CartPole-v1",
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=50_000,
        learning_starts=1_000,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        seed=0,
        device="cpu",
        **{"policy_kwargs": {"net_arch": [128, 128]}, **settings},
    )
    best = EvalCallback(Monitor(make("CartPole-v1")), eval_freq=5_000, n_eval_episodes=10, verbose=0)
    model.learn(40_000, callback=best)
    assert best.best_mean_reward > least  # of 500; a random agent has about 22
