"""What `svrl train` can be asked for. The fields of AgentConfig are the flags; nothing is listed twice."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from svrl.agents.config import BY_FAMILY, CHOICES, PRESETS, AgentConfig, Precision, family_of
from svrl.agents.foreign_names import FOREIGN_NAMES
from svrl.cli.answers import BadInputError, nearest
from svrl.cli.plan_request import ESTIMATORS
from svrl.runtime.device import is_gpu, usable_cores

PANELS = {
    "preset": "Agent",
    "structured": "Structure",
    "discount": "Learning",
    "replay": "Acting and remembering",
    "steps": "Length and measuring",
}
"""The first field of each panel of the help; the fields after it follow."""
ARMS = tuple(f"{prefix}{kind}" for prefix in ("", "sv-") for kind in CHOICES["agent"])
"""What --agents chooses from; sv- is --structured."""


def known_names() -> list[str]:
    """Environments to offer for completion; any other Gymnasium id will do as well."""
    from svrl.envs.catalogue import known_environments

    return known_environments()


EnvName = Annotated[
    str,
    typer.Argument(
        metavar="ENV",
        help="atari/GAME, minatar/GAME, control/TASK, or any Gymnasium id with discrete actions.",
        autocompletion=known_names,
    ),
]
ArmList = Annotated[
    str | None,
    typer.Option(
        metavar="ARM,ARM",
        help=f"Train several, --together of them at a time: {', '.join(ARMS)}; sv- is --structured.",
        autocompletion=lambda: list(ARMS),
    ),
]
ATARI = "atari/"
_OTHER_NAMES = {"ddqn": "double", "double-dqn": "double", "duelling": "dueling", "dueling-dqn": "dueling"}
_WORDS = {**CHOICES, "preset": tuple(PRESETS), "estimator": ESTIMATORS}
_WHOLE = frozenset(name for name, hint in typing.get_type_hints(AgentConfig).items() if hint is int)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """One run to make.

    Attributes:
        env: Name of the environment.
        config: All settings of the agent.
        seed: Of everything random.
        device: cpu, cuda or cuda:N.
        threads: CPU threads of torch.
        precision: What matrices are multiplied in.
        out: Folder of the run.
    """

    env: str
    config: AgentConfig
    seed: int
    device: str
    threads: int
    precision: Precision
    out: Path

    @property
    def label(self) -> str:
        """What to call it."""
        return f"{self.env} {self.config.arm} seed {self.seed}"


def config_of(env: str, given: Mapping[str, Any]) -> AgentConfig:
    """The settings: the preset's, and over them the options that were given.

    Raises:
        BadInputError: If one is wrong; the sentence begins with its flag.
    """
    changes = {name: value for name, value in given.items() if value is not None}
    preset = changes.pop("preset", BY_FAMILY[family_of(env)])
    for name, got in (("preset", preset), *changes.items()):
        if name in _WORDS and got not in _WORDS[name]:
            raise _no_agent(got) if name == "agent" else nearest(name, got, _WORDS[name])
    if "hidden" in changes:
        changes["hidden"] = widths(changes["hidden"])
    changes = {name: whole_number(name, got) if name in _WHOLE else got for name, got in changes.items()}
    try:
        return AgentConfig.for_env(env, preset, **changes)
    except ValueError as error:
        raise BadInputError(_with_flag(str(error))) from error


def arms_of(text: str) -> list[str]:
    """The arms of --agents, as in "dqn,sv-dqn"."""
    arms = [part.strip() for part in text.split(",") if part.strip()]
    for arm in arms:
        if arm not in ARMS:
            meant = "".join(_prefix_and_kind(arm))
            if meant in ARMS:
                raise BadInputError(f"There is no agent {arm!r}. Did you mean {meant}?")
            raise nearest("agent", arm, ARMS)
    if not arms or len(set(arms)) < len(arms):
        raise BadInputError(f"--agents is a list of different agents, as in dqn,sv-dqn; got {text!r}.")
    return arms


def refuse_useless(given: Mapping[str, Any], configs: Iterable[AgentConfig], remedy: str) -> None:
    """Refuse an option of structure where no agent is structured: it would change nothing.

    Args:
        given: The options; None was not given.
        configs: Of all agents.
        remedy: What to do, as in "add --structured".
    """
    if any(config.structured for config in configs):
        return
    panel = ""
    for field in dataclasses.fields(AgentConfig):
        panel = PANELS.get(field.name, panel)
        if panel == PANELS["structured"] and field.name != "structured" and given.get(field.name) is not None:
            raise BadInputError(f"--{dashed(field.name)} belongs to structured agents: {remedy}.")


def refuse_foreign(words: Iterable[str]) -> None:
    """Refuse flags that other libraries have for ours, with ours."""
    for word in words:
        flag = word.partition("=")[0]
        name = flag.removeprefix("--").replace("-", "_")
        if flag.startswith("--") and name in FOREIGN_NAMES:
            meant = f"agent {name}" if FOREIGN_NAMES[name] == "agent" else dashed(FOREIGN_NAMES[name])
            raise BadInputError(f"svrl train has no {flag}. Did you mean --{meant}?")


def whole_number(name: str, given: str | int) -> int:
    """The value of a flag, also from "1e6" and "1_000_000".

    Raises:
        BadInputError: If it is no whole number.
    """
    try:
        number = Decimal(given)
    except InvalidOperation:
        number = Decimal("nan")
    # int() would take all memory for the digits of 1e999999999.
    if not number.is_finite() or number.adjusted() > 18 or number != number.to_integral_value():
        raise BadInputError(f"--{dashed(name)} is a whole number below 10^19, as in 200000 or 2e5; got {given!r}.")
    return int(number)


def widths(text: str) -> tuple[int, ...]:
    """Widths of layers from "128x128" or "128,128"."""
    try:
        return tuple(int(part) for part in text.lower().replace(",", "x").split("x"))
    except ValueError:
        raise BadInputError(f"--hidden must look like 128x128, got {text!r}.") from None


def default_threads(config: AgentConfig, device: str, together: int = 1) -> int:
    """One thread, but for large networks on the CPU all cores, which runs at the same time share.

    Small matrices are many times slower on threads that wait for one another, and beside a card
    the waiting threads would take the cores of the emulators.
    """
    import torch

    large = config.network == "nature" and device == "cpu"
    return max(1, torch.get_num_threads() // together) if large else 1


def default_together(runs: int, device: str, wandb: str | None) -> int:
    """All runs at a time on a card, which one alone seldom fills; one on the CPU."""
    return runs if is_gpu(device) and wandb is None else 1


def default_env_threads(env: str, together: int) -> int:
    """Native threads of each run's environments: 0, which leaves it to ale-py, or a share of the cores.

    Alone ale-py takes one for each lane, as long as there are cores. It knows nothing of other runs.
    """
    if together == 1 or not env.startswith(ATARI):
        return 0
    return max(1, usable_cores() // together)


def command_line(env: str, options: Mapping[str, Any]) -> str:
    """The command that asks for these options; what is None or False was not given, but for switches of fields."""
    fields = {field.name for field in dataclasses.fields(AgentConfig)}
    words = ["svrl", "train", env]
    for name, value in options.items():
        flag = f"--{dashed(name)}"
        if value is True:
            words.append(flag)
        elif value is False and name in fields:
            words.append(f"--no-{flag[2:]}")
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return shlex.join(words)


def with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command whose last parameter is **fields a flag for every field of AgentConfig."""
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    panel, flags = "", []
    hints = typing.get_type_hints(AgentConfig)
    for field in dataclasses.fields(AgentConfig):
        panel = PANELS.get(field.name, panel)
        flags.append(_flag(field, hints[field.name], panel))

    def run(**options: Any) -> None:
        command(**options)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    parameters = sorted((*own, *flags), key=lambda one: one.default is not inspect.Parameter.empty)
    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in keyword}
    return run


