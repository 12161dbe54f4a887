"""Adam's CUDA kernel on the CPU: the same parameters and the same state as torch's, up to rounding.

The kernel and the code that launches it are those of a GPU; see cuda_shim.h for what that does not show.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from svrl.agents import adam_cuda
from svrl.agents.adam_cuda import BLOCK, MOST_TENSORS, THREADS, ClampedAdam, fill_tensors, plain_step

from .compile import pretend_a_gpu

RATE = 0.01
STEPS = 30
EXACT = 1e-6
"""Of the learning rate, a step: from Adam in double with the decays that float32 can hold."""
DECAYS = float(np.float32(0.9)), float(np.float32(0.999))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def GPU(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    pretend_a_gpu(monkeypatch, adam_cuda, folder)


def network() -> list[nn.Parameter]:
    """Pictures in channels_last, sizes around a block's, nothing at all, and a view between two 16-byte words."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(8, 4, 8, 8), (7, 3, 3, 3), (33, 65), (1,), (BLOCK - 1,), (BLOCK,), (BLOCK + 1,), (0,), (64, 1, 3, 3)]
    values = [0.1 * torch.randn(shape, generator=generator) for shape in shapes]
    values = [one.contiguous(memory_format=torch.channels_last) if one.ndim == 4 else one for one in values]
    return [nn.Parameter(one) for one in (*values, torch.full((1_200,), 0.1)[1:1_101])]


