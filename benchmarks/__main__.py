"""`python -m benchmarks NAME ...`: a table for people, and with --json a file for machines."""

from __future__ import annotations

import argparse
import importlib
import json
import shlex
import sys
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.rows import Row, version
from svrl.runtime.device import check_device
from svrl.runtime.provenance import provenance

BENCHMARKS = {
    "matrix": "matrix estimation against fancyimpute; on a GPU large matrices against the CPU, too",
    "planning": "sweeps and exact solutions against QuantEcon and mdpsolver; on a GPU against the CPU",
    "update": "what structure costs in an update; on a GPU an update of Stable-Baselines3's DQN, too",
    "train": "whole training loops against Stable-Baselines3's DQN; on a GPU against the emulator alone",
    "integrations": "what structure adds to an update of each library that is installed",
}
PEERS = (
    "fancyimpute", "scikit-learn", "quantecon", "mdpsolver", "stable-baselines3", "sb3-contrib", "tianshou", "torchrl",
    "ray",
)  # fmt: skip
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
    began = time.monotonic()
    rows: list[Row] = []
    missing: dict[str, str] = {}
    try:
        check_device(asked.device)
        if asked.json is not None and not asked.json.parent.is_dir():
            raise ValueError(f"--json {asked.json}: the folder {asked.json.parent} does not exist. Make it first.")
        for name in asked.names:
            measure(name, asked.quick, torch.device(asked.device), rows, missing)
    except ValueError as error:
        print(f"Error: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("Stopped before all was measured; nothing was written.", file=sys.stderr)
        return INTERRUPTED
    told = provenance(device=asked.device, command=command, seconds=time.monotonic() - began)
    print_table(rows, command, told["machine"])
    for part, install in missing.items():
        print(f"Not measured: {part}. {install}")
    if asked.json is not None:
        absent = [{"name": part, "missing": install} for part, install in missing.items()]
        told["peers"] = {name: found for name in PEERS if (found := version(name))}
        told["rows"] = [*(row.as_json() for row in rows), *absent]
        asked.json.write_text(json.dumps(told, indent=1, allow_nan=False) + "\n")
    return 0 if rows else BAD_INPUT


def measure(name: str, quick: bool, device: torch.device, rows: list[Row], missing: dict[str, str]) -> None:
    """Add all rows of one benchmark, and say each on stderr; a part without its peer says what to install."""
    for part, rows_of in importlib.import_module(f"benchmarks.{name}").parts(quick, device).items():
        try:
            for row in rows_of():
                rows.append(row)
                print(f"{name}: {row.name}, against {row.peer_name}: {row.ratio:.2f}", file=sys.stderr)
        except ImportError as error:
            missing[part] = str(error)


def print_table(rows: list[Row], command: str, machine: str) -> None:
    """For people."""
    table = Table("what", "unit", title=command, title_justify="left", caption=machine, caption_justify="left")
    for name in ("ours", "peer", "ratio"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.name, row.unit, f"{row.ours:.4g}", f"{row.peer:.4g} {row.peer_name}", f"{row.ratio:.2f}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
