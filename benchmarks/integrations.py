"""What structure adds to one update as other libraries make it.

Everywhere the same: Nature network, frames of 84 x 84 x 4 bytes, 18 actions, batches of 32 out of the library's own
replay buffer, Adam. Each function of a library gives (plain, structured): a call of either makes one update of the same
agent. They update in turns without and with structure, on one thread of the CPU. What structure adds is

    100 * (structured / plain - 1)

of the lower quartiles of the processor's time of an update: what the process itself spent, because on a shared machine
waiting for others is larger than the share, and the lower quartile, because what others do to caches and clocks only
adds. Every other pair begins with the structured one. The interval is a bootstrap over pairs, 95%.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import Env, spaces
from torch import nn

from benchmarks.rows import Parts, Row, in_turns, version
from svrl.runtime.device import torch_threads

LIMIT = 5.0
"""Percent of an update that structure may add."""
WARM, PAIRS, QUICK_PAIRS = 3, 400, 5
RESAMPLES = 1_000
ACTIONS, BATCH, STORED = 18, 32, 256
FRAMES = spaces.Box(0, 255, (4, 84, 84), np.uint8)
Update = Callable[[], None]


def random_transitions(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random frames (count + 1, 4, 84, 84) of bytes, actions out of 18, rewards (count,) and ends (count,)."""
    rng = np.random.default_rng(0)
    frames = rng.integers(256, size=(count + 1, *FRAMES.shape), dtype=np.uint8)
    actions, rewards = rng.integers(ACTIONS, size=count), rng.normal(size=count).astype(np.float32)
    return frames, actions, rewards, rng.random(count) < 0.01


def both_ways(owner: Any, update: Update) -> tuple[Update, Update]:
    """The same update without the structure of an agent, and with it."""
    rule = owner.structure

    def with_structure(structure: Any) -> None:
        owner.structure = structure
        update()

    return partial(with_structure, None), partial(with_structure, rule)


class NeverPlayed(Env[np.ndarray, np.int64]):
    """The shape of an Atari game."""

    observation_space = FRAMES
    action_space = spaces.Discrete(ACTIONS)


def sb3_model(kind: Any, device: str | torch.device = "cpu") -> Any:
    """A model of Stable-Baselines3 whose replay buffer is full."""
    from stable_baselines3.common.logger import Logger

    model = kind("CnnPolicy", NeverPlayed(), batch_size=BATCH, buffer_size=STORED, seed=0, device=device)
    model.set_logger(Logger(None, []))
    frames, *rest = random_transitions(STORED)
    for here, there, action, reward, end in zip(frames[:-1, None], frames[1:, None], *rest, strict=True):
        model.replay_buffer.add(here, there, np.array([[action]]), np.array([reward]), np.array([end]), [{}])
    return model


def sb3() -> tuple[Update, Update]:
    """Its own `train`."""
    from svrl.integrations.stable_baselines3 import StructuredDQN

    model = sb3_model(StructuredDQN)
    return both_ways(model, lambda: model.train(gradient_steps=1, batch_size=BATCH))


def sb3_contrib() -> tuple[Update, Update]:
    """Its own `train`; the network gives the library's 200 quantiles for each action."""
    from svrl.integrations.sb3_contrib import StructuredQRDQN

    model = sb3_model(StructuredQRDQN)
    return both_ways(model, lambda: model.train(gradient_steps=1, batch_size=BATCH))


def cleanrl() -> tuple[Update, Update]:
    """As a one-file script in CleanRL's manner makes it: eager, a buffer of NumPy arrays, squared errors."""
    from svrl.integrations.target_hook import structure

    online = nn.Sequential(
        nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(), nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, ACTIONS),
    )  # fmt: skip
    target = copy.deepcopy(online)
    optimiser = torch.optim.Adam(online.parameters(), lr=1e-4)
    frames, actions, rewards, ends = random_transitions(STORED)
    rng = np.random.default_rng(0)

    def update() -> None:
        drawn = rng.integers(STORED, size=BATCH)
        here, there = torch.as_tensor(frames[drawn]) / 255.0, torch.as_tensor(frames[drawn + 1]) / 255.0
        with torch.no_grad():
            best = target(there).max(dim=1).values
            wanted = torch.as_tensor(rewards[drawn]) + 0.99 * best * ~torch.as_tensor(ends[drawn])
        said = online(here).gather(1, torch.as_tensor(actions[drawn])[:, None]).squeeze(1)
        loss = nn.functional.mse_loss(said, wanted)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    def structured_update() -> None:
        with structure(target, seed=0):
            update()

    return update, structured_update


