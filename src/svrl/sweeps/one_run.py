"""The process of one run on a cluster: python -m svrl.sweeps.one_run JOB, where JOB is what `job_of` makes, as JSON.

It computes with its own code, so it refuses a run of another code version, whose results are kept apart.

There are two processes: one that works, and one that waits for it. Ray kills what its workers have started, without a
warning, when the sweep is gone; that is the one that waits, and the one that works hears of it and saves.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import socket
import sys
from typing import Any

from svrl.sweeps.child import end_with
from svrl.sweeps.code_version import code_version
from svrl.sweeps.work import Terms, work_on

OTHER_CODE = 76
"""Exit code beside those of `svrl.sweeps.outcome`: the code here is not the one that was asked for."""


def job_of(address: str, code: str, run: str, terms: Terms) -> dict[str, Any]:
    """A job as numbers and texts, which any version of this program can read."""
    return {"address": address, "code": code, "run": run, "terms": dataclasses.asdict(terms)}


def main(text: str) -> int:
    """Work on the run that a job names; the exit code."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # Ray's workers block Ctrl-C, and what they start inherits that
    job = json.loads(text)
    if job["code"] != code_version():
        sys.stderr.write(
            f"Error: {socket.gethostname()} has svrl {code_version()} in {sys.prefix}, and the sweep was begun with "
            f"{job['code']}. Install the same version on every machine of the cluster.\n"
        )
        return OTHER_CODE
    waiting = os.getpid()
    working = os.fork()
    if working == 0:
        terms = Terms(**{**job["terms"], "cores": tuple(job["terms"]["cores"]), "parent": waiting})
        return work_on(job["address"], job["code"], job["run"], terms)
    return _wait_for(working, job["terms"]["parent"])


def _wait_for(working: int, parent: int | None) -> int:
    """Hand SIGTERM on, and end as the other process ends."""
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(working, signal.SIGTERM))
    end_with(parent)
    code = os.waitstatus_to_exitcode(os.waitpid(working, 0)[1])
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one is enough
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
