"""N Gymnasium environments, stepped one after another.

`svrl.envs.observations` prepares observations for agents, and `svrl.envs.actions` numbers actions. A mask of valid
actions is `info["action_mask"]` of reset and step, or what the environment's method `action_masks()` returns after
them. An episode that is terminal and truncated in the same step is terminal: nothing comes after it.

Gymnasium's `PassiveEnvChecker` checks the first reset and the first step. If an environment raises an error, or returns
something unusable, you get a ValueError that names the environment.

This module does not use `gymnasium.vector.SyncVectorEnv`, for two reasons. It keeps the last observation of an episode
without copying it, so an environment that writes all its observations to one array loses it in the reset. And it
batches the infos, which nothing reads here, and fails if their shapes differ.

A saved game consists of its random state at the start and the actions since; restoring plays it again. That works for
Gymnasium's classic and toy-text environments and for MinAtar, whose games depend on nothing else. Other environments
may depend on more, so `capture` returns None for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from svrl.envs.actions import Actions
from svrl.envs.observations import Observations, space_as_json
from svrl.envs.vector import EnvSpec, Step, VectorEnv, check_finite, checked_actions

_RESET = "reset(seed=..., options=...) -> (observation, info)"
_STEP = "step(action) -> (observation, reward, terminated, truncated, info)"
_REPLAYED = ("gymnasium.envs.classic_control.", "gymnasium.envs.toy_text.", "svrl.envs.minatar")
"""Modules of the environments that `restore` plays again."""


class GymnasiumVectorEnv(VectorEnv):
    """N Gymnasium environments.

    Attributes:
        spec: Their observations and actions.
        count: N.
        environments: The N environments themselves.
    """

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        seeds: tuple[int, ...],
        name: str,
        spec: EnvSpec | None = None,
        bins: tuple[int, ...] = (),
    ) -> None:
        """Create N environments.

        Args:
            make: Creates one environment, a new one at each call.
            seeds: One for each environment, passed to its first reset.
            name: The name of the environment.
            spec: Its description, if agents see the observations unchanged; by default it follows from the spaces.
            bins: Levels of each number of a continuous action (Box), or one number for all.

        Raises:
            ValueError: If it cannot be created, its actions cannot be listed, or its observations have no fixed size.
        """
        self.count = len(seeds)
        self.environments = [_made(make, name) for _ in seeds]
        if len({id(env.unwrapped) for env in self.environments}) < self.count:
            raise ValueError(f"The function of {name} returned the same environment twice. Create a new one each time.")
        space = self.environments[0].observation_space
        self._action = Actions.of(self.environments[0].action_space, name, bins)
        self._has_masks = self.environments[0].has_wrapper_attr("action_masks")
        self._view = Observations(space, name) if spec is None else Observations.of(spec)
        self.spec = spec or EnvSpec(
            id=name,
            family="gymnasium",
            frame_shape=self._view.shape,
            dtype=self._view.dtype,
            high=self._view.high,
            n_actions=self._action.count,
            action_names=self._action.names,
            axes=self._action.axes if len(self._action.axes) > 1 else (),
            space=space_as_json(space),
            actions=self._action.as_json(),
            pictures=self._view.pictures,
        )
        self._seeds: tuple[int | None, ...] = seeds
        self._actions: list[int] = []
        self._begun = False
        self._games: list[tuple[Any, list[int]]] | None = None
        """How each game began and the actions since, if games can be played again."""
        self._newest = self._unseen()

    def reset(self) -> np.ndarray:
        """Begin an episode in every environment. The first reset uses the seeds.

        Raises:
            ValueError: If an environment fails, or returns numbers that are not finite.
        """
        seeds, self._seeds = self._seeds, (None,) * self.count
        if all(_is_replayed(env) for env in self.environments):
            self._games = [(None, []) for _ in seeds]
        observations = self._unseen()
        for index, seed in enumerate(seeds):
            self._begin(index, observations, seed)
        check_finite(self.spec.id, "an observation", observations)
        self._check_masks()
        self._newest, self._begun = observations, True
        return observations

    def send(self, actions: np.ndarray) -> None:
        """Keep the actions; `recv` does the work."""
        self._actions = checked_actions(actions, self.spec, self.count)

    def recv(self) -> Step:
        """Step one environment after another.

        Raises:
            ValueError: If an environment fails, or returns numbers that are not finite.
        """
        observations, rewards = self._unseen(), np.zeros(self.count)
        terminal, truncated, life_lost = np.zeros((3, self.count), dtype=bool)
        last: dict[int, np.ndarray] = {}
        last_masks: list[np.ndarray] = []
        if self.action_masks is not None:
            self.action_masks = self.action_masks.copy()  # the last step keeps its own
        for index, (number, action) in enumerate(zip(self._actions, self._action(self._actions), strict=True)):
            rewards[index], terminal[index], truncated[index] = self._act(index, number, action, observations)
            if terminal[index] or truncated[index]:
                last[index] = observations[index].copy()
                if self.action_masks is not None:
                    last_masks.append(self.action_masks[index].copy())
                self._begin(index, observations)
        check_finite(self.spec.id, "a reward", rewards)
        check_finite(self.spec.id, "an observation", observations)
        final, masks = observations, self.action_masks
        final_masks = masks
        if last:
            final = observations.copy()
            final[list(last)] = list(last.values())
            check_finite(self.spec.id, "an observation", final)
            if masks is not None:
                final_masks = masks.copy()
                final_masks[list(last)] = last_masks
        self._check_masks()
        self._newest = observations
        return Step(observations, final, rewards, terminal, truncated & ~terminal, life_lost, masks, final_masks)

    def limit_games(self, steps: int) -> bool:
        """Truncate games after this many steps unless Gymnasium knows a limit; return whether the limit was set."""
        env = self.environments[0]
        of_atari = env.spec is not None and "max_num_frames_per_episode" in env.spec.kwargs
        if of_atari or any(isinstance(layer, TimeLimit) for layer in _layers(env)):
            return False
        self.environments = [TimeLimit(env, steps) for env in self.environments]
        return True

    def capture(self) -> dict[str, Any] | None:
        """Return how each game began and the actions since, or None if games cannot be played again."""
        if self._games is None:
            return None
        games = [{"start": start, "actions": np.array(actions, dtype=np.int64)} for start, actions in self._games]
        return {"env": self.spec.id, "games": games, "observations": self._newest.copy()}

    def restore(self, state: Mapping[str, Any]) -> np.ndarray:
        """Play the captured games again.

        Raises:
            ValueError: If they belong to other environments, or if they turn out differently this time.
        """
        if state.get("env") != self.spec.id or len(state["games"]) != self.count:
            raise ValueError(
                f"The state belongs to other environments than {self.count} of {self.spec.id}, or to another version."
            )
        self._seeds, observations = (None,) * self.count, self._unseen()
        self._games = [(None, []) for _ in range(self.count)]
        for index, game in enumerate(state["games"]):
            self._begin(index, observations, game["start"])
            numbers = game["actions"].tolist()
            for number, action in zip(numbers, self._action(numbers), strict=True):
                self._act(index, number, action, observations)
        if not np.array_equal(observations, state["observations"]):
            raise ValueError(f"The games of {self.spec.id} turned out differently when they were played again.")
        self._newest = observations
        return observations

    def render(self, index: int = 0) -> np.ndarray:
        """The picture that the environment draws.

        Raises:
            ValueError: If it was created without pictures, or if the package that draws them is not installed.
        """
        env = self.environments[index]
        try:
            picture = env.render() if env.render_mode == "rgb_array" else None
        except gymnasium.error.DependencyNotInstalled as error:
            how = 'Run: pip install "svrl[video]".' if "pygame" in str(error) else str(error)
            raise ValueError(f"Pictures of {self.spec.id} need a package that is not installed. {how}") from error
        if not isinstance(picture, np.ndarray):
            raise ValueError(f"{self.spec.id} draws no pictures. Set render=True, or render_mode='rgb_array'.")
        return picture

    def close(self) -> None:
        """Close every environment."""
        for env in self.environments:
            env.close()

    def _unseen(self) -> np.ndarray:
        return np.empty((self.count, *self.spec.observation_shape), dtype=self.spec.dtype)

    def _begin(self, index: int, observations: np.ndarray, start: Any = None) -> None:
        """Begin an episode in one environment, and write the agent's observation to its row of `observations`.

        `start` is a seed, an earlier `_random_state`, or None to continue the environment's random numbers.
        """
        env = self.environments[index]
        try:
            if isinstance(start, Mapping):
                self._set_random_state(env, start)
            if self._games is not None:
                self._games[index] = (self._random_state(env) if start is None else start, [])
            seen, info = env.reset(seed=start if isinstance(start, int) else None)
            observations[index] = self._view(seen)
            self._see_mask(index, info, begins=True)
        except Exception as error:  # the environment is not our code
            raise ValueError(f"{self.spec.id} failed in {_RESET}: {error!r}") from error

    def _act(self, index: int, number: int, action: Any, observations: np.ndarray) -> tuple[float, bool, bool]:
        """Take an action in one environment, write the observation to its row; return reward, terminated, truncated."""
        try:
            seen, reward, terminated, truncated, info = self.environments[index].step(action)
            observations[index] = self._view(seen)
            self._see_mask(index, info, begins=False)
            if not isinstance(reward, float):  # an array of one number is accepted
                reward = float(np.asarray(reward).item())
        except Exception as error:  # the environment is not our code
            raise ValueError(f"{self.spec.id} failed in {_STEP}: {error!r}") from error
        if self._games is not None:
            self._games[index][1].append(number)
        return reward, bool(terminated), bool(truncated)

    def _see_mask(self, index: int, info: Mapping[str, Any], *, begins: bool) -> None:
        """Store the valid actions of the newest observation of one environment, if it reports them."""
        if "action_mask" in info:
            given = info["action_mask"]
        elif self._has_masks:
            given = self.environments[index].get_wrapper_attr("action_masks")()
        elif self.action_masks is not None:
            given = np.ones(self.spec.n_actions, bool)
        else:
            return
        if self.action_masks is None:
            if not begins or self._begun:
                raise ValueError("info has an action_mask now, and that of the first reset had none. Give it always.")
            self.action_masks = np.ones((self.count, self.spec.n_actions), bool)
        self.action_masks[index] = self._action.mask(given, self.spec.id)

    def _check_masks(self) -> None:
        if self.action_masks is not None and not self.action_masks.any(1).all():
            raise ValueError(
                f"{self.spec.id} returned a mask without a valid action. End the episode if no action is possible."
            )

    def _random_state(self, env: gymnasium.Env) -> Mapping[str, Any]:
        """The state of its random numbers between two episodes."""
        return env.unwrapped.np_random.bit_generator.state

    def _set_random_state(self, env: gymnasium.Env, state: Mapping[str, Any]) -> None:
        env.unwrapped.np_random.bit_generator.state = state


def _made(make: Callable[[], Any], name: str) -> gymnasium.Env:
    """A new environment, inside Gymnasium's checker."""
    try:
        env = make()
        if isinstance(env, gymnasium.Env):
            checked = any(isinstance(layer, PassiveEnvChecker) for layer in _layers(env))
            return env if checked else PassiveEnvChecker(env)
    except Exception as error:  # the constructor is not our code
        raise ValueError(f"{name} could not be created: {error!r}") from error
    raise ValueError(f"The function of {name} must return a gymnasium.Env, got {env!r}.")


def _layers(env: gymnasium.Env) -> list[gymnasium.Env]:
    """The wrappers, outermost first, and the environment itself."""
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return layers


def _is_replayed(env: gymnasium.Env) -> bool:
    """Whether `restore` can play it again: one of `_REPLAYED`, with only the wrappers that `gymnasium.make` adds."""
    *wrappers, bare = _layers(env)
    usual = all(type(wrapper) in (TimeLimit, OrderEnforcing, PassiveEnvChecker) for wrapper in wrappers)
    return usual and type(bare).__module__.startswith(_REPLAYED)
