"""Whether a device is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def check_card(device: str | torch.device) -> None:
    """Raise ValueError, with a sentence, if torch knows no such device, or does not find that CUDA device."""
    import torch

    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f'There is no device {device!r}. Take "cpu", "cuda" or "cuda:N".') from None
    if wanted.type != "cuda":
        return
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (wanted.index or 0) >= found:
        built = "" if torch.version.cuda else " This build of torch is for the CPU."
        raise ValueError(
            f"{wanted} is not available: torch finds {found or 'no'} CUDA device{'' if found == 1 else 's'}.{built} "
            'Take device "cpu", or one that is there.'
        )
