"""Any Gymnasium environment with discrete actions, N copies stepped in a plain loop.

`svrl.envs.observations` says what an agent sees of an observation. Actions that do not begin at 0 are numbered from 0
here. An episode that ends by a rule and by a limit in the same step has ended by the rule: its value does not go on.

`capture` writes down the attributes of the environment and of every wrapper around it. If one of them is of a
type whose state is unknown, as with physics engines, it gives None. State that an environment keeps outside
its attributes, as in a class or a module, is not seen.

An environment that breaks a rule of Gymnasium's, raises an error, or gives numbers that are not finite stops
with a ValueError that names it. From nan an agent would learn nothing, and say nothing.
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from svrl.envs.gymnasium_rules import as_number, check_made, check_observation, check_reset, check_step, failure
from svrl.envs.lanes import checked_actions, empty_step, is_finite, not_finite, with_endings
from svrl.envs.observations import as_json, seen_through
from svrl.envs.snapshot import Unwritable, attributes, read, rules, write
from svrl.envs.vector import EnvSpec, Step

_MOST_NAMES = 5
"""Names of a module that are offered for one that it has not."""


class GymnasiumLanes:
    """N Gymnasium environments.

    Attributes:
        spec: Of the environment.
        count: N.
        environments: The N environments themselves.
        step_limit: Steps after which a game is cut off, as a truncation; infinity leaves that to the environment.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], *, seeds: tuple[int, ...], name: str) -> None:
        """Make N environments.

        Args:
            make: Makes one, a new one at each call.
            seeds: One for each lane, given to its first reset.
            name: What to call it.

        Raises:
            ValueError: If it is no environment, its actions are not discrete, or its observations of no fixed size.
        """
        self.count = len(seeds)
        self.environments = [make() for _ in seeds]
        check_made(self.environments[0], name)
        if len({id(env) for env in self.environments}) < self.count:
            raise ValueError(f"The factory of {name} gave the same environment twice. Make a new one at each call.")
        self._made_with = [[rules(layer) for layer in _layers(env)] for env in self.environments]
        first = self.environments[0]
        choices = first.action_space
        if not isinstance(choices, spaces.Discrete):
            raise ValueError(
                f"{name} has actions of {type(choices).__name__}, and only discrete ones can be learned. "
                "The tasks control/TASK have discretised ones, as in control/inverted-pendulum."
            )
        self.step_limit = math.inf
        self._start = int(choices.start)
        self._space = first.observation_space
        self._seen = seen_through(self._space, name)
        self.spec = EnvSpec(
            id=name,
            family="gymnasium",
            frame_shape=self._seen.shape,
            dtype=self._seen.dtype,
            high=self._seen.high,
            n_actions=int(choices.n),
            action_names=tuple(str(self._start + k) for k in range(int(choices.n))),
            first_action=self._start,
            space=as_json(self._space),
        )
        self._seeds: tuple[int, ...] | None = seeds
        self._actions: list[int] = []
        self._unchecked = {("reset", lane) for lane in range(self.count)} | {("step", k) for k in range(self.count)}
        self._clock = 0
        self._begun = [0] * self.count  # on that clock
        self._newest = np.zeros((self.count, *self.spec.observation_shape), dtype=self.spec.dtype)

    def reset(self) -> np.ndarray:
        """Begin an episode in every lane. The seeds serve the first time; later episodes go on with their streams.

        Raises:
            ValueError: If an environment fails, breaks a rule, or gives numbers that are not finite.
        """
        seeds = self._seeds or (None,) * self.count
        self._seeds = None
        observations = empty_step(self.spec, self.count).observations
        for lane, seed in enumerate(seeds):
            self._begin(lane, observations, seed=seed)
        self._check_finite("an observation", observations)
        self._newest = observations
        return observations

    def send(self, actions: np.ndarray) -> None:
        """Keep the actions; the work is done by `recv`."""
        chosen = checked_actions(actions, self.spec, self.count)
        self._actions = [action + self._start for action in chosen] if self._start else chosen

    def recv(self) -> Step:
        """Step one environment after another.

        Raises:
            ValueError: If an environment fails, breaks a rule, or gives numbers that are not finite.
        """
        step = empty_step(self.spec, self.count)
        observations, rewards, view = step.observations, step.rewards, self._seen.view
        endings: dict[int, np.ndarray] = {}
        total = 0.0  # nan and infinity stay in it
        self._clock += 1
        for lane, (env, action) in enumerate(zip(self.environments, self._actions, strict=True)):
            try:
                got = env.step(action)
            except Exception as error:
                raise failure(error, "step", self.spec.id) from error
            if self._unchecked:
                self._check_first("step", lane, got)
            seen, reward, terminal, truncated, _ = got
            rewards[lane] = paid = reward if isinstance(reward, float) else as_number(reward, self.spec.id)
            total += paid
            try:
                observations[lane] = view(seen)
            except Exception as error:
                raise self._unfit(seen, error) from error
            if terminal or truncated or self._clock - self._begun[lane] >= self.step_limit:
                endings[lane] = last = observations[lane].copy()
                if not math.isfinite(total) or not is_finite(last):
                    self._check_finite("a reward", rewards[: lane + 1])
                    self._check_finite("an observation", observations[: lane + 1])
                step.terminal[lane], step.truncated[lane] = bool(terminal), not terminal
                self._begin(lane, observations)
        if not math.isfinite(total):
            self._check_finite("a reward", rewards)
        self._check_finite("an observation", observations)
        self._newest = observations
        return with_endings(step, endings)

    def has_limit(self) -> bool:
        """Whether the environment is known to limit the steps of a game: by its registration, or a wrapper."""
        env = self.environments[0]
        rules = getattr(env, "spec", None)
        if any(isinstance(layer, TimeLimit) for layer in _layers(env)):
            return True
        return rules is not None and (rules.max_episode_steps or "max_num_frames_per_episode" in rules.kwargs)

    def capture(self) -> dict[str, Any] | None:
        """The attributes of every environment and its wrappers, or None if one of them cannot be written down."""
        try:
            lanes = [write(_state(env, made)) for env, made in zip(self.environments, self._made_with, strict=True)]
        except Unwritable:
            return None
        return {
            "layers": self._names(),
            "lanes": lanes,
            "observations": self._newest.copy(),
            "elapsed": [self._clock - begun for begun in self._begun],
        }

    def restore(self, state: Mapping[str, Any]) -> np.ndarray:
        """Go back to what `capture` saw.

        Raises:
            ValueError: If it was captured from other environments, or is damaged.
        """
        if list(state["layers"]) != self._names() or len(state["lanes"]) != self.count:
            raise ValueError(f"The state is of other environments than {self.count} of {self.spec.id}. Begin anew.")
        unseen = empty_step(self.spec, self.count).observations
        for lane in range(self.count):
            self._begin(lane, unseen, seed=0)  # some attributes exist only after a reset
        for env, lane in zip(self.environments, state["lanes"], strict=True):
            try:
                remembered = read(lane)
            except (KeyError, IndexError, TypeError) as error:
                raise ValueError(f"The state of {self.spec.id} is damaged and cannot be restored.") from error
            for layer, held in zip(_layers(env), remembered, strict=True):
                vars(layer).update(held)
        self._seeds = None
        self._begun = [self._clock - int(steps) for steps in state.get("elapsed", [0] * self.count)]
        self._newest = np.array(state["observations"], dtype=self.spec.dtype)
        return self._newest

    def render(self, lane: int = 0) -> np.ndarray:
        """What the environment draws.

        Raises:
            ValueError: If it was made without pictures, or what draws them is not installed.
        """
        env = self.environments[lane]
        try:
            picture = env.render() if env.render_mode == "rgb_array" else None
        except gymnasium.error.DependencyNotInstalled as error:
            how = 'Run: pip install "svrl[video]".' if "pygame" in str(error) else str(error)
            raise ValueError(f"Pictures of {self.spec.id} need a package that is not installed. {how}") from error
        if not isinstance(picture, np.ndarray):
            raise ValueError(f"{self.spec.id} draws no pictures. Make it with render=True, or render_mode='rgb_array'.")
        return picture

    def close(self) -> None:
        """Close every environment."""
        for env in self.environments:
            env.close()

    def _begin(self, lane: int, observations: np.ndarray, **seed: Any) -> None:
        """Begin an episode in one lane, and write what the agent sees first into that lane of `observations`."""
        try:
            got = self.environments[lane].reset(**seed)
        except Exception as error:
            raise failure(error, "reset", self.spec.id) from error
        if self._unchecked:
            self._check_first("reset", lane, got)
        self._begun[lane] = self._clock
        try:
            observations[lane] = self._seen.view(got[0])
        except Exception as error:
            raise self._unfit(got[0], error) from error

    def _check_first(self, method: str, lane: int, got: Any) -> None:
        if (method, lane) in self._unchecked:
            check = check_step if method == "step" else check_reset
            check(got, self._space, self.spec.id)
            self._unchecked.remove((method, lane))

    def _check_finite(self, what: str, numbers: np.ndarray) -> None:
        """Refuse numbers of the first lanes, (n, ...), if one is not finite."""
        if is_finite(numbers):
            return
        for lane, row in enumerate(numbers):
            if not np.isfinite(row).all():
                raise not_finite(self.spec.id, what, row, self._clock - self._begun[lane])

    def _unfit(self, seen: Any, error: Exception) -> ValueError:
        """The error for an observation that could not be taken over."""
        try:
            check_observation(seen, self._space, f"{self.spec.id}: the observation")
        except ValueError as rule:
            return rule
        return ValueError(f"{self.spec.id} gave an observation that cannot be read: {error!r}")

    def _names(self) -> list[str]:
        return [type(layer).__qualname__ for layer in _layers(self.environments[0])]