def dashed(name: str) -> str:
    """A field's name as a flag has it."""
    return name.replace("_", "-")


def _prefix_and_kind(name: str) -> tuple[str, str]:
    """The sv- of an agent's name, or nothing, and the kind that was meant by the rest."""
    rest = name.removeprefix("sv-")
    return name[: len(name) - len(rest)], _OTHER_NAMES.get(rest, rest)


def _no_agent(got: str) -> BadInputError:
    prefix, kind = _prefix_and_kind(got)
    if kind not in CHOICES["agent"]:
        return nearest("agent", got, CHOICES["agent"])
    meant = f"--agent {kind} --structured, or --agents {prefix}{kind}" if prefix else kind
    return BadInputError(f"There is no agent {got!r}. Did you mean {meant}?")


def _flag(field: dataclasses.Field, hint: Any, panel: str) -> inspect.Parameter:
    flag, kind = f"--{dashed(field.name)}", hint
    more: dict[str, Any] = {}
    if hint is bool:
        flag = f"{flag}/--no-{dashed(field.name)}"
    elif field.name == "hidden":
        kind, more = str, {"metavar": "128x128"}
    elif field.name in _WHOLE:
        kind, more = str, {"metavar": "INTEGER"}
    elif field.name in _WORDS:
        kind, more = str, {"autocompletion": _offering(_WORDS[field.name]), "metavar": "NAME"}
    option = typer.Option(flag, help=_help(field), rich_help_panel=panel, show_default=False, **more)
    assert not isinstance(kind, types.UnionType)
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _help(field: dataclasses.Field) -> str:
    if field.name == "preset":
        defaults = ", ".join(f"{preset} for {family}" for family, preset in BY_FAMILY.items())
        return f"Where every option that is not given takes its value: {', '.join(PRESETS)} (default: {defaults})."
    text: str = field.metadata["help"]
    return text if field.name != "estimator" else f"{text[:-1]}: {', '.join(ESTIMATORS)}."


def _offering(words: tuple[str, ...]) -> Callable[[], list[str]]:
    return lambda: list(words)


def _with_flag(sentence: str) -> str:
    """A sentence that begins with the name of a field, with its flag in place of it."""
    first, _, rest = sentence.partition(" ")
    known = {field.name for field in dataclasses.fields(AgentConfig)}
    return f"--{dashed(first)} {rest}" if first in known else sentence
