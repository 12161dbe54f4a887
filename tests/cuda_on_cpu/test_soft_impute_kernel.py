"""Soft-Impute's CUDA kernel on the CPU: against the reference in float64, closed forms, and structured targets.

Kernels and the code that launches them are those of a GPU; see cuda_shim.h for what that does not show.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.linalg import svdvals

from benchmarks.matrix import FAMILIES, draw_matrix
from svrl.agents.config import Output, Scale
from svrl.agents.structured_targets import StructuredTargets
from svrl.matrix import Outcome, SoftImpute
from svrl.matrix import soft_impute_cuda as cuda
from svrl.matrix.scaling import Completed
from svrl.matrix.soft_impute_cuda import complete_scaled_on_gpu, serves, solve_on_gpu, working_type
from svrl.matrix.soft_impute_reference import Solution, solve_in_torch
from svrl.runtime import nvrtc
from svrl.runtime.nvrtc import NoCompilerError, compile_source

from .compile import pretend_a_gpu

RARELY = pytest.mark.slow
"""Not every shape in make test: a kernel is compiled for each and each precision, a second."""
RATIO = 0.02


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def GPU(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    pretend_a_gpu(monkeypatch, cuda, folder)


def matrices(family: str, batch: int, m: int, n: int) -> Tensor:
    """Of a benchmark's family, cut to (batch, m, n), the largest entry 1 in size; float64."""
    rng = np.random.default_rng(0)
    tall = [np.concatenate([draw_matrix(family, rng) for _ in range(2)]) for _ in range(batch)]
    values = torch.from_numpy(np.stack(tall)[:, :m, :n]).double()
    return values / values.abs().amax((1, 2), keepdim=True)


def problem(family: str, batch: int, m: int, n: int, share: float = 0.85) -> tuple[Tensor, Tensor]:
    """Values, zero where unobserved, and the mask; every row has an observed entry."""
    mask = torch.from_numpy(np.random.default_rng(1).random((batch, m, n)) < share)
    mask[:, :, 0] |= ~mask.any(-1)
    return torch.where(mask, matrices(family, batch, m, n), 0.0), mask


def optimum(values: Tensor, mask: Tensor, level: Tensor | None = None, *, fill: bool = False) -> Solution[Tensor]:
    return solve_in_torch(values, mask, level, RATIO, None, 1e-11, 20_000, fill=fill)


def shrunk(filled: Tensor, level: Tensor) -> tuple[Tensor, Tensor]:
    """Singular values less `level` (batch,), and how many are left."""
    left, sizes, right = torch.linalg.svd(filled, full_matrices=False)
    kept = (sizes - level.unsqueeze(-1)).clamp(min=0)
    return (left * kept.unsqueeze(-2)) @ right, (kept > 0).sum(-1)


def far(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().max())


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((2, 1), marks=RARELY),
        (5, 3),
        (17, 9),
        (32, 18),
        *(pytest.param(s, marks=RARELY) for s in ((33, 17), (64, 18))),
    ],
    ids=str,
)
@pytest.mark.parametrize("family", FAMILIES)
def test_in_double_it_is_the_optimum(family: str, shape: tuple[int, int]) -> None:
    values, mask = problem(family, 1, *shape)
    found = solve_on_gpu(values, mask, None, RATIO, None, 1e-9, 5_000, fill=False)
    exact = optimum(values, mask)
    assert far(found.matrix, exact.matrix) < 1e-7
    assert far(found.shrinkage, exact.shrinkage) < 1e-12
    assert torch.equal(found.rank, exact.rank)
    assert found.code.tolist() == [Outcome.CONVERGED.code]
    assert float(found.change) < 1e-9


