"""Pictures go through convolutions, alone and inside a Dict, whatever their axes and numbers; small ones do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig
from svrl.agents.networks import QNetwork, build_network, layers_of
from svrl.agents.training import Training, train
from svrl.envs.observations import Observations, space_as_json
from svrl.envs.vector import EnvSpec
from svrl.runtime.arrays import read_arrays, write_arrays

from .small_envs import OF_LIT, lit, lit_in_a_dict, lit_side

CONFIG = AgentConfig.of("control", hidden=(24, 16))
BYTES = {"low": 0, "high": 255, "dtype": np.uint8}


def spec_of(space: spaces.Space) -> EnvSpec:
    view = Observations(space, "it")
    return EnvSpec(
        id="it",
        family="gymnasium",
        frame_shape=view.shape,
        dtype=view.dtype,
        high=view.high,
        n_actions=3,
        space=space_as_json(space),
        pictures=view.pictures,
    )


def network_of(space: spaces.Space, config: AgentConfig = CONFIG) -> QNetwork:
    return build_network(spec_of(space), config, torch.Generator().manual_seed(0))


def values(space: spaces.Space, observation: Any, network: QNetwork | None = None) -> torch.Tensor:
    """Of one observation, by a network with the weights of seed 0, or by another."""
    seen, _ = Observations(space, "it").batch(observation)
    with torch.no_grad():
        return (network or network_of(space))(torch.from_numpy(seen))[0]


def bytes_of(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8)


def plain(network: QNetwork, pool: tuple[int, int] | None, cells: int) -> nn.Sequential:
    """A network of torch's own layers, with the weights of ours."""
    layers: list[nn.Module] = []
    for sizes in ((3, 32, 8, 4), (32, 64, 4, 2), (64, 64, 3, 1)):
        layers += [nn.Conv2d(*sizes), nn.ReLU()]
    layers += [nn.AvgPool2d(pool, ceil_mode=True)] if pool else []
    layers += [nn.Flatten(), nn.Linear(64 * cells, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 3)]
    made = nn.Sequential(*layers)
    with torch.no_grad():
        for mine, theirs in zip(made.parameters(), network.parameters(), strict=True):
            mine.copy_(theirs)
    return made


@pytest.mark.parametrize(
    ("height", "width", "pool", "cells"),
    [(36, 36, None, 1), (64, 48, None, 4 * 2), (84, 84, None, 7 * 7), (156, 172, (2, 3), 8 * 6), (100, 36, (2, 1), 5)],
)
def test_the_values_are_those_of_torch_s_own_layers(
    height: int, width: int, pool: tuple[int, int] | None, cells: int
) -> None:
    space = spaces.Box(**BYTES, shape=(height, width, 3))
    picture, network = bytes_of(height, width, 3), network_of(space)
    wanted = plain(network, pool, cells)(torch.from_numpy(picture).permute(2, 0, 1)[None] / 255)
    torch.testing.assert_close(values(space, picture, network), wanted[0])
    assert layers_of(network) == "conv 32-64-64, linear 24-16-3"


@pytest.mark.parametrize("side", [200, 400, 1000])
def test_large_pictures_do_not_make_large_layers(side: int) -> None:
    network = network_of(spaces.Box(**BYTES, shape=(side, side + 60, 3)), AgentConfig.of("classic"))
    assert sum(parameter.numel() for parameter in network.parameters()) < 1_300_000


@pytest.mark.parametrize("channels", [1, 3, 4, 12])
@pytest.mark.parametrize("size", [(40, 40), (36, 50), (50, 36)])
def test_channels_may_be_first_or_last(channels: int, size: tuple[int, int]) -> None:
    picture = bytes_of(*size, channels)
    last = values(spaces.Box(**BYTES, shape=picture.shape), picture)
    first = np.ascontiguousarray(np.moveaxis(picture, -1, 0))
    torch.testing.assert_close(values(spaces.Box(**BYTES, shape=first.shape), first), last)
    if channels == 1:
        torch.testing.assert_close(values(spaces.Box(**BYTES, shape=size), picture[..., 0]), last)
    if channels == 12:
        stack = np.stack(np.split(picture, 4, axis=-1))  # as FrameStackObservation stacks colour pictures
        torch.testing.assert_close(values(spaces.Box(**BYTES, shape=stack.shape), stack), last)


@pytest.mark.parametrize(
    ("high", "dtype", "scale"),
    [
        (1.0, np.float32, 1),
        (255.0, np.float32, 255),
        (510.0, np.float64, 510),
        (65_535, np.uint16, 65_535),
        (1, np.bool_, 1),
        (0.0, np.float32, 1),
        (np.inf, np.float32, 1),
        (np.finfo(np.float32).max, np.float32, 1),
    ],
)
def test_numbers_of_any_type_are_scaled_by_the_upper_bound(high: float, dtype: Any, scale: float) -> None:
    low = -np.inf if high == np.inf else -1.0 if high == 0.0 else 0
    space = spaces.Box(low, high, (40, 44, 3), dtype)
    picture = (np.random.default_rng(1).random((40, 44, 3)) * scale).astype(dtype)
    network = network_of(space)
    shown = torch.from_numpy(picture.astype(np.float32)).permute(2, 0, 1)[None] / scale
    torch.testing.assert_close(values(space, picture, network), plain(network, None, 1 * 2)(shown)[0])


