"""All settings of an agent, in one record.

The fields here are the only source of the flags of `svrl train`, of config.json and of the table of defaults in the
docs; the text of a field is its help. A preset is a set of changes to the defaults:

- authors: the program that the paper's authors published; the default on Atari.
- paper: the text of the paper; `authors` fills in what it leaves open.
- short: `authors` with settings that learn within a few million steps.
- minatar: the settings published with MinAtar (Young and Tian, 2019); the default there.
- control: a small network, in which our runs compare agents on control tasks; the default there.
- classic: the same with layer normalisation and returns of three steps, which learns CartPole within 20,000 steps; the
  default elsewhere.
- smoke: takes seconds, to check that everything runs.

The last five use the structure that our runs favour (`OUR_STRUCTURE`), `smoke` everywhere but on Atari.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from svrl.runtime.names import nearest_name

Kind = Literal["dqn", "double"]
Head = Literal["flat", "dueling", "low-rank", "additive", "additive+low-rank"]
Output = Literal["fill", "estimate"]
Scale = Literal["none", "minmax", "row"]
Value = Literal["completed", "network"]
Loss = Literal["huber", "squared"]
Optimiser = Literal["adam", "rmsprop"]
Precision = Literal["float32", "tf32", "bf16"]
"""Number format in which a GPU multiplies matrices; it belongs to the device, not to the agent.

- float32: the same as on the CPU.
- tf32: factors are rounded to 10 bits of mantissa, sums are float32. The default on a GPU: on an H200 an update of the
  Nature network takes four fifths of the time of float32 with a batch of 32, and three fifths with 128.