def registered(
    name: str, *, render: bool = False, also: Iterable[str] = (), trusted: bool = True
) -> Callable[[], gymnasium.Env]:
    """A factory of a registered environment.

    Args:
        name: Its Gymnasium id; "package:Name-v0" imports the package first.
        render: Whether it should be able to draw.
        also: Names beside the registered ones that may have been meant.
        trusted: Whether the name is the user's own, not out of a file that anybody may have written.

    Raises:
        ValueError: With the nearest registered name, if there is none of that name; if it would import a package
            and is not trusted.
    """
    module, colon, short = name.rpartition(":")
    if colon and not trusted:
        raise ValueError(
            f"The environment {name!r} would import {module or 'a package'}, and nothing is imported because a file "
            "says so. Train it yourself, or make the environment in Python with from_factory."
        )
    earlier = set(gymnasium.registry)
    try:
        if module:
            importlib.import_module(module)
    except Exception as error:
        what = error if isinstance(error, ImportError) else repr(error)
        raise ValueError(f"{name} is to be found in {module}, which cannot be imported: {what}.") from error
    try:
        gymnasium.spec(short)
    except gymnasium.error.Error as error:
        hint = _registered_by(module, short, earlier) if module else _nearest(name, also)
        raise ValueError(f"There is no environment {name!r}. {hint}") from error

    # A class that draws nothing need not know the argument.
    pictures: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}

    def make() -> gymnasium.Env:
        try:
            return gymnasium.make(short, disable_env_checker=True, **pictures)
        except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
            raise ValueError(f"{name} needs a package that is not installed. {error}") from error
        except gymnasium.error.Error as error:
            raise ValueError(f"Gymnasium cannot make {name}: {error}") from error
        except Exception as error:  # anything may happen in a constructor
            if render and isinstance(error, TypeError) and "render_mode" in str(error):
                raise ValueError(f"{name} draws no pictures: its class does not take render_mode.") from error
            raise ValueError(f"Gymnasium cannot make {name}: {error!r}") from error

    return make


