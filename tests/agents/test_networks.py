from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.study import dormant_share
from svrl.agents.training import train
from svrl.envs.vector import EnvSpec

from .small_envs import identity

ATARI = EnvSpec(id="atari/x", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=18)
MINATAR = EnvSpec(id="minatar/x", family="minatar", frame_shape=(4, 10, 10), dtype="uint8", n_actions=6)
VECTOR = EnvSpec(id="v", family="gymnasium", frame_shape=(5,), dtype="float32", n_actions=3)
KINDS = [(ATARI, "authors"), (MINATAR, "minatar"), (VECTOR, "control")]


def build(spec: EnvSpec, preset: str, seed: int = 0, **changes: object) -> QNetwork:
    return build_network(spec, AgentConfig.of(preset, **changes), torch.Generator().manual_seed(seed))


def look(spec: EnvSpec, count: int = 3) -> torch.Tensor:
    source = torch.Generator().manual_seed(1)
    shape = (count, *spec.observation_shape)
    if spec.dtype == "uint8":
        return torch.randint(int(spec.high) + 1, shape, generator=source, dtype=torch.uint8)
    return torch.randn(shape, generator=source)


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(("spec", "preset"), KINDS)
@pytest.mark.parametrize("agent", ["dqn", "dueling"])
def test_values_of_all_actions(spec: EnvSpec, preset: str, agent: str) -> None:
    network = build(spec, preset, agent=agent)
    q = network(look(spec))
    assert q.shape == (3, spec.n_actions)
    assert q.dtype == torch.float32


def test_the_published_sizes() -> None:
    # Mnih et al. 2015 with 18 actions; MinAtar's with 4 channels and 6 actions.
    convolutions = 4 * 32 * 64 + 32 + 32 * 64 * 16 + 64 + 64 * 64 * 9 + 64
    assert parameters(build(ATARI, "authors")) == convolutions + 3136 * 512 + 512 + 512 * 18 + 18
    assert parameters(build(MINATAR, "minatar")) == 4 * 16 * 9 + 16 + 1024 * 128 + 128 + 128 * 6 + 6
    dueling = parameters(build(ATARI, "authors", agent="dueling"))
    assert dueling == parameters(build(ATARI, "authors")) + 3136 * 512 + 512 + 512 + 1


def test_dueling_is_value_plus_centred_advantage() -> None:
    network = build(VECTOR, "classic", agent="dueling")
    x = network.trunk(look(VECTOR))
    value = network.head.value(network.head.value_hidden(x))
    advantage = network.head.advantage(network.head.advantage_hidden(x))
    assert torch.allclose(network(look(VECTOR)), value + advantage - advantage.mean(-1, keepdim=True))
    assert torch.allclose(network(look(VECTOR)).mean(-1, keepdim=True), value, atol=1e-6)


@pytest.mark.parametrize(("spec", "preset"), KINDS)
def test_layer_norm_is_that_of_torch_before_every_relu_of_the_hidden_layers(spec: EnvSpec, preset: str) -> None:
    without = build(spec, preset, hidden=(20, 12, 8))
    assert not any(isinstance(layer, nn.LayerNorm) for layer in without.modules())
    network = build(spec, preset, hidden=(20, 12, 8), layer_norm=True)
    convolutions = [layer for layer in network.trunk if isinstance(layer, nn.Conv2d)]
    x = network.scaled(look(spec))
    for layer in convolutions:
        x = torch.relu(layer(x))
    x = x.flatten(1)
    linear = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
    for layer in linear[:-1]:
        x = layer(x)
        x = torch.relu((x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, correction=0, keepdim=True) + 1e-5))
    torch.testing.assert_close(network(look(spec)), linear[-1](x))
    names = [name for name, _ in without.named_parameters()]
    assert len(list(network.parameters())) == len(names) + 3 * 2
    drawn = [layer.weight for layer in without.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    assert all(torch.equal(a, b.weight) for a, b in zip(drawn, [*convolutions, *linear], strict=True))


@pytest.mark.parametrize("agent", ["sv-double", "dueling"])
def test_layer_norm_trains_and_is_saved(agent: str, tmp_path: Path) -> None:
    config = AgentConfig.of("smoke", network="mlp", agent=agent, hidden=(16, 8), layer_norm=True)
    trained = train(identity, config, seed=0)
    trained.save(tmp_path / "agent.npz")
    norms = [layer for layer in trained.network.modules() if isinstance(layer, nn.LayerNorm)]
    assert len(norms) == (3 if agent == "dueling" else 2)
    assert all(bool((layer.weight != 1).any()) for layer in norms)
    assert torch.equal(Agent.load(tmp_path / "agent.npz", source=identity).q(1), trained.q(1))


def test_pictures_are_scaled_by_their_largest_value() -> None:
    network = build(ATARI, "authors")
    white = torch.full((1, 4, 84, 84), 255, dtype=torch.uint8)
    bare = network.head(network.trunk(torch.ones(1, 4, 84, 84)))
    assert torch.allclose(network(white), bare)


@pytest.mark.parametrize("agent", ["dqn", "dueling"])
def test_features_lead_to_the_values(agent: str) -> None:
    network = build(VECTOR, "classic", agent=agent)
    features = network.features(look(VECTOR))
    assert features.shape == (3, 256 if agent == "dqn" else 512)
    assert bool((features >= 0).all())
    if agent == "dqn":
        assert torch.allclose(network.head(features), network(look(VECTOR)))


def test_weights_come_from_the_generator_alone_and_as_torch_draws_them() -> None:
    before = torch.get_rng_state()
    one, two, other = build(ATARI, "authors"), build(ATARI, "authors"), build(ATARI, "authors", seed=1)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(one(look(ATARI)), two(look(ATARI)))
    assert not torch.equal(one(look(ATARI)), other(look(ATARI)))
    layer = one.trunk[-2]
    bound = 3136**-0.5
    assert float(layer.weight.abs().max()) <= bound
    assert float(layer.weight.std()) == pytest.approx(bound / 3**0.5, rel=0.01)


def test_dormant_units_are_held_against_their_own_stream() -> None:
    network = build(VECTOR, "classic", agent="dueling")
    assert network.feature_widths == (256, 256)
    quiet = torch.cat([torch.rand(50, 256) + 0.5, 0.001 * (torch.rand(50, 256) + 0.5)], -1)
    assert dormant_share(quiet) == 0.5
    assert dormant_share(quiet, widths=network.feature_widths) == 0.0
    assert math.isnan(dormant_share(torch.full((3, 4), torch.nan)))