- bf16: layers compute in bfloat16 where torch's autocast allows it; weights, losses and targets stay float32.
"""

HEAD_RANK, HEAD_RIDGE = 128, 1e-5
LEAST_ACTIONS = 3
"""With fewer actions a matrix of values has too few columns for structure to matter."""


def _set(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """All settings of an agent and its training; every field has a help text. The defaults are the preset `authors`."""

    preset: str = _set("authors", "Preset that the other settings start from (default: depends on the environment).")
    # The agent.
    agent: Kind = _set("dqn", "dqn, or double (the online network chooses the next action).")
    network: str = _set(
        "nature",
        "nature (84x84 frames), minatar (10x10 grids), mlp (vectors, with convolutions first for pictures), or your "
        "own module:function.",
    )
    hidden: tuple[int, ...] = _set((512,), "Widths of the hidden fully connected layers.")
    layer_norm: bool = _set(False, "Layer normalisation in the hidden fully connected layers.")
    head: Head = _set("flat", "Last layers: flat, dueling, low-rank, additive or additive+low-rank.")
    head_rank: int = _set(HEAD_RANK, "Rank of a low-rank head; may exceed the number of actions.")
    head_ridge: float = _set(HEAD_RIDGE, "Weight of the squared factors of a low-rank head in the loss.")
    # Structure.
    structured: bool = _set(False, "Complete the matrix of target values by matrix estimation (SV-RL).")
    p: float = _set(0.9, "Probability p in (0, 1] with which an entry of the matrix is observed.")
    p_rise: int = _set(0, "Updates over which p rises linearly to 1; 0 keeps p constant.")
    estimator: str = _set("soft-impute", "Estimator of svrl.matrix that completes the matrix.")
    rank: int = _set(0, "Rank of hard-impute and factor-als; 0 lets factor-als find it.")
    ratio: float = _set(0.02, "Shrinkage of soft-impute as a share of the largest singular value.")
    tolerance: float = _set(1e-3, "Relative change at which soft-impute stops.")
    output: Output = _set("fill", "fill keeps observed entries, estimate takes all entries from the estimator.")
    scale: Scale = _set("minmax", "Before estimation: none, minmax (to [-1, 1]) or row (subtract each row's mean).")
    next_value_from: Value = _set(
        "completed",
        "Source of the chosen action's value: completed (the completed matrix) or network (the target network).",
    )
    # Learning.
    gamma: float = _set(0.99, "Discount in (0, 1).")
    n_steps: int = _set(1, "Steps of rewards in a target before it bootstraps (n-step returns).")
    batch_size: int = _set(32, "Transitions per update.")
    optimiser: Optimiser = _set("adam", "adam, or rmsprop (centred, decay .95).")
    learning_rate: float = _set(1e-5, "Learning rate of the optimiser.")
    learning_rate_left: float = _set(1.0, "Share of the learning rate left at the end (linear decay); 1 keeps it.")
    optimiser_epsilon: float = _set(1e-8, "Added to the denominator of the optimiser.")
    loss: Loss = _set("huber", "huber or squared.")
    gradient_clamp: float = _set(1.0, "Clamp every element of the gradient to [-x, x]; 0 turns this off.")
    clip_rewards: bool = _set(True, "Learn from the sign of rewards; scores stay raw.")
    life_loss_ends: bool = _set(True, "A lost life ends the bootstrap, not the game.")
    target_update_interval: int = _set(10_000, "Updates between two copies of the online to the target network.")
    tau: float = _set(1.0, "Share by which each copy moves the target network; below 1 is Polyak averaging.")
    updates_per_step: float = _set(0.25, "Updates per agent step.")
    learning_starts: int = _set(10_000, "Agent steps before the first update.")
    # Acting and storing.
    buffer_size: int = _set(100_000, "Transitions that the replay buffer holds.")
    priority_alpha: float = _set(0.0, "Prioritised replay: exponent of TD errors; 0 draws all transitions equally.")
    priority_beta: float = _set(0.4, "Prioritised replay: first exponent of the importance weights, rising to 1.")
    n_envs: int = _set(1, "Environments stepped together.")
    act_lag: int = _set(0, "1 acts with the network from before the last burst, so that acting and learning overlap.")
    epsilon_start: float = _set(1.0, "First probability of a random action.")
    epsilon_final: float = _set(0.01, "Last probability of a random action.")
    epsilon_steps: int = _set(30_000, "Agent steps over which epsilon falls linearly.")
    sticky: float = _set(0.0, "Probability that Atari or MinAtar repeats the last action.")
    actions: int = _set(0, "Discretised actions of control tasks; 0 keeps the task's own number.")
    bins: tuple[int, ...] = _set((), "Levels of each number of a continuous action (Box), or one number for all.")
    # Length and measuring.
    steps: int = _set(15_000_000, "Agent steps to train for.")
    log_every: int = _set(10_000, "Agent steps between two rows of diagnostics.")
    eval_every: int = _set(250_000, "Agent steps between two evaluations; 0 evaluates only at the end.")
    eval_episodes: int = _set(20, "Games per evaluation.")
    eval_epsilon: float = _set(0.001, "Probability of a random action in evaluations.")

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            name, value, kind = entry.name, getattr(self, entry.name), type(entry.default)
            if not _is_a(kind, value):
                own = " Pass your own to train(..., network=...)." if name == "network" else ""
                raise ValueError(f"{name} is {_KINDS[kind]}, got {value!r}.{own}")
            if name in CHOICES and value not in CHOICES[name]:
                raise ValueError(f"{name} is one of {', '.join(CHOICES[name])}, got {value!r}.")
            if name in RANGES and not _within(value, RANGES[name]):
                raise ValueError(f"{name} lies in {RANGES[name]}, got {value}.")
        self._check_network()
        for name in ("hidden", "bins"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"hidden needs at least one width of 1 or more, got {self.hidden}.")
        if self.buffer_size < self.batch_size:
            raise ValueError(
                f"buffer_size must hold at least a batch, {self.batch_size} transitions, got {self.buffer_size}."
            )
        if self.learning_starts < self.batch_size:
            raise ValueError(
                f"learning_starts must be at least the batch size, {self.batch_size}, so that a batch can be drawn; "
                f"got {self.learning_starts}."
            )

    def _check_network(self) -> None:
        if self.network in NETWORKS:
            return
        if not re.fullmatch(r"[\w.]+:[\w.<>]+", self.network):
            raise ValueError(
                f"network is one of {', '.join(NETWORKS)}, or your own, such as my_module:make; got {self.network!r}."
            )
        if self.head != "flat":
            raise ValueError(
                f"head {self.head} is for svrl's networks. End {self.network}, your own, with a module of svrl.heads."
            )
        if self.layer_norm:
            raise ValueError(f"layer_norm is for svrl's networks. Put nn.LayerNorm into {self.network}, your own.")

    @property
    def has_own_network(self) -> bool:
        """Whether `network` names your own function, module:function."""
        return ":" in self.network

    @property
    def env_options(self) -> dict[str, Any]:
        """The settings of the environments, for `svrl.make_env`."""
        return {"sticky": self.sticky, "actions": self.actions, "bins": self.bins}

    def updates_after(self, steps: int) -> int:
        """Number of updates due after this many agent steps."""
        return max(0, int(steps * self.updates_per_step) - int(self.learning_starts * self.updates_per_step))

    def epsilon_at(self, steps: int) -> float:
        """The probability of a random action after this many agent steps."""
        if steps >= self.epsilon_steps:
            return self.epsilon_final
        return self.epsilon_start + (self.epsilon_final - self.epsilon_start) * steps / self.epsilon_steps

    def learning_rate_at(self, updates: int) -> float:
        """The learning rate after this many updates."""
        done = min(1.0, updates / max(1, self.updates_after(self.steps)))
        return self.learning_rate * (1.0 - (1.0 - self.learning_rate_left) * done)

    def warnings(self, env: str, n_actions: int) -> list[str]:
        """Sentences about settings that are allowed but cannot work.

        Args:
            env: Name of the environment.
            n_actions: How many actions it has.
        """
        found = []
        if self.structured and n_actions < LEAST_ACTIONS:
            word = "action leaves" if n_actions == 1 else "actions leave"
            found.append(f"Warning: on {env} {n_actions} {word} little structure to find.")
        centred = self.scale == "row"
        most = min(self.batch_size, n_actions - centred)
        if self.structured and self.rank and self.rank >= most:
            less = " less its row means" if centred else ""
            found.append(
                f"Warning: every {self.batch_size} x {n_actions} matrix{less} has a rank of {most} or less, so rank "
                f"{self.rank} tells the estimator nothing about hidden entries. Use a smaller one."
            )
        # All environments step at once, and a lagging agent does not learn from the last round.
        rounds = math.ceil(self.steps / self.n_envs) - self.act_lag
        if self.updates_after(rounds * self.n_envs) == 0:
            found.append(
                f"Warning: no update is due within {self.steps:,} steps: {self.learning_starts:,} come before the "
                f"first (learning_starts), and then there are {self.updates_per_step:g} per step. The network keeps "
                "its first weights."
            )
        return found

    @property
    def arm(self) -> str:
        """The agent's name in comparisons; see `arm_of`."""
        return arm_of(dataclasses.asdict(self))

    @classmethod
    def of(cls, preset: str, **changes: Any) -> AgentConfig:
        """Create a preset with changes; `agent` may be any of `ARMS`, such as agent="sv-dqn".

        Raises:
            ValueError: If there is no such preset or field; the message names the nearest.
        """
        return cls._of(preset, {}, changes)

    @classmethod
    def _of(cls, preset: str, own: Mapping[str, Any], changes: dict[str, Any]) -> AgentConfig:
        if preset not in PRESETS:
            raise ValueError(f"There is no preset {preset!r}. {nearest_name(preset, PRESETS)}")
        known = {entry.name for entry in dataclasses.fields(cls)}
        for name in changes:
            if name not in known:
                hint = nearest_name(name, known, synonyms=FIELD_ALIASES)
                raise ValueError(f"AgentConfig has no field {name!r}. {hint}")
        base = {**PRESETS[preset], **own}
        arm = str(changes.get("agent"))
        if arm in ARMS:
            fields = ARMS[arm]
            if changes.get("head", fields["head"]) != fields["head"] != "flat":
                raise ValueError(f"agent {arm} has head {fields['head']}, got head {changes['head']}. Leave one out.")
            if base.get("next_value_from", cls.next_value_from) == fields.get("next_value_from"):
                base = {**fields, **base}  # the preset scales as its source does
            else:
                base |= fields
            changes = {**changes, "agent": fields["agent"]}
            base["structured"] = fields["structured"]
        if ":" in str(changes.get("network")):  # your own, which has its own layers
            base["layer_norm"] = False
        return cls(**{**base, "preset": preset, **changes})

    @classmethod
    def for_env(cls, env: str | Callable[[], Any], preset: str | None = None, **changes: Any) -> AgentConfig:
        """Create a preset for an environment, with changes; by default the preset of the environment's family.

        The environment is a name, or a function or class that creates your own.
        """
        family = family_of(env) if isinstance(env, str) else "gymnasium"
        preset = BY_FAMILY[family] if preset is None else preset
        own = SMOKE_BY_FAMILY[family] if preset == "smoke" else {}
        return cls._of(preset, own, changes)

    def replace(self, **changes: Any) -> AgentConfig:
        """Return a copy with changes.

        `agent` may be any of `ARMS`. A name without sv-, such as "dueling", sets the head as well, and leaves structure
        as it is.
        """
        name = changes.get("agent")
        if name in ARMS:
            fields = BASES.get(name, ARMS[name])
            changes = {**fields, **changes, "agent": fields["agent"]}
        return dataclasses.replace(self, **changes)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON types, without `OPTIONAL` ones that are off, so that older files look the same."""
        off = {
            entry.name for entry in dataclasses.fields(self) if getattr(self, entry.name) == entry.default
        } & OPTIONAL
        off |= set() if "low-rank" in self.head else {"head_rank", "head_ridge"}
        fields = {name: value for name, value in dataclasses.asdict(self).items() if name not in off}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> AgentConfig:
        """Rebuild the configuration that `as_json` returned."""
        return cls(**fields)


FIELD_ALIASES = {
    "alpha": "learning_rate",
    "discount": "gamma",
    "double": "agent",
    "dueling": "head",
    "end_e": "epsilon_final",
    "envs": "n_envs",
    "eps_train": "epsilon_start",
    "eps_train_final": "epsilon_final",
    "exploration_final_eps": "epsilon_final",
    "exploration_fraction": "epsilon_steps",
    "exploration_initial_eps": "epsilon_start",
    "learn_from": "learning_starts",
    "lr": "learning_rate",
    "multi_step": "n_steps",
    "n_step": "n_steps",
    "net_arch": "hidden",
    "num_envs": "n_envs",
    "observe": "p",
    "polyak": "tau",
    "prioritized_replay": "priority_alpha",
    "prioritized_replay_alpha": "priority_alpha",
    "prioritized_replay_beta0": "priority_beta",
    "observe_rise": "p_rise",
    "replay": "buffer_size",
    "replay_size": "buffer_size",
    "start_e": "epsilon_start",
    "target_every": "target_update_interval",
    "target_network_frequency": "target_update_interval",
    "target_update_freq": "target_update_interval",
    "total_timesteps": "steps",
    "train_freq": "updates_per_step",
    "train_frequency": "updates_per_step",
    "update_per_step": "updates_per_step",
    "value": "next_value_from",
}
"""Names of fields in other libraries, papers and earlier versions, for hints on wrong names. Units may differ:
`train_freq` 4 is `updates_per_step` 0.25."""

OPTIONAL = frozenset(("bins", "n_steps", "tau", "priority_alpha", "priority_beta", "layer_norm", "head"))
"""Fields that have no effect at their defaults; where they are off, files do not mention them."""

CHOICES: dict[str, tuple[str, ...]] = {
    "agent": get_args(Kind),
    "head": get_args(Head),
    "output": get_args(Output),
    "scale": get_args(Scale),
    "next_value_from": get_args(Value),
    "loss": get_args(Loss),
    "optimiser": get_args(Optimiser),
}
"""The values of each field that is one of several words."""

NETWORKS = ("nature", "minatar", "mlp")
"""The networks of svrl."""

PRECISIONS: tuple[str, ...] = get_args(Precision)

RANGES: dict[str, str] = {
    **dict.fromkeys(("p", "tolerance", "tau"), "(0, 1]"),
    **dict.fromkeys(("epsilon_start", "epsilon_final", "eval_epsilon", "sticky", "learning_rate_left"), "[0, 1]"),
    **dict.fromkeys(("priority_alpha", "priority_beta"), "[0, 1]"),
    "gamma": "(0, 1)",
    **dict.fromkeys(("ratio", "learning_rate", "optimiser_epsilon", "updates_per_step"), "(0, inf)"),
    **dict.fromkeys(("batch_size", "target_update_interval", "buffer_size", "n_envs"), "[1, inf)"),
    **dict.fromkeys(("steps", "log_every", "eval_episodes", "learning_starts"), "[1, inf)"),
    **dict.fromkeys(("p_rise", "rank", "gradient_clamp", "epsilon_steps", "actions", "eval_every"), "[0, inf)"),
    "head_rank": "[1, inf)",
    "head_ridge": "[0, inf)",
    "act_lag": "[0, 1]",
    "n_steps": "[1, 1000]",
}
"""The range of each number; a round bracket excludes that end."""


def arm_of(settings: Mapping[str, Any]) -> str:
    """The name of an agent in comparisons.

    `sv-dqn` is the paper's SV-RL: completed values enter the targets. `sv-dqn-network` centres rows, the completed
    matrix only chooses the action, and the target network values it. Any other scaling is part of the name.

    Args:
        settings: The settings by their names in `AgentConfig`.
    """
    base = {"agent": settings["agent"], "head": settings.get("head", "flat")}
    name = next((name for name, fields in BASES.items() if fields == base), settings["agent"])  # of older files, too
    if not settings["structured"]:
        return name
    network = settings["next_value_from"] == "network"
    usual = ("row",) if network else ("minmax", "none")  # the authors' program, and the text of their paper
    words = ("network",) * network + (() if settings["scale"] in usual else (settings["scale"],))
    return "-".join(["sv", name, *words])


AUTHORS_STRUCTURE: dict[str, Any] = {"scale": "minmax", "next_value_from": "completed"}
"""How the authors complete matrices, where it differs from `OUR_STRUCTURE`."""

OUR_STRUCTURE: dict[str, Any] = {"scale": "row", "next_value_from": "network"}
"""The authors' rule lost on control tasks, and pushed targets up in some games. Ours cannot push them up, and no
experiment showed a loss (docs/evidence.md)."""

_HEAD_NAMES = {
    "": "flat",
    "dueling": "dueling",
    "lowrank": "low-rank",
    "additive": "additive",
    "additive-lowrank": "additive+low-rank",
}
BASES: dict[str, dict[str, str]] = {
    "dqn": {"agent": "dqn", "head": "flat"},
    "double": {"agent": "double", "head": "flat"},
    **{name: {"agent": "dqn", "head": head} for name, head in _HEAD_NAMES.items() if name},
    **{f"double-{name}": {"agent": "double", "head": head} for name, head in _HEAD_NAMES.items() if name},
}
"""The agents without structure in their targets: DQN is named after its head, double DQN has it in its name."""

ARMS: dict[str, dict[str, Any]] = {
    name.format(base): {**fields, **changes}
    for name, changes in (
        ("{}", {"structured": False}),
        ("sv-{}", {"structured": True, **AUTHORS_STRUCTURE}),
        ("sv-{}-network", {"structured": True, **OUR_STRUCTURE}),
    )
    for base, fields in BASES.items()
}
"""The agents in comparisons: plain, with the paper's structure (sv-dqn), or with ours (sv-dqn-network)."""

