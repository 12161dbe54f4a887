from __future__ import annotations

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.training import Training
from svrl.mdp.grid import GridMDP
from svrl.mdp.tabular import TabularMDP
from svrl.mdp.tasks import inverted_pendulum
from svrl.runtime.device import check_device


def test_a_gpu_that_is_not_there_is_one_sentence() -> None:
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    with pytest.raises(ValueError, match=f"cuda:{there} is not available: torch finds"):
        check_device(f"cuda:{there}")
    with pytest.raises(ValueError, match=f"cuda:{there} is not available"):
        Training("CartPole-v1", AgentConfig.of("classic"), device=f"cuda:{there}")
    with pytest.raises(ValueError, match=f"cuda:{there} is not available"):
        GridMDP(inverted_pendulum(states=(5, 5), actions=3), device=f"cuda:{there}")
    with pytest.raises(ValueError, match=f"cuda:{there} is not available"):
        TabularMDP(transitions=np.full((2, 2, 2), 0.5), rewards=np.zeros((2, 2)), gamma=0.5, device=f"cuda:{there}")
    check_device("cpu")
