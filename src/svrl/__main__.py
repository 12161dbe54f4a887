"""The svrl program, also as python -m svrl."""

from __future__ import annotations

import sys


def run() -> None:
    """Entry point. Ctrl-C while the command line is still being loaded ends as quietly as later."""
    try:
        from svrl.cli.main import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
