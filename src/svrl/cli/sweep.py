"""svrl sweep: many runs from one file, on this machine or on a Ray cluster."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from svrl.cli import run_list
from svrl.cli.answers import BAD_INPUT, BadInputError, answering, nearest, print_json, say, sentences
from svrl.cli.run_list import STORE, Address, Jobs, Json, Kept, On, Where, to_be_done

if TYPE_CHECKING:
    from svrl.runs.driver import Effort, Summary
    from svrl.runs.spec import RunSpec
    from svrl.runs.status import Overview
    from svrl.runs.store import State, Store
    from svrl.runs.sweep_file import Sweep

SHOWN = 12
"""Runs that `svrl sweep plan` lists; the rest are counted."""
REFRESH = 2.0
"""Seconds between two looks at the store for the table."""
WIDE = 110
"""Columns where there is no terminal."""
RETRIES = 2
ROWS = ("results", "episodes", "learning", "evaluations", "trace")
STOPPED = "Stopped at once; the same command resumes runs from their last checkpoints."

app = typer.Typer(
    name="sweep", help="Many runs from one file, on this machine or on a Ray cluster.", no_args_is_help=True
)


def shipped_names() -> list[str]:
    """For completion."""
    from svrl.runs.sweep_file import shipped

    return shipped()


File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A TOML file, or a sweep that comes with svrl: paper-57, paper-control, batch-size.",
        autocompletion=shipped_names,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="In place of what the file says, in every run; may be repeated."),
]
Cores = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="CPU cores of each run, in place of the file's resources.")
]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A sweep and where it is kept.

    Attributes:
        sweep: The file.
        specs: Its runs, after --set and --where.
        store: The folder of all runs.
    """

    sweep: Sweep
    specs: tuple[RunSpec, ...]
    store: Store

    @classmethod
    def of(
        cls,
        file: str,
        store: str,
        changes: Iterable[str] | None = None,
        where: Iterable[str] | None = None,
        cores: int | None = None,
    ) -> Asked:
        """From the words of a command; BadInputError or ValueError if one is wrong."""
        from svrl.runs.grid import runs_of
        from svrl.runs.store import open_store
        from svrl.runs.sweep_file import read_sweep

        sweep = read_sweep(file)
        if cores is not None:
            sweep = replace(sweep, resources=replace(sweep.resources, cores=cores))
        opened = open_store(store)
        given = {name: run_list.value_of(text) for name, text in run_list.pairs("--set", changes)}
        specs = run_list.only(f"The sweep {sweep.name} has", runs_of(sweep, changes=given), where)
        return cls(sweep=sweep, specs=tuple(specs), store=opened)

    def check_environments(self) -> None:
        """Refuse environments of runs to be done that Gymnasium does not know; none is made."""
        from svrl.runs.settings import check_registered

        wrong = []
        for env in dict.fromkeys(spec.subject for spec in self.specs if spec.kind.name == "train"):
            try:
                check_registered(env)
            except ValueError as error:
                left = to_be_done(self.store, [spec for spec in self.specs if spec.subject == env])
                wrong += [str(error)] if left else []
        if wrong:
            raise BadInputError(" ".join(wrong))

    def what_stands_against(self) -> list[str]:
        """A sentence for every reason why runs that are to be done cannot be carried out here."""
        counts = {
            sentence: len(to_be_done(self.store, specs))
            for sentence, specs in run_list.what_stands_against(self.specs).items()
        }
        return [
            f"{count:,} run{'s' * (count != 1)} cannot be made here: {sentence}"
            for sentence, count in counts.items()
            if count
        ]


@app.command("plan")
def plan(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    jobs: Jobs = None,
    cores: Cores = None,
    as_json: Json = False,
) -> None:
    """List the runs of a sweep, their steps, and how long they take if some are finished. Nothing is begun."""
    with answering(), sentences():
        found = _planned(Asked.of(file, store, changes, where, cores), jobs)
    if as_json:
        print_json(found)
    else:
        _print_plan(found)


