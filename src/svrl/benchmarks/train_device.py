"""Whole training loops on a card, against the emulator alone and against the authors' way, in the same process.

Every loop makes one update for four agent steps, with act_lag 1, and is timed once epsilon has fallen. What is held
against it is the emulator alone at the same games (`recorded_loop`), so ratios of those rows are shares of the
emulator's speed, at most 1.

    one agent      plain and structured, in turns, a stretch each; only one of them runs at a time
    four agents    two plain, two structured, in a thread each, for a fixed time; the emulators too in four threads
    authors' way   one environment and eager updates (`authors_way`)

Structure's share of the loop is 100 * (1 - structured rate / plain rate), at the same games: the median of the
stretches, because one hiccup of a shared machine is larger than the share.
"""

from __future__ import annotations

import dataclasses
import gc
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from svrl.agents.config import AUTHORS_STRUCTURE, AgentConfig, Kind, default_precision
from svrl.agents.networks import build_network
from svrl.benchmarks.authors_way import authors_steps_per_second
from svrl.benchmarks.device_clock import device_name, found_device
from svrl.benchmarks.recorded_loop import Loop, Stretch, begin_loop, emulator_seconds, timed_stretch, warm_up
from svrl.benchmarks.rows import Row, one_torch_thread
from svrl.benchmarks.update import GAME
from svrl.benchmarks.update_device import LIMIT, eager_update_seconds, host_batches, spread
from svrl.runs.cores import usable_cores

ALONE_BAR, TOGETHER_BAR = 0.45, 0.60
"""The share of the emulator's speed that one agent, and four, shall reach."""
AUTHORS_BARS = {False: 6, True: 12}
"""How many times faster than the authors' way, plain and structured."""
SWITCH_INTERVAL = 5e-4
"""Seconds that a thread may keep Python to itself, as in populations."""
MOST_STEPS = 1_000_000_000
"""Agent steps of a training: more than are made."""


@dataclass(frozen=True, kw_only=True)
class TrainSizes:
    """How much is measured.

    Attributes:
        envs, envs_together: Environments of the agent alone, and of each of the four.
        agent, learn_from, epsilon_steps, replay, batch_size: As in `AgentConfig`.
        warm_steps: Agent steps before the clock starts.
        rounds, stretch: Stretches of each agent alone, and seconds of one.
        others: Further agents and batch sizes whose share is measured, with `envs_together` environments.
        together: Seconds of the four.
        seeds: Of the plain agents, and of the structured ones, that run together.
        authors_steps, authors_learn_from: Agent steps of the authors' way that are timed, and those before.
        eager_warm, eager: Updates of the authors' way, before and on the clock.
    """

    envs: int = 128
    envs_together: int = 64
    agent: Kind = "dqn"
    learn_from: int = 5_000
    epsilon_steps: int = 20_000
    replay: int = 100_000
    batch_size: int = 32
    warm_steps: int = 22_000
    rounds: int = 5
    stretch: float = 3.0
    others: tuple[tuple[Kind, int], ...] = (("double", 64), ("dueling", 128))
    together: float = 12.0
    seeds: tuple[int, ...] = (0, 1)
    authors_steps: int = 1_500
    authors_learn_from: int = 300
    eager_warm: int = 5
    eager: int = 30


QUICK = TrainSizes(
    envs=16,
    envs_together=8,
    learn_from=400,
    epsilon_steps=500,
    replay=5_000,
    warm_steps=600,
    rounds=2,
    stretch=1.0,
    others=(("dueling", 128),),
    together=3.0,
    authors_steps=100,
    authors_learn_from=64,
    eager=10,
)


class Measured(NamedTuple):
    """All stretches of an agent alone, and the seconds that the emulator alone takes for them."""

    loop: Loop
    stretches: list[Stretch]
    emulator: float

    @property
    def steps(self) -> int:
        """Agent steps."""
        return self.loop.env.count * sum(one.last - one.first for one in self.stretches)

    @property
    def seconds(self) -> float:
        """Of the loop."""
        return sum(one.seconds for one in self.stretches)


def measure_train_device(quick: bool, device: str, sizes: TrainSizes | None = None, game: str = GAME) -> Iterator[Row]:
    """Rows for one agent, for structure's share, for the authors' way and for four agents.

    Args:
        quick: Fewer environments, and seconds.
        device: As "cuda"; with "cpu" it can be seen to run, and no more.
        sizes: Other sizes than those.
        game: Atari's, by name.

    Raises:
        ValueError: If there is no such device.
    """
    card = found_device(device, "Training")
    sizes = sizes or (QUICK if quick else TrainSizes())
    with one_torch_thread():
        pair = _alone(game, sizes, card)
        for measured in pair:
            yield _alone_row(game, measured, card)
        yield _share_row(game, pair, card)
        yield from _authors_rows(game, pair, sizes, card)
        del pair, measured
        gc.collect()
        yield from other_shares(game, sizes, card)
        yield _together_row(game, sizes, card)