@pytest.mark.parametrize(
    "shape",
    [(2, 1), (5, 3), pytest.param((17, 9), marks=RARELY), (32, 18), pytest.param((33, 17), marks=RARELY), (64, 18)],
    ids=str,
)
@pytest.mark.parametrize("family", FAMILIES[:3:2])
def test_in_single_it_fills_up_to_rounding(family: str, shape: tuple[int, int]) -> None:
    values, mask = problem(family, 1, *shape)
    found = solve_on_gpu(values.float(), mask, None, RATIO, None, 1e-5, 1_000, fill=True)
    assert far(found.matrix, optimum(values, mask, fill=True).matrix) < 2e-4
    assert torch.equal(found.matrix[mask], values.float()[mask])
    assert found.matrix.dtype == torch.float32
    assert found.code.tolist() == [Outcome.CONVERGED.code]


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-6), (torch.float64, 1e-14)], ids=str)
@pytest.mark.parametrize("shape", [(5, 3), (32, 18)], ids=str)
def test_without_a_missing_entry_it_is_one_shrinkage(shape: tuple[int, int], dtype: torch.dtype, limit: float) -> None:
    values = matrices(FAMILIES[0], 1, *shape)
    expected, rank = shrunk(values, RATIO * svdvals(values)[:, 0])
    mask = torch.ones_like(values, dtype=torch.bool)
    found = solve_on_gpu(values.to(dtype), mask, None, RATIO, None, 1e-3, 100, fill=False)
    assert far(found.matrix, expected) < limit
    assert torch.equal(found.rank, rank)
    assert (found.iterations.tolist(), found.change.tolist()) == ([1], [0.0])
    filled = solve_on_gpu(values.to(dtype), mask, None, RATIO, None, 1e-3, 100, fill=True).matrix
    assert torch.equal(filled, values.to(dtype))


def test_with_most_missing_the_objective_is_the_smallest() -> None:
    """There may be many minimisers then, but they agree on this."""
    values, mask = problem(FAMILIES[2], 1, 17, 9, share=0.3)
    found, exact = solve_on_gpu(values, mask, None, RATIO, None, 1e-8, 5_000, fill=False), optimum(values, mask)

    def objective(estimate: Tensor) -> float:
        return float(((estimate - values) * mask).square().sum() / 2 + exact.shrinkage * svdvals(estimate).sum())

    assert abs(objective(found.matrix) - objective(exact.matrix)) < 1e-12


@pytest.mark.parametrize("shape", [(17, 9), (32, 18)], ids=str)
def test_shrinkage_and_start_may_be_given(shape: tuple[int, int]) -> None:
    values, mask = problem(FAMILIES[0], 2, *shape)
    values, level = 4 * values, torch.tensor([1.2, 0.4], dtype=torch.float64)
    exact = optimum(values, mask, level)
    found = solve_on_gpu(values, mask, level, 0.0, None, 1e-9, 1_000, fill=False)
    again = solve_on_gpu(values, mask, level, 0.0, found.matrix, 1e-9, 1_000, fill=False)
    by_ratio = solve_on_gpu(values, mask, None, RATIO, optimum(values, mask).matrix, 1e-6, 1_000, fill=False)
    assert far(found.matrix, exact.matrix) < 1e-7
    assert far(again.matrix, exact.matrix) < 1e-7
    assert torch.equal(found.shrinkage, level)
    assert torch.equal(found.rank, exact.rank)
    assert bool((again.iterations < found.iterations).all())
    assert by_ratio.iterations.tolist() == [1, 1]


def test_matrices_of_zeros_and_of_constants() -> None:
    mask = problem(FAMILIES[0], 3, 5, 3)[1]
    mask[2] = True
    values = torch.tensor([0.0, -3.0, 1e-30]).view(3, 1, 1) * mask
    found = solve_on_gpu(values, mask, None, RATIO, None, 1e-6, 1_000, fill=False)
    assert found.matrix.shape == values.shape
    assert not found.matrix[0].any()
    assert [float(one[0]) for one in (found.iterations, found.rank, found.shrinkage)] == [0, 0, 1]
    assert far(found.matrix[1:2], optimum(values[1:2].double(), mask[1:2]).matrix) < 1e-5
    # Nothing is missing of the last, and its one singular value loses its 2%.
    torch.testing.assert_close(found.matrix[2], values[2] * (1 - RATIO), rtol=1e-6, atol=0)
    assert found.code.tolist() == [Outcome.CONVERGED.code] * 3


def test_rows_never_observed_are_zero() -> None:
    values, mask = problem(FAMILIES[0], 1, 17, 9)
    mask[0, 4] = mask[0, 16] = False
    values = values * mask
    found = solve_on_gpu(values, mask, None, RATIO, None, 1e-9, 1_000, fill=False)
    assert far(found.matrix, optimum(values, mask).matrix) < 1e-7
    assert not found.matrix[0, [4, 16]].any()


