"""Networks of the user: they train as ours do, are recorded by name, and are never imported because a file says so."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import svrl
from svrl.agents.agent import Agent, load_agent
from svrl.agents.config import AgentConfig
from svrl.agents.events import Learned, Stepped
from svrl.agents.learner import weights_of
from svrl.agents.networks import OwnNetwork, build_network, layers_of
from svrl.agents.own_network import with_network
from svrl.agents.study import rank_study
from svrl.agents.training import Training, train
from svrl.envs.vector import EnvSpec
from svrl.runtime.rows import read_rows
from svrl.runtime.stop_signals import Stopped
from svrl.training.session import train_in_directory

from .small_envs import Identity, identity

SMOKE = AgentConfig.of("smoke", network="mlp", hidden=(16,), clip_rewards=False)
SPEC = EnvSpec(id="v", family="gymnasium", frame_shape=(5,), dtype="float32", n_actions=3)
PICTURES = EnvSpec(id="p", family="gymnasium", frame_shape=(3, 8, 8), dtype="uint8", high=255.0, n_actions=3)


def small(spec: EnvSpec) -> nn.Module:
    """The layers of `SMOKE`."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(spec.observation_shape[0], 16), nn.ReLU(), nn.Linear(16, spec.n_actions)
    )


class Scores(nn.Module):
    """Values without any nn.Linear: a table."""

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.table = nn.Parameter(0.1 * torch.randn(spec.observation_shape[0], spec.n_actions))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.table


class PerAction(nn.Module):
    """A value of each pair of an observation and an action."""

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__()
        self.score = nn.Linear(spec.observation_shape[0] + spec.n_actions, 1)
        self.register_buffer("actions", torch.eye(spec.n_actions))

    def forward(self, x: Tensor) -> Tensor:
        count = len(self.actions)
        pairs = torch.cat([x[:, None].expand(-1, count, -1), self.actions.expand(len(x), -1, -1)], -1)
        return self.score(pairs.flatten(0, 1)).view(len(x), count)


def with_weights_of_svrl(spec: EnvSpec) -> nn.Module:
    """As `small`, with the first weights of svrl's own network of seed 0."""
    theirs = Training(identity, SMOKE, seed=0)
    theirs.close()
    made = small(spec)
    for mine, other in zip(made.parameters(), theirs.network.parameters(), strict=True):
        mine.data.copy_(other.data)
    return made


