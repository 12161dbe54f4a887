"""Many seeds of one agent as one batched computation, for control tasks and fully connected networks.

Most questions about an algorithm need tens of seeds, and one small network leaves a computer idle: its time goes into
launches. Here the weights of S networks are stacked, parameter by parameter, (S, ...); environments, replay buffers and
targets have the same first axis, everything stays on one device, and one step of all seeds costs little more than one
step of one. On a GPU each step is a CUDA graph.

The algorithm is that of `svrl.agents.training`: N environments step, then the updates that are due follow, and each
seed sees only its own transitions. With the same minibatches the weights equal those of `Learner` up to rounding.
Random numbers differ: they come from SplitMix64 (Steele et al., 2014), where a number is a function of seed, purpose
and position. So a seed's agent does not depend on which other seeds are trained with it (up to rounding), nor on the
device.

Tasks are `ControlTask`s, whose steps are torch functions; all their episodes have the same length.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig, Precision, check_precision, default_precision, family_of
from svrl.agents.cuda_graph import CudaGraph, computing_in, stream_of
from svrl.agents.evaluation import generator_for
from svrl.agents.events import warn
from svrl.agents.learner import copy_weights, make_optimiser
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.replay import refuse_few_transitions
from svrl.agents.structured_targets import StructuredTargets
from svrl.agents.targets import bellman_targets, completes_online, next_values
from svrl.envs.control import STEP_LIMIT, ControlVectorEnv, Features
from svrl.envs.make import EnvSource, make_env, name_of
from svrl.envs.vector import EnvSpec
from svrl.heads import ridged_layers
from svrl.mdp.control_task import ControlTask
from svrl.runtime.device import check_device, chosen_device

STARTS, NOISE, ACTIONS, REPLAY, MASKS, REWARDS, GAMES = range(7)
"""Purposes of random numbers."""


class Transitions(NamedTuple):
    """Minibatches, one for each seed.

    Attributes:
        observations, next_observations: (S, B, f), float32.
        actions: (S, B), int64.
        rewards: (S, B), float32.
    """

    observations: Tensor
    actions: Tensor
    rewards: Tensor
    next_observations: Tensor


@dataclass(frozen=True, kw_only=True)
class SeedsEvaluated:
    """Games of all seeds after some steps, on the CPU.

    Attributes:
        steps: Agent steps of each seed so far.
        scores: (S, games), sums of rewards.
        returns: (S, games), sums of rewards as agents learn from them (their signs, if `clip_rewards`), discounted
            with the agents' gamma.
        promised: (S, games), the network's value of the first observation: less `returns`, the overestimation.
    """

    steps: int
    scores: Tensor
    returns: Tensor
    promised: Tensor


class BatchedLearner:
    """S online and target networks with one optimiser.

    Attributes:
        online, target: The stacked parameters by name, (S, ...).
        updates: Updates of each seed so far.

    Args:
        networks: The online networks; the target networks begin as their copies.
        config: All settings.
        ridges: Ridges of further parameters, by name; low-rank heads have their own.
    """

    def __init__(
        self, networks: Sequence[QNetwork], config: AgentConfig, ridges: Mapping[str, float] | None = None
    ) -> None:
        self.config = config
        self.structure = StructuredTargets.from_config(config)
        self.device = next(networks[0].parameters()).device
        self._shape = copy.deepcopy(networks[0]).requires_grad_(False)  # only its structure counts
        every = [dict(network.named_parameters()) for network in networks]
        self.online = {name: nn.Parameter(torch.stack([each[name].detach() for each in every])) for name in every[0]}
        self.target = {name: value.detach().clone() for name, value in self.online.items()}
        self.optimiser = make_optimiser(list(self.online.values()), config)
        self.updates = 0
        self._rate = self.optimiser.param_groups[0]["lr"]
        names = {layer: name for name, layer in networks[0].named_modules()}
        self._ridges = [
            (layer.ridge, f"{names[layer]}.{factor}.weight")
            for layer in ridged_layers(networks[0])
            for factor in ("factors", "coordinates")
        ] + [(ridge, name) for name, ridge in (ridges or {}).items()]

    def values(self, weights: Mapping[str, Tensor], observations: Tensor) -> Tensor:
        """Values (S, n, A) of observations (S, n, f), each seed's by its own network."""

        def one(own: Mapping[str, Tensor], seen: Tensor) -> Tensor:
            found: Tensor = torch.func.functional_call(self._shape, dict(own), (seen,))
            return found

        found: Tensor = torch.func.vmap(one)(dict(weights), observations)
        return found

    def update(self, batch: Transitions, mask: Tensor | None) -> None:
        """Take one gradient step of every seed.

        Args:
            batch: Their minibatches.
            mask: Observed entries (S, B, A), bool, of structured agents; None for plain ones.
        """
        config, structure = self.config, self.structure
        with torch.no_grad():
            target_q = self.values(self.target, batch.next_observations)
            double = config.agent == "double"
            online_q = self.values(self.online, batch.next_observations) if double else None
            completed = None
            if structure is not None and mask is not None:
                completes = online_q if completes_online(double, structure.next_value_from) else target_q
                assert completes is not None
                completed = structure.complete(completes, mask).matrix
            values = next_values(
                config.agent,
                target_q,
                online_q=online_q,
                completed=completed,
                next_value_from="completed" if structure is None else structure.next_value_from,
            )
            targets = bellman_targets(batch.rewards, torch.full_like(batch.rewards, config.gamma), values)
        q = self.values(self.online, batch.observations).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
        loss = nn.functional.smooth_l1_loss if config.loss == "huber" else nn.functional.mse_loss
        # A sum over seeds of means over minibatches: each seed has the gradient that it has alone.
        total = loss(q, targets, reduction="none").mean(-1).sum()
        for ridge, name in self._ridges:
            total = total + ridge * self.online[name].square().sum()
        for weights in self.online.values():
            weights.grad = None
        total.backward()  # type: ignore[no-untyped-call]
        if config.gradient_clamp:
            nn.utils.clip_grad_value_(self.online.values(), config.gradient_clamp)
        self.optimiser.step()

    def advance(self) -> None:
        """Count an update, and prepare what changes between two: the learning rate and the target networks."""
        self.updates += 1
        rate = self.config.learning_rate_at(self.updates)
        if isinstance(self._rate, Tensor):
            self._rate.fill_(rate)
        else:
            self.optimiser.param_groups[0]["lr"] = rate
        if self.updates % self.config.target_update_interval == 0:
            copy_weights(self.online.values(), self.target.values(), self.config.tau)

    def diverged(self) -> Tensor:
        """Whether a network has a weight that is not finite, (S,), bool."""
        return ~torch.stack([weights.isfinite().flatten(1).all(1) for weights in self.online.values()]).all(0)

    def networks(self) -> list[QNetwork]:
        """The online networks, one by one."""
        count = len(next(iter(self.online.values())))
        found = []
        for k in range(count):
            network = copy.deepcopy(self._shape)
            network.load_state_dict({name: value[k] for name, value in self.online.items()})
            found.append(network.requires_grad_(True))
        return found


