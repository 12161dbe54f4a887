"""svrl paper: the paper's figures and tables, its claims, and one page with all of them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from svrl.cli.answers import BadInputError, answering, check_device, nearest, print_json, sentences

if TYPE_CHECKING:
    from svrl.cli.paper_work import PaperWork
    from svrl.paper.catalogue import PaperFigure

SCALES = ("smoke", "laptop", "short", "full")
PICTURES, PAGES = ("svg", "pdf", "png"), ("html", "md")
STORE, FIGURES, REPORT = Path("runs/paper"), Path("figures"), Path("report")
STOPPED = "Stopped; what was done is kept, and the same command goes on from there."


def _names() -> list[str]:
    """For completion."""
    from svrl.paper.catalogue import FIGURES, experiment_names

    return [figure.id for figure in FIGURES] + experiment_names()


Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        metavar="SCALE",
        autocompletion=lambda: list(SCALES),
        help="smoke (a minute or two), laptop (about an hour on 2 cores), short (MinAtar and control tasks, and a "
        "million steps of each Atari game, for a card) or full (the paper's budgets).",
    ),
]
Figures = Annotated[
    list[str] | None,
    typer.Argument(metavar="FIG...", autocompletion=_names, help="fig1, table1, an experiment, or all."),
]
Kept = Annotated[Path, typer.Option("--store", help="Folder where what was computed is kept and found again.")]
Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, max=512, help="Processes at a time; by default one at smoke scale, else one a core."),
]
Together = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=64,
        help="Trainings at a time in one process; by default 4 on a card, which they share, and 1 on the CPU.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="NAME=VALUE",
        help="Compute only cells with such a setting, of their own or of their agent, as in env=atari/frostbite, "
        "seed=0,1 or batch_size=128; several must all fit.",
    ),
]

app = typer.Typer(help="The paper's figures and claims, reproduced.", invoke_without_command=True)


@app.callback()
def paper(
    context: typer.Context,
    scale: Scale = "smoke",
    store: Kept = STORE,
    out: Out = REPORT,
    device: Device = "cpu",
    jobs: Jobs = None,
) -> None:
    """The paper's figures and claims, reproduced.

    Without a subcommand everything is run at the scale that is asked for, and the page is written.
    """
    if context.invoked_subcommand is not None:
        with answering():
            _refuse_misplaced(context)
        return
    with answering(STOPPED), sentences():
        work = _opened(scale, store, device, out)
        work.compute(_chosen([]), device=device, jobs=jobs, command=f"svrl paper --scale {scale}")
        path = work.page(out, "html")
    typer.echo(f"The page: {path}")


@app.command("list")
def list_figures(scale: Scale = "smoke", store: Kept = STORE, as_json: Json = False) -> None:
    """Every figure and table, the experiment that makes it, what it costs, and what is kept of it."""
    with answering(), sentences():
        rows = _opened(scale, store).listed()
    if as_json:
        print_json(rows)
        return
    from svrl.cli.paper_tables import print_figures

    print_figures(rows, scale)


@app.command("run")
def run(
    figures: Figures = None,
    scale: Scale = "smoke",
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", autocompletion=lambda: list(PICTURES), help="svg, pdf or png.")
    ] = "svg",
    out: Out = FIGURES,
    store: Kept = STORE,
    device: Device = "cpu",
    jobs: Jobs = None,
    together: Together = None,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Run what figures need, draw them, and say what became of their claims.

    What is kept is not computed again. Ctrl-C loses at most what is being computed, and the same command goes on.
    """
    with answering(STOPPED), sentences():
        _one_of("format", form, PICTURES)
        wanted = _chosen(figures or [])
        work = _opened(scale, store, device, out)
        command = f"svrl paper run {shlex.join(figures or ['all'])} --scale {scale}"
        command += "".join(f" --where {shlex.quote(text)}" for text in where or [])
        lacking = work.compute(
            wanted, device=device, jobs=jobs, together=together, command=command, only=_wanted(where or [])
        )
        written = work.draw(wanted, out, form)
        if lacking and not written:
            raise BadInputError(lacking[0])
        claims = [found.as_json() for found in work.library().judge(scale, [figure.id for figure in wanted])]
    if as_json:
        print_json({"scale": scale, "figures": {name: str(path) for name, path in written.items()}, "claims": claims})
        return
    from svrl.cli.paper_tables import print_claims

    print_claims(claims, scale)
    for path in written.values():
        typer.echo(f"written: {path}")


@app.command("check")
def check(figures: Figures = None, scale: Scale = "smoke", store: Kept = STORE, as_json: Json = False) -> None:
    """The claims of all figures, or of some, with our value and a verdict; nothing is computed.

    A claim is judged at the scale that is asked for, or, if that cannot judge or settle it, from the largest budget
    that is kept, here or with svrl.
    """
    with answering(), sentences():
        wanted = _chosen(figures or [])
        work = _opened(scale, store)
        from svrl.cli.paper_work import tell_of_outdated

        library = work.library()
        tell_of_outdated(library)
        rows = [found.as_json() for found in library.judge(scale, [figure.id for figure in wanted])]
    if as_json:
        print_json(rows)
        return
    from svrl.cli.paper_tables import print_claims

    print_claims(rows, scale)


@app.command("report")
def report(
    scale: Scale = "smoke",
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", autocompletion=lambda: list(PAGES), help="html or md.")
    ] = "html",
    out: Out = REPORT,
    store: Kept = STORE,
) -> None:
    """One page with every figure and claim, from what is kept; nothing is computed."""
    with answering(), sentences():
        if form == "pdf":
            raise BadInputError(
                "The browser makes the PDF: write the page with --format html, open it and print it to a file."
            )
        _one_of("format", form, PAGES)
        path = _opened(scale, store, None, out).page(out, form)
    typer.echo(f"written: {path}")


def _refuse_misplaced(context: typer.Context) -> None:
    """Options belong behind the subcommand; before it they would be passed over in silence."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            command = context.invoked_subcommand
            raise BadInputError(f"--{name} stands before {command}. Put it behind: svrl paper {command} --{name} ...")


def _opened(scale: str, store: Path, device: str | None = None, out: Path | None = None) -> PaperWork:
    """Check what was asked for before any work; heavy imports come after the cheap checks."""
    _one_of("scale", scale, SCALES)
    if device is not None:
        check_device(device)
    from svrl.cli.paper_work import PaperWork, refuse_unwritable

    if out is not None:
        refuse_unwritable(out)
    return PaperWork(scale=scale, store=store)


def _one_of(what: str, got: str, known: tuple[str, ...]) -> None:
    if got not in known:
        raise nearest(what, got, known)


def _wanted(where: list[str]) -> dict[str, tuple[str, ...]]:
    """Settings and the values that they may have, from NAME=VALUE[,VALUE]."""
    found: dict[str, tuple[str, ...]] = {}
    for text in where:
        name, equals, values = text.partition("=")
        if not name or not equals or not values:
            raise BadInputError(f"--where takes NAME=VALUE, as in env=atari/frostbite or seed=0,1; got {text!r}.")
        found[name] = (*found.get(name, ()), *values.split(","))
    return found


def _chosen(names: list[str]) -> list[PaperFigure]:
    from svrl.paper.catalogue import chosen

    return chosen(names)
