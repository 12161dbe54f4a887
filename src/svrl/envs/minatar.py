"""MinAtar: five Atari games on a 10x10 grid that train on a laptop. Young and Tian, 2019.

A frame is (channels, 10, 10), 0 or 1, one channel for each kind of object. All games have the same six actions, as
published, even if some do nothing. Difficulty rises during a game.

Freeway ends after 2,500 frames. The others end only when the player fails, and some can last forever: in Breakout it is
enough to stay under the ball. So every game is truncated after 100,000 frames.
"""

from __future__ import annotations

import colorsys
import logging
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from svrl.envs.gymnasium import GymnasiumVectorEnv
from svrl.envs.make import MINATAR
from svrl.envs.vector import EnvSpec
from svrl.runtime.names import nearest_name

ACTION_NAMES = ("noop", "left", "up", "right", "down", "fire")
FRAME_LIMIT = 100_000
_PIXELS = 16


class MinAtarGame(gymnasium.Env[np.ndarray, Any]):
    """One game.

    Attributes:
        game: MinAtar's own object.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, name: str, sticky: float) -> None:
        self.game = _environment_class()(name, sticky_action_prob=sticky, difficulty_ramping=True)
        self.observation_space = spaces.Box(0, 1, (self.game.n_channels, 10, 10), np.uint8)
        self.action_space = spaces.Discrete(len(ACTION_NAMES))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a game."""
        if seed is not None:
            self.game.seed(seed)
            self.game.last_action = 0
        self.game.reset()
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Play one frame."""
        reward, terminal = self.game.act(action)
        return self._observation(), reward, terminal, False, {}

    def render(self) -> np.ndarray:
        """Draw the grid, (160, 160, 3), with a colour for each channel; a later channel covers an earlier one."""
        grid = self.game.state()
        picture = np.zeros((10, 10, 3), dtype=np.uint8)
        for channel in range(grid.shape[2]):
            colour = colorsys.hsv_to_rgb(channel / grid.shape[2], 0.7, 1.0)
            picture[grid[:, :, channel]] = [int(255 * part) for part in colour]
        return picture.repeat(_PIXELS, axis=0).repeat(_PIXELS, axis=1)

    def _observation(self) -> np.ndarray:
        return self.game.state().transpose(2, 0, 1).astype(np.uint8)


class MinAtarVectorEnv(GymnasiumVectorEnv):
    """N games of MinAtar, stepped one after another.

    Attributes:
        spec: Observations (channels, 10, 10), uint8.
        count: N.
    """

    def __init__(self, game: str, *, seeds: tuple[int, ...], sticky: float = 0.0) -> None:
        """Create the games.

        Args:
            game: One of `MINATAR`; hyphens count as underscores.
            seeds: One for each game.
            sticky: Probability that a frame repeats the last action.

        Raises:
            ValueError: If there is no such game, or minatar is not installed.
        """
        name = game.lower().replace("-", "_")
        if name not in MINATAR:
            raise ValueError(f"MinAtar has no game {game!r}. {nearest_name(name, MINATAR)}")
        spec = EnvSpec(
            id=f"minatar/{name}",
            family="minatar",
            frame_shape=MinAtarGame(name, sticky).observation_space.shape or (),
            dtype="uint8",
            n_actions=len(ACTION_NAMES),
            action_names=ACTION_NAMES,
        )
        super().__init__(
            lambda: TimeLimit(MinAtarGame(name, sticky), FRAME_LIMIT), seeds=seeds, name=spec.id, spec=spec
        )

    def _random_state(self, env: gymnasium.Env) -> Mapping[str, Any]:
        """The state of the generator, which game and stickiness share, and the last action, which may repeat."""
        game = env.get_wrapper_attr("game")
        return {"random": game.random.get_state(legacy=False), "last_action": game.last_action}

    def _set_random_state(self, env: gymnasium.Env, state: Mapping[str, Any]) -> None:
        game = env.get_wrapper_attr("game")
        game.seed(0)  # game and stickiness have separate generators until they are seeded
        game.random.set_state(state["random"])
        game.last_action = state["last_action"]


def _environment_class() -> Any:
    """MinAtar's class. Its import logs that windows need seaborn, which does not matter here."""
    root, silence = logging.getLogger(), logging.NullHandler()
    root.addHandler(silence)  # without a handler the message would set up logging
    try:
        from minatar import Environment  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ValueError('MinAtar needs minatar: pip install "svrl[minatar]"') from error
    finally:
        root.removeHandler(silence)
    return Environment
