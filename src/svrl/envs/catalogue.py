"""Environments by name: make_env("atari/breakout", 8, seed=0).

A name is atari/GAME, minatar/GAME, control/TASK, or the id of any Gymnasium environment with discrete
actions. Libraries are imported only for the family that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from svrl.envs.atari_games import GAMES, find_game

if TYPE_CHECKING:
    from svrl.envs.vector import EnvSpec, VectorEnv

MINATAR = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
CONTROL = ("inverted-pendulum", "mountain-car", "double-integrator", "cart-pole", "three-motor-pendulum")
CLASSIC = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1")


@dataclass(frozen=True, kw_only=True)
class _Order:
    """What was asked for beside the name."""

    count: int
    seed: int
    sticky: float
    actions: int
    threads: int
    render: bool
    trusted: bool


def known_environments() -> list[str]:
    """Names to offer: every game and task, and some of Gymnasium's, which knows many more."""
    families = (("atari", tuple(GAMES)), ("minatar", MINATAR), ("control", CONTROL))
    return [*(f"{family}/{name}" for family, names in families for name in names), *CLASSIC]


def make_env(
    id: str,  # noqa: A002
    count: int,
    *,
    seed: int,
    sticky: float = 0.0,
    actions: int = 0,
    threads: int = 0,
    render: bool = False,
    trusted: bool = True,
) -> VectorEnv:
    """N environments by name.

    Args:
        id: As in "atari/breakout", "minatar/asterix", "control/inverted-pendulum" or "CartPole-v1".
        count: N.
        seed: Of everything random in them; lane i of a seed is the same for every N, but in control tasks.
        sticky: Probability that Atari or MinAtar repeats the last action.
        actions: Discretised actions of a control task; 0 takes the task's own number.
        threads: Native threads of Atari, which change no result; with 0 ale-py takes one for each lane, as long as
            there are cores. The others have none.
        render: Whether pictures will be wanted; Gymnasium has to know beforehand.
        trusted: Whether the name is the user's own. With False, for a name out of a file that anybody may have
            written, "package:Name-v0" is refused: it would import the package.

    Raises:
        ValueError: With the nearest name, if there is no such environment; with the pip command, if its package is
            missing; if a setting is out of range or belongs to another family; if the name is not to be trusted.
    """
    if not 0.0 <= sticky <= 1.0:
        raise ValueError(f"sticky is a probability in [0, 1], got {sticky}.")
    if actions < 0 or threads < 0:
        raise ValueError(f"actions and threads are 0 or more, got {actions} and {threads}.")
    family, slash, name = id.partition("/")
    make = _FAMILIES.get(family) if slash else None
    if actions and make is not _control:
        raise ValueError(f"{id} has its own actions; their number can be set for control/TASK alone, got {actions}.")
    if sticky and make not in (_atari, _minatar):
        raise ValueError(f"{id} has no sticky actions, only Atari and MinAtar do; got sticky {sticky}. Set it to 0.")
    order = _Order(
        count=count, seed=seed, sticky=sticky, actions=actions, threads=threads, render=render, trusted=trusted
    )
    return _gymnasium(id, order) if make is None else make(name, order)


def describe_env(id: str, actions: int = 0, *, trusted: bool = True) -> EnvSpec:  # noqa: A002
    """What an environment looks like from outside; one is made and closed for it, as by `make_env`.

    Raises:
        ValueError: As `make_env`.
    """
    env = make_env(id, 1, seed=0, actions=actions, trusted=trusted)
    env.close()
    return env.spec


def from_factory(make: Callable[[], Any], count: int, *, seed: int, id: str) -> VectorEnv:  # noqa: A002
    """N environments of your own.

    Args:
        make: Makes one `gymnasium.Env` with discrete actions, a new one at each call.
        count: N.
        seed: Of everything random in them, as far as they draw from their own generator.
        id: What to call it.

    Raises:
        ValueError: If `make` fails, if its actions are not discrete, or its observations of no fixed size.
    """
    from svrl.envs.classic import GymnasiumLanes
    from svrl.envs.lanes import lane_seeds

    def made() -> Any:
        try:
            return make()
        except Exception as error:
            raise ValueError(f"{id} could not be made: {error!r}") from error

    return GymnasiumLanes(made, seeds=lane_seeds(seed, count), name=id)


def _atari(name: str, order: _Order) -> VectorEnv:
    game = find_game(name)
    from svrl.envs.atari import AtariLanes
    from svrl.envs.lanes import lane_seeds

    return AtariLanes(game, seeds=lane_seeds(order.seed, order.count), sticky=order.sticky, threads=order.threads)


def _minatar(name: str, order: _Order) -> VectorEnv:
    from svrl.envs.lanes import lane_seeds
    from svrl.envs.minatar import MinAtarLanes

    return MinAtarLanes(name, seeds=lane_seeds(order.seed, order.count), sticky=order.sticky)


def _control(name: str, order: _Order) -> VectorEnv:
    from svrl.envs.control import ControlLanes
    from svrl.envs.lanes import lane_seeds
    from svrl.mdp.catalogue import make_task

    seed = lane_seeds(order.seed, order.count)[0]
    return ControlLanes(make_task(name, actions=order.actions or None), order.count, seed=seed)


def _gymnasium(name: str, order: _Order) -> VectorEnv:
    from svrl.envs.classic import GymnasiumLanes, registered
    from svrl.envs.lanes import lane_seeds

    seeds = lane_seeds(order.seed, order.count)
    make = registered(name, render=order.render, also=known_environments(), trusted=order.trusted)
    return GymnasiumLanes(make, seeds=seeds, name=name)


_FAMILIES: dict[str, Callable[[str, _Order], VectorEnv]] = {
    "atari": _atari,
    "minatar": _minatar,
    "control": _control,
}
