"""One Atari game on the plain emulator, every step of the preparation written out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from ale_py import Action, ALEInterface, LoggerMode, roms

SKIP = 4


@dataclass(frozen=True)
class Shown:
    """What a step led to. `frame` is None where the game ended."""

    frame: np.ndarray | None
    reward: int
    lives: int
    over: bool


class GameByHand:
    """A single emulator; `begin` and `step` give the newest frame, 84x84."""

    def __init__(self, game: str) -> None:
        ALEInterface.setLoggerMode(LoggerMode.Error)
        self.ale = ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(roms.get_rom_path(game))
        self.actions = self.ale.getMinimalActionSet()

    def begin(self) -> np.ndarray:
        self.ale.reset_game()
        if Action.FIRE in self.actions:
            self.ale.act(Action.FIRE)
        return by_area(self.ale.getScreenGrayscale())

    def idle(self) -> np.ndarray:
        """One frame of doing nothing."""
        self.ale.act(Action.NOOP)
        return by_area(self.ale.getScreenGrayscale())

    def step(self, choice: int) -> Shown:
        reward, screens = 0, []
        for _ in range(SKIP):
            reward += self.ale.act(self.actions[choice])
            if self.ale.game_over():
                return Shown(None, reward, self.ale.lives(), True)
            screens.append(self.ale.getScreenGrayscale())
        return Shown(by_area(np.maximum(screens[-1], screens[-2])), reward, self.ale.lives(), False)


def overlaps(source: int, target: int) -> tuple[np.ndarray, np.ndarray]:
    """Which source pixels each target pixel covers and by what share of itself: (target, k) indices and shares."""
    width = source / target
    rows = []
    for place in range(target):
        left, right = place * width, (place + 1) * width
        inside = range(math.floor(left + 1e-6), math.ceil(right - 1e-6))
        rows.append([(pixel, (min(right, pixel + 1) - max(left, pixel)) / width) for pixel in inside])
    longest = max(len(row) for row in rows)
    rows = [row + [(0, 0.0)] * (longest - len(row)) for row in rows]
    table = np.array(rows)
    return table[..., 0].astype(int), table[..., 1].astype(np.float32)


ROWS, ROW_SHARES = overlaps(210, 84)
COLUMNS, COLUMN_SHARES = overlaps(160, 84)


def by_area(screen: np.ndarray) -> np.ndarray:
    """Mean over the area of each target pixel, in float32 and from left to right, so that ties round alike."""
    narrow = np.zeros((210, 84), dtype=np.float32)
    for k in range(COLUMNS.shape[1]):
        narrow = narrow + screen.astype(np.float32)[:, COLUMNS[:, k]] * COLUMN_SHARES[:, k]
    small = np.zeros((84, 84), dtype=np.float32)
    for k in range(ROWS.shape[1]):
        small = small + ROW_SHARES[:, k, None] * narrow[ROWS[:, k]]
    return np.rint(small).astype(np.uint8)
