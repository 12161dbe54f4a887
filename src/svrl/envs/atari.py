"""Atari games on ale-py's native vector environment, preprocessed as in the literature.

An action repeats for 4 frames; an observation is the maximum of the last two of them, in grey, shrunk to 84x84 by area,
stacked with the three before it. An episode is a whole game: it begins after up to 29 no-op frames, the first of them
FIRE if the game has it, and is truncated after 108,000 frames (half an hour). Rewards are raw. Machado et al., JAIR
2018, discuss all of these.

Three pitfalls of the native environment:

- Its own report of a lost life also sets the flags of an ended episode. So this module compares lives step by step.
  Some games count down to 0 and continue (Bank Heist plays its last life at 0): any fall counts while the game
  continues. At the end of a game the lives are those of the next one, and mean nothing.
- It reports last observations of all games once any has ended; only those of ended games mean anything.
- A step that ends or truncates the game may show the screen from before it as its newest frame.

The emulators cannot be saved, so `capture` returns None, and a resumed run begins new games.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from svrl.envs.atari_games import Game
from svrl.envs.vector import EnvSpec, Step, VectorEnv, checked_actions

FRAME_LIMIT = 108_000
NOOP_MAX = 30
"""A game begins after fewer frames than this, drawn uniformly."""
STACK = 4
SIDE = 84
_PICTURE = (420, 320)


class AtariVectorEnv(VectorEnv):
    """N games of one kind, stepped by native threads.

    Attributes:
        spec: Observations (4, 84, 84), uint8.
        count: N.
    """

    def __init__(
        self,
        game: Game,
        *,
        seeds: tuple[int, ...],
        sticky: float = 0.0,
        threads: int = 0,
    ) -> None:
        """Choose the game. The emulators, a tenth of a second each, start at the first `reset`.

        Args:
            game: The game to play.
            seeds: One for each game.
            sticky: Probability that a frame repeats the action of the frame before it.
            threads: Most native threads; 0 means one per game, up to the number of cores. They change no result.

        Raises:
            ValueError: If ale-py is not installed.
        """
        self.count = len(seeds)
        self._start = partial(_native, game.name, self.count, repeat_action_probability=sticky, num_threads=threads)
        self._native: Any = None
        names = _action_names(game.name)
        self.spec = EnvSpec(
            id=f"atari/{game.name}",
            family="atari",
            frame_shape=(SIDE, SIDE),
            dtype="uint8",
            stack=STACK,
            high=255.0,
            n_actions=len(names),
            action_names=names,
        )
        self._seeds: np.ndarray | None = np.array(seeds)
        self._lives = np.zeros(self.count, dtype=np.int32)
        self._newest = np.zeros((self.count, STACK, SIDE, SIDE), dtype=np.uint8)

    def reset(self) -> np.ndarray:
        """Begin all games. The first reset uses the seeds; later games continue their random streams."""
        if self._native is None and self._seeds is not None:
            self._native = self._start()
        observations, info = self._native.reset(seed=self._seeds)
        self._seeds = None
        self._lives, self._newest = info["lives"], observations
        return self._newest

    def send(self, actions: np.ndarray) -> None:
        """Pass the actions to the native threads, and return at once."""
        self._native.send(np.array(checked_actions(actions, self.spec, self.count), dtype=np.int64))

    def recv(self) -> Step:
        """Wait for the native threads."""
        observations, rewards, terminal, truncated, info = self._native.recv()
        ended = terminal | truncated
        life_lost = (info["lives"] < self._lives) & ~ended
        final = observations
        if ended.any():
            final = observations.copy()
            final[ended] = info["final_obs"][ended]
        self._lives, self._newest = info["lives"], observations
        return Step(observations, final, rewards.astype(np.float64), terminal, truncated, life_lost)

    def render(self, index: int = 0) -> np.ndarray:
        """The newest frame in grey, (420, 320, 3): twice the size of the console's screen."""
        rows, columns = (np.arange(size) * SIDE // size for size in _PICTURE)
        grey = self._newest[index, -1][rows[:, None], columns]
        return np.repeat(grey[:, :, None], 3, axis=2)

    def close(self) -> None:
        """End the native threads; you cannot play the games afterwards."""
        self._native = None


def _action_names(game: str) -> tuple[str, ...]:
    """Names of the actions that the game knows, in the order of their numbers."""
    try:
        from ale_py import ALEInterface, LoggerMode, roms
    except ImportError as error:
        raise ValueError('Atari needs ale-py: pip install "svrl[atari]"') from error
    ALEInterface.setLoggerMode(LoggerMode.Error)
    emulator, cartridge = ALEInterface(), roms.get_rom_path(game)
    assert cartridge is not None
    emulator.loadROM(cartridge)
    return tuple(action.name.lower() for action in emulator.getMinimalActionSet())


def _native(game: str, count: int, **settings: Any) -> Any:
    from ale_py.vector_env import AtariVectorEnv
    from gymnasium.vector import AutoresetMode

    return AtariVectorEnv(
        game,
        count,
        autoreset_mode=AutoresetMode.SAME_STEP,
        reward_clipping=False,
        episodic_life=False,
        life_loss_info=False,
        use_fire_reset=True,
        frameskip=4,
        maxpool=True,
        grayscale=True,
        img_height=SIDE,
        img_width=SIDE,
        stack_num=STACK,
        max_num_frames_per_episode=FRAME_LIMIT,
        noop_max=NOOP_MAX,
        **settings,
    )
