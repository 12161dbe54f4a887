"""Evaluation: whole games on separate environments.

An evaluation has its own environments, seeds and generators, so it does not change training. It plays epsilon-greedily
with a small epsilon, from the environment's own starts (on Atari up to 30 no-ops), to the end of the game and not of a
life, and adds up raw rewards.

The choice of games has no bias. If you stop n environments after the first m games that happen to end, you collect
short games. Here game k belongs to environment k mod n, which plays it whatever the others do.

A game ends when the environment ends or truncates it: Atari after 108,000 frames, control tasks after 200 steps, most
Gymnasium tasks after their own limit. If the environment has no limit, a game is truncated after 10,000 steps, and a
note says so.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.random import SeedSequence
from torch import Tensor, nn

from svrl.agents.config import AgentConfig
from svrl.agents.events import Evaluated, Event, Stepped, warn
from svrl.agents.targets import only_valid
from svrl.envs.make import EnvSource, make_env, name_of
from svrl.envs.vector import Step, VectorEnv, step
from svrl.stats import bootstrap_interval

if TYPE_CHECKING:
    from svrl.agents.training import Training

MOST_ENVS = 8
"""Most environments of an evaluation; with more the last game would take longer."""
RESAMPLES = 10_000
STEP_LIMIT = 10_000
"""Steps after which a game is truncated if the environment has no limit."""
TICK = 0.2
"""Seconds between two calls of `progress` while no game ends."""


@dataclass(frozen=True, kw_only=True)
class Games:
    """Games played to their end.

    Attributes:
        scores: Raw score of each game.
        lengths: Agent steps of each game.
    """

    scores: tuple[float, ...]
    lengths: tuple[int, ...]

    @property
    def mean(self) -> float:
        """Mean score."""
        return math.fsum(self.scores) / len(self.scores)

    def interval(self, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
        """A confidence interval for this network's mean score: a percentile bootstrap over games (Efron, 1979).

        It covers the randomness of games, not of training: compare several seeds for that. With few games it is too
        narrow, and with one it is a point.
        """
        low, high = bootstrap_interval(self.scores, resamples=RESAMPLES, level=level, seed=seed)
        return float(low), float(high)


def derived_seed(seed: int, name: str) -> int:
    """A seed in 0..2^63-1 for the part `name` of a run, independent of the seeds of other parts."""
    words = SeedSequence([seed, zlib.crc32(name.encode())]).generate_state(2, np.uint32)
    return (int(words[0]) << 31) ^ int(words[1])


def generator_for(seed: int, name: str, device: str | torch.device = "cpu") -> torch.Generator:
    """A separate torch generator for the part `name` of a run, so that no part disturbs another."""
    return torch.Generator(device).manual_seed(derived_seed(seed, name))


def explore(
    greedy: Callable[[], Tensor],
    n_envs: int,
    n_actions: int,
    epsilon: float,
    generator: torch.Generator,
    action_masks: np.ndarray | None = None,
) -> np.ndarray:
    """Choose actions (N,), int64, random with probability epsilon; calls `greedy` for the others, if there are any.

    The number of random draws does not depend on epsilon. With masks (N, A) an invalid random action is redrawn among
    the valid ones, which makes all of them equally likely.
    """
    random = (torch.rand(n_envs, generator=generator) < epsilon).numpy()
    actions = torch.randint(n_actions, (n_envs,), generator=generator).numpy()
    if action_masks is not None:
        for env in np.flatnonzero(~action_masks[np.arange(n_envs), actions]):
            valid = np.flatnonzero(action_masks[env])
            actions[env] = valid[int(torch.randint(len(valid), (), generator=generator))]
    return actions if random.all() else np.where(random, actions, greedy().numpy())


def epsilon_greedy(
    q: Tensor, epsilon: float, generator: torch.Generator, action_masks: np.ndarray | None = None
) -> np.ndarray:
    """Choose actions (N,), int64, for values (N, A), with a CPU generator. Masks (N, A) leave only valid actions."""

    def greedy() -> Tensor:
        mask = None if action_masks is None else torch.from_numpy(action_masks).to(q.device)
        return only_valid(q, mask).argmax(-1).cpu()

    n_envs, n_actions = q.shape
    return explore(greedy, n_envs, n_actions, epsilon, generator, action_masks)


class Move(NamedTuple):
    """One step of all environments.

    Attributes:
        observations: (N, *observation_shape), before the step, on the network's device.
        q: (N, A), the network's values of these observations.
        step: The result of the step.
        action_masks: (N, A), bool, the valid actions before the step; None if every action always is.
    """

    observations: Tensor
    q: Tensor
    step: Step
    action_masks: np.ndarray | None


def play(
    network: nn.Module, env: VectorEnv, *, epsilon: float, generator: torch.Generator, device: torch.device
) -> Iterator[Move]:
    """Reset the environments and act epsilon-greedily, without end."""
    observations = env.reset()
    while True:
        at = torch.tensor(observations, device=device)
        with torch.no_grad():
            q = network(at)
        masks = env.action_masks
        moved = step(env, epsilon_greedy(q, epsilon, generator, masks))
        yield Move(at, q, moved, masks)
        observations = moved.observations


@contextmanager
def at_rest(network: nn.Module) -> Iterator[nn.Module]:
    """Put the network into evaluation mode, and restore its mode afterwards."""
    learning = network.training
    network.eval()
    try:
        yield network
    finally:
        network.train(learning)


def evaluate(
    network: nn.Module,
    env: EnvSource,
    config: AgentConfig,
    *,
    episodes: int,
    seed: int,
    epsilon: float | None = None,
    env_threads: int = 0,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], object] = warn,
) -> Games:
    """Play whole games; the same seed and network give the same games. `Agent.evaluate` does it for an agent.

    Args:
        network: Observations (N, *observation_shape) to values (N, A).
        env: The name of the environment, or a function that makes one.
        config: Its `sticky`, `actions` and `bins` make the environments, its `eval_epsilon` is the default epsilon.
        episodes: Games to play, at least 1.
        seed: Seed of environments and actions; a training with the same seed draws different ones.
        epsilon: Probability of a random action.
        env_threads: Native threads of Atari, which change no result; 0 lets ale-py choose.
        progress: Called with (games over, games to play) as each game ends, and now and then before.
        say: Called with a note if games were truncated; by default it is a warning.

    Returns:
        The games; environment k mod n plays game k.
    """
    if not isinstance(network, nn.Module):
        raise ValueError(f"evaluate takes a network, such as agent.network; got {type(network).__name__}.")
    if episodes < 1:
        raise ValueError(f"An evaluation needs at least 1 game, got {episodes}.")
    epsilon = config.eval_epsilon if epsilon is None else epsilon
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon is a probability in [0, 1], got {epsilon}.")
    first = next(network.parameters(), None)
    device = torch.device("cpu") if first is None else first.device
    env_seed = derived_seed(seed, "evaluation environments")
    envs = make_env(env, min(episodes, MOST_ENVS), seed=env_seed, threads=env_threads, **config.env_options)
    try:
        limited = envs.limit_games(STEP_LIMIT)
        generator = generator_for(seed, "evaluation actions")
        with at_rest(network):
            moves = play(network, envs, epsilon=epsilon, generator=generator, device=device)
            games = _whole_games((move.step for move in moves), envs.count, episodes, progress)
    finally:
        envs.close()
    if limited and max(games.lengths) >= STEP_LIMIT:
        say(
            f"Note: {name_of(env)} has no limit on the steps of a game, so evaluations cut games off after "
            f"{STEP_LIMIT:,}. gymnasium.wrappers.TimeLimit sets another limit."
        )
    return games


def _whole_games(
    steps: Iterator[Step], count: int, episodes: int, progress: Callable[[int, int], None] | None
) -> Games:
    """Follow every environment until it has played its games."""
    score, length = np.zeros(count), np.zeros(count, dtype=np.int64)
    played = [0] * count
    found: dict[int, tuple[float, int]] = {}
    told = time.monotonic()
    for now in steps:
        if progress is not None and time.monotonic() - told >= TICK:
            progress(len(found), episodes)
            told = time.monotonic()
        score += now.rewards
        length += 1
        for index in np.flatnonzero(now.ended).tolist():
            game = played[index] * count + index
            if game < episodes:
                found[game] = float(score[index]), int(length[index])
                if progress is not None:
                    progress(len(found), episodes)
            played[index] += 1
            score[index], length[index] = 0.0, 0
        if len(found) == episodes:
            break
    scores, lengths = zip(*(found[game] for game in range(episodes)), strict=True)
    return Games(scores=scores, lengths=lengths)


def human_normalised_mean(env: str, scores: Sequence[float]) -> float | None:
    """The mean score with 0 for a random and 1 for a human player; None except for Atari games."""
    if not env.startswith("atari/") or not scores:
        return None
    from svrl.envs.atari_games import human_normalised

    return human_normalised(env, math.fsum(scores) / len(scores))


def with_evaluation(
    training: Training,
    progress: Callable[[int, int], None] | None = None,
    *,
    evaluated_at: int | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Yield the events of a training, with `Evaluated` among them.

    An evaluation comes in the step in which training passes a multiple of `eval_every` agent steps, just before
    `Stepped`, the last event of a step: a checkpoint at `Stepped` includes the evaluation, and a run resumed from there
    neither repeats nor skips one. Another comes at the end, unless that step has just been evaluated. The seed follows
    from the training's seed and the step, so a resumed run plays the games of an uninterrupted one.

    Args:
        training: The training.
        progress: Called with (games over, games to play).
        evaluated_at: If the training was saved during an evaluation, the step of the last finished one: the interrupted
            evaluation then comes first, from its beginning. None if none was interrupted.
        stopped: Called before every step; True ends training with this step.
    """
    every, steps = training.config.eval_every, training.steps
    passed = steps // every if every else 0
    if (
        evaluated_at is not None
        and evaluated_at != steps > 0
        and every
        and passed > (steps - training.config.n_envs) // every
    ):
        evaluated_at = steps
        yield _evaluated(training, progress)
    for event in training.events() if not stopped() else ():
        if every and isinstance(event, Stepped) and training.steps // every > passed:
            passed, evaluated_at = training.steps // every, training.steps
            yield _evaluated(training, progress)
        yield event
        if isinstance(event, Stepped) and stopped():
            break
    if evaluated_at != training.steps:
        yield _evaluated(training, progress)


def _evaluated(training: Training, progress: Callable[[int, int], None] | None) -> Evaluated:
    network = training.network
    with training.at_work():
        games = evaluate(
            network,
            training.source,
            training.config,
            episodes=training.config.eval_episodes,
            seed=derived_seed(training.seed, f"evaluation after {training.steps} steps"),
            env_threads=training.env_threads,
            progress=progress,
            say=training.say,
        )
    return Evaluated(
        steps=training.steps,
        updates=training.updates,
        scores=games.scores,
        lengths=games.lengths,
        human_normalised=human_normalised_mean(training.env, games.scores),
    )
