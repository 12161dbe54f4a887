"""What a GPU multiplies in. torch's switches can be set without a GPU, so they can be looked at here."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import torch

from svrl.agents.config import check_precision, default_precision
from svrl.agents.cuda_graph import computing_in

GPU, HOST = torch.device("cuda"), torch.device("cpu")


def switches() -> tuple[bool, bool]:
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize(("precision", "expected"), [("float32", False), ("tf32", True), ("bf16", True)])
def test_the_switches_are_set_and_set_back(precision: str, expected: bool) -> None:
    before = switches()
    with computing_in(precision, GPU):
        assert switches() == (expected, expected)
        with computing_in(precision, GPU):
            assert switches() == (expected, expected)
        assert switches() == (expected, expected)
    assert switches() == before


def test_the_cpu_is_left_alone() -> None:
    before = switches()
    with computing_in("tf32", HOST):
        assert switches() == before


def test_one_thread_that_ends_does_not_switch_for_another() -> None:
    before, ended = switches(), threading.Event()

    def other() -> None:
        with computing_in("tf32", GPU):
            pass
        ended.set()

    with computing_in("tf32", GPU):
        threading.Thread(target=other).start()
        ended.wait()
        assert switches() == (True, True)
    assert switches() == before


def test_two_precisions_at_once_are_refused() -> None:
    before = switches()
    with computing_in("float32", GPU), pytest.raises(ValueError, match="one runs in float32"):
        computing_in("tf32", GPU).__enter__()
    assert switches() == before


def test_defaults_and_refusals() -> None:
    assert [default_precision(device) for device in ("cpu", "cuda", "cuda:1", HOST, GPU)] == [
        "float32",
        "tf32",
        "tf32",
        "float32",
        "tf32",
    ]
    check_precision("float32", "cpu")
    check_precision("bf16", "cuda:1")


def test_newer_switches_of_torch_are_respected() -> None:
    """A program that has used them cannot read the older ones any more; in a process of its own, for they stay."""
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has the older switches only")
    program = (
        "import torch; from svrl.agents.cuda_graph import computing_in\n"
        "torch.backends.cuda.matmul.fp32_precision = 'ieee'; torch.backends.cudnn.conv.fp32_precision = 'tf32'\n"
        "look = lambda: (torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision)\n"
        "with computing_in('tf32', torch.device('cuda')): print(look())\n"
        "with computing_in('float32', torch.device('cuda')): print(look())\n"
        "print(look())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rounded, exact, after = done.stdout.splitlines()
    assert rounded == "('tf32', 'tf32')"
    assert exact in ("('ieee', 'ieee')", "('ieee', 'none')")
    assert after == "('ieee', 'tf32')"