def other_shares(game: str, sizes: TrainSizes, device: torch.device) -> Iterator[Row]:
    """Structure's share of the loop for each of `sizes.others`."""
    for agent, batch_size in sizes.others:
        one = dataclasses.replace(sizes, agent=agent, batch_size=batch_size, envs=sizes.envs_together)
        yield _share_row(game, _alone(game, one, device), device)
        gc.collect()


def _config(sizes: TrainSizes, *, structured: bool, envs: int) -> AgentConfig:
    return AgentConfig.of(
        "short",
        agent=sizes.agent,
        structured=structured,
        **AUTHORS_STRUCTURE,
        envs=envs,
        act_lag=1,
        learn_from=sizes.learn_from,
        epsilon_steps=sizes.epsilon_steps,
        replay=sizes.replay,
        batch_size=sizes.batch_size,
        eval_every=0,
        steps=MOST_STEPS,
    )


def _alone(game: str, sizes: TrainSizes, device: torch.device) -> list[Measured]:
    """The plain agent and the structured one: stretches in turns at the same games, then the emulator alone at them.

    The structured agent chooses its actions as ever, but the plain one's are taken: otherwise the games would
    differ, and with them the speed of the emulator.
    """
    loops = [
        begin_loop(game, _config(sizes, structured=structured, envs=sizes.envs), 0, device)
        for structured in (False, True)
    ]
    try:
        plain, structured = loops
        structured.env.follow(plain.env)
        for loop in loops:
            warm_up(loop, sizes.warm_steps)
        turns: tuple[list[Stretch], list[Stretch]] = ([], [])
        for _ in range(sizes.rounds):
            turns[0].append(timed_stretch(plain, sizes.stretch))
            turns[1].append(timed_stretch(structured, sizes.stretch, last=turns[0][-1].last))
        emulator = emulator_seconds(plain.env, turns[0])
        structured.env.same = plain.env.same and all(map(np.array_equal, structured.env.rewards, plain.env.rewards))
        return [Measured(loop, stretches, emulator) for loop, stretches in zip(loops, turns, strict=True)]
    finally:
        for loop in loops:
            loop.training.close()


def _alone_row(game: str, measured: Measured, device: torch.device) -> Row:
    config = measured.loop.training.config
    return Row(
        name=f"whole loop of {config.arm}, {game}, {config.envs} environments, {device_name(device)}",
        unit="us/step",
        ours=1e6 * measured.seconds / measured.steps,
        peer=1e6 * measured.emulator / measured.steps,
        peer_name="the emulator alone at the same games",
        note={
            "steps_per_second": measured.steps / measured.seconds,
            "emulator_steps_per_second": measured.steps / measured.emulator,
            "updates_per_second": sum(one.updates for one in measured.stretches) / measured.seconds,
            "envs": config.envs,
            "bar": ALONE_BAR,
            "same_games": measured.loop.env.same,
            "precision": default_precision(device),
        },
    )


def _share_row(game: str, pair: list[Measured], device: torch.device) -> Row:
    plain, structured = pair

    def share(rate: float, plain_rate: float) -> float:
        return 100 * (1 - rate / plain_rate)

    def rate(one: Stretch) -> float:
        return (one.last - one.first) / one.seconds

    rounds = [share(rate(mine), rate(other)) for mine, other in zip(structured.stretches, plain.stretches, strict=True)]
    config = plain.loop.training.config
    return Row(
        name=f"structure's share of the loop of {config.agent}, batch {config.batch_size}, {game}, "
        f"{config.envs} environments, {device_name(device)}",
        unit="%",
        ours=statistics.median(rounds),
        peer=LIMIT,
        peer_name="limit",
        note={
            "rounds": rounds,
            "spread": spread(rounds),
            "pooled": share(structured.steps / structured.seconds, plain.steps / plain.seconds),
            "plain_us": 1e6 * plain.seconds / plain.steps,
            "structured_us": 1e6 * structured.seconds / structured.steps,
            "emulator_us": 1e6 * plain.emulator / plain.steps,
        },
    )


