"""Clamped gradients and a step of Adam on a GPU: launches the kernel of adam_cuda.cu, once for all parameters.

It does what `clip_grad_value_` and `torch.optim.Adam.step` do, with four differences. Gradients keep their unclamped
values. One whose memory is laid out otherwise than its parameter's is copied first, where torch's fused kernel mixes
up its entries. The optimiser's hooks are not called. The bias corrections 1 - b^t are taken in double, where torch's
fused kernel on CUDA takes them in float32, which moves its first steps by about 1e-5 of the learning rate.

Moments and step counts stay in the optimiser's own tensors, so that saving and loading it works as ever. Addresses
are read at each launch. A CUDA graph keeps those of its capture: capture anew after loading a state, and give the
learning rate as a tensor if it is to change between replays.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import torch
from torch import Tensor, nn

from svrl.runtime.nvrtc import NoCompilerError, compiled

MOST_TENSORS = 32
THREADS = 256
BLOCK = 4 * THREADS
"""Elements of one block: four a thread."""
LEFT_OUT = {"weight_decay": 0, "amsgrad": False, "maximize": False, "differentiable": False}
"""What the kernel leaves out, and the setting that says so."""


class Slot(ctypes.Structure):
    """One parameter, as `Slot` in adam_cuda.cu: addresses, elements, and its blocks of the launch."""

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
    """All parameters, as `Tensors` in adam_cuda.cu; passed to the kernel by value."""

    _fields_ = (("slots", Slot * MOST_TENSORS), ("count", ctypes.c_uint))


class ClampedAdam:
    """Clamps gradients and takes a step of Adam by one launch; never waits for the device.

    Args:
        parameters: All parameters of the optimiser, float32, on one CUDA device.
        optimiser: An Adam that has taken its first step, or has been loaded. Its steps must be counted on the
            device, as with fused=True or capturable=True.
        clamp: Largest size of an entry of a gradient; 0 for any.

    Raises:
        ValueError: If the kernel does not serve such an optimiser.
        NoCompilerError: If the kernel cannot be compiled here.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer, clamp: float) -> None:
        self._parameters = list(parameters)
        self._optimiser = optimiser
        self._clamp = clamp
        _check(self._parameters, optimiser, clamp)
        self._device = self._parameters[0].device
        definitions = {"THREADS": THREADS, "MOST": MOST_TENSORS, "BYTES": ctypes.sizeof(Tensors)}
        self._kernel = compiled(_source(), "clamped_adam", definitions, self._device)
        self._tickets = torch.zeros(MOST_TENSORS, dtype=torch.int32, device=self._device)

    def __call__(self) -> None:
        """One step, by the gradients of this moment; a parameter without one is left alone."""
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
    """A step of the optimiser with clamped gradients, by the quickest way there is here.

    The kernel serves Adam of up to 32 parameters on a CUDA device, and torch everything else. If only a compiler is
    missing, that is said once.

    Args:
        parameters, optimiser, clamp: As `ClampedAdam` takes them; off CUDA, any optimiser in any state.

    Raises:
        ValueError: If this is Adam on a CUDA device with settings that the kernel does not serve.
    """
    on_gpu = bool(parameters) and parameters[0].device.type == "cuda"
    if isinstance(optimiser, torch.optim.Adam) and on_gpu and len(parameters) <= MOST_TENSORS:
        try:
            return ClampedAdam(parameters, optimiser, clamp)
        except NoCompilerError as error:
            _say_once(str(error))
    return functools.partial(plain_step, parameters, optimiser, clamp)


def plain_step(parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer, clamp: float) -> None:
    """The same by torch, on any device and for any optimiser; here the gradients are clamped where they lie."""
    if clamp > 0:
        nn.utils.clip_grad_value_(parameters, clamp)
    optimiser.step()


