from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from svrl.training.gpu import at_work_on

SAID_BY_TORCH = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 139.81 GiB of which 812.00 MiB is "
    "free. Process 7 has 139.01 GiB memory in use."
)


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())


def sentence(device: str, said: str, folder: Path) -> str:
    with pytest.raises(ValueError, match="is full") as raised, at_work_on(device, folder):
        raise torch.OutOfMemoryError(said)
    return str(raised.value)


def test_sizes_are_taken_from_what_torch_says(tmp_path: Path):
    assert sentence("cuda:0", SAID_BY_TORCH, tmp_path) == (
        "The memory of cuda:0 is full: 2.50 GiB was asked for and 812.00 MiB is free. Lower --buffer-size, --n-envs or "
        "--batch-size, or train fewer at a time with --together."
    )
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "000000001.npz").write_bytes(b"")
    without = sentence("cuda", "CUDA error: out of memory", tmp_path)
    assert without.startswith("The memory of cuda is full. Lower ")
    assert without.endswith(f" The last checkpoint is in {tmp_path}.")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (torch.OutOfMemoryError(SAID_BY_TORCH), ValueError),
        (RuntimeError("CUDA error: out of memory"), ValueError),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), ValueError),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), RuntimeError),
        (KeyError("x"), KeyError),
    ],
    ids=["torch", "driver", "library", "another error of the GPU", "another error"],
)
def test_only_a_full_gpu_becomes_a_sentence(tmp_path, error, kind):
    with pytest.raises(kind) as raised, at_work_on("cuda:0", tmp_path):
        raise error
    assert ("is full" in str(raised.value)) == (kind is ValueError)
    with pytest.raises(type(error)), at_work_on("cpu", tmp_path):
        raise error
