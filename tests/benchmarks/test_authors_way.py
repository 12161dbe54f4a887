"""The authors' way of training: the same learning rule as ours, told by other code. Nothing here is about speed."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.learner import Learner
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.replay import Batch
from svrl.agents.structured_targets import StructuredTargets
from svrl.benchmarks.authors_way import (
    AuthorsLoop,
    AuthorsUpdate,
    FrameRing,
    HostBatch,
    authors_config,
    authors_steps_per_second,
    completed,
    soft_impute,
)
from svrl.benchmarks.peers import MissingPeerError, fancy_soft_impute
from svrl.envs.catalogue import make_env
from svrl.envs.vector import EnvSpec, Step, VectorEnv
from svrl.matrix import Observed, SoftImpute

SPEC = EnvSpec(id="made/up", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=18)
TINY = EnvSpec(id="made/up", family="atari", frame_shape=(1,), dtype="uint8", stack=4, n_actions=2)


def config(**changes: object) -> AgentConfig:
    return AgentConfig.of("authors", **{"learning_rate": 1e-3, "target_every": 2, **changes})


def network(seed: int = 0) -> QNetwork:
    return build_network(SPEC, config(), torch.Generator().manual_seed(seed))


def batch(seed: int, count: int = 8) -> HostBatch:
    rng = np.random.default_rng(seed)
    return HostBatch(
        windows=rng.integers(0, 256, (count, 5, 84, 84), dtype=np.uint8),
        actions=rng.integers(18, size=count),
        rewards=(3 * rng.standard_normal(count)).astype(np.float32),
        terminal=rng.random(count) < 0.2,
        life_lost=rng.random(count) < 0.2,
    )


def low_rank(seed: int, dtype: type, rank: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A matrix (32, 18) of values with noise, and which of them are observed."""
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((32, rank)) @ rng.standard_normal((rank, 18)) + 0.1 * rng.standard_normal((32, 18)) + 2
    return q.astype(dtype), rng.random(q.shape) < 0.9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(6))
def test_soft_impute_is_the_authors_rule(seed: int, dtype: type):
    values, observed = low_rank(seed, dtype, rank=1 + 3 * seed)
    values = values / np.abs(values).max()
    ours = SoftImpute.authors()(Observed(values=np.where(observed, values, 0), mask=observed)).matrix
    found = soft_impute(values, ~observed)
    assert found.dtype == dtype
    assert np.abs(found - ours).max() < 1e-5
    assert np.array_equal(found[observed], values[observed])
    assert np.abs(found - values)[~observed].max() > 1e-3


@pytest.mark.parametrize("seed", range(2))
def test_soft_impute_is_fancyimpute(seed: int):
    values, observed = low_rank(seed, np.float64)
    try:
        theirs = fancy_soft_impute(np.where(observed, values, np.nan))
    except MissingPeerError:
        pytest.skip("needs fancyimpute")
    assert np.abs(soft_impute(values, ~observed) - theirs).max() < 1e-5 * np.abs(values).max()


def test_one_step_of_soft_impute_has_a_closed_form(monkeypatch: pytest.MonkeyPatch):
    # Zero-filled, (3, 3; 3, ?) is symmetric; big and -small are its eigenvalues, (big, 3) is the vector of the first.
    monkeypatch.setattr("svrl.benchmarks.authors_way.MAX_STEPS", 1)
    values, missing = np.array([[3.0, 3.0], [3.0, 9.0]]), np.array([[False, False], [False, True]])
    big, small = 1.5 * (1 + math.sqrt(5)), 1.5 * (math.sqrt(5) - 1)
    found = soft_impute(values, missing, ratio=1.1 * small / big)
    assert found[1, 1] == pytest.approx((big - 1.1 * small) * 9 / (big**2 + 9), rel=1e-12)
    assert soft_impute(values, missing, ratio=1.001)[1, 1] == 0.0  # everything is shrunk away