@pytest.mark.parametrize("agent", ["dqn", "double", "sv-dqn", "sv-double", "sv-dqn-network", "sv-double-network"])
@pytest.mark.parametrize("lag", [0, 1])
def test_the_same_layers_become_the_same_agent(agent: str, lag: int) -> None:
    config = AgentConfig.of("smoke", agent=agent, network="mlp", hidden=(16,), act_lag=lag, n_envs=3)
    ours, own = train(identity, config, seed=0), train(identity, config, seed=0, network=with_weights_of_svrl)
    assert ours.updates == own.updates > 50
    for mine, theirs in zip(own.network.parameters(), ours.network.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert own.config == config.replace(network=f"{__name__}:with_weights_of_svrl")
    assert layers_of(own.network) == layers_of(ours.network) == "linear 16-4"


def test_pictures_arrive_scaled() -> None:
    shown: list[Tensor] = []

    class Noting(nn.Module):
        def __init__(self, spec: EnvSpec) -> None:
            super().__init__()
            self.out = nn.Linear(int(np.prod(spec.observation_shape)), spec.n_actions)

        def forward(self, x: Tensor) -> Tensor:
            shown.append(x)
            return self.out(x.flatten(1))

    network = build_network(PICTURES, with_network(SMOKE, Noting), None, Noting)
    network(torch.full((2, 3, 8, 8), 255, dtype=torch.uint8))
    assert torch.equal(shown[-1], torch.ones(2, 3, 8, 8))


def test_weights_follow_from_the_seed_and_torch_s_generator_stays() -> None:
    before = torch.get_rng_state()
    first, again, other = (Training(identity, SMOKE, seed=seed, network=Scores) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    tables = [training.network.state_dict()["module.table"] for training in (first, again, other)]
    assert torch.equal(tables[0], tables[1])
    assert not torch.equal(tables[0], tables[2])
    for training in (first, again, other):
        training.close()


def test_layers_that_wait_for_their_first_input_are_drawn_from_the_seed_too() -> None:
    def lazy(spec: EnvSpec) -> nn.Module:
        return nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(spec.n_actions))

    one, two = (build_network(SPEC, with_network(SMOKE, lazy), torch.Generator().manual_seed(3), lazy) for _ in "ab")
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_features_are_what_the_last_linear_layer_takes() -> None:
    seen = torch.rand(7, 5)
    network = OwnNetwork(made := small(SPEC), SPEC)
    torch.testing.assert_close(network.features(seen), torch.relu(made[1](seen)))
    torch.testing.assert_close(made[3](network.features(seen)), network(seen))
    assert not any(layer._forward_pre_hooks for layer in made.modules())
    for without in (Scores(SPEC), PerAction(SPEC)):
        assert OwnNetwork(without, SPEC).features(seen) is None


@pytest.mark.parametrize("make", [Scores, PerAction])
def test_numbers_about_features_are_left_out_without_them(make: Callable[[EnvSpec], nn.Module]) -> None:
    rows: list[Learned] = []
    config = AgentConfig.of("smoke", agent="sv-double", network="mlp", learning_rate=1e-2)
    agent = train(
        identity, config, network=make, watch=lambda event: rows.append(event) if isinstance(event, Learned) else None
    )
    assert rows
    assert {(row.feature_rank, row.dormant) for row in rows} == {(None, None)}
    study = rank_study(agent, batches=10, states=60, batch_size=8).as_json()
    for name in ("feature_rank", "srank", "dormant"):
        assert study[name] is None
        assert study[f"{name}_reason"] == "the network has no nn.Linear that takes a row for each state"
    assert study["mean"] >= 1


def test_a_file_gives_the_weights_and_the_user_the_network(tmp_path: Path) -> None:
    agent = train(identity, SMOKE, seed=0, network=small)
    agent.save(tmp_path / "agent.npz")
    name = f"{__name__}:small"
    for given in (small, name):
        back = Agent.load(tmp_path / "agent.npz", source=identity, network=given)
        assert back.config.network == name
        assert torch.equal(back.q(2), agent.q(2))
    for call in (
        lambda: Agent.load(tmp_path / "agent.npz", source=identity),
        lambda: load_agent(tmp_path, source=identity),
    ):
        with pytest.raises(ValueError, match=re.escape(f"network of your own, '{name}', which would import")):
            call()
    with pytest.raises(ValueError, match=r"agent\.npz does not fit network .*:Scores: The weights do not fit"):
        Agent.load(tmp_path / "agent.npz", source=identity, network=Scores)
    train(identity, SMOKE).save(tmp_path / "ours.npz")
    with pytest.raises(ValueError, match=r"The agent has network mlp, which is svrl's\. Leave network out"):
        Agent.load(tmp_path / "ours.npz", source=identity, network=small)


def test_a_resumed_run_becomes_that_which_was_not_interrupted(tmp_path: Path) -> None:
    config = AgentConfig.for_env("CartPole-v1", "smoke", agent="sv-double-network", steps=200)
    straight, broken = tmp_path / "straight", tmp_path / "broken"

    def stop(event: Any) -> None:
        if isinstance(event, Stepped) and event.steps == 120:
            raise Stopped(2)

    train_in_directory("CartPole-v1", config, folder=straight, network=small)
    with pytest.raises(Stopped):
        train_in_directory("CartPole-v1", config, folder=broken, network=small, watch=stop)
    with pytest.raises(ValueError, match=r"network was .*:small and is mlp"):
        train_in_directory("CartPole-v1", config, folder=broken, resume=True)
    train_in_directory("CartPole-v1", config, folder=broken, network=small, resume=True)
    wanted, found = (weights_of(load_agent(run, network=small).network) for run in (straight, broken))
    assert all(np.array_equal(found[name], array) for name, array in wanted.items())
    rows = [read_rows(run / "learning.jsonl") for run in (straight, broken)]
    assert rows[0] == rows[1]
    assert rows[0][-1]["feature_rank"] > 1


def test_a_name_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_networks.py").write_text(
        "from torch import nn\n\nclass Nets:\n    @staticmethod\n    def make(spec):\n"
        "        return nn.Sequential(nn.Flatten(), nn.Linear(4, spec.n_actions))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    config = AgentConfig.of("smoke", network="my_networks:Nets.make", agent="sv-dqn")
    agent = svrl.train(identity, config)
    assert layers_of(agent.network) == "linear 4"
    monkeypatch.delitem(sys.modules, "my_networks")
    agent.save(tmp_path / "agent.npz")
    with pytest.raises(ValueError, match="would import my_networks"):
        Agent.load(tmp_path / "agent.npz", source=identity)
    assert "my_networks" not in sys.modules


class NoWeights(Scores):
    def __init__(self, spec: EnvSpec) -> None:
        super().__init__(spec)
        self.requires_grad_(False)


def sequential(*layers: nn.Module) -> Callable[[EnvSpec], nn.Module]:
    return lambda spec: nn.Sequential(nn.Linear(5, 16), *layers, nn.Linear(16, 3))


WRONG: list[tuple[Any, str]] = [
    (lambda spec: None, r":<lambda> must be a function that returns an nn\.Module, got None"),
    (lambda spec: 1 / 0, r"could not be created: ZeroDivisionError\('division by zero'\)"),
    (lambda spec: nn.Linear(7, 3), r"failed on observations \(3, 5\), float32: RuntimeError"),
    (
        lambda spec: nn.Linear(5, 4),
        r"must return values \(3, 3\), float32, for \(3, 5\), float32; got \(3, 4\), float32",
    ),
    (lambda spec: nn.LSTM(5, 3), r"must return values .*; got tuple"),
    (NoWeights, "has no weights to train"),
    (sequential(nn.Dropout(0.5)), "different values for the same observation in another batch. Leave out dropout"),
    (sequential(nn.BatchNorm1d(16)), "failed on observations .*more than 1 value per channel"),
    (nn.Linear(5, 3), r"function from EnvSpec to a new nn\.Module, or its name, .* got Linear"),
    (5, "got int"),
    ("no_such_module:make", "there is no module no_such_module. Install it, or add its folder to PYTHONPATH"),
    ("torch.nn:Linea", r"torch\.nn has no function Linea"),
    ("a:b c", "network is one of nature, minatar, mlp, or your own, such as my_module:make; got 'a:b c'"),
    ("mpl", "got 'mpl'"),
]


@pytest.mark.parametrize(("make", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_what_cannot_be_a_network_gets_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build_network(SPEC, with_network(SMOKE, make), None, make)


def test_settings_that_are_for_svrl_s_networks_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"head dueling is for svrl's networks. End my:make, your own, with a module of svrl.heads"
    ):
        AgentConfig.of("smoke", network="my:make", agent="sv-dueling")
    with pytest.raises(ValueError, match=r"layer_norm is for svrl's networks"):
        AgentConfig.of("smoke", network="my:make", layer_norm=True)
    with pytest.raises(ValueError, match=r"network is a word, got .* Pass your own to train\(\.\.\., network="):
        AgentConfig.of("smoke", network=small)


def test_it_serves_environments_with_other_numbers_of_states() -> None:
    agent = train(lambda: Identity(6), SMOKE, network=small)
    assert agent.network.n_actions == 6
    with pytest.raises(ValueError, match=r"does not fit .*: it was trained on observations \(6,\)"):
        agent.evaluate(identity)
