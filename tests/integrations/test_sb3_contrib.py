"""Against the real sb3-contrib: its own results at p = 1, quantile targets by hand elsewhere."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("sb3_contrib", reason="needs sb3-contrib; pip install 'svrl[sb3]'")

from sb3_contrib import QRDQN
from sb3_contrib.common.utils import quantile_huber_loss
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import set_random_seed
from tests.integrations.sb3_rig import ACTIONS, SMALL, Drift, cartpole, logged, same, state, trained

from svrl import StructuredTargets
from svrl.integrations.pytorch import structured, structured_quantiles
from svrl.integrations.sb3_contrib import StructuredQRDQN

FEW = {"policy_kwargs": {"n_quantiles": 10}}


@pytest.mark.parametrize(
    "setup",
    [
        "one environment",
        "n-step",
        "four environments",
        "pictures",
        pytest.param("several inputs", marks=pytest.mark.slow),
    ],
)
def test_everything_observed_is_the_librarys_own_result(setup: str) -> None:
    def run(kind: type[QRDQN], **settings: Any) -> QRDQN:
        return trained(kind, setup, policy_kwargs={"n_quantiles": 10}, **settings)

    plain = run(QRDQN)
    assert same(plain, run(StructuredQRDQN, structure=1.0))
    assert same(plain, run(StructuredQRDQN, structure=None))
    assert not same(plain, run(StructuredQRDQN, structure=0.5))
    assert not same(plain, run(StructuredQRDQN, structure=None, double=True))


ROWS = {
    "double": (None, True),
    "completed": (StructuredTargets(observe=0.5, value="completed"), False),
    "network": (StructuredTargets(observe=0.5), False),
    "double completed": (StructuredTargets(observe=0.5, scale="minmax", value="completed"), True),
    "double network": (StructuredTargets(observe=0.5), True),
}


def by_hand(row: str, rule: StructuredTargets | None, target: Tensor, online: Tensor, updates: int) -> Tensor:
    """Quantiles (B, N) of the action that is chosen; `target` and `online` are (B, N, A)."""
    draw = {"rule": rule, "seed": SMALL["seed"], "updates": updates}
    each = torch.arange(len(target))
    match row:
        case "double":
            return target[each, :, online.mean(1).argmax(1)]
        case "completed":
            moved = structured_quantiles(target, **draw)
            return moved[each, :, moved.mean(1).argmax(1)]
        case "network":
            return target[each, :, structured(target.mean(1), **draw).argmax(1)]
        case "double completed":
            return structured_quantiles(target, **draw)[each, :, online.mean(1).argmax(1)]
        case _:
            return target[each, :, structured(online.mean(1), **draw).argmax(1)]


@pytest.mark.parametrize("row", ROWS)
def test_updates_are_those_made_by_hand(row: str) -> None:
    rule, double = ROWS[row]
    model = trained(StructuredQRDQN, structure=rule, double=double, max_grad_norm=10.0, **FEW)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    twin = QRDQN.load(file, device="cpu")
    np.random.seed(8)  # noqa: NPY002 - what the library draws its batches from
    batches = [model.replay_buffer.sample(16) for _ in range(3)]
    first = model._n_updates
    np.random.seed(8)  # noqa: NPY002
    model.train(3, 16)

    for k, batch in enumerate(batches):
        with torch.no_grad():
            target, online = (
                twin.quantile_net_target(batch.next_observations),
                twin.quantile_net(batch.next_observations),
            )
            worth = by_hand(row, rule, target, online, first + k)
            wanted = batch.rewards + (1 - batch.dones) * twin.gamma * worth
        now = twin.quantile_net(batch.observations)[torch.arange(16), :, batch.actions.squeeze(1)]
        loss = quantile_huber_loss(now, wanted, sum_over_quantiles=True)
        twin.policy.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(twin.policy.parameters(), 10.0)
        twin.policy.optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(state(model), state(twin), strict=True))


@pytest.mark.parametrize("settings", [{}, {"structure": None, "double": True}])
def test_saved_and_loaded_it_goes_on_as_it_would_have(settings: dict[str, Any], tmp_path: Path) -> None:
    model = trained(StructuredQRDQN, **{"structure": StructuredTargets(observe=0.6, rise=500), **settings}, **FEW)
    model.save(tmp_path / "model")
    model.save_replay_buffer(tmp_path / "memory")
    loaded = StructuredQRDQN.load(tmp_path / "model", env=Drift(), device="cpu")
    loaded.load_replay_buffer(tmp_path / "memory")
    assert (loaded.structure, loaded.double) == (model.structure, model.double)
    model.set_env(model._wrap_env(Drift()))
    for one in (model, loaded):
        set_random_seed(9)
        one.env.seed(9)
        one.action_space.seed(9)
        one.learn(100, reset_num_timesteps=False)
    assert same(model, loaded)
    assert StructuredQRDQN.load(tmp_path / "model", structure=0.3).structure == StructuredTargets(observe=0.3)


def test_ranks_of_the_means_are_logged() -> None:
    model = StructuredQRDQN("MlpPolicy", Drift(), structure=None, policy_kwargs={"n_quantiles": 10}, **SMALL)
    ranks = [row["structure/rank_9999"] for row in logged(model, 150) if "structure/rank_9999" in row]
    assert len(ranks) > 2
    assert all(1 <= rank <= ACTIONS for rank in ranks)
    assert not model.quantile_net_target._forward_hooks


def test_a_library_that_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = StructuredQRDQN("MlpPolicy", Drift(), **SMALL)
    monkeypatch.setattr(QRDQN, "train", lambda self, gradient_steps, batch_size: None)
    with pytest.raises(RuntimeError, match="1 updates asked the target network 0 times"):
        model.learn(100)


@pytest.mark.slow
def test_learns_cartpole() -> None:
    model = StructuredQRDQN(
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
        policy_kwargs={"net_arch": [128, 128], "n_quantiles": 10},
        seed=0,
        device="cpu",
    ).learn(30_000)
    score, _ = evaluate_policy(model, cartpole(), n_eval_episodes=20)
    assert score > 150  # of 500; a random agent has about 22
