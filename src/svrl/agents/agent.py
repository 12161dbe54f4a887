"""A trained agent: its network, its training environment, and its file."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor

from svrl.agents.config import AgentConfig
from svrl.agents.evaluation import Games, epsilon_greedy, evaluate
from svrl.agents.events import warn
from svrl.agents.learner import load_weights, weights_of
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.own_network import NetworkSource, with_network
from svrl.agents.progress import ToldOfGames, games_shown
from svrl.envs.make import EnvSource, describe_env, name_of
from svrl.envs.vector import EnvSpec, Family
from svrl.runtime.arrays import read_arrays, write_arrays
from svrl.runtime.device import chosen_device
from svrl.runtime.files import read_object
from svrl.runtime.run_directory import AGENT, BEST, CONFIG, STATE

if TYPE_CHECKING:
    from svrl.agents.training import Training
    from svrl.envs.actions import Actions


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Agent:
    """A trained agent.

    Attributes:
        source: Its environment, as a name or a function.
        spec: Its observations and actions.
        config: All settings of the training.
        network: The online network.
        steps, updates: Agent steps and gradient updates of the training.
        seed: The seed of the training.
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
        """The device of the network."""
        return next(self.network.parameters()).device

    def act(
        self,
        observation: Any,
        epsilon: float = 0.0,
        generator: torch.Generator | None = None,
        *,
        action_mask: Any = None,
    ) -> Any:
        """Choose an action, in the form that the environment's `step` takes.

        Args:
            observation: What `env.reset()` or `env.step()` returns, or the batch of N that a vector environment
                returns. For atari/, minatar/ and control/, an array of `spec.observation_shape`, or N of them.
            epsilon: Probability of a random action; 0 is greedy.
            generator: A CPU generator, which random actions need.
            action_mask: The valid actions, as in the environment's `info["action_mask"]`, or N of them.

        Returns:
            The action, in the environment's own form: an int, or an array if the action space has axes. For N
            observations, an array with one extra axis.

        Raises:
            ValueError: If the observation is not in the environment's space, or not finite.
        """
        if epsilon != 0.0 and generator is None:
            raise ValueError(
                "Random actions need a generator. Create torch.Generator().manual_seed(0) once, and keep it."
            )
        seen, alone = self._read(observation)
        q = self._values(seen)
        mask = None
        if action_mask is not None:
            given = [action_mask] if alone else list(action_mask)
            if len(given) != len(q):
                raise ValueError(f"{len(q)} observations need {len(q)} masks of valid actions, got {len(given)}.")
            mask = np.stack([self._actions.mask(one, self.env) for one in given])
            if not mask.any(1).all():
                raise ValueError("A mask of valid actions allows none. Do not act in a state without a valid action.")
        numbers = epsilon_greedy(q, epsilon, generator or torch.Generator(), mask)
        actions = self._actions(numbers.tolist())
        return actions[0] if alone else np.asarray(actions)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
        *,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        """`act` with the name, the arguments and the result of Stable-Baselines3.

        Args:
            observation: As in `act`.
            state: Returned unchanged; only recurrent networks use it.
            episode_start: Ignored, for the same reason.
            deterministic: Greedy; otherwise random with probability `eval_epsilon` of the configuration, drawn from
                torch's global generator.
            action_masks: Like `action_mask` in `act`; sb3-contrib's name.

        Returns:
            (action, state)
        """
        epsilon = 0.0 if deterministic else self.config.eval_epsilon
        generator = None if deterministic else torch.default_generator
        return self.act(observation, epsilon, generator, action_mask=action_masks), state

    def q(self, observation: Any) -> Tensor:
        """Values (A,) of an observation, or (N, A) of N of them, as for `act`; entry 0 is the first action."""
        seen, alone = self._read(observation)
        q = self._values(seen)
        return q[0] if alone else q

    def evaluate(
        self,
        env: EnvSource | None = None,
        *,
        episodes: int | None = None,
        seed: int = 0,
        epsilon: float | None = None,
        progress: bool | ToldOfGames | None = None,
        say: Callable[[str], None] = warn,
    ) -> Games:
        """Play whole games, like `svrl.evaluate`.

        Args:
            env: Where to play, as a name or a function; by default the agent's own environment.
            episodes: Games to play; by default the configuration's `eval_episodes`.
            seed: Seed of environments and actions.
            epsilon: Probability of a random action; by default the configuration's `eval_epsilon`.
            progress: True shows a line on stderr; a function is called with (games over, games to play).
            say: Called with a note if games were truncated because the environment has no limit.

        Raises:
            ValueError: If the agent does not fit the environment.
        """
        if env is not None:
            self.check_fits(env, name_of(env))
        with games_shown(progress) as told:
            return evaluate(
                self.network,
                self.source if env is None else env,
                self.config,
                episodes=self.config.eval_episodes if episodes is None else episodes,
                seed=seed,
                epsilon=epsilon,
                progress=told,
                say=say,
            )

    def check_fits(self, env: EnvSource, called: str) -> None:
        """Raise ValueError unless observations and actions match the training's; the message calls env `called`."""
        spec = describe_env(env, self.config.actions, self.config.bins)
        seen, wanted = ((each.observation_shape, each.dtype, each.n_actions) for each in (spec, self.spec))
        if seen != wanted:
            raise ValueError(
                f"The agent does not fit {called}: it was trained on observations {wanted[0]} ({wanted[1]}) and "
                f"{wanted[2]} actions, got {seen[0]} ({seen[1]}) and {seen[2]}. Name the environment of the run."
            )

    @torch.no_grad()
    def _values(self, seen: np.ndarray) -> Tensor:
        return self.network(torch.as_tensor(seen).to(self.device))

    @cached_property
    def _actions(self) -> Actions:
        from svrl.envs.actions import Actions

        if self.spec.actions is None:
            return Actions((np.arange(self.spec.n_actions),), None, "int64")
        return Actions.from_json(self.spec.actions)

    @cached_property
    def _read(self) -> Callable[[Any], tuple[np.ndarray, bool]]:
        from svrl.envs.observations import Observations

        return Observations.of(self.spec).batch

    @classmethod
    def of(cls, training: Training) -> Agent:
        """Return the agent of a training at this moment; the two share the network."""
        return cls(**{entry.name: getattr(training, entry.name) for entry in dataclasses.fields(cls)})

    def save(self, path: str | Path) -> None:
        """Write weights and settings to one file, atomically. Loading it executes nothing."""
        about = {
            "env": self.env,
            "seed": self.seed,
            "steps": self.steps,
            "updates": self.updates,
            "config": self.config.as_json(),
            "spec": self.spec.__dict__,
        }
        write_arrays(Path(path), {"about": json.dumps(about), "weights": weights_of(self.network)})

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str | torch.device = "cpu",
        source: EnvSource | None = None,
        network: NetworkSource | None = None,
    ) -> Agent:
        """Read the file of an agent. If its environment or its network is your own function, pass it again.

        Args:
            path: The file.
            device: Device of the network.
            source: Its environment.
            network: The function that creates its network, or the function's name, whose module is then imported.

        Raises:
            ValueError: If the file is damaged or not an agent's, or if it needs `source` or `network`.
        """
        tree = read_arrays(Path(path))
        what = "is not the file of an agent, or of another version of svrl"
        with _reading(path, what):
            about = json.loads(tree["about"])
            config, spec = AgentConfig.from_json(about["config"]), _spec_from_json(about["spec"])
            env, numbers = str(about["env"]), {name: int(about[name]) for name in ("steps", "updates", "seed")}
            weights = dict(tree["weights"])
        config = _with_given(config, network)
        made = _network_of(spec, config, network, weights, path, what).to(chosen_device(device))
        return cls(source=source or _harmless(env), spec=spec, config=config, network=made, **numbers)


