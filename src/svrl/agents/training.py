"""Training: step environments, fill the replay buffer, update the network in bursts, and yield events.

N environments step once; then K = N * updates_per_step updates are due (below 1: one now and then), in bursts that end
at each copy of the target network. With act_lag 0 the buffer stores the step first, and the next actions come from the
network after the burst: textbook DQN. With act_lag 1 the burst runs while the environments step, without that step in
the buffer, and the actions after it come from the network before the burst.

Environments, exploration, replay, masks and network each have their own random generator.

On a GPU every training launches its work on its own streams, and bursts are CUDA graphs. The host waits only for
actions, and with act_lag 1 the environments step while the previous burst still runs.
"""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig, Precision, check_precision, default_precision, family_of
from svrl.agents.cuda_graph import CudaGraph, GpuEvent, computing_in, stream_of
from svrl.agents.evaluation import derived_seed, explore, generator_for, with_evaluation
from svrl.agents.events import EpisodeEnded, Event, Learned, Stepped, asks_to_stop, warn
from svrl.agents.learner import GraphedBursts, Learner, can_capture, copy_weights
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.own_network import NetworkSource, with_network
from svrl.agents.progress import ProgressLine, Unseen
from svrl.agents.replay import Batch, Layout, Replay, Returns, refuse_few_transitions
from svrl.agents.structured_targets import StructuredTargets
from svrl.agents.study import METRIC_STATES, metrics
from svrl.agents.targets import only_valid
from svrl.envs.make import EnvSource, make_env, name_of
from svrl.envs.vector import EnvSpec, Step, VectorEnv
from svrl.runtime.device import check_device, chosen_device, free_ram

WINDOW = 100
"""Training episodes in the paper's score."""
ROOM = 1.25
"""A replay buffer goes to a GPU that has this many times its size free."""


class Actor:
    """Choose greedy actions (N,) for observations (N, *observation_shape).

    They come from the online network or, with a lag, from a copy that takes the weights before each burst. On a GPU the
    copy works on its own stream, so actions do not wait for the burst.

    Attributes:
        network: The online network, or with a lag its copy.
    """

    def __init__(self, network: QNetwork, spec: EnvSpec, *, n_envs: int, lag: bool, precision: Precision) -> None:
        self.network = copy.deepcopy(network).requires_grad_(False) if lag else network
        device = next(network.parameters()).device
        self._precision = precision
        self._seen = torch.zeros((n_envs, *spec.observation_shape), dtype=getattr(torch, spec.dtype), device=device)
        self._shown = torch.zeros_like(self._seen, device="cpu").pin_memory() if self._seen.is_cuda else self._seen
        self._valid: Tensor | None = None
        self._stream = stream_of(device, first=True) if lag else None
        self._ready, self._done = GpuEvent(device), GpuEvent(device)
        self._greedy = CudaGraph(self._best, device, repeatable=True)
        self._ready.record()  # the copy is made on one stream, and used on another

    def follow(self, network: QNetwork) -> None:
        """Copy the weights of `network` at this point of the current stream, once the last actions are chosen."""
        if self.network is not network:
            self._done.wait()
            copy_weights(network.parameters(), self.network.parameters())
            self._ready.record()

    @torch.no_grad()
    def __call__(self, observations: np.ndarray, action_masks: np.ndarray | None = None) -> Tensor:
        """The best valid actions (N,), int64, on the host; waits for nothing else."""
        with nullcontext() if self._stream is None else torch.cuda.stream(self._stream):
            if self._stream is not None:
                self._ready.wait()
            np.copyto(self._shown.numpy(), observations)
            if self._shown is not self._seen:
                self._seen.copy_(self._shown, non_blocking=True)
            if action_masks is not None:
                if self._valid is None:
                    self._valid = torch.empty(action_masks.shape, dtype=torch.bool, device=self._seen.device)
                self._valid.copy_(torch.from_numpy(action_masks))
            actions = self._greedy()
            self._done.record()
            return actions.cpu()

    def release(self) -> None:
        """Free the graph and its memory."""
        self._greedy.release()

    def _best(self) -> Tensor:
        q = self.network.of_scaled(self.network.scaled(self._seen), self._precision)
        return only_valid(q, self._valid).argmax(-1)