_SMALL: dict[str, Any] = {
    **OUR_STRUCTURE,
    "network": "mlp",
    "hidden": (256, 256),
    "clip_rewards": False,
    "batch_size": 64,
    "gradient_clamp": 0.0,
    "target_update_interval": 50,
    "updates_per_step": 0.5,
    "learning_starts": 1_000,
    "buffer_size": 50_000,
    "n_envs": 8,
    "epsilon_final": 0.05,
    "epsilon_steps": 8_000,
    "steps": 50_000,
    "log_every": 1_000,
    "eval_every": 10_000,
}

PRESETS: dict[str, dict[str, Any]] = {
    "authors": {},
    # Copies every 10,000 agent steps are 2,500 updates; p rises over 2e6 agent steps, 500,000 updates.
    "paper": {
        "loss": "squared",
        "gradient_clamp": 0.0,
        "epsilon_steps": 300_000,
        "target_update_interval": 2_500,
        "output": "estimate",
        "scale": "none",
        "p_rise": 500_000,
    },
    "short": {
        **OUR_STRUCTURE,
        "buffer_size": 1_000_000,
        "learning_rate": 6.25e-5,
        "optimiser_epsilon": 1.5e-4,
        "epsilon_steps": 250_000,
        "target_update_interval": 2_000,
        "steps": 2_000_000,
    },
    "minatar": {
        **OUR_STRUCTURE,
        "network": "minatar",
        "hidden": (128,),
        "optimiser": "rmsprop",
        "learning_rate": 2.5e-4,
        "optimiser_epsilon": 0.01,
        "gradient_clamp": 0.0,
        "clip_rewards": False,
        "target_update_interval": 1_000,
        "updates_per_step": 1.0,
        "learning_starts": 5_000,
        "epsilon_final": 0.1,
        "epsilon_steps": 100_000,
        "sticky": 0.1,
        "steps": 5_000_000,
        "eval_every": 50_000,
        "log_every": 2_000,
    },
    # Layer normalisation and returns of three steps keep what was learned; without them most CartPole agents of the
    # preset `control` lose it again (docs/deep-rl.md).
    "classic": {
        **_SMALL,
        "layer_norm": True,
        "gamma": 0.99,
        "n_steps": 3,
        "learning_rate": 5e-4,
        "learning_rate_left": 0.0,
    },
    "control": {
        **_SMALL,
        "gamma": 0.98,
        "learning_rate": 1e-3,
        "learning_rate_left": 0.05,
    },
    "smoke": {
        "learning_starts": 64,
        "buffer_size": 1_000,
        "target_update_interval": 20,
        "epsilon_steps": 200,
        "steps": 400,
        "log_every": 100,
        "eval_every": 0,
        "eval_episodes": 1,
        # An untrained network that never fires would play Breakout for 108,000 frames.
        "eval_epsilon": 0.5,
    },
}
"""The changes of each preset to the defaults."""

