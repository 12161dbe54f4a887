"""MinAtar: five Atari games on a 10x10 grid, for which a laptop is enough. Young and Tian, 2019.

A frame is (channels, 10, 10), 0 or 1, one channel for each kind of object. All games have the same six
actions, as published, also where some do nothing. Difficulty rises during a game.

Freeway ends after 2,500 frames. The others end only when the player fails, and a player who does not
fail plays for ever: in Breakout it is enough to stay under the ball. So every game is cut off after
100,000 frames, which is a truncation.
"""

from __future__ import annotations

import colorsys
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from svrl.envs.catalogue import MINATAR
from svrl.envs.lanes import checked_actions, empty_step, with_endings
from svrl.envs.snapshot import attributes, read, write
from svrl.envs.vector import EnvSpec, Step
from svrl.runtime.names import nearest_name

ACTION_NAMES = ("noop", "left", "up", "right", "down", "fire")
FRAME_LIMIT = 100_000
_PIXELS = 16


class MinAtarLanes:
    """N games of MinAtar, stepped one after another.

    Attributes:
        spec: Observations (channels, 10, 10), uint8.
        count: N.
    """

    def __init__(
        self, game: str, *, seeds: tuple[int, ...], sticky: float = 0.0, frame_limit: int = FRAME_LIMIT
    ) -> None:
        """Make the games.

        Args:
            game: One of `MINATAR`; hyphens count as underscores.
            seeds: One for each lane.
            sticky: Probability with which the action before is repeated.
            frame_limit: Frames after which a game is cut off.

        Raises:
            ValueError: If there is no such game, or minatar is not installed.
        """
        name = _found(game)
        environment = _environment_class()
        self.count = len(seeds)
        self._games = [environment(name, sticky_action_prob=sticky, difficulty_ramping=True) for _ in seeds]
        for one, seed in zip(self._games, seeds, strict=True):
            one.seed(seed)
        self.spec = EnvSpec(
            id=f"minatar/{name}",
            family="minatar",
            frame_shape=(self._games[0].n_channels, 10, 10),
            dtype="uint8",
            n_actions=len(ACTION_NAMES),
            action_names=ACTION_NAMES,
        )
        self._limit = frame_limit
        self._elapsed = [0] * self.count
        self._actions: list[int] = []

    def reset(self) -> np.ndarray:
        """Begin a game in every lane."""
        for game in self._games:
            game.reset()
        self._elapsed = [0] * self.count
        return self._observations()

    def send(self, actions: np.ndarray) -> None:
        """Keep the actions; the work is done by `recv`."""
        self._actions = checked_actions(actions, self.spec, self.count)

    def recv(self) -> Step:
        """Step one game after another."""
        step = empty_step(self.spec, self.count)
        endings: dict[int, np.ndarray] = {}
        for lane, (game, action) in enumerate(zip(self._games, self._actions, strict=True)):
            step.rewards[lane], terminal = game.act(action)
            self._elapsed[lane] += 1
            if terminal or self._elapsed[lane] >= self._limit:
                endings[lane] = game.state().transpose(2, 0, 1)
                step.terminal[lane], step.truncated[lane] = terminal, not terminal
                game.reset()
                self._elapsed[lane] = 0
            step.observations[lane] = game.state().transpose(2, 0, 1)
        return with_endings(step, endings)

    def capture(self) -> dict[str, Any]:
        """The attributes of every game, its generator among them."""
        lanes = [write([attributes(game, apart={"env"}), attributes(game.env)]) for game in self._games]
        return {"game": self.spec.id, "lanes": lanes, "elapsed": list(self._elapsed)}

    def restore(self, state: Mapping[str, Any]) -> np.ndarray:
        """Go back to what `capture` saw.

        Raises:
            ValueError: If it was captured from other games, or is damaged.
        """
        if state["game"] != self.spec.id or len(state["lanes"]) != self.count:
            held = f"{len(state['lanes'])} lanes of {state['game']}"
            raise ValueError(f"The state is of {held}, not of {self.count} lanes of {self.spec.id}. Begin anew.")
        for game, lane in zip(self._games, state["lanes"], strict=True):
            try:
                outer, inner = read(lane)
            except (KeyError, IndexError, TypeError) as error:
                raise ValueError(f"The state of {self.spec.id} is damaged and cannot be restored.") from error
            vars(game).update(outer)
            vars(game.env).update(inner)
        self._elapsed = [int(frames) for frames in state["elapsed"]]
        return self._observations()

    def render(self, lane: int = 0) -> np.ndarray:
        """The grid, (160, 160, 3), a colour for each channel; a later channel covers an earlier one."""
        grid = self._games[lane].state()
        picture = np.zeros((10, 10, 3), dtype=np.uint8)
        for channel in range(grid.shape[2]):
            picture[grid[:, :, channel]] = _colour(channel, grid.shape[2])
        return picture.repeat(_PIXELS, axis=0).repeat(_PIXELS, axis=1)

    def close(self) -> None:
        """Nothing is held."""

    def _observations(self) -> np.ndarray:
        observations = empty_step(self.spec, self.count).observations
        for lane, game in enumerate(self._games):
            observations[lane] = game.state().transpose(2, 0, 1)
        return observations


def _found(game: str) -> str:
    name = game.lower().replace("-", "_")
    if name in MINATAR:
        return name
    raise ValueError(f"MinAtar has no game {game!r}. {nearest_name(name, MINATAR)}")


def _environment_class() -> Any:
    try:
        with _quiet_import():
            from minatar import Environment  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as error:
        raise ValueError('MinAtar needs minatar: pip install "svrl[minatar]"') from error
    return Environment


@contextmanager
def _quiet_import() -> Iterator[None]:
    """Keep minatar from warning that its own windows need seaborn, and from setting up logging while it does."""
    root, silence = logging.getLogger(), logging.NullHandler()

    def drop(record: logging.LogRecord) -> bool:
        return "minatar" not in record.pathname

    root.addHandler(silence)
    root.addFilter(drop)
    try:
        yield
    finally:
        root.removeFilter(drop)
        root.removeHandler(silence)


def _colour(channel: int, channels: int) -> tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb(channel / channels, 0.7, 1.0)
    return int(255 * red), int(255 * green), int(255 * blue)