def tianshou() -> tuple[Update, Update]:
    """Its own `update`, with the network of its Atari example; the buffer stacks four frames when a batch is drawn."""
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Batch, ReplayBuffer
    from tianshou.env.atari.atari_network import DQNet, ScaledObsInputActionReprNet
    from tianshou.utils.torch_utils import policy_within_training_step

    from svrl.integrations.tianshou import StructuredDQN

    network = ScaledObsInputActionReprNet(DQNet(4, 84, 84, ACTIONS))
    policy = DiscreteQLearningPolicy(model=network, action_space=spaces.Discrete(ACTIONS))
    algorithm = StructuredDQN(
        policy=policy, optim=AdamOptimizerFactory(lr=1e-4), n_step_return_horizon=3, target_update_freq=500
    )
    memory = ReplayBuffer(STORED, stack_num=4, ignore_obs_next=True, save_only_last_obs=True, random_seed=0)
    frames, *rest = random_transitions(STORED)
    for frame, action, reward, end in zip(frames[:-1, :1], *rest, strict=True):
        named = {"obs": frame, "obs_next": frame, "act": action, "rew": reward, "terminated": end}
        memory.add(Batch(**named, truncated=False, info={}))

    def update() -> None:
        with policy_within_training_step(policy):
            algorithm.update(buffer=memory, sample_size=BATCH)

    return both_ways(algorithm, update)


def torchrl() -> tuple[Update, Update]:
    """The loop that its users write: draw a batch, which a transform turns into floats, loss, Adam, target updater."""
    from tensordict import TensorDict
    from torchrl.data import Categorical, LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.envs.transforms import ToTensorImage
    from torchrl.modules import MLP, ConvNet, QValueActor
    from torchrl.objectives import HardUpdate

    from svrl.integrations.torchrl import StructuredDQNLoss

    layers = {"num_cells": [32, 64, 64], "kernel_sizes": [8, 4, 3], "strides": [4, 2, 1]}
    network = nn.Sequential(
        ConvNet(in_features=4, **layers, activation_class=nn.ReLU),
        MLP(in_features=64 * 7 * 7, out_features=ACTIONS, num_cells=[512], activation_class=nn.ReLU),
    )
    space = Categorical(ACTIONS)
    actor = QValueActor(network, in_keys=["pixels"], spec=space)
    loss = StructuredDQNLoss(actor, action_space=space, loss_function="smooth_l1")
    loss.make_value_estimator(gamma=0.99)
    updater = HardUpdate(loss, value_network_update_interval=1_000)
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-4)
    memory = TensorDictReplayBuffer(storage=LazyTensorStorage(STORED), batch_size=BATCH)
    memory.append_transform(ToTensorImage(in_keys=["pixels", ("next", "pixels")]))
    frames, actions, rewards, ends = map(torch.from_numpy, random_transitions(STORED))
    frames, ends = frames.permute(0, 2, 3, 1).contiguous(), ends[:, None]  # channels last, as its transform wants them
    after = {"pixels": frames[1:], "reward": rewards[:, None], "done": ends, "terminated": ends}
    memory.extend(TensorDict({"pixels": frames[:-1], "action": actions, "next": after}, [STORED]))

    def update() -> None:
        value = loss(memory.sample())["loss"]
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        updater.step()

    return both_ways(loss, update)


