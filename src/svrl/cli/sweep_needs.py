"""What the runs of a sweep need and this machine lacks, told once before the first of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from svrl.cli.answers import BadInputError

if TYPE_CHECKING:
    from svrl.cli.sweep_request import SweepRequest
    from svrl.sweeps.run_spec import RunSpec


def check_environments(request: SweepRequest) -> None:
    """Raise BadInputError for environments of runs to be done that Gymnasium does not know; none is made."""
    from svrl.sweeps.setting_checks import check_registered

    wrong = []
    for env, specs in _by_environment(request).items():
        try:
            check_registered(env)
        except ValueError as error:
            wrong += [str(error)] if to_be_done(request, specs) else []
    if wrong:
        raise BadInputError(" ".join(wrong))


def what_stands_against(request: SweepRequest) -> list[str]:
    """A sentence for every reason why runs that are to be done cannot be made here, as a package that is missing."""
    from svrl.sweeps.setting_checks import why_not_here

    needing: dict[str, list[RunSpec]] = {}
    for env, specs in _by_environment(request).items():
        sentence = why_not_here(env)
        if sentence is not None:
            needing.setdefault(sentence, []).extend(specs)
    counts = {sentence: len(to_be_done(request, specs)) for sentence, specs in needing.items()}
    return [f"{_runs(count)}: {sentence}" for sentence, count in counts.items() if count]


def refuse_what_cannot_be_made(request: SweepRequest) -> None:
    """Raise BadInputError if runs that are to be done cannot be made here."""
    against = what_stands_against(request)
    if against:
        raise BadInputError(f"{' '.join(against)} Or leave them out by --where. Nothing was begun.")


def _by_environment(request: SweepRequest) -> dict[str, list[RunSpec]]:
    found: dict[str, list[RunSpec]] = {}
    for spec in request.specs:
        if spec.kind == "train":
            found.setdefault(spec.subject, []).append(spec)
    return found


def to_be_done(request: SweepRequest, specs: Iterable[RunSpec]) -> list[RunSpec]:
    """Those that a sweep would work on: what is done, or has failed, needs nothing more."""
    from svrl.sweeps.states import state_of

    specs = list(specs)
    store = request.store.looked_at([spec.id for spec in specs])
    return [spec for spec in specs if state_of(store, spec.id) not in ("done", "failed")]


def _runs(count: int) -> str:
    return f"{count:,} run{'s' * (count != 1)} cannot be made here"