class BatchedTask:
    """A control task with random numbers of S seeds.

    Attributes:
        features: What agents see of states.

    Args:
        task: The task.
        seeds: The seeds.
        device: Where everything is.
    """

    def __init__(self, task: ControlTask, seeds: Sequence[int], device: torch.device) -> None:
        self.task, self.features = task, Features(task, device)
        self.seeds = torch.tensor(list(seeds), dtype=torch.int64, device=device)
        self._inputs = task.actions.to(device)
        self._low, high = task.box.to(device)
        self._span = high - self._low
        self._level = torch.tensor(task.noise, dtype=torch.float64, device=device)

    def starts(self, purpose: int, position: Tensor, count: int) -> Tensor:
        """Uniform states in the box, (S, count, d), float64; purpose and position as in `uniform`."""
        drawn = uniform(self.seeds, purpose, position, count * self.task.dimensions)
        return self._low + self._span * drawn.view(len(drawn), count, -1)

    def step(self, states: Tensor, actions: Tensor, purpose: int, position: Tensor) -> tuple[Tensor, Tensor]:
        """Rewards (S, n) and next states (S, n, d), float64, of states (S, n, d) and numbers of actions (S, n)."""
        inputs = self._inputs[actions]
        noise = torch.zeros_like(states)
        if max(self.task.noise) > 0.0:
            noise = self._level * normal(self.seeds, purpose, position, states[0].numel()).view_as(states)
        rewards = torch.as_tensor(self.task.reward(states, inputs)).double()
        return rewards, self.task.move(states, inputs, noise)


