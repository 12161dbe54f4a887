"""CUDA kernels for the CPU: what `svrl.runtime.nvrtc.compiled` does, with a C++ compiler and cuda_shim.h.

The code that launches a kernel on a GPU runs as it is: `pretend_a_gpu` only changes where its kernels come from.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

HERE = Path(__file__).parent
COMPILERS = ("g++", "c++", "clang++")
# C++14, because later standards read several times as many lines of <cmath>. A fiber jumps between stacks, which
# _FORTIFY_SOURCE takes for an attack.
OPTIONS = ("-std=c++14", "-O2", "-w", "-shared", "-fPIC", "-U_FORTIFY_SOURCE", f"-I{HERE}")
READ = ("run_kernel.cpp", "cuda_shim.h")
KEPT = HERE.parents[1] / ".pytest_cache" / "kernels"

Kernel = Callable[..., None]


def pretend_a_gpu(patch: pytest.MonkeyPatch, module: ModuleType, folder: Path, *, backwards: bool = False) -> None:
    """Let `module`, which launches kernels, have them from here.

    Args:
        patch: Undoes it.
        module: One that imports `compiled`.
        folder: For libraries; each is compiled once.
        backwards: Run the last block and the last thread first.
    """

    def compiled_here(source: str, name: str, definitions: Mapping[str, str | int], _: torch.device) -> Kernel:
        return compiled_on_cpu(source, name, definitions, folder, backwards=backwards)

    patch.setattr(module, "compiled", compiled_here)
    patch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())


def compiled_on_cpu(
    source: str, name: str, definitions: Mapping[str, str | int], folder: Path, *, backwards: bool = False
) -> Kernel:
    """The kernel `name` of a source text, to be launched as `svrl.runtime.nvrtc.Kernel` is."""
    options = tuple(f"-D{key}={value}" for key, value in {"KERNEL": name, **definitions}.items())
    return functools.partial(_launch, _library(source, options, folder), backwards)


def _launch(library: ctypes.CDLL, backwards: bool, *arguments: Any, blocks: int, threads: int, shared: int = 0) -> None:
    values = [_argument(one) for one in arguments]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    fault = library.launch(blocks, threads, ctypes.c_size_t(shared), pointers, ctypes.c_size_t(len(values)), backwards)
    if fault:
        raise RuntimeError(fault.decode())


def _argument(value: Any) -> Any:
    if value is None:
        return ctypes.c_void_p(0)
    if not isinstance(value, torch.Tensor):
        return value
    assert value.is_contiguous()
    return ctypes.c_void_p(value.data_ptr())


@functools.cache
def _library(source: str, options: tuple[str, ...], folder: Path) -> ctypes.CDLL:
    kept = KEPT / f"{_digest(source, options)}.so"  # other processes, and the next run, need not compile it again
    if not kept.exists():
        place = Path(tempfile.mkdtemp(dir=folder))
        (place / "kernel.cu").write_text(source, encoding="utf-8")
        made = place / "kernel.so"
        line = [_compiler(), *OPTIONS, *options, f"-I{place}", str(HERE / "run_kernel.cpp"), "-o", str(made)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        KEPT.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(dir=KEPT)) / "kernel.so"
        shutil.copy(made, half)
        half.rename(kept)  # whole or not at all
        half.parent.rmdir()
    library = ctypes.CDLL(str(kept))
    library.launch.restype = ctypes.c_char_p
    return library


def _digest(source: str, options: tuple[str, ...]) -> str:
    """Of everything that a library is made of."""
    parts = [source, *OPTIONS, *options, _compiler(), *((HERE / name).read_text() for name in READ)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _compiler() -> str:
    for name in COMPILERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"Kernels run on the CPU need a C++ compiler: none of {', '.join(COMPILERS)} is here.")