@pytest.mark.parametrize("seed", range(4))
def test_completed_is_what_structured_targets_make(seed: int):
    q, observed = low_rank(seed, np.float32)
    ours = StructuredTargets(scale="minmax", estimator=SoftImpute.authors()).complete(
        torch.from_numpy(q), torch.from_numpy(observed)
    )
    found = completed(q, observed)
    assert found.dtype == np.float32
    assert np.abs(found - ours.matrix.numpy()).max() < 1e-5 * (q.max() - q.min())
    assert found.min() >= q.min() - 1e-5
    assert found.max() <= q.max() + 1e-5


def test_estimates_are_clipped_to_the_range_of_the_matrix():
    # The largest products of a rank-1 matrix are hidden and small, and estimated to be large.
    whole = np.outer(np.linspace(-1, 1, 32), np.linspace(-1, 1, 18))
    observed = np.abs(whole) <= 0.8
    q = np.where(observed, whole / np.abs(whole[observed]).max(), 0.0)
    assert soft_impute(q, ~observed).max() > 1.2
    found = completed(q, observed)
    assert found.max() == pytest.approx(1.0, abs=1e-12)
    assert found.min() == pytest.approx(-1.0, abs=1e-12)


def test_a_constant_matrix_stays():
    q = np.full((4, 3), 5.0, dtype=np.float32)
    assert np.array_equal(completed(q, np.eye(4, 3) == 0), q)


@pytest.mark.parametrize("clamp", [1.0, 1e-3])
def test_updates_are_those_of_our_learner(clamp: float):
    host = [batch(seed) for seed in range(3)]
    # Adam divides by the size of a gradient: without its epsilon, rounding of the tiniest would be made large.
    settings = config(batch_size=8, gradient_clamp=clamp, optimiser_epsilon=1e-4)
    update = AuthorsUpdate(network(), network(1), settings, device="cpu", seed=0)
    learner = Learner(network(), network(1), settings, None)
    begun = copy.deepcopy(learner.online.state_dict())
    for one in host:
        loss = update(one)
        ours = learner.burst(Batch(*map(torch.from_numpy, one)), 1, torch.Generator().manual_seed(0))
        assert float(loss) == pytest.approx(float(ours.losses[0]), rel=1e-5)
    assert update.updates == 3
    for mine, theirs in ((update.network, learner.online), (update.target, learner.target)):
        for name, value in mine.state_dict().items():
            assert torch.allclose(value, theirs.state_dict()[name], atol=1e-6), name
            assert not torch.equal(value, begun[name]), name  # the target was copied after two updates


def test_a_structured_target_goes_through_the_host():
    one, settings = batch(5), config(structured=True, batch_size=8)
    update = AuthorsUpdate(network(), network(1), settings, device="cpu", seed=3)
    with torch.no_grad():
        q = update.target(torch.from_numpy(one.windows[:, 1:]))
        now = update.network(torch.from_numpy(one.windows[:, :-1])).numpy()[np.arange(8), one.actions]
    observed = torch.from_numpy(np.random.default_rng(3).random((8, 18)) < 0.9)
    estimated = StructuredTargets(scale="minmax", estimator=SoftImpute.authors()).complete(q, observed).matrix
    assert float((estimated.amax(1) - q.amax(1)).abs().max()) > 1e-3
    targets = np.sign(one.rewards) + 0.99 * ~(one.terminal | one.life_lost) * estimated.amax(1).numpy()
    off = np.abs(now - targets)
    assert float(update(one)) == pytest.approx(np.where(off < 1, off**2 / 2, off - 0.5).mean(), rel=1e-4)


@pytest.mark.parametrize("changes", [{"agent": "double"}, {"loss": "squared"}, {"output": "estimate"}])
def test_other_ways_are_refused(changes: dict[str, str]):
    with pytest.raises(ValueError, match=f"The authors' way has {next(iter(changes))}"):
        AuthorsUpdate(network(), network(), config(**changes), device="cpu", seed=0)