def _planned(request: Asked, jobs: int | None) -> dict[str, Any]:
    from svrl.runs.local import Room
    from svrl.runs.status import look

    request.check_environments()
    runs = look(request.store, request.specs).runs
    left = [spec for spec, run in zip(request.specs, runs, strict=True) if run.state != "done"]
    notes, at_a_time = list[str](), None
    try:
        at_a_time = Room.of(request.sweep.resources, jobs, {spec.device for spec in left}, notes.append).at_a_time
    except ValueError as error:  # no GPU here: the runs can still be listed
        notes.append(str(error))
    taken = [run.seconds for run in runs if run.seconds]
    return {
        "name": request.sweep.name,
        "store": request.store.address,
        "runs": [{**spec.as_json(), "state": run.state} for spec, run in zip(request.specs, runs, strict=True)],
        "left": len(left),
        "steps": sum(spec.steps or 0 for spec in left) if request.sweep.kind == "train" else None,
        "at_a_time": at_a_time,
        "seconds": fmean(taken) * max(1, len(left) / at_a_time) if taken and left and at_a_time else None,
        "notes": [*notes, *(f"Note: {sentence}" for sentence in request.what_stands_against())],
    }


def _print_plan(found: dict[str, Any]) -> None:
    from svrl.reporting.tables import duration

    console = _console()
    runs = Table("run", "state", "id", box=None, pad_edge=False, header_style="bold")
    for row in found["runs"][:SHOWN]:
        runs.add_row(row["label"], row["state"], row["id"])
    console.print(runs)
    if len(found["runs"]) > SHOWN:
        console.print(f"and {len(found['runs']) - SHOWN} more", highlight=False)
    for note in found["notes"]:
        console.print(note, markup=False, highlight=False)
    took = "time not known before a run is finished"
    if found["seconds"] is not None:
        took = f"about {duration(found['seconds'])} with {found['at_a_time']} at a time, like the finished ones"
    steps = "" if found["steps"] is None else f" {found['steps']:,} agent steps,"
    console.print(f"{len(found['runs'])} runs, {found['left']} to be done,{steps} {took}.", highlight=False)


@app.command("run")
def run(
    file: File,
    store: Kept = STORE,
    on: On = "local",
    address: Address = None,
    changes: Changes = None,
    where: Where = None,
    jobs: Jobs = None,
    cores: Cores = None,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", help="Between two checkpoints of a training.")
    ] = 60.0,
    retries: Annotated[
        int, typer.Option(metavar="N", min=0, help="Times that a run whose process was killed is begun again.")
    ] = RETRIES,
    hours: Annotated[
        float | None, typer.Option(metavar="H", help="Save and stop after so many (default: the file's budget).")
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write scalars of trainings for TensorBoard.")] = (
        False
    ),
    as_json: Json = False,
) -> None:
    """Do the runs of a sweep that are not done, and say what became of each.

    No run is done twice, whichever sweep asks for it. After Ctrl-C, or a crash, the same command resumes. Runs that
    failed stay so until svrl sweep retry.
    """
    with answering(STOPPED), sentences():
        from svrl.runs.driver import Effort

        run_list.check_engine(on, address)
        request = Asked.of(file, store, changes, where, cores)
        effort = Effort(
            jobs=jobs,
            checkpoint_every=checkpoint_every,
            retries=retries,
            hours=request.sweep.budget.hours if hours is None else hours,
            tensorboard=tensorboard,
        )
        found = _carry_out(request, effort, on=on, address=address, quiet=as_json)
    asked = _options(store, changes, where)
    more: list[tuple[str, Any, Any]] = [
        ("--on", on, "local"),
        ("--address", address, None),
        ("--jobs", jobs, None),
        ("--cores", cores, None),
    ]
    more += [("--checkpoint-every", checkpoint_every, 60.0), ("--retries", retries, RETRIES), ("--hours", hours, None)]
    given = ["--tensorboard"] if tensorboard else []
    given += [word for flag, value, default in more if value != default for word in (flag, str(value))]
    again = shlex.join(["svrl", "sweep", "run", file, *asked, *given])
    _conclude(request, found, again, shlex.join(["svrl", "sweep", "retry", file, "--failed", *asked]), as_json)


