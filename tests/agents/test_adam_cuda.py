"""Adam by one kernel: what can be told without a GPU. tests/gpu/test_adam_on_cuda.py runs the kernel itself."""

from __future__ import annotations

import ctypes
import re
from importlib import resources
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from svrl.agents.adam_cuda import (
    BLOCK,
    MOST_TENSORS,
    THREADS,
    Slot,
    Tensors,
    clamped_adam,
    fill_tensors,
    serves,
)
from svrl.runtime.nvrtc import NoCompilerError, compile_source

SOURCE = resources.files("svrl.agents").joinpath("adam_cuda.cu").read_text(encoding="utf-8")
SIZES = {"float *": 8, "const float *": 8, "long long ": 8, "unsigned ": 4}


def network(seed: int = 0) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    picture = torch.randn(7, 3, 5, 5, generator=generator).contiguous(memory_format=torch.channels_last)
    others = [torch.randn(size, generator=generator) for size in (BLOCK, BLOCK + 1, 3)]
    return [nn.Parameter(one) for one in (picture, *others)]


def give_gradients(parameters: list[nn.Parameter], seed: int = 1) -> None:
    generator = torch.Generator().manual_seed(seed)
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter).copy_(3 * torch.randn(parameter.shape, generator=generator))


def stepped(parameters: list[nn.Parameter], **options: Any) -> torch.optim.Adam:
    """An Adam that has its state."""
    optimiser = torch.optim.Adam(parameters, lr=0.01, fused=True, **options)
    give_gradients(parameters)
    optimiser.step()
    return optimiser


def memory(address: int, count: int) -> list[float]:
    return list((ctypes.c_float * count).from_address(address))


def in_memory_order(tensor: Tensor) -> list[float]:
    return torch.as_strided(tensor.detach(), (tensor.numel(),), (1,)).tolist()


def test_the_struct_is_laid_out_as_the_kernel_lays_it_out() -> None:
    declared = re.search(r"struct Slot \{(.*?)\};", SOURCE, re.DOTALL)
    assert declared is not None
    fields = re.findall(r"^\s*(.*?)(\w+);", declared[1], re.MULTILINE)
    assert [name for _, name in fields] == [field[0] for field in Slot._fields_]
    at = 0
    for kind, name in fields:
        here = getattr(Slot, name)
        assert (here.offset, here.size) == (at, SIZES[kind]), name
        at += SIZES[kind]
    assert ctypes.sizeof(Slot) == at == 56
    assert ctypes.sizeof(Tensors) == 56 * MOST_TENSORS + 8  # the count, rounded up to the alignment of a pointer
    assert ctypes.sizeof(Tensors) < 4096  # what a launch may pass
    assert MOST_TENSORS & (MOST_TENSORS - 1) == 0  # the search for a block's tensor halves its jumps


def test_the_kernel_compiles_and_a_wrong_layout_does_not() -> None:
    def options(size: int) -> tuple[str, ...]:
        given = {"THREADS": THREADS, "MOST": MOST_TENSORS, "BYTES": size}
        return (*(f"-D{key}={value}" for key, value in given.items()), "--gpu-architecture=sm_80")

    try:
        assert compile_source(SOURCE, options(ctypes.sizeof(Tensors)))
    except NoCompilerError as error:
        if "cannot be loaded" not in str(error):
            raise
        pytest.skip(str(error))
    with pytest.raises(NoCompilerError, match="lay out Tensors differently"):
        compile_source(SOURCE, options(ctypes.sizeof(Tensors) + 8))


def test_tensors_point_to_the_optimisers_own_memory() -> None:
    parameters = network()
    optimiser = stepped(parameters)
    parameters[2].grad = None
    tensors, gradients = fill_tensors(parameters, optimiser)
    used = [parameters[0], parameters[1], parameters[3]]
    assert tensors.count == len(gradients) == 3
    # 525 and 1,024 elements fill a block each, and the parameter without a gradient has none.
    assert [(slot.first_block, slot.blocks) for slot in tensors.slots[:3]] == [(0, 1), (1, 1), (2, 1)]
    for slot, parameter in zip(tensors.slots, used, strict=False):
        state = optimiser.state[parameter]
        assert slot.size == parameter.numel()
        assert slot.parameter == parameter.data_ptr()
        assert parameter.grad is not None
        assert slot.gradient == parameter.grad.data_ptr()
        assert (slot.mean, slot.square) == (state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr())
        assert slot.step == state["step"].data_ptr()


def test_a_gradient_laid_out_otherwise_is_copied_into_place() -> None:
    parameters = network()
    optimiser = stepped(parameters)
    gradient = parameters[0].grad
    assert gradient is not None
    parameters[0].grad = gradient.contiguous()
    assert parameters[0].grad.stride() != parameters[0].stride()
    tensors, kept = fill_tensors(parameters, optimiser)
    assert tensors.slots[0].gradient == kept[0].data_ptr() != parameters[0].grad.data_ptr()
    assert memory(tensors.slots[0].gradient, gradient.numel()) == in_memory_order(gradient)


def test_strides_of_single_entries_do_not_count() -> None:
    parameters = [nn.Parameter(torch.randn(4, 1, 3, generator=torch.Generator().manual_seed(0)))]
    optimiser = stepped(parameters)
    parameters[0].grad = torch.ones(12).as_strided((4, 1, 3), (3, 1, 1))
    tensors, _ = fill_tensors(parameters, optimiser)
    assert tensors.slots[0].gradient == parameters[0].grad.data_ptr()


@pytest.mark.parametrize(("clamp", "moved"), [(0.0, 0.1 * 4 / 4.5), (1.0, 0.1 * 1 / 1.5)])
@pytest.mark.filterwarnings("error")
def test_off_the_gpu_torch_takes_the_step_without_a_warning(clamp: float, moved: float) -> None:
    # At the first step both corrected moments are those of g alone: rate * |g| / (|g| + eps).
    parameters = [nn.Parameter(torch.zeros(2))]
    step = clamped_adam(parameters, torch.optim.Adam(parameters, lr=0.1, eps=0.5, fused=True), clamp)
    parameters[0].grad = torch.tensor([4.0, -4.0])
    step()
    torch.testing.assert_close(parameters[0].detach(), torch.tensor([-moved, moved]), rtol=1e-6, atol=0)


def on_gpu(parameters: list[nn.Parameter], monkeypatch: pytest.MonkeyPatch) -> list[nn.Parameter]:
    """The same parameters, which say that they are on a GPU."""
    monkeypatch.setattr(nn.Parameter, "is_cuda", True)
    return parameters


def test_what_the_kernel_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = network()
    assert not serves(parameters, stepped(parameters))  # not on a GPU
    parameters = on_gpu(parameters, monkeypatch)
    assert serves(parameters, stepped(parameters))
    for options in ({"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True}, {"eps": 0.0}):
        assert not serves(parameters, stepped(parameters, **options)), options
    assert not serves(parameters, torch.optim.RMSprop(parameters))
    assert not serves(parameters, torch.optim.Adam(parameters))  # counts its steps on the host
    groups = [{"params": parameters[:1]}, {"params": parameters[1:]}]
    assert not serves(parameters, torch.optim.Adam(groups, fused=True))
    for values in (torch.zeros(4, 6)[:, ::2], torch.zeros(3).double()):
        other = [nn.Parameter(values)]
        assert not serves(other, torch.optim.Adam(other, fused=True))
    many = [nn.Parameter(torch.zeros(1)) for _ in range(MOST_TENSORS + 1)]
    assert not serves(many, stepped(many))
    assert serves(many[1:], stepped(many[1:]))
