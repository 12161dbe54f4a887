"""Whole training loops: on the CPU against Stable-Baselines3's DQN, on a GPU against the emulator and the authors.

CPU    The same environments, network, batch, buffer, update rate and target copies, on one torch thread. All losses
       are Huber and all optimisers Adam; Stable-Baselines3 clips the norm of the gradient, we do not. Times are for
       the whole loop, building excluded: acting, storing and learning. On CartPole also against the loop that one
       writes in a single file, in the manner of CleanRL, and with and without structure.
GPU    One agent, plain and structured, with many environments: one update for four agent steps, act_lag 1, timed once
       epsilon has fallen. Against the emulator alone, which plays at random with nothing else at work: the ratio is
       the share of its speed that is left with an agent. Against the authors' program, for which Stable-Baselines3's
       DQN stands: one environment, eager updates, the buffer in host memory; structure by fancyimpute on the host.
"""

from __future__ import annotations

import copy
import itertools
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from benchmarks.authors import complete_targets
from benchmarks.rows import Parts, Row, device_name, peer, timed
from svrl.agents.config import AUTHORS_STRUCTURE, AgentConfig
from svrl.agents.events import Stepped
from svrl.agents.training import Training
from svrl.envs.make import make_env
from svrl.envs.vector import VectorEnv, step
from svrl.runtime.device import torch_threads

GAME = "atari/frostbite"
ROUNDS = 3
LIMIT = 0.45
"""The share of the emulator's speed that an agent shall reach."""


def parts(quick: bool, device: torch.device) -> Parts:
    """Two environments on the CPU; a plain and a structured agent on a GPU."""
    if device.type == "cuda":
        small: dict[str, Any] = {"n_envs": 16, "start": 400, "warm": 600, "seconds_each": 2.0, "peer_steps": 100}
        return {
            f"whole loop of {name}": partial(measure_on_gpu, device, structured, **(small if quick else {}))
            for name, structured in (("dqn", False), ("sv-dqn", True))
        }
    cart = AgentConfig.of(
        "control",
        n_envs=1,
        learning_rate_left=1.0,
        updates_per_step=0.5,
        target_update_interval=250,
        learning_starts=500,
        steps=800 if quick else 6_000,
    )
    game = AgentConfig.of("authors", learning_starts=200, buffer_size=5_000, steps=260 if quick else 1_200)
    return {
        f"whole DQN loop, {name}": partial(measure_on_cpu, name, config, 1 if quick else ROUNDS, device)
        for name, config in (("CartPole-v1", cart), (GAME, game))
    }


def measure_on_cpu(name: str, config: AgentConfig, rounds: int, device: torch.device) -> Iterator[Row]:
    """A step of the same agent, ours and the peers', in turns."""
    loops: dict[str, Callable[[int], float]] = {
        "svrl": lambda seed: _our_seconds(name, config, seed, device),
        "Stable-Baselines3 DQN": lambda seed: _sb3_seconds(name, config, seed, device),
    }
    if not name.startswith("atari/"):
        loops["a loop in a single file"] = lambda seed: single_file_seconds(name, config, seed)
        loops["svrl with structure"] = lambda seed: _our_seconds(name, config.replace(structured=True), seed, device)
    seconds: dict[str, list[float]] = {peer_name: [] for peer_name in loops}
    for seed in range(rounds):
        for peer_name, measure in loops.items():
            with torch_threads(1):
                seconds[peer_name].append(measure(seed))
    micro = {peer_name: 1e6 * float(np.median(found)) / config.steps for peer_name, found in seconds.items()}
    ours = micro.pop("svrl")
    for peer_name, theirs in micro.items():
        note = {"ours_steps_per_second": 1e6 / ours, "peer_steps_per_second": 1e6 / theirs}
        yield Row(
            name=f"whole DQN loop, {name}", unit="us/step", ours=ours, peer=theirs, peer_name=peer_name, note=note
        )


def _our_seconds(name: str, config: AgentConfig, seed: int, device: torch.device) -> float:
    with closing(Training(name, config, seed=seed, device=device)) as training:
        return timed(lambda: _train(training, lambda: False))[0]