def play(ring: FrameRing, lengths: list[int], stack: int = 4) -> dict[int, tuple[list[int], bool]]:
    """Episodes whose frames are 1, 2, 3, ...; by action, its window and whether it is terminal.

    Every other episode is cut off instead.
    """
    expected, frame, number = {}, 0, 0

    def shown(first: int, last: int) -> np.ndarray:
        frames = [k if k >= first else 0 for k in range(last - stack + 1, last + 1)]
        return np.array(frames, dtype=np.uint8)[None, :, None]

    frame += 1
    first = frame
    ring.begin(shown(first, frame)[0])
    for episode, length in enumerate(lengths):
        for k in range(length):
            ended = np.array([k == length - 1])
            frame += 1
            final = shown(first, frame)
            before = shown(first, frame - 1)[0, :, 0].tolist()
            terminal = ended & (episode % 2 == 0)
            expected[number] = ([*before, frame], bool(terminal[0]))
            observation = final
            if ended[0]:
                frame += 1
                first = frame
                observation = shown(first, frame)
            flags = terminal, ended & ~terminal, np.array([False])
            ring.append(number, Step(observation, final, np.array([number / 2]), *flags))
            number += 1
    return expected


@pytest.mark.parametrize(("capacity", "lengths"), [(60, [1, 2, 3, 5, 7]), (12, [1, 2, 3, 9, 30]), (6, [2, 1, 1, 3])])
def test_the_ring_gives_back_what_was_played(capacity: int, lengths: list[int]):
    ring = FrameRing(TINY, capacity, seed=0)
    expected = play(ring, lengths)
    drawn = ring.sample(4000)
    for window, action, reward, terminal in zip(
        drawn.windows[:, :, 0].tolist(), drawn.actions.tolist(), drawn.rewards, drawn.terminal, strict=True
    ):
        assert (window, bool(terminal)) == expected[action]
        assert reward == action / 2
    counts = np.bincount(drawn.actions, minlength=len(expected))
    seen = np.flatnonzero(counts)
    assert seen[-1] == len(expected) - 1  # the newest can be drawn at once
    assert np.array_equal(seen, np.arange(seen[0], len(expected)))  # and so can all since the oldest that is left
    share = len(drawn.actions) / len(seen)
    assert np.abs(counts[seen] - share).max() < 6 * math.sqrt(share)
    if capacity == 60:
        assert len(seen) == sum(lengths)


def test_a_ring_too_small_for_a_stack_is_refused():
    with pytest.raises(ValueError, match="needs 6 slots or more, got 5"):
        FrameRing(TINY, 5, seed=0)


def test_the_settings_are_the_authors():
    settings = authors_config(structured=True, learn_from=100)
    authors = AgentConfig.of("authors")
    assert settings == authors.but(structured=True, learn_from=100, epsilon_steps=100)
    assert (settings.batch_size, settings.updates_per_step, settings.observe) == (32, 0.25, 0.9)


@pytest.fixture(scope="module")
def game() -> Iterator[VectorEnv]:
    pytest.importorskip("ale_py")
    env = make_env("atari/frostbite", 1, seed=0)
    yield env
    env.close()


def test_every_fourth_step_is_an_update(game: VectorEnv):
    settings = authors_config(structured=False, learn_from=32).but(epsilon_start=0.0, epsilon_final=0.0)
    online = build_network(game.spec, settings, torch.Generator().manual_seed(0))
    update = AuthorsUpdate(online, copy.deepcopy(online), settings, device="cpu", seed=0)
    ring = FrameRing(game.spec, 100, seed=0)
    loop = AuthorsLoop(game, update, ring, np.random.default_rng(0))
    done = []
    for _ in range(45):
        loop.advance(1)
        done.append(update.updates)
    assert done == [max(0, k // 4 - 8) for k in range(1, 46)]
    drawn = ring.sample(50)
    assert drawn.windows.shape == (50, 5, 84, 84)
    assert drawn.windows.any()


@pytest.mark.parametrize("structured", [False, True])
def test_the_whole_loop_runs(structured: bool):
    pytest.importorskip("ale_py")
    speed = authors_steps_per_second(
        "atari/frostbite", structured=structured, device="cpu", steps=8, learn_from=32, seed=0
    )
    assert 0 < speed < math.inf
