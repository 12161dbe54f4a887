"""Soft-Impute's CUDA kernel: against the converged float64 optimum, the reference in torch, and inside a graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.agents.structured_targets import StructuredTargets
from svrl.matrix import Observed, Outcome, SoftImpute
from svrl.matrix.soft_impute_cuda import complete_scaled_on_gpu, serves, solve_on_gpu
from svrl.matrix.soft_impute_reference import solve_in_torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SHAPES = [
    (2, 1),
    (2, 2),
    (3, 2),
    (5, 3),
    (17, 9),
    (18, 18),
    (32, 4),
    (32, 18),
    (33, 17),
    (64, 18),
    (128, 18),
    (100, 31),
]
LIMITS = {1e-5: 2e-4, 1e-3: 5e-3}


def matrices(family: int, batch: int, m: int, n: int, seed: int = 0) -> np.ndarray:
    """Low-rank families with values of at most 1 in size."""
    normal = np.random.default_rng(seed).standard_normal
    if family == 0:
        x = 5 + normal((batch, m, 1)) + 0.3 * normal((batch, m, 3)) @ normal((batch, 3, n))
        x += 0.05 * normal((batch, m, n))
    elif family == 1:
        x = 10 + 3 * normal((batch, m, 1)) + 0.02 * normal((batch, m, 3)) @ normal((batch, 3, n))
        x += 0.01 * normal((batch, m, n))
    else:
        x = normal((batch, m, 4)) @ normal((batch, 4, n))
    return x / np.abs(x).max((1, 2), keepdims=True)


def problem(family: int, batch: int, m: int, n: int, share: float = 0.9) -> tuple[torch.Tensor, torch.Tensor]:
    """float64 values, zero where unobserved, and the mask, on the GPU."""
    mask = np.random.default_rng(1).random((batch, m, n)) < share
    values = np.where(mask, matrices(family, batch, m, n), 0.0)
    return torch.from_numpy(values).cuda(), torch.from_numpy(mask).cuda()


@pytest.mark.parametrize("family", [0, 1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_reaches_the_optimum(family: int, shape: tuple[int, int]) -> None:
    values, mask = problem(family, 32, *shape)
    exact = solve_in_torch(values, mask, None, 0.02, None, 1e-9, 5_000, fill=False)
    for tolerance, limit in LIMITS.items():
        found = solve_on_gpu(values.float(), mask, None, 0.02, None, tolerance, 1_000, fill=False)
        assert float((found.matrix - exact.matrix).abs().max()) < limit
        assert bool((found.code == Outcome.CONVERGED.code).all())
        assert torch.allclose(found.shrinkage, exact.shrinkage, rtol=1e-4)


@pytest.mark.parametrize("batch", [1, 32, 1_056])
def test_batches_of_any_size(batch: int) -> None:
    values, mask = problem(0, batch, 32, 18)
    exact = solve_in_torch(values, mask, None, 0.02, None, 1e-9, 5_000, fill=True)
    for tolerance, limit in LIMITS.items():
        found = solve_on_gpu(values.float(), mask, None, 0.02, None, tolerance, 1_000, fill=True)
        assert float((found.matrix - exact.matrix).abs().max()) < limit
        assert torch.equal(found.matrix[mask], values.float()[mask])


@pytest.mark.parametrize("share", [0.5, 0.7, 1.0])
def test_in_float64_it_is_exact(share: float) -> None:
    values, mask = problem(2, 8, 32, 18, share)
    exact = solve_in_torch(values, mask, None, 0.02, None, 1e-10, 20_000, fill=False)
    found = solve_on_gpu(values, mask, None, 0.02, None, 1e-10, 20_000, fill=False)
    assert float((found.matrix - exact.matrix).abs().max()) < 1e-6
    assert torch.equal(found.rank, exact.rank)


def test_the_estimator_takes_the_kernel_and_never_waits() -> None:
    values, mask = problem(0, 16, 32, 18)
    values = values.float()
    rule = StructuredTargets()
    rule.complete(values, mask)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = SoftImpute(tolerance=1e-5)(Observed.trusted(values, mask))
        rule.complete(values, mask)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    cpu = SoftImpute(tolerance=1e-5)(Observed.trusted(values.cpu(), mask.cpu()))
    assert torch.allclose(found.matrix.cpu(), cpu.matrix, atol=2e-4)


def test_a_graph_replays_it_on_new_values() -> None:
    values, mask = problem(0, 32, 32, 18)
    held = values.float().clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        solve_on_gpu(held, mask, None, 0.02, None, 1e-5, 100, fill=False)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            found = solve_on_gpu(held, mask, None, 0.02, None, 1e-5, 100, fill=False)
        fresh = torch.where(mask, torch.from_numpy(matrices(1, 32, 32, 18, seed=5)).cuda(), 0.0)
        held.copy_(fresh)
        graph.replay()
    stream.synchronize()
    exact = solve_in_torch(fresh, mask, None, 0.02, None, 1e-9, 5_000, fill=False)
    assert float((found.matrix - exact.matrix).abs().max()) < 2e-4


@pytest.mark.parametrize("output", ["fill", "estimate"])
@pytest.mark.parametrize("scale", ["none", "minmax", "row"])
def test_one_launch_does_what_structured_targets_say(scale: str, output: str) -> None:
    """The plain lines of `complete`, on the CPU, are the reference."""
    q = torch.from_numpy(matrices(0, 16, 32, 18)).float() * 7 - 2
    mask = torch.rand(q.shape, generator=torch.Generator().manual_seed(0)) < 0.85
    mask[3, 5] = False  # a row that tells nothing about itself
    q[4, 2, 1] = torch.nan
    q[5] = 3.0
    rule = StructuredTargets(scale=scale, output=output, estimator=SoftImpute(tolerance=1e-6, max_steps=1_000))
    one, two = rule.complete(q, mask), rule.complete(q.cuda(), mask.cuda())
    assert torch.allclose(one.matrix, two.matrix.cpu(), atol=2e-3, equal_nan=True)
    sound = torch.arange(len(q)) != 4
    assert torch.allclose(one.estimate[sound], two.estimate.cpu()[sound], atol=2e-3)
    assert torch.equal(one.code[sound], two.code.cpu()[sound])
    assert two.code[4] == Outcome.NOT_FINITE.code
    assert torch.equal(two.matrix[3, 5].cpu(), q[3, 5])
    if output == "fill":
        assert torch.equal(two.matrix.cpu()[sound][mask[sound]], q[sound][mask[sound]])


def test_wide_matrices_are_turned_and_large_ones_go_another_way() -> None:
    values, mask = problem(0, 4, 40, 12)
    tall = SoftImpute(tolerance=1e-6)(Observed.trusted(values.float(), mask)).matrix
    wide = SoftImpute(tolerance=1e-6)(Observed.trusted(values.float().mT, mask.mT)).matrix
    assert torch.allclose(tall, wide.mT, atol=1e-4)
    assert not serves(64, 64, torch.float32, torch.device("cuda"))
    assert SoftImpute().captures(18, 32, torch.device("cuda"))
    assert not SoftImpute().captures(64, 64, torch.device("cuda"))
    values, mask = problem(0, 2, 80, 64)
    large = SoftImpute(tolerance=1e-6)(Observed.trusted(values, mask)).matrix
    exact = SoftImpute(tolerance=1e-8)(Observed.trusted(values.cpu(), mask.cpu())).matrix
    assert torch.allclose(large.cpu(), exact, atol=1e-4)


def test_results_do_not_depend_on_neighbours() -> None:
    values, mask = problem(0, 300, 32, 18)
    whole = solve_on_gpu(values.float(), mask, None, 0.02, None, 1e-5, 100, fill=False).matrix
    alone = solve_on_gpu(values[7:8].float(), mask[7:8], None, 0.02, None, 1e-5, 100, fill=False).matrix
    assert torch.equal(whole[7], alone[0])
    half = complete_scaled_on_gpu(
        values.float(), mask, scale="row", fill=True, ratio=0.02, tolerance=1e-3, max_steps=100
    )
    assert half.matrix.shape == values.shape
