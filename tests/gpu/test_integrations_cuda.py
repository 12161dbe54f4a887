"""The pure functions on a GPU: the CPU's masks, its results within a tolerance, and both ways to record them."""

from __future__ import annotations

import importlib.util
import itertools

import pytest
import torch
from torch import Tensor

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.pytorch import observed_entries, structured, structured_quantiles, structured_values
from svrl.integrations.target_hook import structure
from svrl.matrix import SoftImpute

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

FINE = SoftImpute(tolerance=1e-6, max_steps=1_000)
CLOSE = 2e-3
"""How far two solvers of one problem may be apart, for values of about 10."""


def values(*shape: int, seed: int = 0) -> Tensor:
    """Nearly of rank 3, far from zero, on the CPU."""
    source = torch.Generator().manual_seed(seed)
    *batch, m, n = shape
    low_rank = torch.randn(*batch, m, 3, generator=source) @ torch.randn(*batch, 3, n, generator=source)
    return low_rank + 3.0 + 0.05 * torch.randn(shape, generator=source)


@pytest.mark.parametrize("shape", [(32, 18), (5, 32, 18), (1000, 7)], ids=str)
@pytest.mark.parametrize("updates", [0, 1, 12345, 2**40])
def test_both_draw_the_same_masks(shape: tuple[int, ...], updates: int) -> None:
    for seed in (0, 1, -3):
        here = observed_entries(shape, 0.7, seed=seed, updates=updates)
        there = observed_entries(shape, 0.7, seed=seed, updates=updates, device="cuda")
        held = observed_entries(shape, 0.7, seed=seed, updates=torch.tensor(updates, device="cuda"), device="cuda")
        assert there.is_cuda
        assert torch.equal(here, there.cpu())
        assert torch.equal(here, held.cpu())


@pytest.mark.parametrize("shape", [(32, 18), (4, 32, 18), (8, 40)], ids=str)
@pytest.mark.parametrize("scale", ["none", "minmax", "row"])
@pytest.mark.parametrize("output", ["fill", "estimate"])
def test_both_compute_the_same(shape: tuple[int, ...], scale: str, output: str) -> None:
    q = values(*shape)
    rule = StructuredTargets(p=0.8, rise=50, scale=scale, output=output, estimator=FINE)
    for updates in (0, 20, 50):
        here = structured(q, rule=rule, seed=3, updates=updates)
        there = structured(q.cuda(), rule=rule, seed=3, updates=updates)
        assert torch.allclose(here, there.cpu(), atol=CLOSE)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_observing_everything_changes_no_bit(kind: torch.dtype) -> None:
    q = values(3, 32, 18).to("cuda", kind)
    assert torch.equal(structured(q, 1.0), q)
    assert torch.equal(structured_quantiles(q, 1.0), q)
    part = structured(q, 0.6, updates=0)
    mask = observed_entries((3, 32, 18), 0.6, seed=0, updates=0, device="cuda")
    assert part.dtype == kind
    assert torch.equal(part[mask], q[mask])


@pytest.mark.parametrize("value", ["completed", "network"])
@pytest.mark.parametrize("double", [False, True])
def test_next_values_are_the_cpus(value: str, double: bool) -> None:
    """A choice between two actions of nearly the same value may fall otherwise; most may not."""
    target, online = values(256, 18, seed=1), values(256, 18, seed=2)
    rule = StructuredTargets(p=0.7, next_value_from=value, estimator=FINE)
    here, there = (
        structured_values(target.to(device), online_q=online.to(device) if double else None, rule=rule, updates=4).cpu()
        for device in ("cpu", "cuda")
    )
    assert float(((here - there).abs() < CLOSE).float().mean()) > 0.98


