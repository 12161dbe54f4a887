"""Compile CUDA kernels from source text at run time.

torch's CUDA wheels include NVRTC, NVIDIA's run-time compiler, and every machine with a GPU has the driver. This module
calls both through their C interfaces, so you need neither a compiler nor another package. It compiles a kernel once per
process, device and set of definitions, which takes a few seconds, and launches it on torch's current stream, so that a
graph captured there includes it. Divisions and roots in float32 are the GPU's fast ones, accurate to about two units in
the last place.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
MOST_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""


class NoCompilerError(RuntimeError):
    """Kernels cannot be compiled here; the message says why."""


class Kernel:
    """A compiled kernel, which runs on torch's current stream."""

    def __init__(self, function: ctypes.c_void_p) -> None:
        self._function = function
        self._shared = 48 << 10  # what every kernel may ask for

    def __call__(self, *arguments: Any, blocks: int, threads: int, shared: int = 0) -> None:
        """Launch.

        Args:
            arguments: Tensors (their memory is passed), ctypes numbers, or None for a null pointer.
            blocks: Number of blocks.
            threads: Threads in each block.
            shared: Bytes of dynamic shared memory.
        """
        driver = _driver()
        if shared > self._shared:
            _check(driver.cuFuncSetAttribute(self._function, MOST_SHARED, shared), "cuFuncSetAttribute")
            self._shared = shared
        values = [_argument(one) for one in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        status = driver.cuLaunchKernel(self._function, blocks, 1, 1, threads, 1, 1, shared, stream, pointers, None)
        _check(status, "cuLaunchKernel")


def compiled(source: str, name: str, definitions: Mapping[str, str | int], device: torch.device) -> Kernel:
    """The kernel `name` of a source file, for one device.

    Args:
        source: CUDA C++.
        name: Name of an extern "C" __global__ function in it.
        definitions: Macros, as in -DN=18.
        device: A CUDA device.

    Raises:
        NoCompilerError: If NVRTC or the driver is missing, or does not know the GPU.
    """
    options = tuple(f"-D{key}={value}" for key, value in definitions.items())
    index = torch.cuda.current_device() if device.index is None else device.index
    key = (source, name, options, index)
    with _COMPILING:
        if key not in _KERNELS:
            try:
                _KERNELS[key] = _compile(*key)
            except NoCompilerError as error:
                _KERNELS[key] = error
        found = _KERNELS[key]
    if isinstance(found, NoCompilerError):
        raise found
    return found


_COMPILING = threading.Lock()
_KERNELS: dict[tuple[str, str, tuple[str, ...], int], Kernel | NoCompilerError] = {}
"""What has been compiled in this process, or why it could not be."""


def _compile(source: str, name: str, options: tuple[str, ...], index: int) -> Kernel:
    with torch.cuda.device(index):
        torch.cuda.current_stream().synchronize()  # the device's context must be there and current
        major, minor = torch.cuda.get_device_capability(index)
        image = compile_source(source, (*options, "--use_fast_math", f"--gpu-architecture=sm_{major}{minor}"))
        driver, module, function = _driver(), ctypes.c_void_p(), ctypes.c_void_p()
        if status := driver.cuModuleLoadData(ctypes.byref(module), image):
            raise NoCompilerError(
                f"The driver refuses what NVRTC compiled (error {status}); it may be older than NVRTC."
            )
        _check(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()), "cuModuleGetFunction")
    return Kernel(function)


def compile_source(source: str, options: tuple[str, ...]) -> bytes:
    """Machine code for one architecture. Needs NVRTC, but no GPU.

    Raises:
        NoCompilerError: If NVRTC is missing or refuses the source; the message ends with its log.
    """
    nvrtc = _nvrtc()
    program = ctypes.c_void_p()
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    if created:
        raise NoCompilerError(f"NVRTC cannot begin a program (error {created}).")
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if status := nvrtc.nvrtcCompileProgram(program, len(options), given):
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace")
            raise NoCompilerError(f"NVRTC refuses the kernel with {' '.join(options)} (error {status}). {log[:2000]}")
        return _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(size_of: Any, read: Any, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    size_of(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    read(program, buffer)
    return buffer.raw


def _argument(value: Any) -> Any:
    if value is None:
        return ctypes.c_void_p(0)
    return ctypes.c_void_p(value.data_ptr()) if isinstance(value, torch.Tensor) else value


def _check(status: int, call: str) -> None:
    if status:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        raise RuntimeError(f"{call} failed: {(text.value or b'unknown error').decode()} ({status}).")


@functools.cache
def _driver() -> ctypes.CDLL:
    return _load(("libcuda.so.1", "libcuda.so"), "The NVIDIA driver's library libcuda cannot be loaded.")


@functools.cache
def _nvrtc() -> ctypes.CDLL:
    own = (torch.version.cuda or "").partition(".")[0]
    # The one of torch's own CUDA version comes first: the driver may not accept what a newer one compiles.
    names = sorted(LIBRARIES, key=lambda name: not own or f".{own}" not in name)
    return _load(
        (*names, *map(str, _brought_along())),
        "NVRTC cannot be loaded: it comes with torch's CUDA wheels, or pip install nvidia-cuda-nvrtc.",
    )


def _load(names: Iterable[str], otherwise: str) -> ctypes.CDLL:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NoCompilerError(otherwise)


def _brought_along() -> Iterator[Path]:
    """Where pip puts the libraries that torch's wheels depend on."""
    try:
        import nvidia  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return
    for folder in nvidia.__path__:
        yield from sorted(Path(folder).glob("*/lib/libnvrtc.so.[0-9]*"), reverse=True)
