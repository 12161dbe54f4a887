"""What --device takes, and what is said where it cannot be had."""

from __future__ import annotations

import pytest
import torch

from svrl.cli.answers import BadInputError
from svrl.cli.plan_request import check_device, missing_card


@pytest.mark.parametrize("name", ["gpu", "mps", "cuda:x", ""])
def test_other_devices_are_refused_in_words_that_fit_every_command(name: str) -> None:
    with pytest.raises(BadInputError) as refused:
        check_device(name)
    assert str(refused.value) == f"There is no device {name!r}. Use cpu, cuda or cuda:N."


@pytest.mark.parametrize(
    ("found", "rest"),
    [
        (0, "no CUDA device here. Use --device cpu."),
        (1, "one CUDA device here. Use --device cuda."),
        (4, "4 CUDA devices here. Use --device cuda:0 to cuda:3."),
    ],
)
def test_a_missing_card_names_one_that_is_there(found: int, rest: str) -> None:
    assert missing_card("cuda:7", found) == f"cuda:7 is not available: torch finds {rest}"


def test_every_card_is_taken_and_the_one_after_the_last_is_not() -> None:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    assert check_device("cpu") == torch.device("cpu")
    for index in range(count):
        assert check_device(f"cuda:{index}") == torch.device("cuda", index)
    with pytest.raises(BadInputError) as refused:
        check_device(f"cuda:{count}")
    assert str(refused.value) == missing_card(f"cuda:{count}", count)
