"""Whole training loops, ours and Stable-Baselines3's DQN, with the same settings and in the same run.

Both play the same environments with the same network, batch, memory, update rate and target copies, on one
torch thread. Both losses are Huber and both optimisers Adam; Stable-Baselines3 clips the norm of the
gradient, we do not. Times are for the whole loop, building excluded.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from svrl.agents.config import AgentConfig
from svrl.agents.training import Training
from svrl.benchmarks.peers import MissingPeerError
from svrl.benchmarks.rows import Row, one_torch_thread, seconds
from svrl.benchmarks.update import GAME
from svrl.envs.catalogue import make_env
from svrl.envs.vector import VectorEnv, step

ROUNDS = 3


def measure_loop(quick: bool = False) -> Iterator[Row]:
    """Microseconds of an agent step, acting, remembering and learning included."""
    cart = AgentConfig.of(
        "classic",
        envs=1,
        hidden=(128, 128),
        learning_rate_left=1.0,
        updates_per_step=0.25,
        learn_from=500,
        steps=800 if quick else 6_000,
    )
    game = AgentConfig.of("authors", learn_from=200, replay=5_000, steps=260 if quick else 1_200)
    with one_torch_thread():
        for name, config in (("CartPole-v1", cart), (GAME, game)):
            runs = [(_ours(name, config, seed), _theirs(name, config, seed)) for seed in range(1 if quick else ROUNDS)]
            ours, theirs = (1e6 * statistics.median(times) / config.steps for times in zip(*runs, strict=True))
            yield Row(
                name=f"whole DQN loop, {name}",
                unit="us/step",
                ours=ours,
                peer=theirs,
                peer_name="Stable-Baselines3 DQN",
                note={"ours_steps_per_second": 1e6 / ours, "peer_steps_per_second": 1e6 / theirs},
            )


def _ours(name: str, config: AgentConfig, seed: int) -> float:
    training = Training.begin(name, config, seed=seed)
    try:
        return seconds(lambda: [None for _ in training.events()])
    finally:
        training.close()


def _theirs(name: str, config: AgentConfig, seed: int) -> float:
    try:
        import stable_baselines3
    except ImportError as error:
        raise MissingPeerError("The peer is missing: pip install 'svrl[bench]'") from error
    pictures = name.startswith("atari/")
    env: Any = _as_gymnasium(make_env(name, 1, seed=seed)) if pictures else name
    model = stable_baselines3.DQN(
        "CnnPolicy" if pictures else "MlpPolicy",
        env,
        learning_rate=config.learning_rate,
        buffer_size=config.replay,
        learning_starts=config.learn_from,
        batch_size=config.batch_size,
        gamma=config.discount,
        train_freq=round(1 / config.updates_per_step),
        gradient_steps=1,
        target_update_interval=round(config.target_every / config.updates_per_step),
        exploration_fraction=min(1.0, config.epsilon_steps / config.steps),
        exploration_final_eps=config.epsilon_final,
        policy_kwargs={} if pictures else {"net_arch": list(config.hidden)},
        seed=seed,
        device="cpu",
    )
    # Otherwise the schedule of epsilon, and with it the share of steps that ask the network, would differ.
    model.exploration_schedule = lambda left: _epsilon(config, (1 - left) * config.steps)
    return seconds(lambda: model.learn(config.steps))


def _epsilon(config: AgentConfig, steps: float) -> float:
    from svrl.agents.exploration import epsilon_at

    return epsilon_at(config, int(steps))


def _as_gymnasium(env: VectorEnv) -> Any:
    """One lane of ours as the kind of environment that Stable-Baselines3 takes."""
    import gymnasium
    from gymnasium import spaces

    class Adapter(gymnasium.Env):
        observation_space = spaces.Box(0, 255, env.spec.observation_shape, np.uint8)
        action_space = spaces.Discrete(env.spec.n_actions)
        waiting: np.ndarray | None = None

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            first = env.reset() if self.waiting is None else self.waiting
            return first[0], {}

        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            done = step(env, np.array([action]))
            self.waiting = done.observations.copy()
            reward = float(np.sign(done.rewards[0]))
            return done.final_observations[0], reward, bool(done.terminal[0]), bool(done.truncated[0]), {}

    return Adapter()