def load_agent(
    run: str | Path,
    device: str | torch.device = "cpu",
    source: EnvSource | None = None,
    network: NetworkSource | None = None,
    *,
    best: bool = False,
) -> Agent:
    """Load the agent of a run directory: of the finished run, or of the newest checkpoint of an unfinished one.

    Args:
        run: The folder.
        device: Device of the network; "auto" is a GPU if there is one.
        source: Its environment, if the folder cannot name it: a function, or a name whose package must be imported.
        network: Your own network, if it has one: the function that creates it, or the function's name, whose module
            is then imported.
        best: Load the agent with the best evaluation, which a run with `Habits(keep_best=True)` keeps.

    Raises:
        ValueError: If there is no agent, or it is damaged.
    """
    run = Path(run)
    if best:
        if not (run / BEST).exists():
            raise ValueError(
                f"{run} has no {BEST}. svrl train --keep-best, or Habits(keep_best=True), keeps the agent with the "
                "best evaluation from the first one on."
            )
        return Agent.load(run / BEST, device, source, network)
    if (run / AGENT).exists():
        return Agent.load(run / AGENT, device, source, network)
    from svrl.agents.checkpoint import Checkpoints

    if not (run / CONFIG).exists():
        raise ValueError(f"{run} is not the folder of a training run: it has no {CONFIG}.")
    settings = read_object(run / CONFIG)
    loaded = Checkpoints(run).load(None)
    if loaded is None:
        raise ValueError(f"{run} has no agent yet: it has neither {AGENT} nor a checkpoint.")
    with _reading(run / CONFIG, "is not the configuration of a training run"):
        known = {name: value for name, value in settings.items() if name in AgentConfig.__dataclass_fields__}
        config, env, seed = AgentConfig.from_json(known), str(settings["env"]), int(settings["seed"])
    config = _with_given(config, network)
    try:
        spec = describe_env(source or _harmless(env), config.actions, config.bins)
    except ValueError as error:
        raise ValueError(f"{run / CONFIG}: {error}" if source is None else str(error)) from error
    what = f"does not fit {CONFIG}"
    with _reading(run / STATE[0], what):
        steps, updates = int(loaded.state["steps"]), int(loaded.state["learner"]["updates"])
        weights = dict(loaded.state["learner"]["online"])
    made = _network_of(spec, config, network, weights, run / STATE[0], what).to(chosen_device(device))
    return Agent(source=source or env, spec=spec, config=config, network=made, steps=steps, updates=updates, seed=seed)