def rllib() -> tuple[Update, Update]:
    """What its training step does after it has sampled games: draw episodes, update, set their priorities."""
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode
    from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

    from svrl.integrations.rllib import StructuredDQNConfig

    module, pictures = "default_policy", spaces.Box(-1.0, 1.0, (84, 84, 4), np.float32)
    filters = [[32, 8, 4], [64, 4, 2], [64, 3, 1]]
    nature = DefaultModelConfig(conv_filters=filters, conv_activation="relu", head_fcnet_hiddens=[512])
    config = StructuredDQNConfig()
    config.rl_module(model_config=nature).debugging(seed=0, log_level="ERROR")
    config.training(double_q=False, dueling=False, train_batch_size_per_learner=BATCH)
    learner = config.build_learner(spaces={module: (pictures, spaces.Discrete(ACTIONS))})
    memory = PrioritizedEpisodeReplayBuffer(capacity=STORED)
    memory.rng = np.random.default_rng(0)
    frames, actions, rewards, _ = random_transitions(STORED)
    episode = SingleAgentEpisode(
        id_="an episode",
        observations=list(frames.transpose(0, 2, 3, 1).astype(np.float32) / 128.0 - 1.0),
        observation_space=pictures,
        actions=list(actions),
        action_space=spaces.Discrete(ACTIONS),
        rewards=[float(reward) for reward in rewards],
        terminated=True,
        len_lookback_buffer=0,
    )
    memory.add([episode])

    def update() -> None:
        drawn = memory.sample(num_items=BATCH, n_step=1, gamma=config.gamma, beta=0.4, sample_episodes=True)
        results = learner.update(episodes=drawn, timesteps={"num_env_steps_sampled_lifetime": 0})
        memory.update_priorities(np.concatenate(results[module]["td_error"].peek()), module)

    return both_ways(learner, update)


class Library(NamedTuple):
    """A library: how tables name it, what to install, which extra installs it, and what makes its updates."""

    title: str
    package: str
    extra: str
    make: Callable[[], tuple[Update, Update]]

    def updates(self) -> tuple[Update, Update]:
        """(plain, structured).

        Raises:
            ImportError: If it is not installed.
        """
        if version(self.package) is None:
            raise ImportError(f"{self.package} is missing. Run: pip install 'svrl[{self.extra}]'")
        with redirect_stdout(sys.stderr):  # libraries talk, and stdout is for the result
            return self.make()


LIBRARIES = {
    "sb3": Library("Stable-Baselines3's DQN", "stable-baselines3", "sb3", sb3),
    "sb3-contrib": Library("sb3-contrib's QR-DQN", "sb3-contrib", "sb3", sb3_contrib),
    "cleanrl": Library("a script in CleanRL's manner", "torch", "bench", cleanrl),
    "tianshou": Library("Tianshou's DQN", "tianshou", "tianshou", tianshou),
    "torchrl": Library("TorchRL's DQNLoss", "torchrl", "torchrl", torchrl),
    "rllib": Library("RLlib's DQN learner", "ray", "ray", rllib),
}


def parts(quick: bool, device: torch.device) -> Parts:
    """A part for each library; the device is the CPU."""
    if device.type != "cpu":
        raise ValueError(f"What structure adds is measured by the processor's time; got --device {device}. Use cpu.")
    pairs = QUICK_PAIRS if quick else PAIRS
    return {
        f"what structure adds to an update of {library.title}": partial(measure_share, library, pairs)
        for library in LIBRARIES.values()
    }


def measure_share(library: Library, pairs: int) -> Iterator[Row]:
    """What structure adds to an update of one library."""
    with torch_threads(1), redirect_stdout(sys.stderr):
        updates = library.updates()
        in_turns([updates] * WARM)
        spent = in_turns([updates] * pairs, clock=time.process_time)
    draws = np.random.default_rng(0).integers(pairs, size=(RESAMPLES, pairs))
    low, high = np.percentile([_added(spent[draw]) for draw in draws], (2.5, 97.5))
    plain, structured = 1e6 * np.median(spent, axis=0)
    yield Row(
        name=f"what structure adds to an update of {library.title}, Nature CNN, 18 actions, batch 32, CPU",
        unit="%",
        ours=_added(spent),
        peer=LIMIT,
        peer_name="limit",
        note={
            "library": f"{library.package} {version(library.package)}",
            "interval": [float(low), float(high)],
            "plain_us": float(plain),
            "structured_us": float(structured),
            "pairs": pairs,
        },
    )


def _added(spent: np.ndarray) -> float:
    """Percent that structure adds, from the seconds of pairs (n, 2)."""
    plain, structured = np.percentile(spent, 25, axis=0)
    return float(100 * (structured / plain - 1))
