"""The stand-in for a GPU by itself: it computes what a GPU does, and says what is wrong with a kernel."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch

from .compile import compiled_on_cpu

REVERSED_OVER_WARPS = """
extern "C" __global__ void turned(const float *from, float *to, int count) {
    extern __shared__ double memory[];
    float *held = (float *)memory;
    held[threadIdx.x] = from[blockIdx.x * count + threadIdx.x];
    BARRIER;
    to[blockIdx.x * count + threadIdx.x] = held[count - 1 - threadIdx.x];
}
"""

SUMS = """
extern "C" __global__ void sums(const float *values, float *totals, unsigned *ballots, unsigned *count) {
    float total = values[threadIdx.x];
    for (int offset = 16; offset; offset >>= 1) total += __shfl_xor_sync(0xffffffffu, total, offset);
    totals[threadIdx.x] = total + __shfl_sync(0xffffffffu, values[threadIdx.x], 3);
    unsigned ballot = __ballot_sync(0xffffffffu, values[threadIdx.x] > 40);
    if (threadIdx.x % 32 == 0) ballots[threadIdx.x / 32] = ballot;
    if (__syncthreads_or(threadIdx.x == 63)) atomicInc(count, 1000);
}
"""

FOUR_BYTES = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


def turn(folder: Path, barrier: str, *, backwards: bool = False, shared: int = 64 * FOUR_BYTES) -> torch.Tensor:
    values, turned = torch.arange(128.0), torch.zeros(128)
    kernel = compiled_on_cpu(REVERSED_OVER_WARPS, "turned", {"BARRIER": barrier}, folder, backwards=backwards)
    kernel(values, turned, ctypes.c_int(64), blocks=2, threads=64, shared=shared)
    return turned


@pytest.mark.parametrize("backwards", [False, True])
def test_warps_hand_over_at_a_barrier(folder: Path, backwards: bool) -> None:
    expected = torch.arange(128.0).view(2, 64).flip(-1).flatten()
    assert torch.equal(turn(folder, "__syncthreads()", backwards=backwards), expected)


def test_a_missing_barrier_shows(folder: Path) -> None:
    one, other = (turn(folder, "", backwards=backwards) for backwards in (False, True))
    assert not torch.equal(one, other)
    assert bool(one.isnan().any())  # what is read before it is written


@pytest.mark.parametrize(
    ("barrier", "shared", "said"),
    [
        ("if(threadIdx.x<50)__syncthreads()", 64, "wait for others"),
        ("if(threadIdx.x<50)__ballot_sync(~0u,true)", 64, "wait for others"),
        ("if(threadIdx.x%2)__ballot_sync(~0u,true);else\t__shfl_sync(~0u,1,0)", 64, "different calls"),
        ("__ballot_sync(3,true)", 64, "whole warps"),
        ("__syncthreads()", 63, "beyond what was asked for"),
    ],
    ids=["half a block", "half a warp", "two calls", "three lanes", "too little memory"],
)
def test_what_is_wrong_is_said(folder: Path, barrier: str, shared: int, said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        turn(folder, barrier, shared=shared * FOUR_BYTES)


def test_arguments_are_counted(folder: Path) -> None:
    kernel = compiled_on_cpu(REVERSED_OVER_WARPS, "turned", {"BARRIER": "__syncthreads()"}, folder)
    with pytest.raises(RuntimeError, match="another number of arguments"):
        kernel(torch.zeros(64), torch.zeros(64), blocks=1, threads=64, shared=64 * FOUR_BYTES)


def test_calls_of_warps_and_blocks(folder: Path) -> None:
    values, totals = torch.arange(64.0), torch.zeros(64)
    ballots, count = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    compiled_on_cpu(SUMS, "sums", {}, folder)(values, totals, ballots, count, blocks=1, threads=64)
    # 0 + ... + 31 = 496, and 32 + ... + 63 = 1520; lane 3 holds 3 and 35.
    assert torch.equal(totals, torch.tensor([499.0, 1555.0]).repeat_interleave(32))
    assert ballots.tolist() == [0, -512]  # all lanes but the lowest nine, which hold 32 to 40
    assert count.item() == 64