def test_nothing_waits_for_the_gpu() -> None:
    q, count = values(32, 18).cuda(), torch.zeros((), dtype=torch.int64, device="cuda")
    structured(q, updates=count)
    valid = q > q.mean()
    torch.cuda.set_sync_debug_mode("error")
    try:
        structured(q, updates=count)
        structured(q, StructuredTargets(p=0.5, rise=100), updates=count)
        structured_values(q, online_q=q, updates=count)
        structured_values(q, online_q=q, updates=count, action_mask=valid)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def recorded(function, *held: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor]:
    """A graph of a function of tensors that stay in their places, and where it writes."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            function(*held)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = function(*held)
    torch.cuda.current_stream().wait_stream(stream)
    return graph, result


@pytest.mark.parametrize("rise", [0, 5])
def test_a_graph_draws_a_new_mask_at_each_replay(rise: int) -> None:
    count = torch.zeros((), dtype=torch.int64, device="cuda")
    q = values(32, 18).cuda()
    rule = StructuredTargets(p=0.6, rise=rise)
    graph, found = recorded(lambda q, count: structured(q, rule, seed=2, updates=count), q, count)
    seen = []
    for update in range(6):
        q.copy_(values(32, 18, seed=update))
        graph.replay()
        torch.cuda.synchronize()
        expected = structured(values(32, 18, seed=update).cuda(), rule, seed=2, updates=update)
        assert torch.equal(found, expected)
        seen.append((found == q).clone())
        count += 1
    assert all(not torch.equal(a, b) for a, b in itertools.pairwise(seen))
    if rise:
        assert bool(seen[5].all()), "p has risen to 1"


def test_a_graph_reads_the_action_mask_at_each_replay() -> None:
    count = torch.zeros((), dtype=torch.int64, device="cuda")
    q = values(32, 18).cuda()
    valid = torch.ones_like(q, dtype=torch.bool)
    graph, found = recorded(
        lambda *held: structured_values(held[0], updates=held[1], action_mask=held[2]), q, count, valid
    )
    for update in range(3):
        valid.copy_(values(32, 18, seed=update) > 2.0)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(found, structured_values(q, updates=0, action_mask=valid))
        invalid = ~valid.any(-1)
        assert bool(((found[:, None] == q) & valid).any(-1).logical_or(invalid).all()), "an invalid action was chosen"


def test_a_whole_update_in_a_graph_is_the_plain_one() -> None:
    """Network, structure, loss, gradient and count, recorded: the weights go the way of the eager updates."""

    def training(captured: bool) -> list[Tensor]:
        torch.manual_seed(0)
        online, target = (torch.nn.Linear(8, 6, device="cuda") for _ in range(2))
        optimiser = torch.optim.SGD(online.parameters(), lr=0.01)
        count = torch.zeros((), dtype=torch.int64, device="cuda")
        x, y, rewards = torch.randn(32, 8).cuda(), torch.randn(32, 8).cuda(), torch.randn(32).cuda()

        def update() -> Tensor:
            worth = structured_values(target(y), 0.7, online_q=online(y), updates=count)
            loss = (online(x)[:, 0] - rewards - 0.9 * worth).square().mean()
            optimiser.zero_grad(set_to_none=False)
            loss.backward()
            optimiser.step()
            count.add_(1)
            return loss

        graph, _ = recorded(update) if captured else (None, None)
        while int(count) < 10:
            graph.replay() if graph else update()
        return [parameter.detach().clone() for parameter in online.parameters()]

    for one, two in zip(training(False), training(True), strict=True):
        assert torch.allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiler_takes_it_in_one_graph(backend: str) -> None:
    if backend == "inductor" and importlib.util.find_spec("triton") is None:
        pytest.skip("inductor needs Triton")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()

    def targets(target: Tensor, online: Tensor, updates: Tensor) -> Tensor:
        worth = structured_values(target, 0.7, online_q=online, seed=3, updates=updates)
        return 0.99 * (worth + structured(online, 0.5, updates=updates).sum(-1))

    compiled = torch.compile(targets, fullgraph=True, backend=backend)
    target, online = values(32, 18, seed=1).cuda(), values(32, 18, seed=2).cuda()
    for updates in range(4):
        count = torch.tensor(updates, device="cuda")
        assert torch.allclose(compiled(target, online, count), targets(target, online, count), rtol=1e-5, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_compiler_draws_the_same_masks() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("inductor needs Triton")
    torch._dynamo.reset()
    draw = torch.compile(lambda u: observed_entries((32, 18), 0.7, seed=3, updates=u, device="cuda"), fullgraph=True)
    for updates in (0, 1, 2, 10**6):
        here = observed_entries((32, 18), 0.7, seed=3, updates=updates)
        assert torch.equal(draw(torch.tensor(updates, device="cuda")).cpu(), here)


def test_a_hook_serves_on_the_gpu() -> None:
    torch.manual_seed(0)
    network, x = torch.nn.Linear(4, 6).cuda(), torch.randn(32, 4).cuda()
    raw = network(x).detach()
    with structure(network, 0.7, seed=1) as hook:
        for update in range(3):
            assert torch.equal(network(x), structured(raw, 0.7, seed=1, updates=update))
    assert hook.updates == 3