def gradients(parameters: list[nn.Parameter], seed: int) -> list[Tensor]:
    """Of sizes from 1e-3 to 1e3, in the layout of their parameter."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(one.shape, generator=generator) for one in parameters]
    sizes = 10 ** (6 * torch.rand(len(parameters), generator=generator) - 3)
    return [torch.empty_like(p).copy_(size * g) for p, g, size in zip(parameters, drawn, sizes, strict=True)]


def give(parameters: list[nn.Parameter], values: list[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.grad = value.to(parameter.dtype).clone()


def adam(parameters: list[nn.Parameter]) -> torch.optim.Adam:
    """Before its first step, but with a state."""
    optimiser = torch.optim.Adam(parameters, lr=RATE, fused=True)
    for one in parameters:
        zeros = {name: torch.zeros_like(one.detach()) for name in ("exp_avg", "exp_avg_sq")}
        optimiser.state[one] = {"step": torch.zeros(()), **zeros}
    return optimiser


def far(ours: list[nn.Parameter], theirs: list[nn.Parameter]) -> float:
    """The largest distance, in learning rates."""
    pairs = zip(ours, theirs, strict=True)
    return max(float((a.detach().double() - b.detach()).abs().max()) for a, b in pairs if a.numel()) / RATE


def same(ours: torch.optim.Optimizer, theirs: torch.optim.Optimizer) -> bool:
    """Whether parameters and state are equal bit for bit."""
    pairs = zip(ours.param_groups[0]["params"], theirs.param_groups[0]["params"], strict=True)
    return all(
        torch.equal(a, b) and all(torch.equal(ours.state[a][name], theirs.state[b][name]) for name in ours.state[a])
        for a, b in pairs
    )


@pytest.mark.parametrize("clamp", [0.0, 1.0])
def test_many_steps_are_those_of_torch(clamp: float) -> None:
    ours, single, double = network(), network(), [nn.Parameter(one.detach().double()) for one in network()]
    optimiser, of_single = adam(ours), torch.optim.Adam(single, lr=RATE, foreach=False)
    of_double = torch.optim.Adam(double, lr=RATE, betas=DECAYS, foreach=False)
    step = ClampedAdam(ours, optimiser, clamp)
    for k in range(STEPS):
        given = gradients(ours, k)
        for parameters in (ours, single, double):
            give(parameters, given)
        ours[0].grad = given[0].contiguous()  # not channels_last
        step()
        plain_step(single, of_single, clamp)
        plain_step(double, of_double, clamp)
        for one, value in zip(ours, given, strict=True):
            assert one.grad is not None
            assert torch.equal(one.grad, value)
    assert far(ours, double) < STEPS * EXACT
    assert far(ours, single) < STEPS * 10 * EXACT
    for one, exact in zip(ours, double, strict=True):
        state, truth = optimiser.state[one], of_double.state[exact]
        assert float(state["step"]) == STEPS
        for name in ("exp_avg", "exp_avg_sq") if one.numel() else ():
            scale = float(truth[name].abs().max())
            assert float((state[name] - truth[name]).abs().max()) < 2e-6 * scale


def test_the_order_of_warps_and_blocks_does_not_matter(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    optimisers = []
    for backwards in (False, True):
        pretend_a_gpu(monkeypatch, adam_cuda, folder, backwards=backwards)
        parameters = network()
        optimisers.append(adam(parameters))
        step = ClampedAdam(parameters, optimisers[-1], 1.0)
        for k in range(3):
            give(parameters, gradients(parameters, k))
            step()
        assert not step._tickets.any()
        assert all(float(state["step"]) == 3 for state in optimisers[-1].state.values())
    assert same(*optimisers)


def test_a_rate_on_the_gpu_is_read_there() -> None:
    ours, theirs = network(), network()
    optimisers = [adam(ours), adam(theirs)]
    for parameters in (ours, theirs):
        give(parameters, gradients(parameters, 0))
    rate = torch.tensor(RATE)
    optimisers[1].param_groups[0]["lr"] = float(rate)  # as float32 has it
    by_number = ClampedAdam(theirs, optimisers[1], 1.0)
    by_number()
    tensors, held = fill_tensors(ours, optimisers[0])
    last = tensors.slots[len(held) - 1]
    by_number._kernel(
        *(tensors, torch.zeros(MOST_TENSORS, dtype=torch.int32), rate, ctypes.c_double(-1.0)),
        *map(ctypes.c_float, (0.9, 0.999, 1e-8, 1.0)),
        blocks=last.first_block + last.blocks,
        threads=THREADS,
    )
    assert far(ours, network()) > 0.9
    assert same(*optimisers)


def test_as_many_tensors_as_there_may_be() -> None:
    ours, theirs = ([nn.Parameter(torch.full((k + 1,), 0.5)) for k in range(MOST_TENSORS)] for _ in range(2))
    for parameters in (ours, theirs):
        give(parameters, gradients(ours, 0))
    step, optimiser = ClampedAdam(ours, adam(ours), 0.0), torch.optim.Adam(theirs, lr=RATE, foreach=False)
    step()
    optimiser.step()
    assert far(ours, [nn.Parameter(torch.full_like(one, 0.5)) for one in ours]) > 0.9
    assert far(ours, theirs) < 10 * EXACT


@pytest.mark.parametrize("clamp", [0.0, 1.0])
def test_what_is_not_finite_goes_where_torch_takes_it(clamp: float) -> None:
    given = torch.tensor([torch.nan, torch.inf, -torch.inf, 7.0, 0.5])
    ends = []
    for by_kernel in (True, False):
        parameters = [nn.Parameter(torch.zeros(5)), nn.Parameter(torch.ones(3))]
        optimiser = adam(parameters)
        parameters[0].grad = given.clone()
        ClampedAdam(parameters, optimiser, clamp)() if by_kernel else plain_step(parameters, optimiser, clamp)
        ends.append(parameters[0].detach())
        assert torch.equal(parameters[1].detach(), torch.ones(3))  # it has no gradient
        assert [float(optimiser.state[one]["step"]) for one in parameters] == [1, 0]
    torch.testing.assert_close(*ends, rtol=1e-5, atol=0, equal_nan=True)
    assert bool(ends[0][0].isnan())
    assert bool(ends[0][1:3].isfinite().all()) == (clamp > 0)


def test_autograd_hears_of_the_change() -> None:
    parameters = [nn.Parameter(torch.ones(3))]
    step = ClampedAdam(parameters, adam(parameters), 0.0)
    loss = (parameters[0] ** 2).sum()
    parameters[0].grad = torch.ones(3)
    step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.backward(loss)
