"""How an attempt at a run ended, and what is said about it."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Ended = Literal["done", "failed", "stopped", "killed"]

DONE, FAILED, STOPPED, STORE_BROKEN, BUSY = 0, 2, 3, 74, 75
"""Exit codes of a process that works on a run."""
LAST_LINES = 20
_BLANK, _FRAME = " \t\r\n", "".join(map(chr, range(0x2500, 0x2580)))
"""What stands around lines; usage errors come in a box."""
_OF_THE_STORE = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE))
_AS_TORCH_SAYS_IT = ("iostream error", "PytorchStreamWriter failed")
"""torch.save does not tell the reason for which a file could not be written."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of an attempt.

    Attributes:
        ended: done, failed (and would again), stopped (saved, to be gone on with) or killed (by a signal).
        reason: One sentence, empty if there is nothing to say.
        last_lines: What it printed last, of one that failed or was killed.
        store_broken: The store cannot be written to: no run can go on.
    """

    ended: Ended
    reason: str = ""
    last_lines: tuple[str, ...] = ()
    store_broken: bool = False

    @property
    def exit_code(self) -> int:
        """What tells it to the parent process."""
        if self.store_broken:
            return STORE_BROKEN
        return {"done": DONE, "failed": FAILED, "stopped": STOPPED, "killed": FAILED}[self.ended]

    def as_json(self) -> dict[str, Any]:
        """For attempts.jsonl."""
        return {"outcome": self.ended, "reason": self.reason, "last_lines": list(self.last_lines)}


def outcome_of(code: int, finished: bool, lines: Sequence[str], *, told: bool = False) -> Outcome:
    """What became of a command.

    Args:
        code: Its exit code.
        finished: Whether result.json is there.
        lines: What it printed.
        told: It was told to stop, which it may have heard in a place where no command expects that.
    """
    if finished:
        return Outcome(ended="done")
    if code in (128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP):
        return Outcome(ended="stopped")
    reason = reason_in(lines) or f"it ended with code {code} and said nothing"
    last = tuple(lines[-LAST_LINES:])
    if any(words in reason for words in _AS_TORCH_SAYS_IT):
        reason = f"A file could not be written, as on a disk without room ({reason})."
        return Outcome(ended="stopped", reason=reason, last_lines=last, store_broken=True)
    if any(words in reason for words in _OF_THE_STORE):
        return Outcome(ended="stopped", reason=reason, last_lines=last, store_broken=True)
    if told:
        return Outcome(ended="stopped")
    return Outcome(ended="failed", reason=reason, last_lines=last)


def reason_in(lines: Sequence[str]) -> str:
    """The sentence that says what was wrong: the last that begins with Error, or else the last line.

    Of a usage error it is all that stands in its box. Frames and rules are no lines.
    """
    said = [bare for bare in (line.strip(_BLANK + _FRAME) for line in lines) if any(map(str.isalnum, bare))]
    errors = [line for line in said if line.startswith("Error: ")]
    if errors:
        return errors[-1].removeprefix("Error: ")
    boxed = [line.strip(_BLANK + _FRAME) for line in lines if line.strip(_BLANK).startswith(tuple(_FRAME))]
    if "Error" in boxed:
        last = len(boxed) - boxed[::-1].index("Error")
        return " ".join(line for line in boxed[last:] if line)
    return said[-1] if said else ""


def killed_by(number: int, peak_gb: float | None) -> str:
    """What is said of a process that a signal ended."""
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    memory = "" if peak_gb is None else f" It had taken {peak_gb:.1f} GB."
    hint = " The system does that to processes when memory runs out." if number == signal.SIGKILL else ""
    return f"The process was ended by {name}.{memory}{hint}"


def took_too_much(peak_gb: float, most_gb: float | None) -> str:
    """What is said of a run that was ended for its memory."""
    return (
        f"The run took {peak_gb:.2f} GB, more than resources.memory_gb = {most_gb:g}. Raise that, or lower replay, "
        "envs or batch_size."
    )