@contextmanager
def _reading(file: Path | str, what: str) -> Iterator[None]:
    """Turn any error in the content of a file into a ValueError that names the file and says `what` is wrong."""
    try:
        yield
    except Exception as error:  # a file may hold anything, and networks fail in many ways if their settings are odd
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error).partition("\n")[0]
        raise ValueError(f"{file} {what}: {said.rstrip('.')}.") from error


def _network_of(
    spec: EnvSpec,
    config: AgentConfig,
    network: NetworkSource | None,
    weights: dict[str, np.ndarray],
    file: Path | str,
    what: str,
) -> QNetwork:
    """Create the network for weights from a file; `what` is wrong with the file if that fails."""
    own = config.has_own_network
    with nullcontext() if own else _reading(file, what):
        made = build_network(spec, config, None, network)
    with _reading(file, f"does not fit network {config.network}" if own else what):
        load_weights(made, weights)
    return made.eval()


def _with_given(config: AgentConfig, network: NetworkSource | None) -> AgentConfig:
    """Add the user's network to a configuration from a file; an agent with its own network needs it.

    Raises:
        ValueError: If it is missing, or if the agent has one of svrl's networks.
    """
    if config.has_own_network and network is None:
        raise ValueError(
            f"The agent has a network of your own, {config.network!r}, which would import "
            f"{config.network.partition(':')[0]}, and svrl imports nothing because a file says so. "
            "Pass the network yourself: Agent.load(path, network=...)."
        )
    if network is not None and not config.has_own_network:
        raise ValueError(f"The agent has network {config.network}, which is svrl's. Leave network out.")
    return with_network(config, network)


def _harmless(env: str) -> str:
    """Return the name of an environment from a file; raise ValueError if the name would import a module."""
    if ":" in env:
        raise ValueError(
            f"The agent was trained on {env!r}, which would import {env.partition(':')[0]}, and svrl imports nothing "
            "because a file says so. Pass the environment yourself: Agent.load(path, source=...)."
        )
    return env


def _spec_from_json(fields: dict[str, Any]) -> EnvSpec:
    tuples: dict[str, Any] = {name: tuple(fields[name]) for name in ("frame_shape", "action_names", "axes")}
    tuples["pictures"] = tuple(tuple(picture) for picture in fields.get("pictures", ()))
    spec = EnvSpec(**{**fields, **tuples})
    if spec.family not in get_args(Family) or not isinstance(spec.high, float | int):
        raise ValueError(f"there is no environment of family {spec.family!r} with high {spec.high!r}")
    if spec.space is not None:
        from svrl.envs.observations import Observations

        view = Observations.of(spec)
        if (view.shape, view.pictures) != (spec.frame_shape, spec.pictures):
            raise ValueError("its observation space differs")
    if spec.actions is not None:
        from svrl.envs.actions import Actions

        if Actions.from_json(spec.actions).count != spec.n_actions:
            raise ValueError("its action space differs")
    return spec
