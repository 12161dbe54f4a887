"""Kernels compiled at run time: what can be seen without a GPU."""

from __future__ import annotations

import pytest
import torch

from svrl.matrix import cuda_compiler
from svrl.matrix.cuda_compiler import NoCompilerError, compile_source
from svrl.matrix.soft_impute import small_cuda
from svrl.matrix.soft_impute.small_cuda import serves, working_type

HOPPER = "--gpu-architecture=sm_90"


def nvrtc() -> None:
    try:
        cuda_compiler._nvrtc()
    except NoCompilerError as error:
        pytest.skip(str(error))


def test_a_missing_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_compiler, "LIBRARIES", ("no-such-library.so",))
    monkeypatch.setattr(cuda_compiler, "_brought_along", lambda: iter(()))
    cuda_compiler._nvrtc.cache_clear()
    try:
        with pytest.raises(NoCompilerError, match="pip install nvidia-cuda-nvrtc"):
            compile_source("", (HOPPER,))
    finally:
        cuda_compiler._nvrtc.cache_clear()


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("columns", [2, 18, 32])
def test_the_kernel_of_soft_impute_compiles(real: str, columns: int) -> None:
    nvrtc()
    image = compile_source(small_cuda._source(), (f"-DREAL={real}", f"-DN={columns}", "-DROWS=4", HOPPER))
    assert b"soft_impute_small" in image


def test_what_is_wrong_with_a_source_is_told() -> None:
    nvrtc()
    with pytest.raises(NoCompilerError, match=r"refuses the kernel .*kernel\.cu\(1\)"):
        compile_source("nonsense", (HOPPER,))


def test_where_the_kernel_serves() -> None:
    assert not serves(32, 18, torch.float32, torch.device("cpu"))
    assert working_type(torch.float32, None, 0.02) == torch.float32
    assert working_type(torch.float32, None, 1e-4) == torch.float64
    assert working_type(torch.float32, torch.ones(1), 0.02) == torch.float64
    assert working_type(torch.float64, None, 0.02) == torch.float64


def test_the_shared_memory_that_is_asked_for_holds_the_work() -> None:
    """Two copies of the rows, the turned columns, two squares, offsets, a few sums, and a word of bits a row."""
    m, n = 128, 18
    floats = 2 * m * (n + 1) + m * n + 2 * n * n + 2 * n + 96 + m
    assert small_cuda._shared_bytes(m, n, torch.float32) == 4 * floats + 4 * m < 48 << 10
    assert small_cuda._shared_bytes(m, n - 1, torch.float32) == small_cuda._shared_bytes(m, n, torch.float32)