def fill_tensors(parameters: Sequence[nn.Parameter], optimiser: torch.optim.Optimizer) -> tuple[Tensors, list[Tensor]]:
    """What the kernel works on, for parameters that have a gradient.

    Returns:
        The struct, and the gradients that it points to, each in the layout of its parameter. They must live until
        the launch.

    Raises:
        ValueError: If a gradient or the optimiser's state is not what the kernel takes for granted.
    """
    tensors, block = Tensors(), 0
    gradients: list[Tensor] = []
    for at, parameter in enumerate(parameters):
        if parameter.grad is None:
            continue
        gradient = _laid_out(parameter.grad, parameter, at)
        mean, square, step = _state_of(parameter, optimiser, at)
        blocks = max(1, -(-parameter.numel() // BLOCK))  # an empty tensor has a step to count, too
        tensors.slots[len(gradients)] = Slot(
            *(one.data_ptr() for one in (parameter, gradient, mean, square, step)), parameter.numel(), block, blocks
        )
        gradients.append(gradient)
        block += blocks
    tensors.count = len(gradients)
    return tensors, gradients


def _laid_out(gradient: Tensor, parameter: Tensor, at: int) -> Tensor:
    """The gradient, or a copy of it in the layout of its parameter."""
    if gradient.layout != torch.strided or gradient.dtype != torch.float32 or gradient.device != parameter.device:
        raise ValueError(
            f"The gradient of parameter {at} must be dense, float32 and on {parameter.device}, got {gradient.layout}, "
            f"{gradient.dtype} on {gradient.device}. Use plain_step instead."
        )
    if _same_layout(gradient, parameter):
        return gradient.detach()
    return torch.empty_like(parameter.detach()).copy_(gradient.detach())


def _state_of(parameter: Tensor, optimiser: torch.optim.Optimizer, at: int) -> tuple[Tensor, Tensor, Tensor]:
    """The optimiser's moments and step count of one parameter."""
    state = optimiser.state.get(parameter)
    if not state:
        raise ValueError(f"Adam has no moments of parameter {at} yet. Take the first step with plain_step.")
    mean, square, step = state["exp_avg"], state["exp_avg_sq"], state["step"]
    device = parameter.device
    for moment in (mean, square):
        if moment.dtype != torch.float32 or moment.device != device or not _same_layout(moment, parameter):
            raise ValueError(
                f"The moments of parameter {at} must be float32 on {device}, with its strides "
                f"{parameter.stride()}, got {moment.dtype} on {moment.device} with {moment.stride()}. "
                "Lay them out like the parameter before they are loaded."
            )
    if step.device != device or step.dtype != torch.float32:
        raise ValueError(
            f"Steps must be counted in float32 on {device}, got {step.dtype} on {step.device}. "
            "Make Adam with fused=True."
        )
    return mean, square, step


def _same_layout(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    # The stride of a dimension of size 1 is never used, and torch is free in its choice.
    return one.stride() == other.stride() or all(
        a == b for a, b, size in zip(one.stride(), other.stride(), one.shape, strict=True) if size > 1
    )


def _check(parameters: list[nn.Parameter], optimiser: torch.optim.Optimizer, clamp: float) -> None:
    if not isinstance(optimiser, torch.optim.Adam):
        raise ValueError(f"The kernel takes steps of Adam, got {type(optimiser).__name__}. Use plain_step instead.")
    if not clamp >= 0:
        raise ValueError(f"The clamp must be positive, or 0 for none, got {clamp}.")
    if len(optimiser.param_groups) != 1:
        raise ValueError(f"Adam must have one group of parameters, got {len(optimiser.param_groups)}.")
    if not 1 <= len(parameters) <= MOST_TENSORS:
        raise ValueError(f"The kernel takes 1 to {MOST_TENSORS} parameters, got {len(parameters)}. Use plain_step.")
    group: dict[str, Any] = optimiser.param_groups[0]
    if [*map(id, parameters)] != [*map(id, group["params"])]:
        raise ValueError("The parameters must be those of the optimiser, in its order. Pass the list it was made of.")
    _check_settings(group, parameters[0].device)
    for at, parameter in enumerate(parameters):
        # empty_like keeps the strides of what fills its memory without gaps, and only of that.
        dense = torch.empty_like(parameter, device="meta").stride() == parameter.stride()
        if parameter.dtype != torch.float32 or parameter.device != parameters[0].device or not dense:
            raise ValueError(
                f"Parameters must be float32 without gaps in memory, all on {parameters[0].device}, got for parameter "
                f"{at} {parameter.dtype} on {parameter.device}, shape {tuple(parameter.shape)} with strides "
                f"{parameter.stride()}. Use plain_step."
            )
        _state_of(parameter, optimiser, at)
    if parameters[0].device.type != "cuda":
        raise ValueError(f"The kernel needs parameters on a CUDA device, got {parameters[0].device}. Use plain_step.")


def _check_settings(group: dict[str, Any], device: torch.device) -> None:
    for name, value in LEFT_OUT.items():
        if group.get(name, value) != value:
            raise ValueError(f"The kernel needs {name}={value}, got {group[name]}. Use plain_step.")
    if any(isinstance(number, Tensor) for number in (*group["betas"], group["eps"])):
        raise ValueError("The betas and eps of Adam must be numbers, got a tensor. Only lr may be one.")
    if not group["eps"] > 0:
        raise ValueError(f"The kernel needs eps > 0, because it takes tiny moments for 0, got {group['eps']}.")
    rate = group["lr"]
    fits = not isinstance(rate, Tensor) or (rate.numel() == 1 and rate.dtype == torch.float32)
    if not fits or (isinstance(rate, Tensor) and rate.device not in (torch.device("cpu"), device)):
        raise ValueError(
            f"A learning rate given as a tensor must be one float32 number on {device}, got {rate.dtype} of shape "
            f"{tuple(rate.shape)} on {rate.device}."
        )


@functools.cache
def _source() -> str:
    return resources.files("svrl.agents").joinpath("adam_cuda.cu").read_text(encoding="utf-8")


@functools.cache
def _say_once(reason: str) -> None:
    warnings.warn(f"Adam on the GPU goes without its kernel, which is slower. {reason}", stacklevel=3)
