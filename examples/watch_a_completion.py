"""A matrix with 30% of its entries, completed in front of your eyes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from svrl import Bernoulli, FactorALS, Observed, RowMean, SoftImpute, approximate_rank
from svrl.reporting.terminal import heat_map

FOLDER = Path("demo")


def q_like_matrix(states: int = 120, actions: int = 80) -> np.ndarray:
    """A smooth table of values, states x actions: a value of the state plus the advantage of the action."""
    s, a = np.linspace(0, 3, states)[:, None], np.linspace(-1, 1, actions)[None]
    return np.sin(2 * s) + np.cos(s) * (1 - a**2) + 0.8 * np.sin(3 * s) * a**3


def main() -> None:
    console = Console()
    colour = console.color_system is not None
    rng = np.random.default_rng(0)
    truth = q_like_matrix()
    mask = Bernoulli(p=0.3, cover=True).mask(truth.shape, rng).numpy()
    observed = Observed(values=truth, mask=mask)
    holes = np.where(mask, truth, np.nan)
    low, high = truth.min(), truth.max()

    def frame(steps: int) -> Columns:
        guess = (
            SoftImpute(ratio=1e-3, max_steps=steps, solver="small", output="fill")(observed).matrix if steps else holes
        )
        error = np.linalg.norm((guess - truth)[~mask]) / np.linalg.norm(truth[~mask]) if steps else 1.0
        pictures = {
            f"observed {mask.mean():.0%} of {truth.shape[0]} x {truth.shape[1]}": holes,
            f"Soft-Impute, step {steps}: error {error:.1%}": guess,
        }
        return Columns(
            [Panel.fit(heat_map(p, low=low, high=high, colour=colour), title=t) for t, p in pictures.items()]
        )

    console.print("[bold]1. Watch it being completed.[/] " + ("Grey" if colour else "Blank") + " is unknown.")
    with Live(frame(0), console=console, auto_refresh=False) as live:
        for steps in (1, 2, 4, 8, 16, 32, 64):
            time.sleep(0.25 if console.is_terminal else 0)
            live.update(frame(steps), refresh=True)

    rank = approximate_rank(truth, energy=1 - 1e-12)
    console.print(f"\n[bold]2. Which estimator?[/] True rank {rank}; errors on unseen entries.")
    table = Table()
    for title in ("estimator", "rank", "error", "milliseconds"):
        table.add_column(title, justify="left" if title == "estimator" else "right")
    for estimator in (RowMean(), SoftImpute(), FactorALS()):
        estimator(observed)  # the first call compiles
        times = []
        for _ in range(5):
            began = time.perf_counter()
            estimate = estimator(observed)
            times.append(1e3 * (time.perf_counter() - began))
        error = np.linalg.norm((estimate.matrix - truth)[~mask]) / np.linalg.norm(truth[~mask])
        table.add_row(type(estimator).__name__, str(estimate.rank), f"{error:.2%}", f"{min(times):.1f}")
    console.print(table)

    console.print("\n[bold]3. The same from the command line.[/] NaN marks a missing entry.")
    FOLDER.mkdir(exist_ok=True)
    np.save(FOLDER / "holes.npy", holes)
    command = f"svrl complete {FOLDER}/holes.npy --out {FOLDER}/completed.npy --plot {FOLDER}/completion.png"
    console.print(f"$ {command}", style="bold cyan", highlight=False, soft_wrap=True)
    done = subprocess.run([sys.executable, "-m", *command.split()], check=False)
    if done.returncode:
        sys.exit(done.returncode)
    console.print(f"\nLook at [bold]{FOLDER}/completion.png[/]. Next: README.md, or svrl --help.")


if __name__ == "__main__":
    main()
