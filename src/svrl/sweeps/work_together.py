"""What a process does for several runs that share a card: hold each, train all beside each other, tell of each.

Each becomes what it would have become alone, see `svrl.experiments.training.population`, and goes on alone if need be.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from svrl.agents.config import AgentConfig
from svrl.experiments.training.population import Manner, Member, PopulationError, train_population
from svrl.experiments.training.session import Habits
from svrl.experiments.training.stop_signals import Signals, Stopped
from svrl.runs.run_directory import CONFIG, RESULT, read_config
from svrl.sweeps.child import end_with, leave_the_terminal, see_only, stay_on, told_once
from svrl.sweeps.lease import LostLeaseError
from svrl.sweeps.outcome import BUSY, DONE, STORE_BROKEN, Outcome, outcome_of
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.store import LOG, RUN, BusyError, Store, Workplace, open_store, read_spec
from svrl.sweeps.work import (
    Terms,
    beginning,
    clear_remains,
    ending,
    hear_nothing_more,
    next_attempt,
    on_stderr,
    saved_now_and_then,
)


def work_on_several(
    address: str, code: str, runs: Sequence[str], terms: Terms, tell: Callable[[str], None] = on_stderr
) -> int:
    """Train runs beside each other until all are done, fail, or are told to stop by SIGTERM.

    Args:
        address: Of the store.
        code: The code version.
        runs: Their ids.
        terms: What they may take.
        tell: Is told in one sentence why the store cannot be written to.

    Returns:
        The exit code that fits the worst of them; what became of each is in its attempts.
    """
    leave_the_terminal()
    try:
        with told_once(), ExitStack() as held:
            end_with(terms.parent)
            stay_on(terms.cores)
            see_only(terms.card)
            store = open_store(address, code)
            places = _hold(store, runs, terms, held)
            return _attempts(store, places, terms, tell) if places else BUSY
    except LostLeaseError:
        return BUSY
    except KeyboardInterrupt:
        return Outcome(ended="stopped").exit_code
    except OSError as error:
        tell(f"{error.filename or address}: {error.strerror or error}.")
        return STORE_BROKEN


def _hold(store: Store, runs: Sequence[str], terms: Terms, held: ExitStack) -> dict[str, Workplace]:
    """Those runs that nobody else holds, that are not done, and that can share torch's threads with the first."""
    places: dict[str, Workplace] = {}
    threads: int | None = None
    for run in runs:
        with ExitStack() as trying:
            try:
                place = trying.enter_context(store.working_on(run))
            except BusyError:
                continue
            if (place.folder / RUN / RESULT).exists():
                continue
            threads = threads or _threads(place.folder / RUN, terms)
            if _threads(place.folder / RUN, terms) == threads:
                places[run] = place
                held.push(trying.pop_all())
    return places


def _threads(folder: Path, terms: Terms) -> int:
    """CPU threads of a run; one that goes on keeps its own."""
    return int(read_config(folder).get("threads", terms.threads)) if (folder / CONFIG).exists() else terms.threads


def _attempts(store: Store, places: dict[str, Workplace], terms: Terms, tell: Callable[[str], None]) -> int:
    began = time.monotonic()
    numbers = {}
    with ExitStack() as held:
        for run, place in places.items():
            numbers[run] = next_attempt(store.attempts(run))
            store.note(run, beginning(numbers[run]))
            clear_remains(place.folder)
            held.enter_context(saved_now_and_then(place))
        with Signals().held_back() as signals:
            failures = _train([place.folder for place in places.values()], terms, signals)
    hear_nothing_more()
    codes = [DONE]
    for run, place in places.items():
        outcome = _outcome(place.folder, failures.get(place.folder / RUN))
        place.save()
        store.note(run, ending(numbers[run], outcome, time.monotonic() - began))
        codes.append(outcome.exit_code)
        if outcome.store_broken:
            tell(outcome.reason)
    return max(codes)


def _train(folders: Sequence[Path], terms: Terms, signals: Signals) -> dict[Path, Exception]:
    """Train all; what went wrong, by run directory."""
    members = [_member(read_spec(folder), folder / RUN, terms) for folder in folders]
    manner = Manner(
        habits=Habits(checkpoint_every=terms.checkpoint_every),
        env_threads=max(1, len(terms.cores) // len(members)),
        say_of=lambda member: _to(member.folder.parent / LOG),
    )
    try:
        train_population(members, together=len(members), manner=manner, signals=signals)
    except PopulationError as error:
        return error.failures
    except Stopped:
        pass
    except ValueError as error:  # refused before anything began
        return dict.fromkeys((folder / RUN for folder in folders), error)
    return {}


def _member(spec: RunSpec, folder: Path, terms: Terms) -> Member:
    fields = {name: value for name, value in spec.full.items() if name not in ("env", "seed", "device", "precision")}
    return Member(
        env=spec.subject,
        config=AgentConfig.from_json(
            {"preset": spec.settings.get("preset", AgentConfig.for_env(spec.subject).preset), **fields}
        ),
        folder=folder,
        seed=spec.seed,
        device="cuda" if terms.card is not None else spec.device,
        precision=spec.full["precision"],
        threads=_threads(folder, terms),
        resume=(folder / CONFIG).exists(),
    )


def _outcome(folder: Path, failure: Exception | None) -> Outcome:
    if failure is None:
        return Outcome(ended="done" if (folder / RUN / RESULT).exists() else "stopped")
    lines = [*traceback.format_exception(failure)]
    if isinstance(failure, ValueError | OSError):
        lines.append(f"Error: {failure}")
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    with (folder / LOG).open("a", encoding="utf-8") as log:
        log.write(text)
    return outcome_of(1, False, text.splitlines())


def _to(path: Path) -> Callable[[str], None]:
    def say(sentence: str) -> None:
        with path.open("a", encoding="utf-8") as log:
            log.write(f"{sentence}\n")

    return say