def test_too_few_steps_are_said_and_the_estimate_is_still_one_shrinkage() -> None:
    values, mask = problem(FAMILIES[2], 2, 17, 9)
    found = solve_on_gpu(values, mask, None, RATIO, None, 1e-9, 2, fill=False)
    filled = solve_on_gpu(values, mask, None, RATIO, None, 1e-9, 2, fill=True).matrix
    assert found.iterations.tolist() == [2, 2]
    assert found.code.tolist() == [Outcome.OUT_OF_STEPS.code] * 2
    expected, rank = shrunk(filled, found.shrinkage)
    assert far(found.matrix, expected) < 1e-9
    assert torch.equal(found.rank, rank)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", [(0, 0), (3, 2)], ids=str)
def test_what_is_not_finite_ends_and_stays_with_its_matrix(place: tuple[int, int], bad: float) -> None:
    values, mask = problem(FAMILIES[0], 3, 5, 3)
    alone = solve_on_gpu(values, mask, None, RATIO, None, 1e-6, 100, fill=False).matrix
    mask[1][place], values[1][place] = True, bad
    found = solve_on_gpu(values, mask, None, RATIO, None, 1e-6, 100, fill=False).matrix
    assert torch.equal(found[::2], alone[::2])
    assert not found[1].isfinite().all()


