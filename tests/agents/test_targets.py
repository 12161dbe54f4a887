from __future__ import annotations

import pytest
import torch

from svrl.agents.targets import bellman_targets, next_values

TARGET = torch.tensor([[1.0, 5.0, 3.0], [2.0, 0.0, -1.0]])
ONLINE = torch.tensor([[9.0, 0.0, 1.0], [0.0, 0.0, 7.0]])
COMPLETED = torch.tensor([[6.0, 5.0, 7.0], [2.0, 3.0, -1.0]])


@pytest.mark.parametrize(
    ("kind", "given", "value", "expected"),
    [
        ("dqn", None, "completed", [5.0, 2.0]),
        ("dueling", None, "completed", [5.0, 2.0]),
        ("double", None, "completed", [1.0, -1.0]),
        ("dqn", COMPLETED, "completed", [7.0, 3.0]),
        ("dueling", COMPLETED, "completed", [7.0, 3.0]),
        ("double", COMPLETED, "completed", [6.0, -1.0]),
        ("dqn", COMPLETED, "network", [3.0, 0.0]),
        ("dueling", COMPLETED, "network", [3.0, 0.0]),
        ("double", COMPLETED, "network", [3.0, 0.0]),
    ],
)
def test_who_chooses_and_who_values(kind: str, given: torch.Tensor | None, value: str, expected: list[float]) -> None:
    found = next_values(kind, TARGET, online_q=ONLINE, completed=given, next_value_from=value)  # type: ignore[arg-type]
    assert found.tolist() == expected


def test_double_needs_the_online_network() -> None:
    with pytest.raises(ValueError, match="double agent needs"):
        next_values("double", TARGET)


def test_bellman() -> None:
    targets = bellman_targets(torch.tensor([1.0, -1.0]), torch.tensor([1.0, 0.0]), torch.tensor([10.0, 10.0]), 0.9)
    assert targets.tolist() == [10.0, -1.0]
