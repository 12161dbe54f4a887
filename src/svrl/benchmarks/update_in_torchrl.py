"""One update with TorchRL's DQNLoss, plain and structured: Nature network, 84x84x4 frames, 18 actions, batch 32.

The library's own network, replay memory and target updater, in the loop that its users write: draw a batch, which a
transform turns into floats, then loss, step of Adam, step of the updater.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from tensordict import TensorDict
from torch import nn
from torchrl.data import Categorical, LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs.transforms import ToTensorImage
from torchrl.modules import MLP, ConvNet, QValueActor
from torchrl.objectives import HardUpdate

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.torchrl import StructuredDQNLoss

ACTIONS, BATCH, STORED = 18, 32, 256


def updates(seed: int = 0) -> tuple[Callable[[], None], Callable[[], None]]:
    """(plain, structured): each call makes one update of the same agent, on the CPU."""
    network = nn.Sequential(
        ConvNet(
            in_features=4, num_cells=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1], activation_class=nn.ReLU
        ),
        MLP(in_features=64 * 7 * 7, out_features=ACTIONS, num_cells=[512], activation_class=nn.ReLU),
    )
    random = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        nn.init.uniform_(parameter, -0.05, 0.05, generator=random)
    space = Categorical(ACTIONS)
    actor = QValueActor(network, in_keys=["pixels"], spec=space)
    loss = StructuredDQNLoss(actor, action_space=space, loss_function="smooth_l1")
    loss.make_value_estimator(gamma=0.99)
    updater = HardUpdate(loss, value_network_update_interval=1_000)
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-4)
    memory = random_memory(seed)

    rule = loss.structure

    def update(structure: StructuredTargets | None) -> None:
        loss.structure = structure
        value = loss(memory.sample())["loss"]
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        updater.step()

    return lambda: update(None), lambda: update(rule)


def random_memory(seed: int) -> TensorDictReplayBuffer:
    """Transitions with random frames, (height, width, 4) of uint8."""
    random = torch.Generator().manual_seed(seed)
    frames = torch.randint(256, (STORED + 1, 84, 84, 4), dtype=torch.uint8, generator=random)
    ended = torch.rand(STORED, 1, generator=random) < 0.01
    memory = TensorDictReplayBuffer(storage=LazyTensorStorage(STORED), batch_size=BATCH, generator=random)
    memory.append_transform(ToTensorImage(in_keys=["pixels", ("next", "pixels")]))
    memory.extend(
        TensorDict(
            {
                "pixels": frames[:-1],
                "action": torch.randint(ACTIONS, (STORED,), generator=random),
                "next": {
                    "pixels": frames[1:],
                    "reward": torch.randn(STORED, 1, generator=random),
                    "done": ended,
                    "terminated": ended,
                },
            },
            [STORED],
        )
    )
    return memory
