"""Kernels compiled at run time: what can be seen without a GPU."""

from __future__ import annotations

import pytest

from svrl.runtime import nvrtc
from svrl.runtime.nvrtc import NoCompilerError, compile_source

HOPPER = "--gpu-architecture=sm_90"


def test_a_missing_compiler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "LIBRARIES", ("no-such-library.so",))
    monkeypatch.setattr(nvrtc, "_brought_along", lambda: iter(()))
    nvrtc._nvrtc.cache_clear()
    try:
        with pytest.raises(NoCompilerError, match="pip install nvidia-cuda-nvrtc"):
            compile_source("", (HOPPER,))
    finally:
        nvrtc._nvrtc.cache_clear()


def test_what_is_wrong_with_a_source_is_told() -> None:
    try:
        nvrtc._nvrtc()
    except NoCompilerError as error:
        pytest.skip(str(error))
    with pytest.raises(NoCompilerError, match=r"refuses the kernel .*kernel\.cu\(1\)"):
        compile_source("nonsense", (HOPPER,))