BY_FAMILY = {"atari": "authors", "minatar": "minatar", "control": "control", "gymnasium": "classic"}
"""The default preset of each family of environments."""

SMOKE_BY_FAMILY: dict[str, dict[str, Any]] = {
    "atari": {},
    "minatar": {**OUR_STRUCTURE, "network": "minatar", "hidden": (128,), "clip_rewards": False},
    "control": {**OUR_STRUCTURE, "network": "mlp", "hidden": (64,), "clip_rewards": False},
    "gymnasium": {**OUR_STRUCTURE, "network": "mlp", "hidden": (64,), "clip_rewards": False},
}
"""Further changes of the preset `smoke` for each family."""


def default_precision(device: object) -> Precision:
    """The default precision of a device such as "cuda:1": tf32 on a GPU, which measured best there."""
    return "tf32" if str(device).startswith("cuda") else "float32"


def check_precision(precision: str, device: object) -> None:
    """Raise ValueError if there is no such precision, or if this device does not support it."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision is one of {', '.join(PRECISIONS)}, got {precision!r}.")
    if precision != "float32" and not str(device).startswith("cuda"):
        raise ValueError(f"precision {precision} needs a CUDA device, and the device is {device}. Use float32.")


def family_of(env: str) -> str:
    """The family of an environment by its name: the part before a slash, if that is one of our families."""
    head = env.partition("/")[0]
    return head if head in BY_FAMILY and "/" in env else "gymnasium"


_KINDS = {
    tuple: "a tuple of whole numbers, such as (128, 128)",
    bool: "True or False",
    str: "a word",
    int: "a whole number",
    float: "a number",
}


def _is_a(kind: type, value: Any) -> bool:
    if kind is tuple:
        return isinstance(value, tuple | list) and all(_is_a(int, width) for width in value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, float | int if kind is float else kind)


def _within(value: float, interval: str) -> bool:
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = value > low if interval[0] == "(" else value >= low
    below = value < high if interval[-1] == ")" else value <= high
    return above and below  # False for NaN
