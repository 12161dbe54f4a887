"""svrl bench: us and the peers, measured in the same run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from svrl.cli.answers import BadInputError, answering, print_json, progress_line
from svrl.cli.plan_request import check_device

if TYPE_CHECKING:
    from svrl.benchmarks.rows import Row

DEVICE_HELP = "cpu, or a card: cuda or cuda:N. On a card other things are measured, see the text above."

app = typer.Typer(help="Measure us and the peers in the same run; the ratio is what counts.", no_args_is_help=True)


@app.command("matrix")
def matrix(
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes: about a minute instead of about five.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the problems.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list on stdout and nothing else.")] = False,
) -> None:
    """Matrix estimation against fancyimpute: small matrices, a large one, a very large one."""
    command = "svrl bench matrix" + (" --quick" if quick else "") + (f" --seed {seed}" if seed else "")
    _report(_matrix(quick, seed), command, as_json)


@app.command("planning")
def planning(
    quick: Annotated[bool, typer.Option("--quick", help="400 states x 100 actions instead of 2500 x 1000.")] = False,
    device: Annotated[str, typer.Option("--device", help=DEVICE_HELP)] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list on stdout and nothing else.")] = False,
) -> None:
    """Sweeps and exact solutions against QuantEcon, mdpsolver and a sparse product, on one thread.

    On a card: sweeps and iterations there against all cores of the CPU, 10,000 states x 4000 actions.
    """
    _report(_planning(quick, device), _command("planning", quick, device), as_json)


@app.command("update")
def update(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats.")] = False,
    device: Annotated[str, typer.Option("--device", help=DEVICE_HELP)] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list on stdout and nothing else.")] = False,
) -> None:
    """What structure costs in an update, against the authors' estimator; drawing batches, against Stable-Baselines3.

    On a card: structure's share of updates in bursts, their floors, the authors' way, and the estimator alone.
    """
    _report(_update(quick, device), _command("update", quick, device), as_json)


@app.command("train")
def train(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer environments and seconds: shows that it runs.")] = False,
    device: Annotated[str, typer.Option("--device", help="A card, cuda or cuda:N; with --quick cpu too.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list on stdout and nothing else.")] = False,
) -> None:
    """Whole training loops on a card, against the emulator alone at the same games and against the authors' way."""
    _report(_train(quick, device), _command("train", quick, device), as_json)


@app.command("env")
def env(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list on stdout and nothing else.")] = False,
) -> None:
    """Whole training loops against Stable-Baselines3's DQN, with the same settings, on one thread."""
    _report(_env(quick), "svrl bench env" + (" --quick" if quick else ""), as_json)


@app.command("integrations")
def integrations(
    only: Annotated[
        list[str] | None,
        typer.Argument(help="sb3, sb3-contrib, cleanrl, tianshou, torchrl, rllib; all installed ones."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few updates: shows that it runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list on stdout and nothing else.")] = False,
) -> None:
    """What structure costs in an update of other libraries, against their own update, on one thread."""
    named = "".join(f" {name}" for name in only or ())
    _report(_integrations(quick, only or []), _command("integrations" + named, quick, "cpu"), as_json)


@app.command("sweep")
def sweep(
    quick: Annotated[bool, typer.Option("--quick", help="A few runs: shows that it works.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list on stdout and nothing else.")] = False,
) -> None:
    """What svrl sweep costs beside its runs: 200 trivial ones, against bare loops of processes."""
    _report(_sweep(quick), _command("sweep", quick, "cpu"), as_json)


def _command(name: str, quick: bool, device: str) -> str:
    return f"svrl bench {name}" + (" --quick" if quick else "") + (f" --device {device}" if device != "cpu" else "")


def _report(measurements: Iterator[Row], command: str, as_json: bool) -> None:
    with answering("Stopped before all was measured."):
        rows = _collect(measurements)
    if as_json:
        print_json([row.as_json(command) for row in rows])
    else:
        _print_table(rows, command)


def _collect(measurements: Iterator[Row]) -> list[Row]:
    from svrl.benchmarks.peers import MissingPeerError

    rows: list[Row] = []
    with progress_line() as progress:
        task = progress.add_task("preparing")
        try:
            for row in measurements:
                rows.append(row)
                progress.update(task, description=f"{len(rows)} done, last: {row.name}")
        except MissingPeerError as error:
            raise BadInputError(str(error)) from error
    return rows


def _planning(quick: bool, device: str) -> Iterator[Row]:
    if check_device(device).type == "cpu":
        from svrl.benchmarks.planning import measure_planning

        yield from measure_planning(quick)
    else:
        from svrl.benchmarks.planning_device import measure_planning_device

        yield from measure_planning_device(quick, device)


def _update(quick: bool, device: str) -> Iterator[Row]:
    if check_device(device).type == "cpu":
        from svrl.benchmarks.replay import measure_replay
        from svrl.benchmarks.update import measure_update

        yield from measure_update(quick)
        yield from measure_replay(quick)
    else:
        from svrl.benchmarks.update_device import measure_update_device

        yield from measure_update_device(quick, device)


def _train(quick: bool, device: str) -> Iterator[Row]:
    if check_device(device).type == "cpu" and not quick:
        raise BadInputError(
            "svrl bench train is about cards, and its full size is too much for the CPU; got --device cpu. "
            "Use --device cuda where there is a card, or --quick to see that it runs."
        )
    from svrl.benchmarks.train_device import measure_train_device

    yield from measure_train_device(quick, device)


def _integrations(quick: bool, only: list[str]) -> Iterator[Row]:
    from svrl.benchmarks.integrations import measure_integrations

    try:
        yield from measure_integrations(quick, only)
    except ValueError as error:
        raise BadInputError(str(error)) from error


def _sweep(quick: bool) -> Iterator[Row]:
    from svrl.benchmarks.sweep import measure_sweep

    yield from measure_sweep(quick)


def _env(quick: bool) -> Iterator[Row]:
    from svrl.benchmarks.loop import measure_loop

    yield from measure_loop(quick)


def _matrix(quick: bool, seed: int) -> Iterator[Row]:
    from svrl.benchmarks.matrix_large import measure_large
    from svrl.benchmarks.matrix_memory import measure_memory
    from svrl.benchmarks.matrix_small import measure_small

    yield from measure_small(50, seed)
    yield from measure_large(*((600, 300) if quick else (2500, 1000)), seed)
    yield from measure_memory(*((2500, 1000) if quick else (10_000, 4_000)), seed)


def _print_table(rows: list[Row], command: str) -> None:
    from svrl.benchmarks.rows import machine

    table = Table(title=command, title_justify="left", caption=machine(), caption_justify="left")
    for name, justify in (("what", "left"), ("unit", "left"), ("ours", "right"), ("peer", "right"), ("ratio", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(row.name, row.unit, f"{row.ours:.4g}", f"{row.peer:.4g} {row.peer_name}", f"{row.ratio:.1f}")
    Console().print(table)
