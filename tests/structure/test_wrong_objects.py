"""An object of the wrong kind is answered with the right one, not with an attribute that it lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import svrl


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: svrl.GridMDP("inverted-pendulum"), r"takes a ControlTask, .* got 'inverted-pendulum'"),
        (lambda: svrl.plan("toy", svrl.ValueIteration()), r"plan takes a model .* got 'toy'"),
        (lambda: svrl.Training("CartPole-v1", "smoke"), r"Training takes an AgentConfig, .* got 'smoke'"),
        (lambda: svrl.train("CartPole-v1", "smoke"), r"train takes an AgentConfig, .* got 'smoke'"),
        (lambda: svrl.make_task("cart-pole", states=10), r"needs as many grid sizes, got states=10"),
    ],
)
def test_it_is_told(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()
