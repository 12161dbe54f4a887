"""One update as a one-file script in CleanRL's manner makes it, plain and with the hook.

Nature network, eager, 84x84x4 bytes in a memory of NumPy arrays, 18 actions, batch 32, Adam, squared errors.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from svrl.integrations.target_hook import structure

ACTIONS, BATCH, STORED, DISCOUNT = 18, 32, 256, 0.99


class NatureNetwork(nn.Module):
    """Frames (B, 4, 84, 84) of bytes to values (B, A)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
            nn.Linear(512, ACTIONS),
        )

    def forward(self, frames: Tensor) -> Tensor:
        """Values."""
        values: Tensor = self.layers(frames / 255.0)
        return values


def updates(seed: int = 0) -> tuple[Callable[[], None], Callable[[], None]]:
    """(plain, structured): each call makes one update of the same agent, on the CPU."""
    online, source = NatureNetwork(), torch.Generator().manual_seed(seed)
    for parameter in online.parameters():
        nn.init.uniform_(parameter, -0.03, 0.03, generator=source)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    rng = np.random.default_rng(seed)
    frames = rng.integers(256, size=(STORED + 1, 4, 84, 84), dtype=np.uint8)
    actions, rewards = rng.integers(ACTIONS, size=STORED), rng.normal(size=STORED).astype(np.float32)
    dones = (rng.random(STORED) < 0.01).astype(np.float32)

    def update() -> None:
        drawn = rng.integers(STORED, size=BATCH)
        here, there = torch.as_tensor(frames[drawn]), torch.as_tensor(frames[drawn + 1])
        with torch.no_grad():
            best = target(there).max(dim=1).values
            wanted = torch.as_tensor(rewards[drawn]) + DISCOUNT * best * (1 - torch.as_tensor(dones[drawn]))
        said = online(here).gather(1, torch.as_tensor(actions[drawn])[:, None]).squeeze(1)
        loss = nn.functional.mse_loss(said, wanted)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    def structured_update() -> None:
        with structure(target, seed=seed):
            update()

    return update, structured_update
