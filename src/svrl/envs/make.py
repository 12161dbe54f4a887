"""Environments by name: make_env("atari/breakout", 8, seed=0).

A name is atari/GAME, minatar/GAME, control/TASK, or the id of any Gymnasium environment. You can also pass a
function that creates a Gymnasium environment. `make_env` imports only the libraries of the family that you name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from svrl.envs.atari_games import GAMES, find_game
from svrl.runtime.names import near_names

if TYPE_CHECKING:
    from svrl.envs.vector import EnvSpec, VectorEnv

EnvSource = str | Callable[[], Any]
"""The name of an environment ("CartPole-v1", "atari/breakout"), or a function that creates your own."""

MINATAR = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
CONTROL = (
    "inverted-pendulum",
    "mountain-car",
    "double-integrator",
    "cart-pole",
    "three-motor-pendulum",
    "planar-thrusters",
    "two-input-cart-pole",
)
CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1")

_ONE_AT_A_TIME = threading.Lock()
"""Held while environments are created: registries and imports of other libraries are not thread-safe."""


def known_environments() -> list[str]:
    """Names to suggest: every game and task, and some of Gymnasium's many environments."""
    families = (("atari", tuple(GAMES)), ("minatar", MINATAR), ("control", CONTROL))
    return [*(f"{family}/{name}" for family, names in families for name in names), *CLASSIC]


def name_of(source: EnvSource) -> str:
    """The name of an environment in run directories and tables."""
    return source if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)


def make_env(
    id: EnvSource,  # noqa: A002
    count: int,
    *,
    seed: int,
    sticky: float = 0.0,
    actions: int = 0,
    bins: int | Sequence[int] = (),
    threads: int = 0,
    render: bool = False,
) -> VectorEnv:
    """Create N environments.

    Args:
        id: A name, such as "atari/breakout", "minatar/asterix", "control/inverted-pendulum" or "CartPole-v1"; or a
            function without arguments that creates a `gymnasium.Env`, a new one at each call.
            "package:Name-v0" imports the package: do not pass such a name on from a file.
        count: N.
        seed: Seed of all their random numbers, if they draw from their own generator. Environment k of a seed is the
            same for every N, except in control tasks.
        sticky: Probability that Atari or MinAtar repeats the last action.
        actions: Discretised actions of a control task; 0 is the task's own number.
        bins: Levels of each number of a continuous action of Gymnasium (Box), or one number for all of them.
        threads: Native threads of Atari, which change no result; with 0 ale-py uses one per environment, up to the
            number of cores.
        render: Set this if you will call `render`. Gymnasium needs to know when it creates the environment.

    Raises:
        ValueError: If there is no such environment, its package is missing, agents cannot learn on it, or a setting is
            out of range or belongs to another family. The message has the nearest name, or the pip command.
    """
    if not isinstance(id, str) and not callable(id):
        raise ValueError(
            "Pass the name of an environment, or a function without arguments that creates one; "
            f"got {type(id).__name__}. Write lambda: gymnasium.make(...)."
        )
    if not 0.0 <= sticky <= 1.0:
        raise ValueError(f"sticky is a probability in [0, 1], got {sticky}.")
    if actions < 0 or threads < 0:
        raise ValueError(f"actions and threads must be 0 or more, got {actions} and {threads}.")
    family, _, short = id.partition("/") if isinstance(id, str) else ("", "", "")
    if actions and family != "control":
        raise ValueError(
            f"{name_of(id)} has its own actions. Their number can only be set for control/TASK; got {actions}."
        )
    bins = (bins,) if isinstance(bins, int) else tuple(bins)
    if any(count < 1 for count in bins):
        raise ValueError(f"bins must be 1 or more levels, got {', '.join(map(str, bins))}.")
    if bins and family in ("atari", "minatar", "control"):
        how = " --actions sets their number." if family == "control" else ""
        raise ValueError(f"{id} has a list of actions, and bins are for continuous ones (Box). Leave bins out.{how}")
    if sticky and family not in ("atari", "minatar"):
        raise ValueError(
            f"{name_of(id)} has no sticky actions; only Atari and MinAtar do. Got sticky {sticky}. Set it to 0."
        )
    from svrl.envs.vector import env_seeds

    seeds = env_seeds(seed, count)
    with _ONE_AT_A_TIME:
        if family == "atari":
            from svrl.envs.atari import AtariVectorEnv

            return AtariVectorEnv(find_game(short), seeds=seeds, sticky=sticky, threads=threads)
        if family == "minatar":
            from svrl.envs.minatar import MinAtarVectorEnv

            return MinAtarVectorEnv(short, seeds=seeds, sticky=sticky)
        if family == "control":
            from svrl.envs.control import ControlVectorEnv
            from svrl.mdp.tasks import make_task

            return ControlVectorEnv(make_task(short, actions=actions or None), count, seed=seeds[0])
        from svrl.envs.gymnasium import GymnasiumVectorEnv

        make = _registered(id, render=render) if isinstance(id, str) else id
        return GymnasiumVectorEnv(make, seeds=seeds, name=name_of(id), bins=bins)


def describe_env(id: EnvSource, actions: int = 0, bins: int | Sequence[int] = ()) -> EnvSpec:  # noqa: A002
    """Describe the observations and actions of an environment: create it like `make_env`, and close it.

    Raises:
        ValueError: As in `make_env`.
    """
    env = make_env(id, 1, seed=0, actions=actions, bins=bins)
    env.close()
    return env.spec


def _registered(name: str, *, render: bool) -> Callable[[], Any]:
    """Return a function that creates an environment by its Gymnasium id."""
    import gymnasium

    if ":" not in name:  # otherwise Gymnasium imports a package first, which registers it
        try:
            gymnasium.spec(name)
        except gymnasium.error.Error as error:
            near = near_names(name, known_environments())
            hint = f"Did you mean {near[0]}?" if near else str(error)
            raise ValueError(f"There is no environment {name!r}. {hint}") from error
    # A class that draws nothing may not accept the argument.
    pictures: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
    return lambda: gymnasium.make(name, **pictures)