class BatchedTraining:
    """Environments, replay buffers and the learner of all seeds.

    Attributes:
        steps: Agent steps of each seed so far.

    Args:
        env: The task, with as many seeds as the learner has networks.
        learner: Of all seeds.
        reward_noise: Standard deviation of noise on the rewards that agents see.
    """

    def __init__(self, env: BatchedTask, learner: BatchedLearner, *, reward_noise: float = 0.0) -> None:
        self.env, self.learner, self.config = env, learner, learner.config
        self.steps = 0
        self._reward_noise = reward_noise
        device, n_envs, count = learner.device, self.config.n_envs, len(env.seeds)
        rounds = -(-self.config.steps // n_envs)
        self._per_env = min(self.config.buffer_size // n_envs, rounds)
        self._time, self._drawn = (torch.zeros(1, dtype=torch.int64, device=device) for _ in range(2))
        self._epsilon = torch.ones(1, dtype=torch.float64, device=device)
        self._places = torch.arange(n_envs, device=device)
        self._states = env.starts(STARTS, self._time, n_envs)
        slots, width = (count, self._per_env * n_envs), env.features.count
        self._buffer = Transitions(
            observations=torch.zeros(*slots, width, device=device),
            actions=torch.zeros(slots, dtype=torch.int64, device=device),
            rewards=torch.zeros(slots, device=device),
            next_observations=torch.zeros(*slots, width, device=device),
        )
        self._update: Callable[[], None] = self._update_once
        structure, shape = learner.structure, (self.config.batch_size, env.task.n_actions)
        if structure is None or structure.captures(*shape, device):
            self._update = CudaGraph(self._update_once, device, repeatable=False)
        self._step = CudaGraph(self._step_once, device, repeatable=False)

    def run(self) -> Iterator[int]:
        """Train until config.steps; yield `steps` after every step of all environments."""
        config, learner = self.config, self.learner
        while self.steps < config.steps:
            self._epsilon.fill_(config.epsilon_at(self.steps))
            self._step()
            self.steps += config.n_envs
            if self.steps // config.n_envs % STEP_LIMIT == 0:
                self._states.copy_(self.env.starts(STARTS, self._time, config.n_envs))
            while config.updates_after(self.steps) > learner.updates:
                self._update()
                learner.advance()
            yield self.steps

    def release(self) -> None:
        """Free the graphs."""
        for graph in (self._update, self._step):
            if isinstance(graph, CudaGraph):
                graph.release()

    @torch.no_grad()
    def evaluate(self, games: int) -> SeedsEvaluated:
        """Play games of every seed, all at once; their starts are always the same."""
        env, learner = self.env, self.learner
        now, epsilon = torch.zeros_like(self._time), torch.full_like(self._epsilon, self.config.eval_epsilon)
        states = env.starts(GAMES, now, games)
        scores, returns = torch.zeros(2, *states.shape[:2], dtype=torch.float64, device=states.device)
        promised = learner.values(learner.online, env.features(states)).amax(-1)
        for t in range(STEP_LIMIT):
            q = learner.values(learner.online, env.features(states))
            actions = explored(q, epsilon, env.seeds, GAMES, now + 2 * t + 1)
            rewards, states = env.step(states, actions, GAMES, now + 2 * t + 2)
            scores += rewards
            returns += self.config.gamma**t * (rewards.sign() if self.config.clip_rewards else rewards)
        return SeedsEvaluated(steps=self.steps, scores=scores.cpu(), returns=returns.cpu(), promised=promised.cpu())

    @torch.no_grad()
    def _step_once(self) -> None:
        """Step all environments, and store the transitions."""
        env, config = self.env, self.config
        seen = env.features(self._states)
        q = self.learner.values(self.learner.online, seen)
        actions = explored(q, self._epsilon, env.seeds, ACTIONS, self._time)
        rewards, states = env.step(self._states, actions, NOISE, self._time)
        if self._reward_noise:
            rewards = rewards + self._reward_noise * normal(env.seeds, REWARDS, self._time, config.n_envs)
        self._states.copy_(states)
        rewards = (rewards.sign() if config.clip_rewards else rewards).float()
        new = Transitions(seen, actions, rewards, env.features(states))
        slots = self._time % self._per_env * config.n_envs + self._places
        for kept, one in zip(self._buffer, new, strict=True):
            kept.index_copy_(1, slots, one)
        self._time += 1

    def _update_once(self) -> None:
        """Draw a minibatch for every seed, and take a gradient step."""
        env, config, learner = self.env, self.config, self.learner
        filled = self._time.clamp(max=self._per_env) * config.n_envs
        at = (uniform(env.seeds, REPLAY, self._drawn, config.batch_size) * filled).long()
        seed = torch.arange(len(at), device=at.device).unsqueeze(-1)
        batch = Transitions(*(kept[seed, at] for kept in self._buffer))
        mask = None
        if learner.structure is not None:
            entries = uniform(env.seeds, MASKS, self._drawn, config.batch_size * env.task.n_actions)
            mask = entries.view(len(at), config.batch_size, -1) < self._p(learner.structure)
        learner.update(batch, mask)
        self._drawn += 1

    def _p(self, structure: StructuredTargets) -> Tensor | float:
        """The probability that an entry is observed."""
        if not structure.rise:
            return structure.p
        return (structure.p + (1.0 - structure.p) * self._drawn / structure.rise).clamp(max=1.0)


def train_seeds(
    env: EnvSource,
    config: AgentConfig | None = None,
    *,
    seeds: Sequence[int],
    device: str | torch.device = "auto",
    precision: Precision | None = None,
    reward_noise: float = 0.0,
    games: int | None = None,
    ridges: Mapping[str, float] | None = None,
    watch: Callable[[int], object] | None = None,
    evaluated: Callable[[SeedsEvaluated], object] | None = None,
    say: Callable[[str], object] = warn,
) -> list[Agent]:
    """Train one agent for each seed, all at once.

    Args:
        env: A control task, "control/NAME".
        config: All settings; by default the preset of control tasks.
        seeds: The seeds, each of which leads to the same agent in any company, up to rounding.
        device: "cpu", "cuda", "cuda:1" or "auto", which is a GPU if there is one.
        precision: Precision of matrix products on a GPU: "float32" or "tf32" (the default there).
        reward_noise: Standard deviation of noise on the rewards that agents see; evaluations have none.
        games: Games of each seed in an evaluation; by default the configuration's `eval_episodes`.
        ridges: Weights of the squares of parameters in the loss, by the parameter's name, such as "head.weight";
            low-rank heads have their own.
        watch: Called with the agent steps of each seed after every step.
        evaluated: Called with every evaluation: each `eval_every` agent steps, and at the end.
        say: Called with warnings, a sentence each.

    Returns:
        The agents, in the order of the seeds.

    Raises:
        ValueError: If the environment is not a control task, if an argument is wrong, or if training diverges.
    """
    config = AgentConfig.for_env(name_of(env)) if config is None else config
    task, spec = batched_task(env, config)
    on = torch.device(chosen_device(device))
    check_device(on)
    precision = precision or default_precision(str(on))
    check_precision(precision, str(on))
    if precision == "bf16":
        raise ValueError("precision must be float32 or tf32 where many seeds are trained at once, got bf16.")
    seeds, games = list(seeds), config.eval_episodes if games is None else games
    if not seeds or len(set(seeds)) < len(seeds) or not all(0 <= seed < 2**63 for seed in seeds):
        raise ValueError(f"train_seeds needs one or more different seeds from 0 to 2^63 - 1, got {seeds}.")
    if games < 1:
        raise ValueError(f"An evaluation needs at least 1 game, got {games}.")
    for warning in config.warnings(name_of(env), spec.n_actions):
        say(warning)
    networks = [build_network(spec, config, generator_for(seed, "network")).to(on) for seed in seeds]
    every = config.eval_every

    def refuse_divergence() -> None:
        wrong = learner.diverged().nonzero().flatten().tolist()
        if wrong:
            raise ValueError(
                f"{env}, seed {seeds[wrong[0]]}: the weights are not finite after {training.steps:,} steps, so "
                "training has diverged. Lower the learning rate."
            )

    with ExitStack() as held:
        if on.type == "cuda":
            held.enter_context(torch.cuda.stream(stream_of(on)))
            held.enter_context(computing_in(precision, on))
        learner = BatchedLearner(networks, config, ridges)
        training = BatchedTraining(BatchedTask(task, seeds, on), learner, reward_noise=reward_noise)
        held.callback(training.release)
        passed = 0
        for steps in training.run():
            if watch is not None:
                watch(steps)
            if steps >= config.steps or (every and steps // every > passed):
                passed = steps // every if every else 0
                refuse_divergence()
                if evaluated is not None:
                    evaluated(training.evaluate(games))
        found = learner.networks()
        if on.type == "cuda":
            torch.cuda.current_stream(on).synchronize()  # the caller reads the weights on another stream
    return [
        Agent(
            source=env,
            spec=spec,
            config=config,
            network=network,
            steps=training.steps,
            updates=learner.updates,
            seed=seed,
        )
        for seed, network in zip(seeds, found, strict=True)
    ]


def batched_task(env: EnvSource, config: AgentConfig) -> tuple[ControlTask, EnvSpec]:
    """The task of a batch of seeds, and what agents see of it.

    Raises:
        ValueError: If the environment is not a control task, or if a setting is not for batches of seeds.
    """
    if not isinstance(config, AgentConfig):
        raise ValueError(f"train_seeds takes an AgentConfig, such as AgentConfig.for_env(env); got {config!r}.")
    if not isinstance(env, str) or family_of(env) != "control":
        raise ValueError(f"Many seeds at once train on control tasks, such as control/cart-pole; got {name_of(env)}.")
    for name, usual in (("network", "mlp"), ("n_steps", 1), ("priority_alpha", 0.0), ("act_lag", 0)):
        value = getattr(config, name)
        if value != usual:
            raise ValueError(f"{name} must be {usual} where many seeds are trained at once, got {value}.")
    refuse_few_transitions(config.n_envs, config.buffer_size)
    with closing(make_env(env, 1, seed=0, **config.env_options)) as made:
        assert isinstance(made, ControlVectorEnv)
        build_network(made.spec, config, None)  # raises if the head does not fit the actions
        return made.task, made.spec


# Random numbers: each is a function of seed, purpose, position and place.


def uniform(seeds: Tensor, purpose: int, position: Tensor, count: int) -> Tensor:
    """Numbers in [0, 1), (S, count), float64.

    Args:
        seeds: (S,), int64.
        purpose: What they are for.
        position: (1,), int64, from 0; which of the draws for this purpose.
        count: Numbers for each seed, fewer than 2^32.
    """
    keys = _mixed(_mixed(seeds) + purpose)
    places = (position << 32) + torch.arange(1, count + 1, device=seeds.device)
    bits = _mixed(keys.unsqueeze(-1) + places * _GOLDEN)
    return _shifted(bits, 11).double() * 2.0**-53


def normal(seeds: Tensor, purpose: int, position: Tensor, count: int) -> Tensor:
    """Standard normal numbers, (S, count), float64; the arguments are those of `uniform`."""
    return math.sqrt(2.0) * torch.erfinv(2.0 * uniform(seeds, purpose, position, count) - 1.0 + 2.0**-53)


_GOLDEN, _FIRST, _SECOND = (value - 2**64 for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""The constants of SplitMix64, as signed numbers."""


def _mixed(bits: Tensor) -> Tensor:
    bits = (bits ^ _shifted(bits, 30)) * _FIRST
    bits = (bits ^ _shifted(bits, 27)) * _SECOND
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """A logical shift to the right; torch's is arithmetic."""
    return (bits >> by) & (2 ** (64 - by) - 1)


def explored(q: Tensor, epsilon: Tensor, seeds: Tensor, purpose: int, position: Tensor) -> Tensor:
    """Epsilon-greedy actions (S, n) for values (S, n, A)."""
    chance, choice = uniform(seeds, purpose, position, 2 * q.shape[1]).chunk(2, -1)
    return torch.where(chance < epsilon, (choice * q.shape[-1]).long(), q.argmax(-1))
