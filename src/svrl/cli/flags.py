"""Flags that are made from the fields of a record, so that no option is listed twice.

A record is a frozen dataclass whose fields have a "help" in their metadata: `AgentConfig` of `svrl train`,
`PlanSettings` of `svrl plan`. A flag that is not given is None, and the record keeps its own value.
"""

from __future__ import annotations

import dataclasses
import inspect
import shlex
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

import typer

from svrl.cli.answers import BadInputError

Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, max=2**63 - 1, help="Seed of everything random.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]


def with_fields(
    record: type,
    *,
    but: Collection[str] = (),
    words: Mapping[str, Iterable[str]] | None = None,
    panels: Mapping[str, str] | None = None,
    helps: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command whose last parameter is **fields a flag for every field of a record.

    Args:
        record: The dataclass.
        but: Fields that are no flags.
        words: What completion offers for a field.
        panels: Panels of the help by the first field of each.
        helps: Help in place of a field's own.
        texts: How fields that are taken as a text look, as in {"hidden": "128x128"}.
    """

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        hints, panel, flags = typing.get_type_hints(record), None, []
        for field in dataclasses.fields(record):
            panel = (panels or {}).get(field.name, panel)
            if field.name in but:
                continue
            text = (helps or {}).get(field.name, field.metadata["help"])
            if panels is None and field.default not in (
                None,
                False,
            ):  # with panels there are presets, each with its own
                text = f"{text[:-1]} (default: {field.default})."
            option = {"help": text, "rich_help_panel": panel, "show_default": False}
            kind, offered, looks = (
                _plain(hints[field.name]),
                (words or {}).get(field.name),
                (texts or {}).get(field.name),
            )
            flags.append(_flag(field.name, kind, words=offered, looks=looks, **option))

        def run(**options: Any) -> None:
            command(**options)

        run.__doc__, run.__name__ = command.__doc__, command.__name__
        parameters = sorted((*flags, *own), key=lambda one: one.default is not inspect.Parameter.empty)
        keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in keyword}
        return run

    return decorated


def given_of(record: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that were given, whole numbers read from "1e6" and "1_000_000" too."""
    hints = typing.get_type_hints(record)
    given = {name: value for name, value in fields.items() if value is not None}
    return {name: whole_number(name, got) if _plain(hints[name]) is int else got for name, got in given.items()}


@contextmanager
def flagged(record: type) -> Iterator[None]:
    """Turn a ValueError into BadInputError; a sentence that begins with the name of a field names its flag instead."""
    try:
        yield
    except ValueError as error:
        first, _, rest = str(error).partition(" ")
        known = {field.name for field in dataclasses.fields(record)}
        raise BadInputError(f"{flag(first)} {rest}" if first in known else str(error)) from error


def command_line(words: Iterable[str], options: Mapping[str, Any], record: type | None = None) -> str:
    """The command that asks for these options; a list stands for an option that is repeated.

    None was not given, nor was False, but for fields of the record.
    """
    switches = {field.name for field in dataclasses.fields(record)} if record is not None else set()
    line = list(words)
    for name, value in options.items():
        if value is True:
            line.append(flag(name))
        elif value is False and name in switches:
            line.append(f"--no-{dashed(name)}")
        elif value is not None and value is not False:
            line += [word for one in (value if isinstance(value, list) else [value]) for word in (flag(name), str(one))]
    return shlex.join(line)


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
        raise BadInputError(f"{flag(name)} is a whole number below 10^19, as in 200000 or 2e5; got {given!r}.")
    return int(number)


def dashed(name: str) -> str:
    """A field's name as a flag has it."""
    return name.replace("_", "-")


def flag(name: str) -> str:
    """The flag of a field."""
    return f"--{dashed(name)}"


def _plain(hint: Any) -> Any:
    """int of int | None."""
    kinds = [one for one in typing.get_args(hint) if one is not type(None)]
    return kinds[0] if len(kinds) == 1 and type(None) in typing.get_args(hint) else hint


def _flag(name: str, kind: Any, *, words: Iterable[str] | None, looks: str | None, **option: Any) -> inspect.Parameter:
    names = flag(name)
    if kind is bool:
        names = f"{names}/--no-{dashed(name)}"
    elif looks is not None:
        kind, option = str, {**option, "metavar": looks}
    elif kind is int:
        kind, option = str, {**option, "metavar": "INTEGER"}
    elif words is not None:
        offered = list(words)
        kind, option = str, {**option, "autocompletion": lambda: offered, "metavar": "NAME"}
    annotation = Annotated[kind | None, typer.Option(names, **option)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
