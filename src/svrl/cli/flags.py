"""Flags that are made from the fields of a record, so that no option is listed twice, and options that commands share.

A record is a frozen dataclass whose fields have a "help" in their metadata: `AgentConfig` of `svrl train`,
`PlanSettings` of `svrl plan`. A flag that is not given is None, and the record keeps its own value.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import shlex
import sys
import typing
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from svrl.cli.answers import nearest
from svrl.runs.settings import EXAMPLES

MOST_THREADS = 1024


def check_device(name: str) -> str:
    """Refuse a device that is not there."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ValueError(f"There is no device {name!r}. Use cpu, cuda or cuda:N.")
    if name != "cpu":
        from svrl.runtime.device import check_device

        check_device(name)
    return name


def offering(names: Collection[str]) -> dict[str, Any]:
    """For an option that completes a few names."""
    return {"autocompletion": lambda: list(names)}


def _check_device_or_auto(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", name):
        raise ValueError(f"There is no device {name!r}. Use auto, cpu, cuda or cuda:N.")
    return name if name == "auto" else check_device(name)


def one_of(what: str, names: Collection[str]) -> dict[str, Any]:
    """For an option with one of a few names: completion, and a wrong name is answered with the nearest."""

    def check(got: str | None) -> str | None:
        if got is not None and got not in names:
            if set(got.split(",")) <= set(names):
                several = f" To train several, give --agents {got}." if what == "agent" else ""
                raise ValueError(f"{what} takes one name, got {got}.{several}")
            raise nearest(what, got, names)
        return got

    return {**offering(names), "callback": check}


Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N.", callback=check_device)]
DeviceOrAuto = Annotated[
    str, typer.Option(help="auto (a GPU where there is one), cpu, cuda or cuda:N.", callback=_check_device_or_auto)
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, max=2**63 - 1, help="Seed of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]


def with_fields(
    record: type,
    *,
    words: Mapping[str, Collection[str]],
    offered: Mapping[str, Collection[str]] | None = None,
    panels: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command whose last parameter is **fields a flag for every field of a record that it has no parameter for.

    Args:
        record: The dataclass.
        words: All that a field may be; the help lists them.
        offered: Words for completion of a field that may be others too.
        panels: Panels of the help by the first field of each. With panels there are presets, each with its defaults.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        hints, panel, flags = typing.get_type_hints(record), None, []
        for field in dataclasses.fields(record):
            panel = (panels or {}).get(field.name, panel)
            if field.name in signature.parameters:
                continue
            text, known = field.metadata["help"], words.get(field.name)
            if known is not None and not any(word in text for word in known):
                text = f"{text[:-1]}: {', '.join(known)}."
            if panels is None and field.default not in (None, False):
                text = f"{text[:-1]} (default: {field.default})."
            option = {"help": text, "rich_help_panel": panel, "show_default": False}
            if field.name in (offered or {}):
                option |= {"metavar": "NAME", **offering((offered or {})[field.name])}
            flags.append(_flag(field.name, _plain(hints[field.name]), known, option))

        def run(**options: Any) -> None:
            command(**options)

        run.__doc__, run.__name__ = command.__doc__, command.__name__
        parameters = sorted((*flags, *own), key=lambda one: one.default is not inspect.Parameter.empty)
        keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in keyword}
        return run

    return decorated


def here_on_path(*names: str | None) -> None:
    """Let a name like "my_module:make" of the command line name a module in the current folder."""
    here = os.getcwd()
    if any(name is not None and ":" in name for name in names) and here not in sys.path:
        sys.path.append(here)


def on_command_line(context: typer.Context, names: Collection[str]) -> dict[str, Any]:
    """Those of these parameters that were given, and not left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in names}
    return {name: context.params[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def given_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given."""
    return {name: value for name, value in fields.items() if value is not None}


def again(context: typer.Context, word: str | None = None, *, but: Collection[str] = (), **more: Any) -> str:
    """The command line as it was given.

    Args:
        context: Of the command.
        word: Another command of its group, which gets the options that it has too.
        but: Parameters to leave out.
        more: Values in place of those that were given, or beside them.
    """
    group, command = context.parent, context.command
    if word is not None and group is not None:
        command = group.command.commands[word]  # type: ignore[attr-defined]
    line = ["svrl", *context.command_path.removeprefix(context.find_root().command_path).split()]
    line[-1] = word or line[-1]
    for one in command.params:
        source = context.get_parameter_source(str(one.name))
        given = context.params[str(one.name)] if source is not None and source.name == "COMMANDLINE" else None
        value = more.get(str(one.name), given)
        if value is None or one.name in but:
            continue
        for each in value if isinstance(value, list | tuple) else [value]:
            if one.param_type_name == "argument":
                line.append(str(each))
            elif isinstance(each, bool):
                line += (one.opts if each else one.secondary_opts)[:1]
            else:
                line += [one.opts[0], str(each)]
    return shlex.join(line)


def whole_number(given: str) -> int:
    """A whole number, also from "1e6" and "1_000_000"."""
    try:
        number = Decimal(given)
    except InvalidOperation:
        number = Decimal("nan")
    # int() would take all memory for the digits of 1e999999999.
    if not number.is_finite() or number.adjusted() > 18 or number != number.to_integral_value():
        raise typer.BadParameter(f"It is a whole number below 10^19, as in 200000 or 2e5; got {given!r}.")
    return int(number)


def _plain(hint: Any) -> Any:
    """int of int | None."""
    kinds = [one for one in typing.get_args(hint) if one is not type(None)]
    return kinds[0] if len(kinds) == 1 and type(None) in typing.get_args(hint) else hint


def _flag(name: str, kind: Any, words: Collection[str] | None, option: dict[str, Any]) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    if kind is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    elif kind is int:
        option |= {"metavar": "INTEGER", "parser": whole_number}
    elif words is not None:
        kind, option = str, {**option, "metavar": "NAME", **one_of(name, words)}
    elif kind not in (str, float):
        kind, option = str, {**option, "metavar": EXAMPLES.get(name, "N,N")}
    annotation = Annotated[kind | None, typer.Option(flag, **option)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