def _nearest(name: str, also: Iterable[str]) -> str:
    # Atari's own ids come and go with ale-py, and atari/GAME is offered in their place.
    others = [key for key, entry in gymnasium.registry.items() if not str(entry.entry_point).startswith("ale_py")]
    close = difflib.get_close_matches(name, [*also, *others], n=1, cutoff=0.5)
    return f"Did you mean {close[0]}?" if close else "gymnasium.pprint_registry() lists what there is."


def _registered_by(module: str, short: str, earlier: Container[str]) -> str:
    """What a module has registered, now or when it was imported before, the nearest names first."""
    own = []
    for key, entry in gymnasium.registry.items():
        place = (
            entry.entry_point if isinstance(entry.entry_point, str) else getattr(entry.entry_point, "__module__", "")
        )
        if key not in earlier or f"{place}:".startswith((f"{module}:", f"{module}.")):
            own.append(key)
    close = difflib.get_close_matches(short, own, n=_MOST_NAMES, cutoff=0.0)
    more = " and others" if len(own) > len(close) else ""
    return f"{module} registers {', '.join(close)}{more}." if own else f"{module} registers no environment."


def _state(env: gymnasium.Env, made_with: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What can change in each layer. Only of a wrapper is it known that `env` is the next layer."""
    return [
        attributes(layer, made_with=made, apart={"env"} if isinstance(layer, gymnasium.Wrapper) else ())
        for layer, made in zip(_layers(env), made_with, strict=True)
    ]


def _layers(env: gymnasium.Env) -> list[gymnasium.Env]:
    """The wrappers, outermost first, and the environment itself."""
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    return layers
