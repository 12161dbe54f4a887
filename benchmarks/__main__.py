"""`python -m benchmarks NAME ...`: a table for people, and with --json a file for machines."""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.rows import Missing, Row, document, measured
from svrl.runtime.device import check_device

BENCHMARKS = {
    "matrix": "matrix estimation against fancyimpute and scikit-learn; on a GPU against the CPU",
    "planning": "sweeps and exact solutions against QuantEcon and mdpsolver; on a GPU against the CPU",
    "update": "one update against other libraries, and what structure costs in it",
    "train": "whole training loops against Stable-Baselines3's DQN; on a GPU against the emulator alone",
    "integrations": "what structure adds to an update of each library that is installed",
}
BAD_INPUT, INTERRUPTED = 2, 130


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure svrl and its peers in the same run. A ratio above 1 means that svrl is better.",
        epilog="\n".join(f"{name:14}{what}" for name, what in BENCHMARKS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("names", nargs="+", choices=BENCHMARKS, metavar="NAME", help=", ".join(BENCHMARKS))
    made.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    made.add_argument(
        "--device", default="cpu", help="cpu, or a GPU: cuda or cuda:N, for matrix, planning, update, train"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write rows, machine, versions, command and commit")
    return made


def main(words: list[str] | None = None) -> int:
    """Measure, print a table, and return the exit code."""
    asked = parser().parse_args(words)
    command = shlex.join(["python", "-m", "benchmarks", *(sys.argv[1:] if words is None else words)])
    try:
        check_device(asked.device)
        device = torch.device(asked.device)
        if asked.json is not None and not asked.json.parent.is_dir():
            raise ValueError(f"--json {asked.json}: the folder {asked.json.parent} does not exist. Make it first.")
        rows = [row for name in asked.names for row in printed(name, asked.quick, device)]
    except ValueError as error:
        return failed(f"Error: {error}", BAD_INPUT)
    except KeyboardInterrupt:
        return failed("Stopped before all was measured; nothing was written.", INTERRUPTED)
    found = document(rows, command)
    print_table(rows, command, str(found["machine"]))
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
    return 0 if any(isinstance(row, Row) for row in rows) else BAD_INPUT


def printed(name: str, quick: bool, device: torch.device) -> Iterator[Row | Missing]:
    """All rows of one benchmark; each is printed on stderr as soon as it is measured."""
    for row in measured(importlib.import_module(f"benchmarks.{name}").parts(quick, device)):
        what = row.install if isinstance(row, Missing) else f"against {row.peer_name}: {row.ratio:.2f}"
        print(f"{name}: {row.name}, {what}", file=sys.stderr)
        yield row


def print_table(rows: list[Row | Missing], command: str, machine: str) -> None:
    """For people."""
    table = Table("what", "unit", title=command, title_justify="left", caption=machine, caption_justify="left")
    for name in ("ours", "peer", "ratio"):
        table.add_column(name, justify="right")
    for row in rows:
        if isinstance(row, Row):
            table.add_row(row.name, row.unit, f"{row.ours:.4g}", f"{row.peer:.4g} {row.peer_name}", f"{row.ratio:.2f}")
    Console().print(table)
    for row in rows:
        if isinstance(row, Missing):
            print(f"Not measured: {row.name}. {row.install}")


def failed(sentence: str, code: int) -> int:
    """Say it on stderr."""
    print(sentence, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
