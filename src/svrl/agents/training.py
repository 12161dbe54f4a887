"""Training: environments step, the replay memory grows, bursts of updates are made, events come out.

N environments step once; then K = N * updates_per_step updates are due (below 1: one now and then),
made in bursts that are cut at each copy of the target network. With act_lag 0 the step is stored
first, and the next actions come from the network after the burst: textbook DQN. With act_lag 1 the
burst is made while the environments step, without that step in the memory, and the actions after it
come from the network as it was before the burst.

Environments, exploration, replay, masks and network each have a generator of their own.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.agents.burst_report import describe_burst
from svrl.agents.config import AgentConfig
from svrl.agents.environment import EnvSource, name_of, open_env
from svrl.agents.events import EpisodeEnded, Event, Learned, Stepped
from svrl.agents.exploration import epsilon_at, explore
from svrl.agents.learner import Burst, Learner, copy_weights
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.replay import Batch, Layout, Replay, observations
from svrl.agents.seeds import derived_seed, generator_for
from svrl.agents.structured_targets import StructuredTargets
from svrl.envs.vector import EnvSpec, Step

WINDOW = 100
"""Training episodes in the paper's score."""
ROOM = 1.25
"""A replay memory is put on a card that has this many times its size free."""


class Training:
    """An agent in training; everything the steps to come depend on.

    Attributes:
        source: The environment, by name or as a function.
        env: Its name.
        spec: What it looks like.
        config: All settings.
        seed: Of everything random.
        device: Of the networks.
        steps: Agent steps so far, over all environments.
        episodes: Games finished.
        recent_scores: Raw scores of the last 100 games.
        replay: The memory.
        learner: Networks and optimiser.
    """

    def __init__(
        self, source: EnvSource, config: AgentConfig, *, seed: int = 0, device: str | torch.device = "cpu"
    ) -> None:
        self.source, self.env = source, name_of(source)
        self.config, self.seed, self.device = config, seed, torch.device(device)
        structure = StructuredTargets.from_config(config)
        self._envs = open_env(source, config, count=config.envs, seed=derived_seed(seed, "environments"))
        self.spec: EnvSpec = self._envs.spec
        network = build_network(self.spec, config, generator_for(seed, "network")).to(self.device)
        self.learner = Learner(network, copy.deepcopy(network), config, structure)
        memory = _replay_device(self.spec, config, self.device)
        self.replay = Replay(self.spec, lanes=config.envs, capacity=config.replay, device=memory)
        self._generators = {
            "exploration": generator_for(seed, "exploration"),
            "replay": generator_for(seed, "replay", memory),
            "masks": generator_for(seed, "masks", self.device),
        }
        # With a lag the acting network is a copy, renewed before each burst.
        self._actor = copy.deepcopy(network).requires_grad_(False) if config.act_lag else network
        self.steps = self.episodes = 0
        self.recent_scores: deque[float] = deque(maxlen=WINDOW)
        self._returns = np.zeros(config.envs)
        self._lengths = np.zeros(config.envs, dtype=np.int64)
        self._losses: list[Tensor] = []
        self._logged = 0
        self._batch: Batch | None = None
        self._burst: Burst | None = None
        self._untold: deque[Event] = deque()
        self._observations: np.ndarray | None = None
        self._pending: np.ndarray | None = None

    @classmethod
    def begin(
        cls, env: EnvSource, config: AgentConfig, *, seed: int = 0, device: str | torch.device = "cpu"
    ) -> Training:
        """Make environments, networks and memory; nothing is stepped yet."""
        return cls(env, config, seed=seed, device=device)

    @property
    def network(self) -> QNetwork:
        """The online network."""
        return self.learner.online

    @property
    def updates(self) -> int:
        """Gradient updates so far."""
        return self.learner.updates

    @property
    def epsilon(self) -> float:
        """Probability that the next action is random."""
        return epsilon_at(self.config, self.steps)

    def events(self) -> Iterator[Event]:
        """Train until config.steps. May be left at any event; called again it goes on with the next one."""
        if self._observations is None:
            self._observations = self._envs.reset()
            self.replay.begin(self._observations)
        while self._untold or self.steps < self.config.steps:
            if not self._untold:
                self._untold.extend(self._advance())
            yield self._untold.popleft()

    def _advance(self) -> list[Event]:
        """One step of all environments, and what there is to tell about it."""
        before, every = self.steps, self.config.log_every
        step = self._step_lagging() if self.config.act_lag else self._step_at_once()
        told: list[Event] = [*self._account(step)]
        if self.updates and self.steps // every > before // every:
            told.append(self._describe())
        return [*told, Stepped(steps=self.steps, updates=self.updates, epsilon=self.epsilon)]

    def _step_at_once(self) -> Step:
        actions = self._choose()
        self._envs.send(actions)
        step = self._envs.recv()
        self._store(actions, step)
        self._learn()
        return step

    def _step_lagging(self) -> Step:
        actions = self._choose() if self._pending is None else self._pending
        self._envs.send(actions)
        copy_weights(self.network, self._actor)
        self._learn()
        step = self._envs.recv()
        self._store(actions, step)
        self._pending = self._choose()
        return step

    @torch.no_grad()
    def _choose(self) -> np.ndarray:
        lanes, generator = self.config.envs, self._generators["exploration"]
        return explore(self._values, lanes, self.spec.n_actions, self.epsilon, generator)

    def _values(self) -> Tensor:
        return self._actor(torch.as_tensor(self._observations).to(self.device))

    def _store(self, actions: np.ndarray, step: Step) -> None:
        self.replay.append(actions, step)
        self._observations = step.observations
        self.steps += self.config.envs

    def _learn(self) -> None:
        config, learner = self.config, self.learner
        due = config.updates_after(self.steps)
        while due > learner.updates:
            count = min(due - learner.updates, learner.until_copy())
            batch = self.replay.sample(count * config.batch_size, self._generators["replay"], out=self._batch)
            self._batch = batch  # nobody looks at it after the burst, so the next one may write over it
            self._burst = learner.burst(_moved(batch, self.device), count, self._generators["masks"])
            self._losses.append(self._burst.losses.sum())

    def _account(self, step: Step) -> list[EpisodeEnded]:
        """Close the games that ended; all of them before anybody hears of one."""
        self._returns += step.rewards
        self._lengths += 1
        ended = []
        for lane in np.flatnonzero(step.ended):
            self.episodes += 1
            score, length = float(self._returns[lane]), int(self._lengths[lane])
            self.recent_scores.append(score)
            self._returns[lane] = self._lengths[lane] = 0
            ended.append(
                EpisodeEnded(
                    steps=self.steps,
                    updates=self.updates,
                    lane=int(lane),
                    score=score,
                    length=length,
                    truncated=bool(step.truncated[lane]),
                )
            )
        return ended

    def _describe(self) -> Learned:
        assert self._burst is not None
        losses, self._losses = self._losses, []
        self._logged, since = self.updates, self.updates - self._logged
        loss = float(torch.stack(losses).cpu().sum()) / since if losses else 0.0
        if not math.isfinite(loss):
            raise ValueError(
                f"{self.env}: the loss is {loss} after {self.updates} updates, so training has diverged. Lower the "
                "learning rate, or look for rewards and observations that are not finite."
            )
        structure = self.learner.structure
        return Learned(
            steps=self.steps,
            updates=self.updates,
            epsilon=self.epsilon,
            loss=loss,
            observe=None if structure is None else structure.probability(self.updates),
            **describe_burst(self._burst, self._recent_features(), self.network.feature_widths),
        )

    @torch.no_grad()
    def _recent_features(self) -> Tensor:
        """Last features at states of the memory; drawn by a generator of its own, so that looking changes nothing."""
        generator = generator_for(self.seed, f"features {self.updates}", self.replay.device)
        batch = _moved(self.replay.sample(FEATURE_STATES, generator), self.device)
        return self.network.features(observations(batch))

    def capture(self) -> dict[str, Any]:
        """Everything but the replay memory, as arrays and numbers; `Checkpoints` writes both."""
        return {
            "steps": self.steps,
            "episodes": self.episodes,
            "recent_scores": list(self.recent_scores),
            "returns": self._returns.copy(),
            "lengths": self._lengths.copy(),
            "losses": np.array([float(loss) for loss in self._losses], dtype=np.float32),
            "logged": self._logged,
            "observations": None if self._observations is None else self._observations.copy(),
            "pending": None if self._pending is None else self._pending.copy(),
            "generators": {name: source.get_state().numpy() for name, source in self._generators.items()},
            "learner": self.learner.capture(),
            "environments": self._envs.capture(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Back to what `capture` saw; the replay memory has been filled before.

        Environments that cannot be restored begin new games, from a seed that follows from the seed and the steps.
        """
        self.steps, self.episodes = int(state["steps"]), int(state["episodes"])
        self.recent_scores = deque(state["recent_scores"], maxlen=WINDOW)
        self._losses = list(torch.as_tensor(state["losses"]).to(self.device))
        self._untold.clear()
        self._logged = int(state["logged"])
        self.learner.restore(state["learner"])
        copy_weights(self.network, self._actor)
        for name, source in self._generators.items():
            source.set_state(torch.as_tensor(state["generators"][name]))
        if state["observations"] is None:
            return
        if state["environments"] is not None:
            self._observations = self._envs.restore(state["environments"])
            self._returns, self._lengths = state["returns"].copy(), state["lengths"].copy()
            self._pending = state["pending"]
        else:
            self._envs.close()
            seed = derived_seed(self.seed, f"environments after {self.steps}")
            self._envs = open_env(self.source, self.config, count=self.config.envs, seed=seed)
            self._observations = self._envs.reset()
            self.replay.begin(self._observations)

    def close(self) -> None:
        """Let go of the environments."""
        self._envs.close()


FEATURE_STATES = 512
"""States whose features are looked at."""


def _moved(batch: Batch, device: torch.device) -> Batch:
    return batch if batch.windows.device == device else Batch(*(part.to(device) for part in batch))


def _replay_device(spec: EnvSpec, config: AgentConfig, device: torch.device) -> torch.device:
    """On the card if it fits there, else in RAM."""
    if device.type != "cuda":
        return torch.device("cpu")
    size = Layout.of(spec, lanes=config.envs, capacity=config.replay).nbytes
    free, _ = torch.cuda.mem_get_info(device)
    return device if size * ROOM < free else torch.device("cpu")
