"""Many seeds at once on a CUDA device: the agents of the CPU, and graphs that repeat."""

from __future__ import annotations

import pytest
import torch

from svrl.agents.batched import SeedsEvaluated, normal, train_seeds, uniform
from svrl.agents.config import AgentConfig

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ENV = "control/three-motor-pendulum"


def trained(device: str, **changes: object):
    small = {"actions": 27, "hidden": (32, 32), "steps": 400, "learning_starts": 128, "batch_size": 16}
    config = AgentConfig.for_env(ENV, "control", **{**small, "eval_every": 0, "target_update_interval": 20, **changes})
    found: list[SeedsEvaluated] = []
    agents = train_seeds(
        ENV,
        config,
        seeds=range(4),
        device=device,
        precision="float32",
        reward_noise=0.3,
        evaluated=found.append,
        games=8,
    )
    return agents, found[-1]


def test_random_numbers_are_those_of_the_cpu() -> None:
    seeds, position = torch.arange(-3, 40), torch.tensor([7])
    assert torch.equal(uniform(seeds, 2, position, 99), uniform(seeds.cuda(), 2, position.cuda(), 99).cpu())
    ours, theirs = normal(seeds, 2, position, 99), normal(seeds.cuda(), 2, position.cuda(), 99).cpu()
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("agent", ["dqn", "double", "dueling", "lowrank", "additive", "sv-dqn", "sv-double-network"])
def test_agents_are_those_of_the_cpu_up_to_rounding(agent: str) -> None:
    (ours, one), (theirs, other) = trained("cpu", agent=agent), trained("cuda", agent=agent)
    look = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)).numpy()
    for here, there in zip(ours, theirs, strict=True):
        assert there.updates == here.updates == 136
        torch.testing.assert_close(here.q(look), there.q(look).cpu(), rtol=0.05, atol=0.05)
    torch.testing.assert_close(one.promised, other.promised, rtol=0.05, atol=0.05)


def test_a_run_repeats() -> None:
    (first, _), (second, _) = trained("cuda", agent="lowrank"), trained("cuda", agent="lowrank")
    for one, other in zip(first, second, strict=True):
        for a, b in zip(one.network.parameters(), other.network.parameters(), strict=True):
            assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("changes", [{"actions": 216, "batch_size": 64}, {"estimator": "factor-als"}], ids="-".join)
def test_estimations_that_no_graph_can_contain_run_without(changes: dict) -> None:
    agents, found = trained("cuda", agent="sv-dqn", **changes)
    assert all(agent.updates == 136 for agent in agents)
    assert bool(found.promised.isfinite().all())