class Training:
    """An agent in training, with everything that its next steps depend on.

    Args:
        source: The environment, by name, or a function that creates your own Gymnasium environment.
        config: All settings.
        seed: Seed of all random numbers.
        device: "cpu", "cuda", "cuda:1" or "auto", for the networks.
        precision: Precision of matrix products on a GPU: "float32", "tf32" (the default there) or "bf16".
        env_threads: Native threads of Atari, which change no result; 0 lets ale-py choose.
        graphs: Run bursts on a GPU as CUDA graphs, which only changes rounding.
        network: Your own network: a function from EnvSpec to an nn.Module, see `svrl.agents.own_network`.
        say: Called with notes, a sentence each; by default they are warnings.

    Attributes:
        env: The name of the environment.
        spec: Its observations and actions.
        steps: Agent steps so far, over all environments.
        episodes: Games finished.
        recent_scores: Raw scores of the last 100 games.
        replay: The replay buffer.
        learner: Networks and optimiser.
    """

    def __init__(
        self,
        source: EnvSource,
        config: AgentConfig,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        precision: Precision | None = None,
        env_threads: int = 0,
        graphs: bool = True,
        network: NetworkSource | None = None,
        say: Callable[[str], object] | None = None,
    ) -> None:
        if not isinstance(config, AgentConfig):
            raise ValueError(f"Training takes an AgentConfig, such as AgentConfig.for_env(env); got {config!r}.")
        config = with_network(config, network)
        self.say = say or warn
        self.source, self.env = source, name_of(source)
        device = chosen_device(device)
        check_device(device)
        self.config, self.seed, self.device = config, seed, torch.device(device)
        self.precision: Precision = precision or default_precision(self.device)
        check_precision(self.precision, self.device)
        structure = StructuredTargets.from_config(config)
        self.env_threads = env_threads
        _refuse_too_many(self.env, config.n_envs, config.buffer_size)
        self._envs = self._open("environments")
        self.spec: EnvSpec = self._envs.spec
        for warning in config.warnings(self.env, self.spec.n_actions):
            self.say(warning)
        self._stream = stream_of(self.device)
        with self.at_work():
            made = build_network(self.spec, config, generator_for(seed, "network"), network).to(self.device)
            self.learner = Learner(made, config, structure, precision=self.precision)
            memory = _replay_device(self.spec, config, self.device, self.say)
            self.replay = Replay(
                self.spec,
                n_envs=config.n_envs,
                capacity=config.buffer_size,
                device=memory,
                returns=Returns.of(config),
                priority_alpha=config.priority_alpha,
            )
            self._actor = Actor(
                made, self.spec, n_envs=config.n_envs, lag=bool(config.act_lag), precision=self.precision
            )
        self._generators = {
            "exploration": generator_for(seed, "exploration"),
            "replay": generator_for(seed, "replay", memory),
            "masks": generator_for(seed, "masks", self.device),
        }
        self._graphs = graphs
        self._graphed = self._graph_bursts()
        self.steps = self.episodes = 0
        self.recent_scores: deque[float] = deque(maxlen=WINDOW)
        self._returns = np.zeros(config.n_envs)
        self._lengths = np.zeros(config.n_envs, dtype=np.int64)
        self._losses: list[Tensor] = []
        self._logged = 0
        self._batch: Batch | None = None
        self._last_losses: Tensor | None = None
        self._untold: deque[Event] = deque()
        self._observations: np.ndarray | None = None
        self._pending: np.ndarray | None = None

    def __repr__(self) -> str:
        done = f"{self.steps:,} of {self.config.steps:,} steps"
        return f"Training({self.env!r}, {self.config.arm}, seed {self.seed}, {done}, on {self.device})"

    def _open(self, part: str) -> VectorEnv:
        seed, options = derived_seed(self.seed, part), self.config.env_options
        return make_env(self.source, self.config.n_envs, seed=seed, threads=self.env_threads, **options)

    def _graph_bursts(self) -> GraphedBursts | None:
        """Bursts as graphs on a GPU; None if the estimator waits for the GPU in every step."""
        learner, config = self.learner, self.config
        if self._stream is None or not self._graphs or (learner.completes_each_step and not can_capture(learner)):
            return None
        most = min(config.target_update_interval, math.ceil(config.n_envs * config.updates_per_step))
        with self.at_work():
            return GraphedBursts(learner, self.replay, most=most)

    def at_work(self) -> AbstractContextManager[None]:
        """A context in which work goes to the training's own stream, in its precision."""
        return nullcontext() if self._stream is None else self._on_gpu()

    @contextmanager
    def _on_gpu(self) -> Iterator[None]:
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream), computing_in(self.precision, self.device):
            yield

    def settle(self) -> None:
        """Wait until the GPU is done. Call it before you read networks or memory."""
        if self._stream is not None:
            self._stream.synchronize()

    @property
    def network(self) -> QNetwork:
        """The online network, after all work on it is done."""
        self.settle()
        return self.learner.online

    @property
    def updates(self) -> int:
        """Gradient updates so far."""
        return self.learner.updates

    @property
    def epsilon(self) -> float:
        """Probability that the next action is random."""
        return self.config.epsilon_at(self.steps)

    def events(self) -> Iterator[Event]:
        """Train until config.steps. You may stop at any event; the next call resumes with the one after it."""
        if self._observations is None:
            self._observations = self._envs.reset()
            with self.at_work():
                self.replay.begin(self._observations, self._envs.action_masks)
        while self._untold or self.steps < self.config.steps:
            if not self._untold:
                with self.at_work():
                    self._untold.extend(self._advance())
            yield self._untold.popleft()

    def _advance(self) -> list[Event]:
        """One step of all environments, and the events that follow from it."""
        before, every = self.steps, self.config.log_every
        actions = self._choose() if self._pending is None else self._pending
        self._envs.send(actions)
        if self.config.act_lag:
            self._actor.follow(self.learner.online)
            self._learn()
        step = self._envs.recv()
        self.replay.append(actions, step)
        self._observations = step.observations
        self.steps += self.config.n_envs
        if self.config.act_lag:
            self._pending = self._choose()
        else:
            self._learn()
        told: list[Event] = [*self._account(step)]
        if self._last_losses is not None and self.steps // every > before // every:
            told.append(self._describe())
        return [*told, Stepped(steps=self.steps, updates=self.updates, epsilon=self.epsilon)]

    def _choose(self) -> np.ndarray:
        n_envs, n_actions = self.config.n_envs, self.spec.n_actions
        masks = self._envs.action_masks
        return explore(self._greedy, n_envs, n_actions, self.epsilon, self._generators["exploration"], masks)

    def _greedy(self) -> Tensor:
        assert self._observations is not None
        return self._actor(self._observations, self._envs.action_masks)

    def _learn(self) -> None:
        learner, due = self.learner, self.config.updates_after(self.steps)
        while due > learner.updates:
            self._last_losses = self._burst(min(due - learner.updates, learner.until_copy()))
            self._losses.append(self._last_losses.sum())
            if self.device.type == "cpu":  # on a GPU the check waits, so it runs at the next row or checkpoint
                self._refuse_divergence(self._losses[-1:])

    def _burst(self, count: int) -> Tensor:
        """Losses of at most `count` updates."""
        draws, masks = self._generators["replay"], self._generators["masks"]
        if self._graphed is not None:
            return self._graphed.burst(min(count, self._graphed.most), draws, masks)
        # A batch is not used after its burst, so the next one may overwrite it.
        learner, replay = self.learner, self.replay
        self._batch = replay.sample(count * self.config.batch_size, draws, out=self._batch, beta=learner.beta)
        losses = learner.burst(_moved(self._batch, self.device), count, masks)
        if replay.priorities is not None and self._batch.leaves is not None and learner.errors is not None:
            replay.priorities.update(self._batch.leaves, learner.errors.flatten())
        return losses

    def _refuse_divergence(self, sums: Sequence[Tensor]) -> None:
        """Raise ValueError if a loss is not finite, since nothing useful follows. Waits for the device.

        Args:
            sums: Summed losses of the bursts since the last check.
        """
        last = self._last_losses
        if last is None or not sums:
            return
        total = sums[0] if len(sums) == 1 else torch.stack(list(sums)).sum()
        if math.isfinite(float(total)):
            return
        wrong = (~torch.isfinite(last)).nonzero()
        first = self.updates - len(last) + 1 + int(wrong[0]) if len(wrong) else self.updates
        where = "at" if len(sums) == 1 else "by"
        raise ValueError(
            f"{self.env}, seed {self.seed}: the loss is not finite {where} update {first:,}, after {self.steps:,} "
            "steps, so training has diverged. Lower the learning rate, or check for rewards and observations that are "
            "not finite."
        )

    def _account(self, step: Step) -> list[EpisodeEnded]:
        """Add a step to the games under way, and return the events of those that ended."""
        self._returns += step.rewards
        self._lengths += 1
        ended: list[EpisodeEnded] = []
        if not step.ended.any():
            return ended
        for env in np.flatnonzero(step.ended):
            self.episodes += 1
            score, length = float(self._returns[env]), int(self._lengths[env])
            self.recent_scores.append(score)
            self._returns[env] = self._lengths[env] = 0
            ended.append(
                EpisodeEnded(
                    steps=self.steps,
                    updates=self.updates,
                    env=int(env),
                    score=score,
                    length=length,
                    truncated=bool(step.truncated[env]),
                )
            )
        return ended

    def _describe(self) -> Learned:
        """Return a row of the log, on transitions that its own generators draw, so that logging changes nothing."""
        losses, self._losses = self._losses, []
        self._logged, since = self.updates, self.updates - self._logged
        self._refuse_divergence(losses)
        count = max(1, METRIC_STATES // self.config.batch_size)
        draws, masks = (
            generator_for(self.seed, f"{what} of metrics {self.updates}", device)
            for what, device in (("states", self.replay.device), ("masks", self.device))
        )
        batch = self.replay.sample(count * self.config.batch_size, draws)
        return Learned(
            steps=self.steps,
            updates=self.updates,
            epsilon=self.epsilon,
            loss=float(torch.stack(losses).cpu().sum()) / since if losses else 0.0,
            **metrics(self.learner, _moved(batch, self.device), count, masks),
        )

    def capture(self) -> dict[str, Any]:
        """Return everything but the replay buffer, as arrays and numbers; `Checkpoints` writes both."""
        self.settle()
        self._refuse_divergence(self._losses)  # such a checkpoint would be useless
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
        """Return to a state from `capture`; fill the replay buffer first.

        Environments that cannot be restored begin new games, whose seed follows from the seed and the steps.
        """
        self.settle()
        with self.at_work():
            self.steps, self.episodes = int(state["steps"]), int(state["episodes"])
            self.recent_scores = deque(state["recent_scores"], maxlen=WINDOW)
            self._losses = list(torch.as_tensor(state["losses"]).to(self.device))
            self._untold.clear()
            self._logged = int(state["logged"])
            self.learner.restore(state["learner"])
            if self._graphed is not None:
                self._graphed.release()  # its graphs point to the optimiser's old state
            self._graphed = self._graph_bursts()
            self._actor.follow(self.learner.online)
            for name, source in self._generators.items():
                self._continue(name, source, torch.as_tensor(state["generators"][name]))
            if state["observations"] is None:
                return
            why = f"games of {self.env} cannot be saved, so"
            if state["environments"] is not None:
                try:
                    self._observations = self._envs.restore(state["environments"])
                except ValueError as error:
                    why = f"{error} So"
                else:
                    self._returns, self._lengths = state["returns"].copy(), state["lengths"].copy()
                    self._pending = state["pending"]
                    return
            self.say(f"Note: {why} those under way are lost and new ones begin.")
            self._envs.close()
            self._envs = self._open(f"environments after {self.steps}")
            self._observations, self._pending = self._envs.reset(), None
            self.replay.begin(self._observations, self._envs.action_masks)

    def _continue(self, name: str, source: torch.Generator, state: Tensor) -> None:
        """Resume a random generator; reseed it if the replay buffer moved between GPU and RAM."""
        if len(state) == len(source.get_state()):
            source.set_state(state)
        else:
            source.manual_seed(derived_seed(self.seed, f"{name} after {self.steps}"))
            self.say(f"Note: the {name} buffer was on another device before, so its draws start afresh.")

    def close(self) -> None:
        """Close the environments, and free the graphs on a GPU."""
        self._envs.close()
        self.settle()
        self._actor.release()
        self.replay.close()
        if self._graphed is not None:
            self._graphed.release()


LEAST_BYTES = {"atari": 1_000_000, "minatar": 4_000, "control": 200, "gymnasium": 4_000}
"""Least RAM of an environment of each family; for Gymnasium that of CartPole, and others take more."""


def _refuse_too_many(env: str, count: int, capacity: int) -> None:
    """Raise ValueError if the environments do not fit into RAM, or one step of all of them into the replay buffer."""
    need, free = count * LEAST_BYTES[family_of(env)], free_ram()
    if need > free:
        raise ValueError(
            f"{count:,} environments {env} take at least {need / 1e9:,.1f} GB, and {free / 1e9:.1f} GB of RAM are "
            "free. Lower n_envs."
        )
    refuse_few_transitions(count, capacity)


def _moved(batch: Batch, device: torch.device) -> Batch:
    return batch if batch.windows.device == device else batch.each(lambda part: part.to(device))


def _replay_device(
    spec: EnvSpec, config: AgentConfig, device: torch.device, say: Callable[[str], object]
) -> torch.device:
    """Return the GPU if the replay buffer fits there, else RAM, with a note."""
    if device.type != "cuda":
        return torch.device("cpu")
    size = Layout.of(spec, n_envs=config.n_envs, capacity=config.buffer_size).nbytes
    free, _ = torch.cuda.mem_get_info(device)
    if size * ROOM < free:
        return device
    say(
        f"Note: the replay buffer takes {size / 1e9:.1f} GB, and {device} has {free / 1e9:.1f} GB free. "
        "It stays in RAM, which is slower. A smaller --buffer-size fits."
    )
    return torch.device("cpu")


def train(
    env: EnvSource,
    config: AgentConfig | None = None,
    *,
    seed: int = 0,
    device: str | torch.device = "cpu",
    precision: Precision | None = None,
    network: NetworkSource | None = None,
    watch: Callable[[Event], object] | None = None,
    progress: bool = False,
) -> Agent:
    """Train an agent and return it.

    This function writes nothing to disk; `svrl train` writes a run directory and can be interrupted. On the CPU two
    calls with the same seed and number of threads give the same agent; on a GPU the last digits may differ.

    Args:
        env: A name ("CartPole-v1", "atari/breakout", "minatar/asterix", "control/inverted-pendulum"), or a function
            without arguments that creates your own Gymnasium environment.
        config: All settings; by default the preset of the environment's family.
        seed: Seed of all random numbers.
        device: "cpu", "cuda", "cuda:1" or "auto", which is a GPU if there is one.
        precision: Precision of matrix products on a GPU: "float32", "tf32" (the default there) or "bf16".
        network: Your own network: a function from EnvSpec to an nn.Module from scaled observations (N, ...) to values
            (N, A). `config.network` records its name.
        watch: Called with every event, see `svrl.agents.events`. If it returns False, training ends with the current
            step; an evaluation still follows, unless this step was evaluated.
        progress: Show a line on stderr: steps, steps per second, mean score and the time left.
    """
    if config is None:
        config = AgentConfig.for_env(name_of(env))
    if not isinstance(config, AgentConfig):
        raise ValueError(f"train takes an AgentConfig, such as AgentConfig.for_env(env, 'smoke'); got {config!r}.")
    training = Training(env, config, seed=seed, device=device, precision=precision, network=network)
    line = ProgressLine(training) if progress else Unseen(training)
    stopped = False
    events = with_evaluation(training, line.evaluating, stopped=lambda: stopped)
    try:
        with line.shown():
            for event in events:
                if watch is not None and asks_to_stop(watch(event)):
                    stopped = True
                if isinstance(event, Stepped):
                    line()
    finally:
        training.close()
    return Agent.of(training)