class Onlooker:
    """A table in a terminal, or a line for every run that begins or ends."""

    def __init__(self, look: Callable[[], Any], live: Live | None) -> None:
        self._look, self._live = look, live
        self._looked = 0.0

    def begins(self, spec: RunSpec) -> None:
        """A process works on a run now."""
        if self._live is None:
            say(f"begun    {spec.label}")

    def ends(self, spec: RunSpec, ended: str, reason: str) -> None:
        """It no longer does."""
        if self._live is None or ended in ("failed", "killed"):
            self.notes(f"{ended:8} {spec.label}" + (f": {reason}" if reason else ""))

    def looks(self) -> None:
        """Look at the store now and then."""
        if self._live is not None and time.monotonic() - self._looked > REFRESH:
            self._live.update(self._look(), refresh=True)
            self._looked = time.monotonic()

    def notes(self, sentence: str) -> None:
        """Above the table, or as a line."""
        if self._live is not None:
            self._live.console.print(sentence, markup=False, highlight=False)
        else:
            say(sentence)


def _carry_out(request: Asked, effort: Effort, *, on: str, address: str | None, quiet: bool) -> Summary:
    """Do what is left of a sweep. What is not there is found out before anything is written."""
    from svrl.runs.local import Room

    sweep, store = request.sweep, request.store
    request.check_environments()
    against = request.what_stands_against()
    if on == "local":
        Room.of(sweep.resources, effort.jobs, {spec.device for spec in to_be_done(store, request.specs)})
        if against:
            raise BadInputError(f"{' '.join(against)} Or leave them out by --where. Nothing was begun.")
    for sentence in against:  # nodes may have what this machine has not
        say(f"Note: {sentence} On a cluster its nodes need it, and this machine does not.")
    earlier = store.sweep(sweep.name) or {"runs": []}
    # Those of other calls too, with other --set and --where: what was done is not to look lost.
    runs = list(dict.fromkeys([*earlier["runs"], *(spec.id for spec in request.specs)]))
    store.keep_sweep(sweep.name, {"name": sweep.name, "runs": runs, "file": sweep.text})
    console = Console(stderr=True)
    shown: AbstractContextManager[Live | None] = nullcontext(None)
    if console.is_terminal and not quiet:
        shown = Live(console=console, auto_refresh=False, transient=True)
    with shown as live:
        seen: list[Overview] = []

        def view() -> Any:
            seen[:] = [_overview(request, *seen)]
            return _view(seen[0], console)

        return run_list.carry_out(
            request.specs,
            store,
            on=on,
            address=address,
            resources=sweep.resources,
            effort=effort,
            listener=cast(Any, Onlooker(view, live)),
        )


def _overview(request: Asked, before: Overview | None = None) -> Overview:
    from svrl.runs.status import look

    return look(request.store, request.specs, name=request.sweep.name, before=before)


def _view(overview: Overview, console: Console) -> Any:
    from svrl.reporting.tables import sweep_view

    return sweep_view(overview.as_json(), width=console.width)


def _print(overview: Overview) -> None:
    console = _console()
    console.print(_view(overview, console))
    for note in overview.notes:
        say(note)


