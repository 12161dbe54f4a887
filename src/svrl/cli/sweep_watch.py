"""svrl sweep watch: the table in the terminal again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live

from svrl.cli.sweep_request import SweepRequest
from svrl.cli.sweep_run import overview_of, print_overview

if TYPE_CHECKING:
    from svrl.sweeps.status import Overview


def show_table(request: SweepRequest, *, every: float) -> None:
    """Until all runs have ended; without a terminal, once."""
    from svrl.reporting.sweep_table import sweep_view

    console = Console()
    overview: Overview = overview_of(request)
    if not console.is_terminal:
        print_overview(overview)
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(sweep_view(overview.as_json(), width=console.width), refresh=True)
            if overview.is_over:
                return
            time.sleep(every)
            overview = overview_of(request, overview)
