"""Several runs on one GPU: equal to the runs alone, and a full GPU is said in a sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import svrl
from svrl.agents.config import AgentConfig
from svrl.agents.learner import weights_of
from svrl.training.population import Member, train_population
from svrl.training.session import at_work_on, train_in_directory

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ENV = "CartPole-v1"
ARMS = ({}, {"structured": True}, {"agent": "double"}, {"agent": "dueling", "structured": True})


def test_runs_together_on_a_gpu_are_the_runs_alone(tmp_path: Path) -> None:
    configs = [AgentConfig.for_env(ENV, "smoke", hidden=(64,), steps=600, n_envs=4, **arm) for arm in ARMS]
    members = [
        Member(env=ENV, config=config, folder=tmp_path / f"together {at}", seed=at, device="cuda", threads=1)
        for at, config in enumerate(configs)
    ]
    train_population(members, together=len(members))
    for at, config in enumerate(configs):
        _train_alone(config, tmp_path / f"alone {at}", seed=at)
        alone, together = (svrl.load_agent(tmp_path / f"{how} {at}") for how in ("alone", "together"))
        for name, array in weights_of(alone.network).items():
            assert np.array_equal(array, weights_of(together.network)[name]), (at, name)
        for name in ("episodes.jsonl", "evaluations.jsonl", "learning.jsonl"):
            assert (tmp_path / f"alone {at}" / name).read_bytes() == (tmp_path / f"together {at}" / name).read_bytes()


def _train_alone(config: AgentConfig, folder: Path, *, seed: int) -> None:
    """With one CPU thread, as the members have: ranks of features are taken there, and more threads round otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        train_in_directory(ENV, config, folder=folder, seed=seed, device="cuda")
    finally:
        torch.set_num_threads(before)


def test_a_full_gpu_is_a_sentence_with_sizes(tmp_path: Path) -> None:
    said = r"^The memory of cuda is full: [\d.]+ GiB was asked for and .* is free\. "
    with pytest.raises(ValueError, match=said), at_work_on("cuda", tmp_path):
        torch.empty(1 << 45, dtype=torch.uint8, device="cuda")
