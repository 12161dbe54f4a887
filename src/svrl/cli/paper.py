"""svrl paper: the paper's figures and tables, its claims, and one page with all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from svrl.cli import run_list
from svrl.cli.answers import Program, answer, say, show_table, tell
from svrl.cli.flags import Device, Json, again, one_of
from svrl.cli.progress import Bars
from svrl.cli.run_list import STORE, Address, Jobs, Kept, On, Where

if TYPE_CHECKING:
    from svrl.paper.catalogue import PaperFigure
    from svrl.paper.judging import Library
    from svrl.runs.spec import RunSpec
    from svrl.runs.store import Reader, Store

SCALES = ("smoke", "laptop", "screen", "short", "full")
PICTURES = ("svg", "pdf", "png")
FIGURES, REPORT = Path("figures"), Path("report")
TOGETHER = 4
"""Trainings that share a GPU by default."""
_LOOK = {
    "reproduced": "green",
    "reproduced under another definition": "yellow",
    "not reproduced": "red",
    "supported so far": "green",
    "contradicted so far": "red",
    "undecided so far": "yellow",
    "not run at this scale": "dim",
}
"""Colours of verdicts."""


def _names() -> list[str]:
    """For completion."""
    from svrl.paper.catalogue import FIGURES, experiment_names

    return [figure.id for figure in FIGURES] + experiment_names()


Scale = Annotated[
    str,
    typer.Option(
        "--scale",
        metavar="SCALE",
        help="smoke (a minute or two), laptop (about an hour on 2 cores), screen (200,000 steps of each Atari game, "
        "for a GPU), short (MinAtar and control tasks, and a million steps of each Atari game) or full (the paper's "
        "budgets).",
        **one_of("scale", SCALES),
    ),
]
Figures = Annotated[
    list[str] | None,
    typer.Argument(metavar="FIG...", autocompletion=_names, help="fig1, table1, an experiment, or all."),
]
Out = Annotated[Path, typer.Option(help="Folder to write to.")]
Together = Annotated[
    int, typer.Option(metavar="N", min=1, max=64, help="Trainings at a time in one process, on a GPU that they share.")
]

app = typer.Typer(cls=Program, help="The paper's figures and claims, reproduced.", invoke_without_command=True)


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
        _refuse_misplaced(context)
        return
    asked = _asked(scale, store, out)
    asked.compute(context, _chosen([]), device=device, jobs=jobs)
    tell(f"The page: {asked.page(out)}")


@app.command("list")
def list_figures(scale: Scale = "smoke", store: Kept = STORE, as_json: Json = False) -> None:
    """Every figure and table, the experiment that makes it, what it costs, and what is kept of it."""
    answer(_asked(scale, store).listed(), as_json, lambda rows: _print_figures(rows, scale))


@app.command("run")
def run(
    context: typer.Context,
    figures: Figures = None,
    scale: Scale = "smoke",
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="svg, pdf or png.", **one_of("format", PICTURES))
    ] = "svg",
    out: Out = FIGURES,
    store: Kept = STORE,
    device: Device = "cpu",
    on: On = "local",
    address: Address = None,
    jobs: Jobs = None,
    together: Together = TOGETHER,
    where: Where = None,
    as_json: Json = False,
) -> None:
    """Run what figures need, draw them, and say what became of their claims.

    What is kept is not computed again, and trainings that a sweep has done are found in the same store. Ctrl-C loses
    at most what is being computed, and the same command resumes.
    """
    on = "ray" if address else on
    wanted, asked = _chosen(figures or []), _asked(scale, store, out)
    lacking = asked.compute(
        context, wanted, device=device, on=on, address=address, jobs=jobs, together=together, where=where
    )
    written = asked.draw(wanted, out, form)
    if lacking and not written:
        raise ValueError(lacking[0])
    claims = [found.as_json() for found in asked.library().judge(scale, [figure.id for figure in wanted])]
    found = {"scale": scale, "figures": {name: str(path) for name, path in written.items()}, "claims": claims}
    answer(found, as_json, _print_run)


@app.command("check")
def check(figures: Figures = None, scale: Scale = "smoke", store: Kept = STORE, as_json: Json = False) -> None:
    """The claims of all figures, or of some, with our value and a verdict; nothing is computed.

    A claim is judged at the scale that is asked for, or, if that cannot judge or settle it, from the largest budget
    that is kept, here or with svrl.
    """
    library = _asked(scale, store).library()
    rows = [found.as_json() for found in library.judge(scale, [figure.id for figure in _chosen(figures or [])])]
    answer(rows, as_json, lambda rows: _print_claims(rows, scale))


@app.command("report")
def report(scale: Scale = "smoke", out: Out = REPORT, store: Kept = STORE) -> None:
    """One HTML page with every figure and claim, from what is kept; nothing is computed."""
    tell(f"written: {_asked(scale, store, out).page(out)}")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One scale of the paper, and where its runs are kept.

    Attributes:
        scale: smoke, laptop, short or full.
        store: The user's own runs.
    """

    scale: str
    store: Store

    @property
    def stores(self) -> tuple[Reader, ...]:
        """The user's own runs, then those that ship with svrl."""
        from svrl.paper.table import committed_table

        return (self.store, committed_table())

    @property
    def counting(self) -> tuple[Reader, ...]:
        """Where a run that is kept need not be computed: what takes hours is read, what a laptop can do is done."""
        return self.stores if self.scale in ("screen", "short", "full") else self.stores[:1]

    def library(self) -> Library:
        """All experiments and what is kept of them, with a note if another svrl computed some of it."""
        from svrl.paper.catalogue import load_all
        from svrl.paper.judging import Library

        for note in self.store.notes_on_versions(spec["id"] for spec, _ in self.store.kept()):
            say(note)
        return Library(tuple(load_all()), self.stores)

    def listed(self) -> list[dict[str, Any]]:
        """Every figure, what it costs at this scale, what is kept of it, and what ships with svrl."""
        from svrl.paper.catalogue import load_experiment
        from svrl.runs.settings import extra_of

        rows = []
        for figure in _chosen([]):
            experiment = load_experiment(figure.experiment)
            budget = experiment.budget_of(figure.id, self.scale)
            needed = experiment.runs(self.scale, figure.id) if budget else []
            missing, unknown = (
                len(experiment.missing(self.scale, stores, figure.id)) if budget else 0
                for stores in (self.counting, self.stores[1:])
            )
            rows.append(
                {
                    "figure": figure.id,
                    "section": figure.section,
                    "experiment": figure.experiment,
                    "title": figure.title,
                    "scale": self.scale,
                    "minutes": round(sum(spec.minutes_in_all for spec in needed) / 2, 2),
                    "cells": len(needed),
                    "kept": len(needed) - missing,
                    "shipped": len(needed) - unknown,
                    "needs": sorted({extra for spec in needed if (extra := extra_of(spec))}),
                }
            )
        return rows

    def missing(self, figures: Sequence[PaperFigure], where: list[str] | None) -> list[RunSpec]:
        """Runs that figures need at this scale and that have to be done, of those that --where asks for."""
        from svrl.paper.catalogue import load_experiment

        every: dict[str, RunSpec] = {}
        left: dict[str, RunSpec] = {}
        for figure in figures:
            experiment = load_experiment(figure.experiment)
            if experiment.budget_of(figure.id, self.scale):
                every |= {spec.id: spec for spec in experiment.runs(self.scale, figure.id)}
                left |= {spec.id: spec for spec in experiment.missing(self.scale, self.counting, figure.id)}
        if where and every:
            fitting = run_list.only(f"At {self.scale} scale these figures have", list(every.values()), where)
            return [spec for spec in fitting if spec.id in left]
        return list(left.values())

    def compute(
        self,
        context: typer.Context,
        figures: Sequence[PaperFigure],
        *,
        device: str,
        on: str = "local",
        address: str | None = None,
        jobs: int | None = None,
        together: int = TOGETHER,
        where: list[str] | None = None,
    ) -> list[str]:
        """Do the runs that figures need and that are missing; the options are those of `svrl paper run`.

        At smoke scale this process does them alone, unless `jobs` or a GPU is given.

        Returns:
            Sentences on what cannot be computed here, for want of a package.
        """
        from svrl.runs.spec import Effort
        from svrl.runtime.names import duration

        wanted = self.missing(figures, where)
        lacking = run_list.what_stands_against(wanted) if on == "local" else {}
        for sentence in lacking:
            say(f"Note: {sentence}")
        without = {spec.id for runs in lacking.values() for spec in runs}
        specs = _in_order([spec for spec in wanted if spec.id not in without], device)
        if not specs:
            return list(lacking)
        self.store.root.mkdir(parents=True, exist_ok=True)
        for spec in specs:
            if self.store.folder(spec.id).exists() and self.store.state(spec.id) == "failed":
                self.store.retry(spec.id)
        cost = duration(60 * sum(spec.minutes for spec in specs))
        say(f"{self.scale} scale: {len(specs)} runs, about {cost} of a core.")
        # What asked for a run belongs to its provenance, and where its results are kept does not.
        command = again(context, but=("form", "out", "store", "on", "address", "as_json"), scale=self.scale)
        resume = again(context)
        found = run_list.carry_out(
            specs,
            self.store,
            again=resume,
            on=on,
            address=address,
            effort=Effort(jobs=jobs, gpus=1.0 / together, command=command),
            here=self.scale == "smoke" and jobs is None and device == "cpu",
        )
        run_list.refuse_to_continue(found, self.store, resume)
        if found.failures:
            labels = {spec.id: spec.label for spec in specs}
            told = " ".join(f"{labels[run]} failed: {reason}" for run, reason in found.failures.items())
            raise ValueError(f"{told} What was done is kept; logs are in {self.store.root}/runs.")
        return list(lacking)

    def draw(self, figures: Sequence[PaperFigure], folder: Path, ending: str) -> dict[str, Path]:
        """Write the figures whose runs are all kept; where each is."""
        from svrl.paper.catalogue import load_experiment
        from svrl.paper.page import write_figure

        written = {}
        for figure in figures:
            experiment = load_experiment(figure.experiment)
            if experiment.budget_of(figure.id, self.scale) is None:
                say(f"{figure.id} is not drawn at {self.scale} scale.")
                continue
            evidence = experiment.evidence(self.scale, self.stores, figure.id)
            if evidence is not None:
                picture = experiment.draw(figure.id, evidence)
                written[figure.id] = write_figure(picture, figure, evidence, folder, ending)
        return written

    def page(self, folder: Path) -> Path:
        """Write the page from what is kept; where it is."""
        from svrl.paper.page import render_page
        from svrl.runtime.files import writing

        with Bars() as bars:
            update = bars.stage("drawing")
            text = render_page(self.library(), self.scale, lambda name: update(0, name))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "index.html"
        with writing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return path


