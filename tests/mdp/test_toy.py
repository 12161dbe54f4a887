from __future__ import annotations

import math

import pytest
import torch

from svrl.mdp.model import Model
from svrl.mdp.toy import toy_mdp


def next_states(mdp) -> torch.Tensor:
    """(S, A), read off backups of the states' own numbers."""
    numbers = torch.arange(mdp.n_states, dtype=torch.float64)
    return ((mdp.backup(numbers) - mdp.backup(torch.zeros_like(numbers))) / mdp.gamma).round().to(torch.int64)


def rewards(mdp) -> torch.Tensor:
    return mdp.backup(torch.zeros(mdp.n_states, dtype=torch.float64))


def test_the_default_is_the_papers():
    mdp = toy_mdp(0)
    assert isinstance(mdp, Model)
    assert (mdp.n_states, mdp.n_actions, mdp.gamma) == (1000, 100, 0.95)
    assert mdp.describe()["reward"] == "uniform"
    assert mdp.describe()["transitions"] == 100_000


def test_every_pair_leads_to_one_state_drawn_uniformly():
    mdp = toy_mdp(1, n_states=50, n_actions=400)
    following = next_states(mdp)
    # A backup of the indicator of a state is 0 or the discount: one next state, of probability 1.
    indicator = torch.zeros(50, dtype=torch.float64)
    indicator[7] = 1.0
    gain = mdp.backup(indicator) - rewards(mdp)
    assert torch.allclose(gain, 0.95 * (following == 7).double(), rtol=0, atol=1e-15)
    # Pearson's chi-square over 50 states with 20,000 draws: 49 degrees of freedom, 6 standard deviations.
    counts = torch.bincount(following.reshape(-1), minlength=50).double()
    assert float(((counts - 400) ** 2 / 400).sum()) < 49 + 6 * math.sqrt(98)


@pytest.mark.parametrize(("reward", "mean", "variance"), [("uniform", 0.5, 1 / 12), ("normal", 0.0, 1.0)])
def test_rewards_have_the_moments_of_their_distribution(reward: str, mean: float, variance: float):
    found = rewards(toy_mdp(2, n_states=200, n_actions=200, reward=reward))
    assert float(found.mean()) == pytest.approx(mean, abs=6 * math.sqrt(variance / 40_000))
    assert float(found.var()) == pytest.approx(variance, rel=0.05)
    assert (0.0 <= float(found.min()) < float(found.max()) < 1.0) == (reward == "uniform")


def test_a_seed_is_a_problem_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    one, same, other = (toy_mdp(seed, n_states=20, n_actions=5) for seed in (3, 3, 4))
    generator = torch.Generator().manual_seed(3)
    drawn = toy_mdp(generator, n_states=20, n_actions=5)
    following = toy_mdp(generator, n_states=20, n_actions=5)
    v = torch.linspace(0, 1, 20)
    assert torch.equal(one.backup(v), same.backup(v))
    assert torch.equal(one.backup(v), drawn.backup(v))
    assert not torch.equal(one.backup(v), other.backup(v))
    assert not torch.equal(drawn.backup(v), following.backup(v))
    assert torch.equal(before, torch.get_rng_state())
    assert one.describe()["seed"] == 3
    assert "seed" not in drawn.describe()


def test_what_is_refused():
    with pytest.raises(ValueError, match="uniform or normal, got 'gamma'"):
        toy_mdp(0, reward="gamma")
    with pytest.raises(ValueError, match="n_states as a whole number of at least 1, got 0"):
        toy_mdp(0, n_states=0, n_actions=3)
    with pytest.raises(ValueError, match="discount between 0 and 1"):
        toy_mdp(0, n_states=2, n_actions=2, gamma=1.0)
