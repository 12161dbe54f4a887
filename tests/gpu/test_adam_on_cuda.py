"""Adam by one kernel against torch's: the same parameters and the same state, up to rounding."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from svrl.agents import adam_cuda
from svrl.agents.adam_cuda import ClampedAdam, clamped_adam, plain_step
from svrl.runtime.nvrtc import NoCompilerError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DEVICE = "cuda"
RATE = 0.01
EXACT = 1e-6
"""Of the learning rate, a step: from Adam in double with the decays that float32 can hold."""
FUSED = 1e-5
"""The same from torch's fused kernel, whose bias corrections are in float32."""
DECAYS = tuple(float(np.float32(decay)) for decay in (0.9, 0.999))


def network() -> list[nn.Parameter]:
    """Pictures in channels_last, odd sizes, nothing at all, and a view that starts between two 16-byte words."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(32, 4, 8, 8), (7, 3, 3, 3), (3136, 128), (33, 65), (1,), (1023,), (1025,), (0,), (64, 1, 3, 3)]
    values = [0.1 * torch.randn(shape, generator=generator) for shape in shapes]
    values = [one.contiguous(memory_format=torch.channels_last) if one.ndim == 4 else one for one in values]
    values = [one.to(DEVICE) for one in values]
    values.append(torch.full((1200,), 0.1, device=DEVICE)[1:1101])
    return [nn.Parameter(one) for one in values]


def gradients(parameters: list[nn.Parameter], seed: int) -> list[Tensor]:
    """Of sizes from 1e-3 to 1e3, in the layout of their parameter."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(one.shape, generator=generator) for one in parameters]
    sizes = 10 ** (6 * torch.rand(len(parameters), generator=generator) - 3)
    return [torch.empty_like(p).copy_(size * g) for p, g, size in zip(parameters, drawn, sizes, strict=True)]


def give(parameters: list[nn.Parameter], values: list[Tensor]) -> None:
    for parameter, value in zip(parameters, values, strict=True):
        parameter.grad = value.to(parameter.dtype).clone()


def adam(parameters: list[nn.Parameter], rate: float | Tensor = RATE) -> torch.optim.Adam:
    """Before its first step, but with a state."""
    optimiser = torch.optim.Adam(parameters, lr=rate, fused=True)
    for one in parameters:
        zeros = {name: torch.zeros_like(one.detach()) for name in ("exp_avg", "exp_avg_sq")}
        optimiser.state[one] = {"step": torch.zeros((), device=DEVICE), **zeros}
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


@pytest.mark.parametrize("rate", ["number", "tensor"])
@pytest.mark.parametrize("clamp", [0.0, 1.0])
def test_fifty_steps_are_those_of_torch(clamp: float, rate: str) -> None:
    ours, fused, double = network(), network(), [nn.Parameter(one.detach().double()) for one in network()]
    optimiser = adam(ours, torch.tensor(RATE, device=DEVICE) if rate == "tensor" else RATE)
    of_fused = torch.optim.Adam(fused, lr=RATE, fused=True)
    of_double = torch.optim.Adam(double, lr=float(np.float32(RATE)), betas=DECAYS, foreach=False)
    step = ClampedAdam(ours, optimiser, clamp)
    for k in range(50):
        given = gradients(ours, k)
        for parameters in (ours, fused, double):
            give(parameters, given)
        ours[0].grad = given[0].contiguous()  # not channels_last
        step()
        plain_step(fused, of_fused, clamp)
        plain_step(double, of_double, clamp)
        assert all(torch.equal(one.grad, value) for one, value in zip(ours, given, strict=True))
    assert far(ours, double) < 50 * EXACT
    assert far(ours, fused) < 50 * FUSED
    for one, other, exact in zip(ours, fused, double, strict=True):
        state, like, truth = optimiser.state[one], of_fused.state[other], of_double.state[exact]
        assert float(state["step"]) == float(like["step"]) == 50
        for name in ("exp_avg", "exp_avg_sq") if one.numel() else ():
            scale = float(truth[name].abs().max())
            assert float((state[name] - truth[name]).abs().max()) < 2e-6 * scale
            assert float((state[name] - like[name]).abs().max()) < 3e-5 * scale