def _in_order(specs: Iterable[RunSpec], device: str) -> list[RunSpec]:
    """Runs on a device with those that they come after, the longest first."""
    from svrl.runs.spec import with_forerunners

    longest = with_forerunners(sorted(specs, key=lambda spec: -spec.minutes_in_all))
    # The study of a training stays on the CPU: on a GPU it would keep the next trainings waiting.
    return [replace(spec, device="cpu" if spec.after else device) for spec in longest]


def _refuse_misplaced(context: typer.Context) -> None:
    """Options belong behind the subcommand; before it they would be passed over in silence."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            command = context.invoked_subcommand
            raise ValueError(f"--{name} stands before {command}. Put it behind: svrl paper {command} --{name} ...")


def _asked(scale: str, store: str, out: Path | None = None) -> Asked:
    """One scale and its store; a folder to write to is made before any work."""
    from svrl.runs.store import open_store

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    return Asked(scale=scale, store=open_store(store))


def _chosen(names: list[str]) -> list[PaperFigure]:
    from svrl.paper.catalogue import chosen

    return chosen(names)


def _print_figures(rows: Iterable[Mapping[str, Any]], scale: str) -> None:
    """Every figure, the experiment that makes it, what it costs and whether it is there."""
    from svrl.runtime.names import duration

    def cells(row: Mapping[str, Any]) -> Sequence[str]:
        nothing = "a diagram" if row["experiment"] == "diagrams" else "not at this scale"
        kept = f"{row['kept']} of {row['cells']}" if row["cells"] else nothing
        cost = duration(60 * row["minutes"]) if row["cells"] else "-"
        whose = (row["figure"], row["section"] or "ours", row["experiment"], row["title"])
        return *whose, cost, kept, str(row["shipped"] or ""), ", ".join(row["needs"])

    names = ("name", "section", "experiment", "what", "about", "kept", "shipped", "needs")
    show_table(names, map(cells, rows), folded=("what",), title=f"The paper at {scale} scale")


def _print_run(found: Mapping[str, Any]) -> None:
    _print_claims(found["claims"], found["scale"])
    tell(*(f"written: {path}" for path in found["figures"].values()))


def _print_claims(rows: Sequence[Mapping[str, Any]], scale: str) -> None:
    """Every claim with the paper's value, ours and the verdict, and how often each verdict was given.

    Args:
        rows: The claims.
        scale: That was asked for; where a claim was judged from another one, this is said.
    """

    def cells(row: Mapping[str, Any]) -> Sequence[str | Text]:
        judged = "" if row["verdict"].startswith("not run") else f"{row['scale']}, {row['source']}"
        judged = "from what it prints" if row["source"] == "the paper" else judged
        verdict = Text(row["verdict"], _LOOK[row["verdict"]])
        return row["figure"], row["claim"], row["paper"], row["ours"], verdict, judged

    names = ("figure", "claim", "paper", "ours (95% interval)", "verdict", "scale")
    show_table(names, map(cells, rows), folded=names)
    for whose, some in (
        ("of the paper", [row for row in rows if not row["addition"]]),
        ("of our additions", [row for row in rows if row["addition"]]),
    ):
        counts = Counter(row["verdict"] for row in some)
        words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _LOOK if counts[verdict])
        if some:
            tell(f"{len(some)} claim{'s' * (len(some) != 1)} {whose}: {words}.")
    if not rows:
        tell("No claims.")
    elsewhere = sorted({row["scale"] for row in rows if row["ours"]} - {scale})
    if elsewhere:
        others = " and ".join(elsewhere)
        tell(f"Claims that {scale} scale cannot judge or settle were judged from {others} scale.")