def test_the_order_of_warps_and_blocks_does_not_matter(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Where a barrier is missing, it does."""
    values, mask = problem(FAMILIES[0], 2, 17, 9, share=0.6)
    values, level = values.float(), torch.full((2,), 0.2)
    results: list[list[Tensor]] = []
    for backwards in (False, True):
        pretend_a_gpu(monkeypatch, cuda, folder, backwards=backwards)
        found = solve_on_gpu(values, mask, None, RATIO, None, 1e-5, 100, fill=False)
        given = solve_on_gpu(values.double(), mask, level, 0.0, found.matrix, 1e-5, 100, fill=True)
        results.append([found.matrix, found.shrinkage, found.change, found.rank, given.matrix, given.change])
        for scale in get_args(Scale):
            results[-1] += completed(targets(scale, "fill"), values, mask)
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def targets(scale: Scale, output: Output) -> StructuredTargets:
    return StructuredTargets(scale=scale, output=output, estimator=SoftImpute(tolerance=1e-6, max_steps=1_000))


def completed(rule: StructuredTargets, q: Tensor, mask: Tensor) -> Completed:
    fill = rule.output == "fill"
    return complete_scaled_on_gpu(q, mask, scale=rule.scale, fill=fill, ratio=RATIO, tolerance=1e-6, max_steps=1_000)


@pytest.mark.parametrize("shape", [(5, 3), (32, 18)], ids=str)
@pytest.mark.parametrize("output", get_args(Output))
@pytest.mark.parametrize("scale", get_args(Scale))
def test_one_launch_does_what_structured_targets_say(scale: Scale, output: Output, shape: tuple[int, int]) -> None:
    q, (_, mask) = 7 * matrices(FAMILIES[0], 2, *shape).float() - 2, problem(FAMILIES[0], 2, *shape)
    mask[0, 1] = False  # a row that tells nothing about itself
    q[1, -1, -1] = 9.0
    rule = targets(scale, output)
    plain, kernel = rule.complete(q, mask), completed(rule, q, mask)
    assert far(kernel.matrix, plain.matrix) < 1e-3
    assert far(kernel.estimate, plain.estimate) < 1e-3
    assert torch.equal(kernel.rank, plain.rank)
    assert torch.equal(kernel.code, plain.code)
    assert torch.equal(kernel.matrix[0, 1], q[0, 1])
    if output == "fill":
        assert torch.equal(kernel.matrix[mask], q[mask])


@pytest.mark.parametrize("scale", get_args(Scale))
def test_structured_targets_of_constants_and_of_32_columns(scale: Scale) -> None:
    rule = targets(scale, "fill")
    q, mask = torch.full((1, 5, 3), 1e4), problem(FAMILIES[0], 1, 5, 3)[1]
    # Only "none" leaves something to shrink.
    assert far(completed(rule, q, mask).matrix, rule.complete(q, mask).matrix) <= (0.1 if scale == "none" else 0)
    tall = matrices(FAMILIES[2], 2, 36, 16).float()
    q, mask = torch.cat([tall[:1], tall[1:]], -1), torch.ones(1, 36, 32, dtype=torch.bool)
    mask[0, 3, 31] = False
    mask[0, 7] = False
    plain, kernel = rule.complete(q, mask), completed(rule, q, mask)
    assert far(kernel.matrix, plain.matrix) < 1e-4
    assert torch.equal(kernel.matrix[0, 7], q[0, 7])


def test_structured_targets_never_leave_the_range_of_minmax() -> None:
    q = torch.outer(torch.tensor([1.0, -1.0, 0.5, -0.5, 2.0]), torch.tensor([0.5, 0.4, 1.0]))[None]
    mask = torch.ones(1, 5, 3, dtype=torch.bool)
    q[0, 4, 2], mask[0, 4, 2] = 0.0, False  # the others point to almost 2 here, and range from -1 to 1
    rule = targets("minmax", "estimate")
    plain, kernel = rule.complete(q, mask), completed(rule, q, mask)
    assert float(plain.estimate[0, 4, 2]) == float(kernel.estimate[0, 4, 2]) == 1.0
    assert far(kernel.matrix, plain.matrix) < 1e-4


def assert_like_plain(
    scale: Scale, place: tuple[int, int], *, seen: bool, shape: tuple[int, int] = (5, 3), bad: float = torch.nan
) -> None:
    """With NaN or infinity at a place of the first matrix, the kernel gives what plain torch gives."""
    q, (_, mask) = matrices(FAMILIES[0], 2, *shape).float(), problem(FAMILIES[0], 2, *shape)
    mask[0, 0] = True
    mask[0][place], q[0][place] = seen, bad
    rule = targets(scale, "fill")
    plain, kernel = rule.complete(q, mask), completed(rule, q, mask)
    torch.testing.assert_close(kernel.matrix, plain.matrix, rtol=0, atol=1e-4, equal_nan=True)
    assert kernel.code.tolist() == plain.code.tolist() == [Outcome.NOT_FINITE.code, Outcome.CONVERGED.code]


@pytest.mark.parametrize("place", [(0, 0), (3, 2)], ids=str)
@pytest.mark.parametrize(
    ("scale", "seen"), [*((scale, True) for scale in get_args(Scale)), ("none", False), ("row", False)]
)
def test_structured_targets_of_a_nan(scale: Scale, seen: bool, place: tuple[int, int]) -> None:
    assert_like_plain(scale, place, seen=seen)


def test_a_hidden_nan_leaves_minmax_nothing_to_scale_by() -> None:
    assert_like_plain("minmax", (3, 2), seen=False)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("place", [(4, 1), (31, 17)], ids=str)
@pytest.mark.parametrize("scale", get_args(Scale))
def test_all_threads_of_a_large_matrix_go_the_same_way(scale: Scale, place: tuple[int, int], bad: float) -> None:
    """Threads of a warp once disagreed on a maximum with NaN in it, and half of them waited at a barrier for ever."""
    assert_like_plain(scale, place, seen=True, shape=(32, 18), bad=bad)


@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("columns", [2, 18, 32])
def test_the_kernel_compiles_for_a_gpu(real: str, columns: int) -> None:
    try:
        nvrtc._nvrtc()
    except NoCompilerError as error:
        pytest.skip(str(error))
    options = (f"-DREAL={real}", f"-DN={columns}", "-DROWS=4", "--gpu-architecture=sm_90")
    assert b"soft_impute" in compile_source(cuda._source(), options)


def test_where_the_kernel_serves() -> None:
    assert not serves(32, 18, torch.float32, torch.device("cpu"))
    assert working_type(torch.float32, None, 0.02) == torch.float32
    assert working_type(torch.float32, None, 1e-4) == torch.float64
    assert working_type(torch.float32, torch.ones(1), 0.02) == torch.float64
    assert working_type(torch.float64, None, 0.02) == torch.float64
