from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from svrl.agents.checkpoint import positions, restore, segments
from svrl.agents.replay import Batch, Layout, Priorities, Replay, Returns, _OnGpu
from svrl.envs.vector import EnvSpec
from svrl.runtime.device import free_ram

from .replay_oracle import Counting, NaiveReplay, all_of, spec_of, transitions

ATARI = EnvSpec(
    id="atari/breakout", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=4
)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def filled(*, stack: int = 4, n_envs: int = 3, capacity: int = 60, end: float = 0.1, steps: int = 200) -> Replay:
    spec = spec_of(stack)
    env, memory = Counting(spec, n_envs, 0, end), Replay(spec, n_envs=n_envs, capacity=capacity)
    memory.begin(env.reset())
    for _ in range(steps):
        memory.append(*env.step())
    return memory


@settings(max_examples=100, deadline=None)
@given(
    stack=st.sampled_from([1, 3, 4]),
    dtype=st.sampled_from(["uint8", "float32"]),
    n_envs=st.integers(1, 4),
    capacity=st.integers(4, 60),
    end=st.sampled_from([0.0, 0.02, 0.2, 0.6, 1.0]),
    seed=st.integers(0, 2**32),
    interrupt=st.sampled_from([0.0, 0.05]),
    masked=st.booleans(),
    returns=st.builds(
        Returns,
        n_steps=st.sampled_from([1, 2, 3, 7]),
        gamma=st.just(0.9),
        clip_rewards=st.booleans(),
        life_loss_ends=st.booleans(),
    ),
)
def test_it_is_a_list_of_the_newest_transitions(stack, dtype, n_envs, capacity, end, seed, interrupt, masked, returns):
    spec = spec_of(stack, dtype)
    env = Counting(spec, n_envs, seed, end, masked)
    memory = Replay(spec, n_envs=n_envs, capacity=capacity, returns=returns)
    naive = NaiveReplay(spec, memory.layout, returns)

    def begin() -> None:
        start = env.reset()
        memory.begin(start, env.masks)
        naive.begin(start)

    begin()
    for number in range(150):
        if env.rng.random() < interrupt:
            begin()
        actions, step = env.step()
        memory.append(actions, step)
        naive.append(actions, step)
        if number % 7 == 0 or number > 140:
            expected = naive.drawable()
            assert len(memory) == len(expected)
            assert all_of(memory) == expected
    drawn = transitions(memory.sample(64, generator(seed)))
    assert set(drawn) <= set(naive.drawable())
    if interrupt == 0.0 and end == 0.0:
        assert len(memory) == n_envs * (capacity // n_envs)


def as_on_a_gpu(stack: int, n_envs: int, **more: object) -> Replay:
    """What runs on a GPU, on the CPU: copies are real copies, so that nothing is shared by accident."""
    memory = Replay(spec_of(stack), n_envs=n_envs, capacity=40, **more)
    memory._gpu = _OnGpu(memory)
    return memory


def assert_same(one: Batch, other: Batch) -> None:
    for a, b in zip(one, other, strict=True):
        if isinstance(a, torch.Tensor):
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)  # a GPU adds in float32
        else:
            assert a == b


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("end", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("stack", [1, 4])
def test_both_ways_store_and_draw_the_same(stack: int, n_envs: int, end: float, n_steps: int):
    returns = Returns(n_steps=n_steps, gamma=0.9, life_loss_ends=True, clip_rewards=n_envs == 1)
    ours = {"returns": returns, "priority_alpha": 0.6}
    memories = [
        Replay(spec_of(stack), n_envs=n_envs, capacity=40, **ours),
        as_on_a_gpu(stack, n_envs, **ours),
    ]
    env = Counting(spec_of(stack), n_envs, 2, end, masked=True)
    for number in range(120):
        if number % 50 == 0:
            start = env.reset()
            for memory in memories:
                memory.begin(start, env.masks)
        actions, step = env.step()
        for memory in memories:
            memory.append(actions, step)
        if number == 70:
            loaded = as_on_a_gpu(stack, n_envs, **ours)
            restore(loaded, positions(memories[1]), segments(memories[1]))
            memories.append(loaded)
        for beta in (None, 0.5):
            one, *others = (memory.sample(6, generator(number), beta=beta) for memory in memories)
            for other in others:
                assert_same(one, other)
        for memory in memories:
            assert memory.priorities is not None
            memory.priorities.update(one.leaves, one.rewards.abs())


@pytest.mark.parametrize("frame", [(1,), (2, 2), (3,), (4, 4)])
def test_frames_of_any_size_are_drawn_in_both_ways(frame: tuple[int, ...]):
    spec = EnvSpec(id="x", family="gymnasium", frame_shape=frame, dtype="uint8", stack=3, n_actions=50)
    env, memory = Counting(spec, 2, 1, 0.1), Replay(spec, n_envs=2, capacity=40)
    memory.begin(env.reset())
    for _ in range(90):
        memory.append(*env.step())
    draws = torch.randint(1 << 62, (99,), generator=generator(1))
    drawn = memory._sample_kernel(draws)
    memory._gpu = _OnGpu(memory)
    assert_same(drawn, memory.gather(draws))


def test_observations_are_views_of_the_windows():
    stacked, single = filled(stack=4).sample(5, generator(0)), filled(stack=1).sample(5, generator(0))
    assert stacked.observations.shape == stacked.next_observations.shape == (5, 4, 2, 3)
    assert single.observations.shape == single.next_observations.shape == (5, 2, 3)
    for batch in (stacked, single):
        assert batch.observations.data_ptr() == batch.windows.data_ptr()
        inside = batch.windows.data_ptr() + batch.windows[0, 0].numel()
        assert batch.next_observations.data_ptr() == inside


def test_transitions_are_drawn_by_their_priorities():
    spec, alpha, beta = spec_of(1), 0.7, 0.4
    env, memory = Counting(spec, 3, 0, 0.3), Replay(spec, n_envs=3, capacity=60, priority_alpha=alpha)
    memory.begin(env.reset())
    error_of: dict = {}
    for number in range(200):
        memory.append(*env.step())
        if number % 3 == 0:
            batch = memory.sample(8, generator(number), beta=beta)
            errors = torch.rand(8, generator=generator(number)) * 5
            memory.priorities.update(batch.leaves, errors)
            error_of |= dict(zip(transitions(batch), errors.tolist(), strict=True))
    largest = (5 + 1e-6) ** alpha
    every = all_of(memory)
    known = [one for one in every if one in error_of]
    assert 10 < len(known) < len(every), "some have been drawn, and some are new"
    batch = memory.sample(40_000, generator(1), beta=beta)
    drawn = transitions(batch)
    assert set(drawn) <= set(every)
    weight_of = dict(zip(drawn, batch.weights.tolist(), strict=True))
    # Probabilities follow p = (error + 1e-6)^alpha, weights (count * probability)^-beta.
    p = {one: (error_of[one] + 1e-6) ** alpha for one in known}
    one, other = max(known, key=p.__getitem__), sorted(known, key=p.__getitem__)[len(known) // 2]
    assert p[one] <= largest
    shares = {each: drawn.count(each) / len(drawn) for each in (one, other)}
    assert shares[one] / shares[other] == pytest.approx(p[one] / p[other], rel=0.2)
    assert weight_of[one] == pytest.approx((len(every) * shares[one]) ** -beta, rel=0.1)
    assert weight_of[other] / weight_of[one] == pytest.approx((p[one] / p[other]) ** beta, rel=1e-5)


def test_the_sum_tree_is_the_cumulative_sum():
    source = generator(0)
    tree = Priorities(37, 0.5, torch.device("cpu"))
    for number in range(50):
        leaves = torch.randperm(37, generator=source)[:5]
        tree.update(leaves, 3 * torch.rand(5, generator=source))
        if number % 3 == 0:
            tree.drop(torch.randperm(37, generator=source)[:2].numpy())
        drawn, probability = tree.draw(200, generator(number))
        values = tree.state()["values"]
        sums = values.cumsum()
        shares = torch.rand(200, dtype=torch.float64, generator=generator(number)).numpy()
        np.testing.assert_array_equal(drawn, np.searchsorted(sums, shares * sums[-1], side="right"))
        np.testing.assert_allclose(probability, values[drawn] / sums[-1])
        assert (values[drawn] > 0).all()


def test_all_transitions_are_equally_likely():
    memory = filled(end=0.5)
    sizes = np.diff(memory.ends, prepend=0)
    assert len(set(sizes.tolist())) > 1, "environments of unequal size, or nothing is tested"
    every = all_of(memory)
    place = {transition: number for number, transition in enumerate(every)}
    assert len(place) == len(every)
    draws = 200 * len(every)
    drawn = transitions(memory.sample(draws, generator(5)))
    counts = np.bincount([place[transition] for transition in drawn], minlength=len(every))
    statistic = ((counts - 200.0) ** 2 / 200.0).sum()
    freedom = len(every) - 1
    assert abs(statistic - freedom) < 4.0 * np.sqrt(2.0 * freedom)


def test_a_batch_stays_what_it_was():
    spec = spec_of(4)
    env, memory = Counting(spec, 2, 0, 0.1), Replay(spec, n_envs=2, capacity=10)
    memory.begin(env.reset())
    for _ in range(20):
        memory.append(*env.step())
    batch = memory.sample(8, generator(0))
    before = transitions(batch)
    for _ in range(50):
        memory.append(*env.step())
    assert transitions(batch) == before


def test_a_batch_of_no_more_use_is_written_over():
    memory = filled()
    old, wanted = memory.sample(8, generator(0)), memory.sample(8, generator(1))
    again = memory.sample(8, generator(1), out=old)
    assert again.windows.data_ptr() == old.windows.data_ptr()
    assert_same(again, wanted)
    other = memory.sample(9, generator(1), out=old)
    assert len(other.actions) == 9
    assert torch.equal(old.windows, wanted.windows)


@pytest.mark.parametrize("n_envs", [1, 8, 64])
def test_frames_are_stored_once(n_envs: int):
    layout = Layout.of(ATARI, n_envs=n_envs, capacity=1_000_000)
    assert layout.n_envs * layout.per_env == 1_000_000
    assert layout.nbytes < 7.4e9
    grid = EnvSpec(id="x", family="minatar", frame_shape=(10, 10, 10), dtype="uint8", n_actions=6)
    assert Layout.of(grid, n_envs=n_envs, capacity=64_000).nbytes < 1.16 * 64_000 * 1000


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 9, 40])
@pytest.mark.parametrize("stack", [1, 4])
def test_short_episodes_cost_what_the_text_says(stack: int, length: int):
    spec = spec_of(stack)
    env, memory = Counting(spec, 1, 0, 0.0), Replay(spec, n_envs=1, capacity=320)
    naive = NaiveReplay(spec, memory.layout, memory.returns)
    start = env.reset()
    memory.begin(start)
    naive.begin(start)
    most, least = 0, 320
    for number in range(1, 1200):
        env.end = float(number % length == 0)
        actions, step = env.step()
        memory.append(actions, step)
        naive.append(actions, step)
        if number > 700:
            most, least = max(most, len(memory)), min(least, len(memory))
    assert all_of(memory) == naive.drawable()
    share = min(1.0, memory.layout.slots / 320 * length / (length + 1))
    assert abs(most - 320 * share) <= 4
    assert most - least <= 5
    if length >= (8 if stack == 1 else 40):
        assert least == 320


def test_the_arithmetic_is_what_is_allocated():
    memory = Replay(ATARI, n_envs=8, capacity=10_000)
    arrays = (memory.heads, memory.tails, memory.ends, memory.order, memory.ages)
    tensors = (memory.frames, memory.actions, memory.rewards, memory.terminal, memory.life_lost)
    assert memory.layout.nbytes == sum(array.nbytes for array in arrays) + sum(tensor.nbytes for tensor in tensors)


def test_untouched_memory_costs_nothing():
    if free_ram() < 8e9:
        pytest.skip("needs 8 GB that are free, without using them")
    memory = Replay(ATARI, n_envs=8, capacity=1_000_000)
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = 4096 * int(file.read().split()[1])
    assert resident < 3e9 < memory.layout.nbytes