def _console() -> Console:
    """Of a width in which no number is cut where there is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, WIDE))


def _conclude(request: Asked, found: Summary, again: str, retry: str, as_json: bool) -> None:
    """Say how a sweep stands, and end with the code that fits."""
    overview = _overview(request)
    if as_json:
        print_json(overview.as_json())
    else:
        _print(overview)
    if found.broken:
        say(f"Error: {found.broken} Nothing that was written is lost. When that is repaired, resume with: {again}")
        raise typer.Exit(BAD_INPUT)
    if found.stopped is not None:
        say(f"Stopped; what was done is in {request.store.address}. Resume with: {again}")
        raise typer.Exit(128 + found.stopped)
    if found.out_of_time:
        say(f"The hours are over; what was done is in {request.store.address}. Resume with: {again}")
    if found.count("failed"):
        say(f"{found.count('failed')} of {len(found.states)} runs failed. When that is repaired: {retry}")
    if found.count("done") < len(found.states):
        raise typer.Exit(1)


@app.command("status")
def status(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="A sweep (default: list all that the store has).", autocompletion=shipped_names
        ),
    ] = None,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """How the runs of a sweep stand: done, running, failed, their scores, and when all will be done."""
    with answering(), sentences():
        if file is None:
            listed = _sweeps_in(store)
            print_json(listed) if as_json else _print_sweeps(listed, store)
            return
        overview = _overview(Asked.of(file, store, changes, where))
    if not Path(store).exists():
        say(f"Note: there is no store at {store} yet.")
    if as_json:
        print_json(overview.as_json())
    else:
        _print(overview)


def _sweeps_in(address: str) -> list[dict[str, Any]]:
    """The sweeps of a store, with how their runs stand."""
    from svrl.runs.store import STATES, open_store

    store, found = open_store(address), []
    for name in store.sweeps():
        states = [store.state(run) for run in (store.sweep(name) or {}).get("runs", ())]
        counts: dict[str, Any] = {state: states.count(state) for state in STATES}
        found.append({"name": name, "runs": len(states), **counts})
    return found


def _print_sweeps(listed: list[dict[str, Any]], address: str) -> None:
    if not listed:
        say(f"{address} has no sweep yet. Begin one with: svrl sweep run FILE")
        return
    table = Table(box=None, pad_edge=False)
    for name in listed[0]:
        table.add_column(name, justify="left" if name == "name" else "right")
    for row in listed:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


@app.command("watch")
def watch(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.2, help="Between two looks.")] = 2.0,
) -> None:
    """Follow a sweep that runs, here or elsewhere, until all its runs have ended or Ctrl-C.

    It only reads the store, so you can start and leave it at any time. Where stdout is no terminal it prints once.
    """
    with answering("No longer watched; the sweep goes on."), sentences():
        request = Asked.of(file, store, changes, where)
        overview, console = _overview(request), Console()
        if not console.is_terminal:
            _print(overview)
            return
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(_view(overview, console), refresh=True)
                if overview.is_over:
                    return
                time.sleep(every)
                overview = _overview(request, overview)


@app.command("retry")
def retry(
    file: File,
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    failed: Annotated[bool, typer.Option("--failed", help="All runs that failed.")] = False,
    as_json: Json = False,
) -> None:
    """Let runs that failed be worked on again by the next svrl sweep run, from their last checkpoints."""
    with answering(), sentences():
        if not failed:
            raise BadInputError("Say which runs to try again: --failed, and perhaps some of them by --where.")
        request, labels = Asked.of(file, store, changes, where), []
        for spec in request.specs:
            if request.store.state(spec.id) == "failed":
                request.store.retry(spec.id)
                labels.append(spec.label)
    if as_json:
        print_json({"retried": labels})
        return
    for label in labels:
        typer.echo(label)
    again = shlex.join(["svrl", "sweep", "run", file, *_options(store, changes, where)])
    say(f"{len(labels)} runs will be tried again by: {again}" if labels else "No run has failed.")


@app.command("export")
def export(
    file: File,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The table to write, .csv, .json or .parquet.")],
    store: Kept = STORE,
    changes: Changes = None,
    where: Where = None,
    rows: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(ROWS)}.", autocompletion=lambda: list(ROWS))
    ] = "results",
    as_json: Json = False,
) -> None:
    """All rows of a sweep as one tidy table: a line a finished run, or a line a game, a log row, an evaluation."""
    from svrl.cli.answers import check_folder
    from svrl.runs.export import export as write

    with answering(), sentences():
        if rows not in ROWS:
            raise nearest("table", rows, ROWS)
        check_folder("--out", out)
        request = Asked.of(file, store, changes, where)
        done = write(request.store, request.specs, out, rows=cast(Any, rows))
    if as_json:
        told = {"out": str(out), "table": rows, "rows": done.rows, "runs": done.runs, "columns": done.columns}
        print_json({**told, "left_out": done.left_out})
    else:
        typer.echo(f"written: {out} ({done.rows:,} rows of {done.runs} runs)")
    for note in request.store.notes_on_versions(spec.id for spec in request.specs):
        say(note)
    if done.left_out:
        say(_left_out(done.left_out, len(request.specs), rows))


def _left_out(states: Mapping[State, int], of: int, rows: str) -> str:
    """How many runs a table has nothing of, and why."""
    failed, done = states.get("failed", 0), states.get("done", 0)
    unfinished = sum(states.values()) - failed - done
    told = [(failed, "failed"), (unfinished, "unfinished"), (done, f"done without {rows}")]
    reasons = ", ".join(f"{count:,} {why}" for count, why in told if count)
    return f"Note: {sum(states.values()):,} of {of:,} runs are left out: {reasons}."


def _options(store: str, changes: list[str] | None, where: list[str] | None) -> list[str]:
    words: list[Any] = [] if store == STORE else ["--store", store]
    for flag, given in (("--set", changes), ("--where", where)):
        words += [word for text in given or [] for word in (flag, text)]
    return words