def test_a_picture_inside_a_dict_is_the_picture_alone() -> None:
    picture = bytes_of(40, 44, 3)
    alone = values(spaces.Box(**BYTES, shape=(40, 44, 3)), picture)
    for shape, shown in (((40, 44, 3), picture), ((3, 40, 44), np.moveaxis(picture, -1, 0))):
        part = spaces.Box(**BYTES, shape=shape)
        assert torch.equal(values(spaces.Dict({"a": spaces.Dict({"see": part})}), {"a": {"see": shown}}), alone)
        assert torch.equal(values(spaces.Tuple([part]), (shown,)), alone)
    real = spaces.Dict(see=spaces.Box(0, 2, (40, 44, 3)))
    torch.testing.assert_close(values(real, {"see": (picture / 127.5).astype(np.float32)}), alone)


def test_two_pictures_and_numbers_stand_beside_each_other() -> None:
    space = spaces.Dict(
        {
            "before": spaces.Discrete(2),
            "left": spaces.Box(**BYTES, shape=(40, 44, 3)),
            "middle": spaces.Box(-5, 5, (3,)),
            "right": spaces.Box(0, 1, (36, 37)),
            "small": spaces.Box(**BYTES, shape=(2, 2, 3)),
        }
    )
    given = {"before": 1, "left": bytes_of(40, 44, 3), "middle": np.float32([1, -2, 3]), "small": bytes_of(2, 2, 3)}
    given["right"] = np.random.default_rng(2).random((36, 37)).astype(np.float32)
    spec, network = spec_of(space), network_of(space)
    assert spec.pictures == ((2, 3, 40, 44), (2 + 3 * 40 * 44 + 3, 1, 36, 37))
    weights = list(network.parameters())
    convolve, seen = nn.functional.conv2d, []
    for k, picture in enumerate((given["left"].transpose(2, 0, 1) / 255, given["right"][None])):
        maps = torch.tensor(picture[None], dtype=torch.float32)
        for layer, stride in enumerate((4, 2, 1)):
            maps = torch.relu(convolve(maps, weights[6 * k + 2 * layer], weights[6 * k + 2 * layer + 1], stride=stride))
        seen.append(maps.flatten(1))
    numbers = [0, 1, 1, -2, 3, *given["small"].ravel().tolist()]
    row = torch.cat([*seen, torch.tensor([numbers], dtype=torch.float32)], 1)
    for linear in (12, 14, 16):
        row = nn.functional.linear(torch.relu(row) if linear > 12 else row, weights[linear], weights[linear + 1])
    torch.testing.assert_close(values(space, given, network), row[0])


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(**BYTES, shape=(35, 80, 3)),
        spaces.Box(**BYTES, shape=(10, 10, 6)),
        spaces.Box(0, 1, (35, 80, 3)),
        spaces.Box(0, 1, (300, 2)),
        spaces.Box(0, 1, (4, 30, 30, 3)),
        spaces.Dict(see=spaces.Box(**BYTES, shape=(20, 20, 3)), n=spaces.Discrete(3)),
    ],
    ids=str,
)
def test_small_pictures_are_numbers_like_others(space: spaces.Space) -> None:
    spec = spec_of(space)
    assert spec.pictures == ()
    assert layers_of(network_of(space)) == "linear 24-16-3"


@pytest.mark.parametrize(("make", "agent"), [(lit, "dueling"), (lit_in_a_dict, "sv-double-network")])
def test_an_agent_learns_from_pictures_and_its_file_acts_the_same(make: Any, agent: str, tmp_path: Path) -> None:
    trained = train(make, AgentConfig.of("smoke", network="mlp", agent=agent, **OF_LIT), seed=0)
    games = trained.evaluate(episodes=10, seed=1, epsilon=0.0)
    assert games.mean > 9
    trained.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz", source=make)
    env = make()
    seen = [env.reset(seed=seed)[0] for seed in range(10)]
    assert [back.act(one) for one in seen] == [trained.act(one) for one in seen] == [lit_side(one) for one in seen]


@pytest.mark.parametrize("pictures", [[], [[11, 3, 40, 44]], [[0, 3, 400, 44]]])
def test_a_file_whose_pictures_are_not_those_of_its_space_is_refused(tmp_path: Path, pictures: Any) -> None:
    training = Training(lit_in_a_dict, AgentConfig.of("smoke", network="mlp", hidden=(8,)), seed=0)
    training.close()
    Agent.of(training).save(tmp_path / "agent.npz")
    tree = dict(read_arrays(tmp_path / "agent.npz"))
    about = json.loads(tree["about"])
    assert about["spec"]["pictures"] == [[0, 3, 40, 44]]
    about["spec"]["pictures"] = pictures
    write_arrays(tmp_path / "agent.npz", {**tree, "about": json.dumps(about)})
    with pytest.raises(ValueError, match="its observation space differs"):
        Agent.load(tmp_path / "agent.npz", source=lit_in_a_dict)