def test_a_replayed_graph_is_the_step() -> None:
    ours, theirs = network(), network()
    rates = [torch.tensor(RATE, device=DEVICE) for _ in range(2)]
    optimisers = [adam(one, rate) for one, rate in zip((ours, theirs), rates, strict=True)]
    steps = [ClampedAdam(one, optimiser, 1.0) for one, optimiser in zip((ours, theirs), optimisers, strict=True)]
    give(ours, gradients(ours, 0))
    ours[1].grad = ours[1].grad.contiguous()  # type: ignore[union-attr]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        steps[0]()
    assert all(float(state["step"]) == 0 for state in optimisers[0].state.values())
    for k in range(20):
        given = gradients(ours, k)
        for one, value in zip(ours, given, strict=True):
            one.grad.copy_(value)  # type: ignore[union-attr]
        give(theirs, given)
        for rate in rates:
            rate.fill_(RATE / (k + 1))
        graph.replay()
        steps[1]()
    assert all(float(state["step"]) == 20 for state in optimisers[0].state.values())
    assert far(ours, network()) > 1
    assert same(*optimisers)


def test_a_saved_state_goes_on_as_if_nothing_had_been() -> None:
    ours, theirs = network(), network()
    optimiser = torch.optim.Adam(ours, lr=RATE, fused=True)
    give(ours, gradients(ours, 0))
    plain_step(ours, optimiser, 1.0)
    step = ClampedAdam(ours, optimiser, 1.0)
    for k in range(1, 10):
        give(ours, gradients(ours, k))
        step()
    loaded = torch.optim.Adam(theirs, lr=RATE, fused=True)
    loaded.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    with torch.no_grad():
        for one, other in zip(ours, theirs, strict=True):
            other.copy_(one)
    onward = clamped_adam(theirs, loaded, 1.0)
    assert isinstance(onward, ClampedAdam)
    for k in range(10, 15):
        for parameters, one_step in ((ours, step), (theirs, onward)):
            give(parameters, gradients(parameters, k))
            one_step()
    assert same(optimiser, loaded)
    assert all(float(state["step"]) == 15 for state in loaded.state_dict()["state"].values())


@pytest.mark.parametrize("clamp", [0.0, 1.0])
def test_what_is_not_finite_goes_where_torch_takes_it(clamp: float) -> None:
    given = torch.tensor([float("nan"), float("inf"), -float("inf"), 7.0, 0.5], device=DEVICE)
    ends = []
    for by_kernel in (True, False):
        parameters = [nn.Parameter(torch.zeros(5, device=DEVICE)), nn.Parameter(torch.ones(3, device=DEVICE))]
        optimiser = adam(parameters)
        parameters[0].grad = given.clone()
        ClampedAdam(parameters, optimiser, clamp)() if by_kernel else plain_step(parameters, optimiser, clamp)
        ends.append(parameters[0].detach())
        assert torch.equal(parameters[1].detach(), torch.ones(3, device=DEVICE))  # it has no gradient
        assert [float(optimiser.state[one]["step"]) for one in parameters] == [1, 0]
    torch.testing.assert_close(*ends, rtol=1e-5, atol=0, equal_nan=True)
    assert bool(ends[0][0].isnan())
    assert bool(ends[0][1:3].isfinite().all()) == (clamp > 0)


def test_without_a_compiler_torch_does_it_and_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise NoCompilerError("No compiler, for this test.")

    monkeypatch.setattr(adam_cuda, "compiled", refuse)
    parameters = network()
    with pytest.warns(UserWarning, match="without its kernel.*No compiler, for this test") as said:
        steps = [clamped_adam(parameters, adam(parameters), 1.0) for _ in range(3)]
    assert len(said) == 1
    give(parameters, gradients(parameters, 0))
    steps[-1]()
    assert far(parameters, network()) > 0.1
