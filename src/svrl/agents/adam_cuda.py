"""Clamp gradients and take a step of Adam on a GPU: launches the kernel of adam_cuda.cu, once for all parameters.

It does the same as `clip_grad_value_` and `torch.optim.Adam.step`, with four differences. Gradients keep their
unclamped values. It first copies a gradient whose memory layout differs from its parameter's; torch's fused kernel
mixes up its entries. It does not call the optimiser's hooks. It computes the bias corrections 1 - b^t in double;
torch's fused kernel on CUDA uses float32, which moves its first steps by about 1e-5 of the learning rate.

Moments and step counts stay in the optimiser's own tensors, so you save and load it as usual. Each launch reads their
addresses. A CUDA graph keeps those of its capture: capture again after loading a state, and pass the learning rate as
a tensor if it changes between replays.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable, Sequence
from importlib import resources

import torch
from torch import Tensor, nn

from svrl.runtime.nvrtc import NoCompilerError, compiled

MOST_TENSORS = 32
THREADS = 256
BLOCK = 4 * THREADS
"""Elements of one block: four per thread."""


class Slot(ctypes.Structure):
    """One parameter, like `Slot` in adam_cuda.cu: addresses, elements, and its blocks of the launch."""

    _fields_ = (
        ("parameter", ctypes.c_void_p),
        ("gradient", ctypes.c_void_p),
        ("mean", ctypes.c_void_p),
        ("square", ctypes.c_void_p),
        ("step", ctypes.c_void_p),
        ("size", ctypes.c_longlong),
        ("first_block", ctypes.c_uint),
        ("blocks", ctypes.c_uint),
    )


class Tensors(ctypes.Structure):
    """All parameters, like `Tensors` in adam_cuda.cu; passed to the kernel by value."""

    _fields_ = (("slots", Slot * MOST_TENSORS), ("count", ctypes.c_uint))


class ClampedAdam:
    """Clamp gradients and take a step of Adam in one launch; never wait for the device.

    Args:
        parameters: All parameters of the optimiser.
        optimiser: An optimiser that `serves` accepts, after its first step or after loading its state.
        clamp: Largest absolute entry of a gradient; 0 for no limit.

    Raises:
        NoCompilerError: If the kernel cannot be compiled here.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer, clamp: float) -> None:
        self._parameters = list(parameters)
        self._optimiser = optimiser
        self._clamp = clamp
        self._device = self._parameters[0].device
        definitions = {"THREADS": THREADS, "MOST": MOST_TENSORS, "BYTES": ctypes.sizeof(Tensors)}
        self._kernel = compiled(_source(), "clamped_adam", definitions, self._device)
        self._tickets = torch.zeros(MOST_TENSORS, dtype=torch.int32, device=self._device)

    def __call__(self) -> None:
        """Take one step with the current gradients; a parameter without a gradient does not change."""
        group = self._optimiser.param_groups[0]
        tensors, gradients = fill_tensors(self._parameters, self._optimiser)
        if not gradients:
            return
        rate = group["lr"]
        on_device = isinstance(rate, Tensor) and rate.device.type != "cpu"
        last = tensors.slots[tensors.count - 1]
        with torch.cuda.device(self._device):
            self._kernel(
                tensors,
                self._tickets,
                rate if on_device else None,
                ctypes.c_double(0.0 if on_device else float(rate)),
                *(ctypes.c_float(beta) for beta in group["betas"]),
                ctypes.c_float(group["eps"]),
                ctypes.c_float(self._clamp),
                blocks=last.first_block + last.blocks,
                threads=THREADS,
            )
        torch.autograd.graph.increment_version(self._parameters)


def clamped_adam(
    parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer, clamp: float
) -> Callable[[], None]:
    """Return a function that takes a step with clamped gradients: by the kernel if possible, else by torch.

    Without a compiler torch takes the step, after one warning.

    Args:
        parameters, optimiser, clamp: As for `ClampedAdam`; torch accepts any optimiser in any state.
    """
    if serves(parameters, optimiser):
        try:
            return ClampedAdam(parameters, optimiser, clamp)
        except NoCompilerError as error:
            _warn_once(str(error))
    return functools.partial(plain_step, parameters, optimiser, clamp)


def serves(parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer) -> bool:
    """Whether the kernel can take the steps: plain Adam, counted on the GPU, with few dense float32 parameters."""
    if not isinstance(optimiser, torch.optim.Adam) or len(optimiser.param_groups) != 1:
        return False
    group = optimiser.param_groups[0]
    plain = not (group["weight_decay"] or group["amsgrad"] or group["maximize"]) and group["eps"] > 0
    counted = group["fused"] or group["capturable"]
    return bool(plain and counted and 1 <= len(parameters) <= MOST_TENSORS) and all(
        one.is_cuda and one.dtype == torch.float32 and _same_layout(one, torch.empty_like(one)) for one in parameters
    )


def plain_step(parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer, clamp: float) -> None:
    """Take the same step with torch, on any device and for any optimiser; clamps gradients in place."""
    if clamp > 0:
        nn.utils.clip_grad_value_(parameters, clamp)
    optimiser.step()


def fill_tensors(parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer) -> tuple[Tensors, list[Tensor]]:
    """Build the kernel's arguments for parameters that have a gradient.

    Returns:
        The struct, and the gradients that it points to, each in the layout of its parameter. Keep them until the
        launch.
    """
    tensors, block = Tensors(), 0
    gradients: list[Tensor] = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        gradient = parameter.grad.detach()
        if not _same_layout(gradient, parameter):
            gradient = torch.empty_like(parameter.detach()).copy_(gradient)
        state = optimiser.state[parameter]
        blocks = max(1, -(-parameter.numel() // BLOCK))  # an empty tensor also has a step count
        tensors.slots[len(gradients)] = Slot(
            *(one.data_ptr() for one in (parameter, gradient, state["exp_avg"], state["exp_avg_sq"], state["step"])),
            parameter.numel(),
            block,
            blocks,
        )
        gradients.append(gradient)
        block += blocks
    tensors.count = len(gradients)
    return tensors, gradients


def _same_layout(one: Tensor, other: Tensor) -> bool:
    # The stride of a dimension of size 1 is never used, and torch is free in its choice.
    return one.stride() == other.stride() or all(
        a == b for a, b, size in zip(one.stride(), other.stride(), one.shape, strict=True) if size > 1
    )


@functools.cache
def _source() -> str:
    return resources.files("svrl.agents").joinpath("adam_cuda.cu").read_text(encoding="utf-8")


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(f"Adam on the GPU runs without its kernel, which is slower. {reason}", stacklevel=3)
