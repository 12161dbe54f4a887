"""An environment that raises at an invalid move."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

RUNGS, ACTIONS = 5, 6
MOVES = (-2, -1, 1, 2, 3, 4)


class Ladder(gymnasium.Env):
    """Climb to the top; a move that leaves the ladder is invalid, and at the top, where an episode ends, all are.

    Attributes:
        moves: Made so far, all of them valid.
    """

    observation_space: gymnasium.Space = gymnasium.spaces.Dict(
        {
            "observation": gymnasium.spaces.Box(0.0, 1.0, (RUNGS,), np.float32),
            "action_mask": gymnasium.spaces.MultiBinary(ACTIONS),
        }
    )
    action_space = gymnasium.spaces.Discrete(ACTIONS)

    def __init__(self) -> None:
        self.rung = self.moves = self.length = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.rung, self.length = int(self.np_random.integers(3)), 0
        return self.observed(*self.state()), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        action = int(action)
        if not self.state()[1][action]:
            raise ValueError(f"move {MOVES[action]} from rung {self.rung} leaves the ladder")
        self.rung += MOVES[action]
        self.moves, self.length = self.moves + 1, self.length + 1
        ended = self.rung == RUNGS - 1
        return self.observed(*self.state()), -1.0, ended, self.length == 20 and not ended, {}

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """The rung, one-hot, and the valid moves."""
        at_the_top = self.rung == RUNGS - 1
        valid = [0 <= self.rung + move < RUNGS and not at_the_top for move in MOVES]
        return np.eye(RUNGS, dtype=np.float32)[self.rung], np.array(valid)

    def observed(self, rung: np.ndarray, valid: np.ndarray) -> Any:
        """What a library expects to see of it; overridden for each."""
        return {"observation": rung, "action_mask": valid.astype(np.int8)}
