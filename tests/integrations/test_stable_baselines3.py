"""Against the real Stable-Baselines3: its own results at p = 1, targets by hand elsewhere, and its own tools around."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3; pip install 'svrl[sb3]'")

from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback
from stable_baselines3.common.envs import FakeImageEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.dqn.policies import DQNPolicy
from tests.integrations.sb3_rig import ACTIONS, SETUPS, SMALL, Drift, cartpole, logged, same, state, trained

from svrl import AUTHORS_WAY, StructuredTargets
from svrl.integrations.pytorch import rule_of, structured
from svrl.integrations.stable_baselines3 import (
    DoubleDQN,
    DuelingDQN,
    DuelingPolicy,
    NatureConvolutions,
    StructuredDQN,
)


@pytest.mark.parametrize("setup", SETUPS)
def test_everything_observed_is_the_librarys_own_result(setup: str) -> None:
    plain = trained(DQN, setup)
    assert same(plain, trained(StructuredDQN, setup, structure=1.0))
    assert same(plain, trained(StructuredDQN, setup, structure=None))
    assert not same(plain, trained(StructuredDQN, setup, structure=0.5))


@pytest.mark.parametrize("kind", [DoubleDQN, DuelingDQN])
@pytest.mark.parametrize(
    "setup", ["one environment", "pictures", pytest.param("several inputs", marks=pytest.mark.slow)]
)
def test_everything_observed_is_the_plain_double_or_dueling_agent(kind: type[DQN], setup: str) -> None:
    plain = trained(kind, setup)
    assert same(plain, trained(kind, setup, structure=StructuredTargets(observe=1.0)))
    assert not same(plain, trained(kind, setup, structure=0.5))
    assert plain.structure is None
    if kind is DoubleDQN:
        assert not same(plain, trained(DQN, setup))


ROWS = {
    "double": (None, True),
    "completed": (StructuredTargets(observe=0.5, value="completed"), False),
    "network": (StructuredTargets(observe=0.5), False),
    "double completed": (StructuredTargets(observe=0.5, output="estimate", value="completed"), True),
    "double network": (StructuredTargets(observe=0.5, rise=100), True),
}


def by_hand(row: str, rule: StructuredTargets | None, target: Tensor, online: Tensor, updates: int) -> Tensor:
    """What next states are worth, (B,)."""

    def whole(q: Tensor) -> Tensor:
        return structured(q, rule=rule, seed=SMALL["seed"], updates=updates)

    each = torch.arange(len(target))
    match row:
        case "double":
            return target[each, online.argmax(1)]
        case "completed":
            return whole(target).amax(1)
        case "network":
            return target[each, whole(target).argmax(1)]
        case "double completed":
            return whole(target)[each, online.argmax(1)]
        case _:
            return target[each, whole(online).argmax(1)]


@pytest.mark.filterwarnings("ignore:`n_steps=3` is ignored")  # the library says so whenever it loads such a model
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("setup", ["one environment", "n-step"])
@pytest.mark.parametrize("row", ROWS)
def test_updates_are_those_made_by_hand(row: str, setup: str, dueling: bool) -> None:
    rule, double = ROWS[row]
    model = trained(StructuredDQN, setup, structure=rule, double=double, dueling=dueling)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    twin = DQN.load(file, device="cpu")  # the library's class: nothing of ours is left in its updates
    np.random.seed(8)  # noqa: NPY002 - what the library draws its batches from
    batches = [model.replay_buffer.sample(16) for _ in range(3)]
    first = model._n_updates
    np.random.seed(8)  # noqa: NPY002
    model.train(3, 16)

    for k, batch in enumerate(batches):
        with torch.no_grad():
            target, online = twin.q_net_target(batch.next_observations), twin.q_net(batch.next_observations)
            worth = by_hand(row, rule, target, online, first + k).view(-1, 1)
            discounts = SMALL.get("gamma", 0.99) if batch.discounts is None else batch.discounts
            wanted = batch.rewards + (1 - batch.dones) * discounts * worth
        loss = nn.functional.smooth_l1_loss(twin.q_net(batch.observations).gather(1, batch.actions), wanted)
        twin.policy.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(twin.policy.parameters(), twin.max_grad_norm)
        twin.policy.optimizer.step()
    assert (batch.discounts is not None) == (setup == "n-step")
    assert all(torch.equal(a, b) for a, b in zip(state(model), state(twin), strict=True))


def test_dueling_network_is_value_and_advantage_without_mean() -> None:
    model = DuelingDQN("MlpPolicy", Drift(), policy_kwargs={"net_arch": [32, 24, 16]}, **SMALL)
    streams, x = model.q_net.q_net, torch.randn(5, 3)
    hidden = streams.shared(x)
    value, advantage = streams.value(hidden), streams.advantage(hidden)
    q = model.q_net(x)
    torch.testing.assert_close(q.mean(1, keepdim=True), value)
    torch.testing.assert_close(q - q.mean(1, keepdim=True), advantage - advantage.mean(1, keepdim=True))
    widths = [[layer.out_features for layer in part if isinstance(layer, nn.Linear)] for part in streams.children()]
    assert widths == [[32, 24], [16, 1], [16, ACTIONS]]


def test_dueling_network_of_pictures_is_the_papers() -> None:
    env = FakeImageEnv(screen_height=84, screen_width=84, n_channels=4, discrete=True)
    network = DuelingDQN("CnnPolicy", env, **{**SMALL, "buffer_size": 2}).q_net
    assert isinstance(network.features_extractor, NatureConvolutions)
    # Three convolutions; then 3136 features to 512 units and to a value, and to 512 units and 6 advantages.
    convolutions = 32 * (4 * 64 + 1) + 64 * (32 * 16 + 1) + 64 * (64 * 9 + 1)
    streams = 2 * 512 * (3136 + 1) + (512 + 1) + 6 * (512 + 1)
    assert sum(parameter.numel() for parameter in network.parameters()) == convolutions + streams
    other = {"net_arch": [], "features_extractor_kwargs": {"features_dim": 50}}
    linear = DuelingDQN("CnnPolicy", env, policy_kwargs=other, **{**SMALL, "buffer_size": 2}).q_net
    assert sum(p.numel() for p in linear.parameters()) == convolutions + 50 * (3136 + 1) + 7 * (50 + 1)


def test_custom_policies() -> None:
    class Wide(DQNPolicy):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "net_arch": [48]})

    class WideDueling(DuelingPolicy, Wide):
        pass

    assert not StructuredDQN(Wide, Drift(), double=True, **SMALL).learn(80).dueling
    for said in (False, True):  # the class says it, too
        assert StructuredDQN(WideDueling, Drift(), dueling=said, **SMALL).learn(80).dueling
    with pytest.raises(ValueError, match=r"^dueling=True needs a dueling network, and Wide has none\."):
        StructuredDQN(Wide, Drift(), dueling=True, **SMALL)
    with pytest.raises(ValueError, match="NoSuchPolicy"):
        StructuredDQN("NoSuchPolicy", Drift(), dueling=True, **SMALL)


@pytest.mark.parametrize("settings", [{}, {"structure": None, "double": True}, {"dueling": True, "double": True}])
def test_saved_and_loaded_it_goes_on_as_it_would_have(settings: dict[str, Any], tmp_path: Path) -> None:
    settings = {"structure": StructuredTargets(observe=0.6, rise=500, scale="row"), **settings}
    model = trained(StructuredDQN, **settings)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "memory")
    loaded = StructuredDQN.load(tmp_path / "model", env=Drift(), device="cpu")
    loaded.load_replay_buffer(tmp_path / "memory")
    assert (loaded.structure, loaded.double, loaded.dueling) == (model.structure, model.double, model.dueling)
    model.set_env(model._wrap_env(Drift()))  # both begin a new episode, as the library does after loading
    for one in (model, loaded):
        set_random_seed(9)
        one.env.seed(9)
        one.action_space.seed(9)
        one.learn(100, reset_num_timesteps=False)
    assert same(model, loaded)


def test_another_structure_when_loading(tmp_path: Path) -> None:
    trained(StructuredDQN, structure=0.9).save(tmp_path / "model")
    rule = AUTHORS_WAY
    assert StructuredDQN.load(tmp_path / "model", structure=0.5).structure == StructuredTargets(observe=0.5)
    assert StructuredDQN.load(tmp_path / "model", custom_objects={"structure": rule}).structure == rule
    assert StructuredDQN.load(tmp_path / "model", structure=None, double=True).double
    with pytest.raises(ValueError, match="probability"):
        StructuredDQN.load(tmp_path / "model", structure=2.0)
    with pytest.raises(ValueError, match="dueling=True needs"):
        StructuredDQN.load(tmp_path / "model", dueling=True)


def test_plain_files_can_be_loaded_and_structured_ones_by_the_library(tmp_path: Path) -> None:
    plain = trained(DQN)
    plain.save(tmp_path / "plain")
    loaded = StructuredDQN.load(tmp_path / "plain", env=Drift())
    assert loaded.structure == StructuredTargets()
    loaded.learn(100, reset_num_timesteps=False)
    loaded.save(tmp_path / "structured")
    assert all(torch.equal(a, b) for a, b in zip(state(loaded), state(DQN.load(tmp_path / "structured")), strict=True))


def test_ranks_are_logged_where_the_library_logs() -> None:
    model = StructuredDQN("MlpPolicy", Drift(), structure=StructuredTargets(observe=0.5, rise=40), **SMALL)
    rows = logged(model, 150)
    learning = [row for row in rows if "train/loss" in row]
    assert len(rows) > len(learning) > 2
    assert all(("structure/rank_99" in row) == ("train/loss" in row) for row in rows)
    # Values of the last batch before the last row was written.
    assert learning[-1]["structure/observe"] == pytest.approx(0.5 + 0.5 * learning[-1]["train/n_updates"] / 40)
    assert all(1 <= row["structure/rank_99"] <= row["structure/rank_9999"] <= ACTIONS for row in learning)
    assert 1 <= model.ranks()["rank_99"] <= ACTIONS
    plain = logged(StructuredDQN("MlpPolicy", Drift(), structure=None, **SMALL), 150)
    assert any("structure/rank_99" in row for row in plain)
    assert not any("structure/observe" in row for row in plain)


def test_callbacks_of_the_library(tmp_path: Path) -> None:
    model = StructuredDQN("MlpPolicy", DummyVecEnv([Drift] * 2), double=True, dueling=True, **SMALL)
    keep = CheckpointCallback(40, str(tmp_path), save_replay_buffer=True)
    judge = EvalCallback(Monitor(Drift()), best_model_save_path=str(tmp_path), eval_freq=40, n_eval_episodes=2)
    model.learn(160, callback=[keep, judge])
    assert judge.last_mean_reward < 0
    saved = StructuredDQN.load(tmp_path / "rl_model_160_steps")
    assert (saved.double, saved.dueling, saved.structure) == (True, True, StructuredTargets())
    assert StructuredDQN.load(tmp_path / "best_model").predict(np.zeros(3, np.float32))[0] in range(ACTIONS)


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


@pytest.mark.parametrize(("changed", "times"), [(asks_twice, 2), (asks_never, 0)])
def test_a_library_that_changed_is_noticed(
    changed: Callable[..., None], times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StructuredDQN("MlpPolicy", Drift(), **SMALL)
    monkeypatch.setattr(DQN, "train", changed)
    with pytest.raises(RuntimeError, match=f"1 updates asked the target network {times} times"):
        model.learn(100)
    assert not model.q_net_target._forward_hooks


def test_networks_under_other_names_are_refused_when_the_model_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(self: DQN) -> None:
        self.q_net, self.target_q_net = self.policy.q_net, self.policy.q_net_target

    monkeypatch.setattr(DQN, "_create_aliases", renamed)
    monkeypatch.setattr(DQN, "_setup_model", lambda self: (super(DQN, self)._setup_model(), renamed(self)))
    with pytest.raises(ValueError, match="StructuredDQN has neither pair"):
        StructuredDQN("MlpPolicy", Drift(), **SMALL)


@pytest.mark.parametrize("wrong", [True, "0.9", 0.0, 1.5, [0.9]])
def test_what_is_no_structure(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"structure is a|observes with a probability"):
        rule_of(wrong)


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
@pytest.mark.parametrize("settings", [{}, {"double": True, "dueling": True}], ids=["structured", "all three"])
def test_learns_cartpole(settings: dict[str, Any], one_thread: None) -> None:
    model = StructuredDQN(
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
        policy_kwargs={"net_arch": [128, 128]},
        seed=0,
        device="cpu",
        **settings,
    )
    best = EvalCallback(cartpole(), eval_freq=5_000, n_eval_episodes=10, verbose=0)
    model.learn(40_000, callback=best)
    score, _ = evaluate_policy(model, cartpole(), n_eval_episodes=20)
    assert max(best.best_mean_reward, score) > 400  # of 500; a random agent has about 22