def _authors_rows(game: str, pair: list[Measured], sizes: TrainSizes, device: torch.device) -> Iterator[Row]:
    batches, spec = host_batches()
    for measured in pair:
        mine = measured.loop.training.config
        theirs = AgentConfig.of("authors", structured=mine.structured)
        network = build_network(spec, theirs, torch.Generator().manual_seed(0))
        update = eager_update_seconds(network, theirs, batches, device, warm=sizes.eager_warm, count=sizes.eager)
        rate = authors_steps_per_second(
            game,
            structured=mine.structured,
            device=str(device),
            steps=sizes.authors_steps,
            learn_from=sizes.authors_learn_from,
            seed=0,
        )
        yield Row(
            name=f"whole loop of {mine.arm}, {game}, {mine.envs} environments, {device_name(device)}",
            unit="us/step",
            ours=1e6 * measured.seconds / measured.steps,
            peer=1e6 / rate,
            peer_name="the authors' way, 1 environment, eager",
            note={
                "steps_per_second": measured.steps / measured.seconds,
                "peer_steps_per_second": rate,
                "peer_update_us": 1e6 * update,
                "bar": AUTHORS_BARS[mine.structured],
            },
        )


class Member(NamedTuple):
    """What one of several agents did: its stretch, and steps of all environments on the emulator alone, timed."""

    stretch: Stretch
    replayed: int
    began: float
    ended: float
    same: bool


class Stage:
    """Where the threads of several agents meet.

    Attributes:
        begin: Held while an agent is made.
        meet: They wait there for each other.
        stop: Set by the first whose record has been played again, so that all emulators are busy while they are timed.
    """

    def __init__(self, count: int) -> None:
        self.begin, self.meet, self.stop = threading.Lock(), threading.Barrier(count), threading.Event()


def _together_row(game: str, sizes: TrainSizes, device: torch.device) -> Row:
    arms = [(structured, seed) for structured in (False, True) for seed in sizes.seeds]
    threads = max(1, usable_cores() // len(arms))
    stage = Stage(len(arms))

    def work(arm: tuple[bool, int]) -> Member:
        config = _config(sizes, structured=arm[0], envs=sizes.envs_together)
        try:
            with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
                return _member(game, config, arm[1], sizes, device, threads, stage)
        except BaseException:
            stage.meet.abort()  # or the others would wait for ever
            raise

    with _switching_often(), ThreadPoolExecutor(len(arms), thread_name_prefix="agent") as pool:
        done = [pool.submit(work, arm) for arm in arms]
    failures = [error for one in done if (error := one.exception()) is not None]
    if failures:
        raise next((error for error in failures if not isinstance(error, threading.BrokenBarrierError)), failures[0])
    members = [one.result() for one in done]
    took = max(one.stretch.ended for one in members) - min(one.stretch.began for one in members)
    steps = sizes.envs_together * sum(one.stretch.last - one.stretch.first for one in members)
    emulator = max(one.ended for one in members) - min(one.began for one in members)
    replayed = sizes.envs_together * sum(one.replayed for one in members)
    return Row(
        name=f"{len(arms)} agents in one process, {game}, {sizes.envs_together} environments each, "
        f"{device_name(device)}",
        unit="us/step",
        ours=1e6 * took / steps,
        peer=1e6 * emulator / replayed,
        peer_name=f"the emulators alone at the same games, {len(arms)} threads",
        note={
            "steps_per_second": steps / took,
            "emulator_steps_per_second": replayed / emulator,
            "updates_per_second": sum(one.stretch.updates for one in members) / took,
            "envs": sizes.envs_together,
            "env_threads": threads,
            "bar": TOGETHER_BAR,
            "same_games": all(one.same for one in members),
        },
    )


def _member(
    game: str, config: AgentConfig, seed: int, sizes: TrainSizes, device: torch.device, threads: int, stage: Stage
) -> Member:
    """One of several agents: train, meet, train on the clock, meet, and play the same games on the emulator alone."""
    with stage.begin:
        loop = begin_loop(game, config, seed, device, threads)
    try:
        warm_up(loop, sizes.warm_steps)
        stage.meet.wait()
        stretch = timed_stretch(loop, sizes.together)
        stage.meet.wait()
        loop.env.begin_again()
        loop.env.play_again(0, stretch.first)
        stage.meet.wait()
        began = time.perf_counter()
        replayed = loop.env.play_again(stretch.first, stretch.last, stage.stop)
        stage.stop.set()
        return Member(stretch, replayed, began, time.perf_counter(), loop.env.same)
    finally:
        loop.training.close()


@contextmanager
def _switching_often() -> Iterator[None]:
    earlier = sys.getswitchinterval()
    sys.setswitchinterval(min(earlier, SWITCH_INTERVAL))
    try:
        yield
    finally:
        sys.setswitchinterval(earlier)
