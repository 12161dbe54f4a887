"""Small algorithms, memories and comparisons for the tests of Tianshou."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import C51, DQN, IQN, QRDQN, RainbowDQN
from tianshou.algorithm.modelfree.c51 import C51Policy
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.modelfree.iqn import IQNPolicy
from tianshou.algorithm.modelfree.qrdqn import QRDQNPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer
from tianshou.utils.net.common import Net, Recurrent
from tianshou.utils.net.discrete import ImplicitQuantileNetwork, NoisyLinear
from tianshou.utils.torch_utils import policy_within_training_step
from torch import Tensor, nn

from svrl.integrations.tianshou import (
    StructuredC51,
    StructuredDQN,
    StructuredIQN,
    StructuredQRDQN,
    StructuredRainbow,
)

ACTIONS, WIDTH, BATCH = 6, 5, 16
SPACE = gymnasium.spaces.Discrete(ACTIONS)
OURS: dict[Any, Any] = {
    DQN: StructuredDQN,
    QRDQN: StructuredQRDQN,
    IQN: StructuredIQN,
    C51: StructuredC51,
    RainbowDQN: StructuredRainbow,
}


class Atoms(nn.Module):
    """Probabilities (B, A, 7), from noisy layers or not."""

    def __init__(self, noisy: bool) -> None:
        super().__init__()
        linear: Any = NoisyLinear if noisy else nn.Linear
        self.layers = nn.Sequential(linear(WIDTH, 16), nn.ReLU(), linear(16, ACTIONS * 7))

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[Tensor, Any]:
        flat = self.layers(torch.as_tensor(obs, dtype=torch.float32))
        return flat.view(-1, ACTIONS, 7).softmax(-1), state


def policy_for(kind: type) -> DiscreteQLearningPolicy:
    if kind in (C51, RainbowDQN):
        return C51Policy(model=Atoms(kind is RainbowDQN), action_space=SPACE, num_atoms=7, v_min=-3.0, v_max=3.0)
    if kind is QRDQN:
        net = Net(state_shape=WIDTH, action_shape=SPACE.n, hidden_sizes=[16], num_atoms=9)
        return QRDQNPolicy(model=net, action_space=SPACE)
    if kind is IQN:
        features = Net(state_shape=WIDTH, action_shape=0, hidden_sizes=[16])
        net = ImplicitQuantileNetwork(preprocess_net=features, action_shape=SPACE.n, num_cosines=8)
        return IQNPolicy(model=net, action_space=SPACE)
    net = Net(state_shape=WIDTH, action_shape=SPACE.n, hidden_sizes=[16])
    return DiscreteQLearningPolicy(model=net, action_space=SPACE)


def algorithm_of(kind: type, cls: type | None = None, **settings: Any) -> Any:
    torch.manual_seed(0)
    if kind is QRDQN:
        settings.setdefault("num_quantiles", 9)
    settings.setdefault("target_update_freq", 4)
    return (cls or kind)(policy=policy_for(kind), optim=AdamOptimizerFactory(lr=1e-2), gamma=0.9, **settings)


def memory(size: int = 64, *, prioritised: bool = False) -> ReplayBuffer:
    rng = np.random.default_rng(0)
    buffer = PrioritizedReplayBuffer(size, alpha=0.6, beta=0.4) if prioritised else ReplayBuffer(size)
    states = rng.normal(size=(size + 1, WIDTH)).astype(np.float32)
    for k in range(size):
        ended = k % 11 == 10
        buffer.add(
            Batch(
                obs=states[k],
                act=int(rng.integers(ACTIONS)),
                rew=float(rng.normal()),
                obs_next=states[k + 1],
                terminated=ended and k % 2 == 0,
                truncated=ended and k % 2 == 1,
                info={},
            )
        )
    return buffer


def updated(algorithm: Any, buffer: ReplayBuffer, times: int) -> list[Any]:
    np.random.seed(0)  # noqa: NPY002 - the library draws batches from it
    torch.manual_seed(0)
    with policy_within_training_step(algorithm.policy):
        return [algorithm.update(buffer=buffer, sample_size=BATCH) for _ in range(times)]


def values_of(algorithm: Any, obs: np.ndarray, *, online: bool) -> Tensor:
    model = algorithm.policy.model if online or not algorithm.use_target_network else algorithm.model_old
    with torch.no_grad():
        return model(obs)[0]


def returns_of(algorithm: Any, buffer: ReplayBuffer, indices: np.ndarray) -> Tensor:
    batch = buffer[indices]
    return algorithm._preprocess_batch(batch, buffer, indices).returns


def recurrent(cls: type, **settings: Any) -> Any:
    torch.manual_seed(0)
    net = Recurrent(layer_num=1, state_shape=WIDTH, action_shape=SPACE.n, hidden_layer_size=8)
    policy = DiscreteQLearningPolicy(model=net, action_space=SPACE)
    return cls(policy=policy, optim=AdamOptimizerFactory(lr=1e-2), target_update_freq=4, **settings)


# What test_contract.py asks for.

SETTINGS: dict[str, dict[str, Any]] = {"no target network": {"target_update_freq": 0}, "target network": {}}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"{kind.__name__}, {name}": (kind, settings) for kind in OURS for name, settings in SETTINGS.items()},
    "DQN, not double": (DQN, {"is_double": False}),
    "recurrent": (DQN, {"make": recurrent}),
}
FEW = tuple(f"{kind.__name__}, target network" for kind in OURS)


def run(case: str, *, plain: bool = False, **settings: Any) -> Any:
    kind, own = CASES[case]
    cls, own = kind if plain else OURS[kind], {"n_step_return_horizon": 3, **own}
    make = own.pop("make", partial(algorithm_of, kind))
    algorithm = make(cls, **own, **settings)
    algorithm.stats = updated(algorithm, memory(prioritised=True), 25)
    return algorithm


def weights(algorithm: Any) -> list[Tensor]:
    return list(algorithm.parameters())


def same(one: Any, two: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(two), strict=True))


def updates(algorithm: Any) -> int:
    return int(algorithm.structure_updates)


def ranks(algorithm: Any) -> dict[str, float]:
    said = algorithm.stats[-1].get_loss_stats_dict()
    return {name: value for name, value in said.items() if "rank" in name}


def resumed(algorithm: Any, case: str, folder: Path) -> Any:
    kind, own = CASES[case]
    torch.save(algorithm.state_dict(), folder / "state.pt")
    loaded = algorithm_of(kind, OURS[kind], n_step_return_horizon=3, structure=algorithm.structure, **own)
    loaded.load_state_dict(torch.load(folder / "state.pt"))
    algorithm._iter = loaded._iter = 0  # Tianshou does not save when its target network is due
    return loaded


def go_on(algorithm: Any, case: str) -> None:
    updated(algorithm, memory(prioritised=True), 7)
