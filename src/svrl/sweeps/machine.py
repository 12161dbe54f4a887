"""What one machine has, and which part of it each process gets: cores, cards, memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from svrl.sweeps.core_marks import CoreMarks
from svrl.sweeps.sweep_file import Resources


@dataclass(frozen=True, kw_only=True)
class Share:
    """The part of a process.

    Attributes:
        cores: Their numbers; none if they are shared with others.
        card: As CUDA_VISIBLE_DEVICES names it; None for none.
        name: The same as torch names it, as in cuda:1.
        together: Runs that may share the process.
    """

    cores: tuple[int, ...]
    card: str | None = None
    name: str | None = None
    together: int = 1


@dataclass(kw_only=True)
class Machine:
    """Cores and cards that are free.

    Attributes:
        cores_a_run: CPU threads of one run.
        most: Processes at a time: on cards, one each, if runs ask for some, else on cores.
        beside: Processes at a time that take cores and no card, where others take cards; else 0.
        in_all: Processes at a time of both sorts.
        alone: Processes at a time that take no card, where no others are.
        together: Runs that may share a process on a card.
        disjoint: Every process gets cores of its own.
        notes: What a person should know about it.
        marks: Tell other commands which cores are taken.
    """

    cores_a_run: int
    most: int
    beside: int
    in_all: int
    alone: int
    together: int
    free_cores: list[int]
    free_cards: dict[str, str]
    disjoint: bool
    notes: list[str] = field(default_factory=list)
    marks: CoreMarks = field(default_factory=CoreMarks)
    busy: int = 0
    busy_without_card: int = 0

    @classmethod
    def of(cls, resources: Resources, jobs: int | None, devices: Iterable[str]) -> Machine:
        """This machine, for runs that take so much.

        Args:
            resources: Of one run.
            jobs: Processes at a time; None takes as many as fit.
            devices: That runs ask for: cpu, cuda, cuda:1.
        """
        cores = (
            sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
        )
        notes = []
        each = min(resources.cores, len(cores))
        if each < resources.cores:
            notes.append(f"Note: runs ask for {resources.cores} cores each, and this machine lends {each}.")
        asked = list(devices)
        cards = _cards(asked)
        mixed = bool(cards) and not all(_is_a_card(device) for device in asked)
        sharing = int(1 / resources.gpus) if cards and resources.gpus else 1
        by_cores = len(cores) // each
        by_memory = max(1, int(_memory_gb() / resources.memory_gb)) if resources.memory_gb else sys.maxsize
        alone = jobs or min(by_cores, by_memory)
        fit = len(cards) * sharing if cards else by_cores
        if by_memory < (max(fit + 1, by_cores) if mixed else fit):
            notes.append(
                f"Note: {by_memory} runs at a time, because each may take {resources.memory_gb:g} GB of the "
                f"machine's {_memory_gb():.0f}."
            )
        most, together, beside, in_all = alone, 1, 0, alone
        if cards:
            of_cards = max(1, by_memory - mixed)  # runs whose memory cards may take; one place is for those on cores
            most = in_all = min(len(cards), of_cards, jobs or sys.maxsize)
            together = max(1, min(sharing, of_cards // most))
        if mixed:
            # Cores and memory of the cards' processes stay theirs, or a card would wait for runs that need none.
            beside = max(1, jobs - most if jobs else min(by_cores, by_memory) - most * together)
            in_all = jobs or min(most + beside, by_memory)
        # More processes than fit share all cores: pinned, some would wait beside free ones.
        disjoint = (most * together + beside) * each <= len(cores)
        return cls(
            cores_a_run=each,
            most=most,
            beside=beside,
            in_all=in_all,
            alone=alone,
            together=together,
            free_cores=cores,
            free_cards=cards,
            disjoint=disjoint,
            notes=notes,
        )

    @property
    def runs_at_a_time(self) -> int:
        """On cards and on cores."""
        return min(self.most, self.in_all) * self.together + min(self.beside, max(0, self.in_all - self.most))

    def keep_nothing_for_cards(self) -> None:
        """No run on a card is left: those on cores may have all that there is."""
        if self.beside:
            self.beside = self.in_all = self.alone

    def has_room_for(self, device: str) -> bool:
        """Whether a process that asks for a device can begin."""
        if self.busy >= self.in_all:
            return False
        if _is_a_card(device):
            return bool(self._cards_for(device))
        return self.beside == 0 or self.busy_without_card < self.beside

    def _cards_for(self, device: str) -> list[str]:
        return [name for name in sorted(self.free_cards) if device in ("cuda", name)]

    def take(self, device: str) -> Share | None:
        """A part for a process that asks for a device, or None if nothing is free."""
        if not self.has_room_for(device):
            return None
        card = visible = None
        if _is_a_card(device):
            card = self._cards_for(device)[0]
            visible = self.free_cards.pop(card)
        together = self.together if card else 1
        count = self.cores_a_run * together
        cores = self.marks.take(self.free_cores, count) if self.disjoint else ()
        self.free_cores = [core for core in self.free_cores if core not in cores]
        self.busy += 1
        self.busy_without_card += card is None
        return Share(cores=cores, card=visible, name=card, together=together)

    def give_back(self, share: Share) -> None:
        """A process has ended."""
        self.busy -= 1
        self.busy_without_card -= share.card is None
        self.marks.give_back(share.cores)
        self.free_cores = sorted([*self.free_cores, *share.cores])
        if share.card is not None and share.name is not None:
            self.free_cards[share.name] = share.card


def memory_of(process: int | None) -> float:
    """Memory that a process has at this moment, in 10^9 bytes; 0 where the system does not say."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e9


def _is_a_card(device: str) -> bool:
    return device.startswith("cuda")


def _memory_gb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9


def _cards(devices: Iterable[str]) -> dict[str, str]:
    """Cards as torch names them, and as CUDA_VISIBLE_DEVICES does."""
    if not any(_is_a_card(device) for device in devices):
        return {}
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise ValueError(
            "The sweep asks for device cuda, and torch finds no CUDA device here. Add --set device=cpu, or run it "
            "where there is one."
        )
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = listed.split(",") if listed else [str(number) for number in range(count)]
    cards = {f"cuda:{number}": names[number].strip() for number in range(count)}
    for device in devices:
        if _is_a_card(device) and device not in ("cuda", *cards):
            raise ValueError(f"The sweep asks for device {device}, and torch finds {', '.join(cards)} here.")
    return cards
