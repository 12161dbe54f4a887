"""An agent to act with: a trained network, what it was trained on, and how to keep it on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from svrl.agents.acting import epsilon_greedy
from svrl.agents.agent_fields import check_spec, reading_fields, whole, word
from svrl.agents.config import AgentConfig
from svrl.agents.learner import load_weights, weights_of
from svrl.agents.networks import QNetwork, build_network
from svrl.envs.make import EnvSource, make_env, name_of
from svrl.envs.vector import EnvSpec
from svrl.runtime.arrays import read_arrays, write_arrays
from svrl.runtime.files import read_object
from svrl.runtime.run_directory import AGENT, CONFIG, STATE

if TYPE_CHECKING:
    from svrl.agents.training import Training


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Agent:
    """A trained agent.

    Attributes:
        source: Its environment, by name or as a function.
        spec: What that looks like.
        config: How it was trained.
        network: The online network.
        steps: Agent steps it was trained for.
        updates: Updates it was trained for.
        seed: Of the training.
    """

    source: EnvSource
    spec: EnvSpec
    config: AgentConfig
    network: QNetwork
    steps: int
    updates: int
    seed: int

    def __repr__(self) -> str:
        return f"Agent({self.env!r}, {self.config.arm}, seed {self.seed}, {self.steps:,} steps, on {self.device})"

    @property
    def env(self) -> str:
        """The name of the environment."""
        return name_of(self.source)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device

    def act(self, observation: Any, epsilon: float = 0.0, generator: torch.Generator | None = None) -> Any:
        """What to do now, in the environment's own numbers of its actions.

        Args:
            observation: What `env.reset()` or `env.step()` gives, or the batch of N that a vector environment gives. Of
                atari/, minatar/ and control/, an array of `spec.observation_shape`, or N of them.
            epsilon: Probability of a random action; 0 is greedy.
            generator: A CPU generator, which random actions need.

        Returns:
            The action, an int; or N of them (N,), int64.

        Raises:
            ValueError: If the observation is not of the environment's space, or not finite.
        """
        if epsilon != 0.0 and generator is None:
            raise ValueError("Acting at random needs a generator: torch.Generator().manual_seed(0), and keep it.")
        seen, alone = self._read(observation)
        q = self._values(seen)
        best = q.argmax(-1) if epsilon == 0.0 or generator is None else epsilon_greedy(q, epsilon, generator)
        actions = best.cpu().numpy() + self.spec.first_action
        return int(actions[0]) if alone else actions

    def q(self, observation: Any) -> Tensor:
        """Values (A,) of an observation, or (N, A) of N of them, as `act` takes them; action 0 is the first."""
        seen, alone = self._read(observation)
        q = self._values(seen)
        return q[0] if alone else q

    @torch.no_grad()
    def _values(self, seen: np.ndarray) -> Tensor:
        return self.network(torch.as_tensor(seen).to(self.device))

    @cached_property
    def _read(self) -> Callable[[Any], tuple[np.ndarray, bool]]:
        from svrl.envs.observations import Observations

        return Observations.of(self.spec).batch

    @classmethod
    def of(cls, training: Training) -> Agent:
        """The agent of a training as it is now; it shares the network."""
        return cls(
            source=training.source,
            spec=training.spec,
            config=training.config,
            network=training.network,
            steps=training.steps,
            updates=training.updates,
            seed=training.seed,
        )

    def save(self, path: str | Path) -> None:
        """Write weights and settings to one file, atomically; reading it back executes nothing."""
        about = {
            "env": self.env,
            "seed": self.seed,
            "steps": self.steps,
            "updates": self.updates,
            "config": self.config.as_json(),
            "spec": _spec_json(self.spec),
        }
        write_arrays(Path(path), {"about": json.dumps(about), "weights": weights_of(self.network)})

    @classmethod
    def load(cls, path: str | Path, device: str | torch.device = "cpu", source: EnvSource | None = None) -> Agent:
        """Read an agent's file; give the function again if it was trained on an environment of your own.

        Raises:
            ValueError: If the file is damaged or not an agent's.
        """
        tree = read_arrays(Path(path))
        with reading_fields(path, "is not the file of an agent, or of another version of svrl"):
            about = json.loads(tree["about"])
            config, spec, env = (
                AgentConfig.from_json(about["config"]),
                _spec_from_json(about["spec"]),
                word(about, "env"),
            )
            check_spec(spec)
            numbers = {name: whole(about, name) for name in ("steps", "updates", "seed")}
            network = _network_of(spec, config, tree["weights"])
        return cls(
            source=source or _harmless(env), spec=spec, config=config, network=network.to(device).eval(), **numbers
        )


def save_agent(path: Path, training: Training) -> None:
    """Write the agent of a training to `path`."""
    Agent.of(training).save(path)


def load_agent(run: str | Path, device: str | torch.device = "cpu", source: EnvSource | None = None) -> Agent:
    """The agent of a run directory: a finished one's file, or the newest checkpoint of an unfinished one.

    Args:
        run: The folder.
        device: Where to put the network.
        source: Its environment, where the folder cannot say it: a function, or a name whose package must be imported.

    Raises:
        ValueError: If there is none, or it is damaged.
    """
    run = Path(run)
    if (run / AGENT).exists():
        return Agent.load(run / AGENT, device, source)
    from svrl.agents.checkpoint import Checkpoints

    if not (run / CONFIG).exists():
        raise ValueError(f"{run} is not the folder of a training run: it has no {CONFIG}.")
    settings = read_object(run / CONFIG)
    loaded = Checkpoints(run).load(None)
    if loaded is None:
        raise ValueError(f"{run} has no agent yet: it has neither {AGENT} nor a checkpoint.")
    with reading_fields(run / CONFIG, "is not the configuration of a training run"):
        known = {name: value for name, value in settings.items() if name in AgentConfig.__dataclass_fields__}
        config, env = AgentConfig.from_json(known), word(settings, "env")
        seed, _ = whole(settings, "seed"), whole(settings, "steps")
    try:
        spec = _spec_of(source or _harmless(env), config)
    except ValueError as error:
        raise ValueError(f"{run / CONFIG}: {error}" if source is None else str(error)) from error
    with reading_fields(run / STATE[0], f"does not fit {CONFIG}"):
        state = loaded.state
        numbers = {"steps": whole(state, "steps"), "updates": whole(state["learner"], "updates"), "seed": seed}
        network = _network_of(spec, config, state["learner"]["online"])
    return Agent(source=source or env, spec=spec, config=config, network=network.to(device).eval(), **numbers)


def _network_of(spec: EnvSpec, config: AgentConfig, weights: dict[str, np.ndarray]) -> QNetwork:
    network = build_network(spec, config, None)
    load_weights(network, weights)
    return network


def _spec_of(source: EnvSource, config: AgentConfig) -> EnvSpec:
    env = make_env(source, 1, seed=0, **config.env_options)
    env.close()
    return env.spec


def _harmless(env: str) -> str:
    """The name of an environment that a file gives, refused if making it would import a module of that name."""
    if ":" in env:
        raise ValueError(
            f"The agent was trained on {env!r}, which would import {env.partition(':')[0]}, and nothing is imported "
            "because a file says so. Give the environment yourself: Agent.load(path, source=...)."
        )
    return env


def _spec_json(spec: EnvSpec) -> dict[str, Any]:
    return {**spec.__dict__, "frame_shape": list(spec.frame_shape), "action_names": list(spec.action_names)}


def _spec_from_json(fields: dict[str, Any]) -> EnvSpec:
    names = tuple(fields["action_names"])
    if "first_action" not in fields and fields["family"] == "gymnasium":
        fields = {**fields, "first_action": int(names[0])}  # older files have it in the names alone
    spec = EnvSpec(**{**fields, "frame_shape": tuple(fields["frame_shape"]), "action_names": names})
    if spec.space is not None:
        from svrl.envs.observations import Observations

        if Observations.of(spec).shape != spec.frame_shape:
            raise ValueError("its observation space is another")
    return spec
