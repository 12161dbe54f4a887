"""The svrl program, also as python -m svrl."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def run() -> None:
    """Entry point. Ctrl-C while the command line is still being loaded ends as quietly as later.

    What cannot be printed, as on a full disk, ends with a sentence and the code of bad input.
    """
    try:
        from svrl.cli.main import app

        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        with suppress(OSError):
            sys.stderr.write(f"Error: {error.filename or 'What was to be printed'}: {error.strerror or error}.\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left would fail again when Python ends
        sys.exit(2)


if __name__ == "__main__":
    run()