def _sb3_seconds(name: str, config: AgentConfig, seed: int, device: torch.device) -> float:
    model = sb3_dqn(name, config, seed, device)
    with torch_threads(1), closing(model.env):
        return timed(partial(model.learn, config.steps))[0]


def single_file_seconds(name: str, config: AgentConfig, seed: int) -> float:
    """DQN with one environment, as short as it can be written: arrays for a buffer, torch's modules and its Adam."""
    rng, env = np.random.default_rng(seed), gymnasium.make(name)
    torch.manual_seed(seed)
    inputs, actions = env.observation_space.shape[0], env.action_space.n  # type: ignore[index,attr-defined]
    sizes = (inputs, *config.hidden)
    layers = [one for a, b in itertools.pairwise(sizes) for one in (nn.Linear(a, b), nn.ReLU())]
    online = nn.Sequential(*layers, nn.Linear(sizes[-1], actions))
    target = copy.deepcopy(online)
    optimiser = torch.optim.Adam(online.parameters(), lr=config.learning_rate)
    states, after = np.zeros((2, config.buffer_size, inputs), np.float32)
    taken, rewards, over = (np.zeros(config.buffer_size, kind) for kind in (np.int64, np.float32, np.float32))
    every = round(1 / config.updates_per_step)
    began = time.perf_counter()
    state, _ = env.reset(seed=seed)
    updates = 0
    for step_number in range(1, config.steps + 1):
        if rng.random() < config.epsilon_at(step_number):
            action = int(rng.integers(actions))
        else:
            with torch.no_grad():
                action = int(online(torch.from_numpy(state)).argmax())
        following, reward, terminal, truncated, _ = env.step(action)
        k = (step_number - 1) % config.buffer_size
        states[k], after[k], taken[k], rewards[k], over[k] = state, following, action, float(reward), terminal
        state = env.reset()[0] if terminal or truncated else following
        if step_number <= config.learning_starts or step_number % every:
            continue
        rows = rng.integers(min(step_number, config.buffer_size), size=config.batch_size)
        with torch.no_grad():
            values = target(torch.from_numpy(after[rows])).max(1).values
            targets = torch.from_numpy(rewards[rows]) + config.gamma * (1 - torch.from_numpy(over[rows])) * values
        chosen = online(torch.from_numpy(states[rows])).gather(1, torch.from_numpy(taken[rows])[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(chosen, targets)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        updates += 1
        if updates % config.target_update_interval == 0:
            target.load_state_dict(online.state_dict())
    env.close()
    return time.perf_counter() - began


def measure_on_gpu(
    device: torch.device,
    structured: bool,
    n_envs: int = 128,
    start: int = 5_000,
    warm: int = 22_000,
    seconds_each: float = 15.0,
    peer_steps: int = 1_500,
) -> Iterator[Row]:
    """A step of one agent against the emulator alone and against the authors' program.

    Args:
        device: Of the networks.
        structured: Whether the agent is.
        n_envs: Environments of our agent.
        start, warm: Agent steps before ours learns, and before the clock starts.
        seconds_each: Of our loop on the clock.
        peer_steps: Agent steps of the authors' program on the clock.
    """
    with torch_threads(1):
        config = loop_config(structured, n_envs, start)
        ours = loop_seconds(config, warm, seconds_each, device)
        name = f"whole loop of {config.arm}, {GAME}, {n_envs} environments, {device_name(device)}"
        row = partial(Row, name=name, unit="us/step", ours=1e6 * ours)
        emulator = emulator_seconds(n_envs, warm, seconds_each)
        yield row(peer=1e6 * emulator, peer_name="the emulator alone", note={"limit": LIMIT})
        sb3 = "Stable-Baselines3 DQN, 1 environment" + (", fancyimpute" if structured else "")
        yield row(peer=1e6 * authors_seconds(structured, peer_steps, device), peer_name=sb3)


def loop_config(structured: bool, n_envs: int, start: int) -> AgentConfig:
    """The preset `short` with the authors' structure; epsilon is at its final value once learning begins."""
    return AgentConfig.of(
        "short",
        **AUTHORS_STRUCTURE,
        structured=structured,
        n_envs=n_envs,
        act_lag=1,
        learning_starts=start,
        epsilon_steps=start,
        buffer_size=max(20 * start, 1_000),
        eval_every=0,
        steps=1_000_000_000,  # more than are made
    )


def loop_seconds(config: AgentConfig, warm: int, seconds_each: float, device: torch.device) -> float:
    """Seconds of an agent step of our loop, once it learns."""
    with closing(Training(GAME, config, device=device)) as training:
        _train(training, lambda: training.steps >= warm)
        first, began = training.steps, time.perf_counter()
        _train(training, lambda: time.perf_counter() - began >= seconds_each)
        return (time.perf_counter() - began) / (training.steps - first)


def _train(training: Training, over: Callable[[], bool]) -> None:
    """Train until `over`, which is asked after every step of all environments; then wait for what is under way."""
    for event in training.events():
        if isinstance(event, Stepped) and over():
            break
    training.settle()


def emulator_seconds(n_envs: int, warm: int, seconds_each: float) -> float:
    """Seconds of an agent step of the emulator alone, played at random until the first games have ended, and after."""
    rng = np.random.default_rng(0)
    with closing(make_env(GAME, n_envs, seed=0)) as env:
        env.reset()
        played, first, began = 0, 0, math.inf
        while time.perf_counter() - began < seconds_each:
            step(env, rng.integers(env.spec.n_actions, size=n_envs))
            played += n_envs
            if played >= warm and first == 0:
                first, began = played, time.perf_counter()
        return (time.perf_counter() - began) / (played - first)


def authors_seconds(structured: bool, steps: int, device: torch.device) -> float:
    """Seconds of an agent step of the authors' program, once it learns and epsilon has fallen."""
    start = 40
    model = sb3_dqn(GAME, loop_config(structured, 1, start), 0, device)
    if structured:
        complete_targets(model.q_net_target)
    with closing(model.env):
        model.learn(2 * start)
        return timed(partial(model.learn, steps, reset_num_timesteps=False))[0] / steps


def sb3_dqn(name: str, config: AgentConfig, seed: int, device: torch.device) -> Any:
    """Stable-Baselines3's DQN with one environment and our settings."""
    pictures = name.startswith("atari/")
    env: Any = OneEnv(make_env(name, 1, seed=seed)) if pictures else name
    model = peer("stable_baselines3").DQN(
        "CnnPolicy" if pictures else "MlpPolicy",
        env,
        learning_rate=config.learning_rate,
        buffer_size=config.buffer_size,
        learning_starts=config.learning_starts,
        batch_size=config.batch_size,
        gamma=config.gamma,
        train_freq=round(1 / config.updates_per_step),
        gradient_steps=1,
        target_update_interval=round(config.target_update_interval / config.updates_per_step),
        exploration_final_eps=config.epsilon_final,
        policy_kwargs={} if pictures else {"net_arch": list(config.hidden)},
        seed=seed,
        device=device,
    )
    # Otherwise the schedule of epsilon, and with it the share of steps that ask the network, would differ.
    model.exploration_schedule = lambda left: config.epsilon_at(model.num_timesteps)
    return model


class OneEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One environment of ours as the kind that Stable-Baselines3 takes; rewards are clipped to their signs."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self.observation_space = spaces.Box(0, 255, env.spec.observation_shape, np.uint8)
        self.action_space = spaces.Discrete(env.spec.n_actions)
        self._waiting: np.ndarray | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """The first state of the game that is waiting."""
        first = self._env.reset() if self._waiting is None else self._waiting
        return first[0], {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """One step; the game after the last is begun at once."""
        done = step(self._env, np.array([action]))
        self._waiting = done.observations.copy()
        reward = float(np.sign(done.rewards[0]))
        return done.final_observations[0], reward, bool(done.terminal[0]), bool(done.truncated[0]), {}

    def close(self) -> None:
        """End the emulator."""
        self._env.close()
