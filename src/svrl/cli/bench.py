"""svrl bench: the benchmarks are in the repository and no part of the package."""

from __future__ import annotations

import typer

ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}


def bench(context: typer.Context) -> None:
    """Say how to measure svrl and its peers: the benchmarks need a checkout."""
    what = " ".join(context.args) or "matrix"
    raise ValueError(
        f"The benchmarks are no part of the installed package; run python -m benchmarks {what} in a checkout "
        "of the repository, after pip install -e '.[bench]' there."
    )
