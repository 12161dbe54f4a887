"""Updates in bursts: what is timed is what it is said to be. Nothing here is about speed."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.networks import build_network
from svrl.benchmarks import update_device
from svrl.benchmarks.device_clock import elapsed, found_device, own_stream
from svrl.benchmarks.estimator_device import EstimatorSizes, draw_values, measure_accuracy
from svrl.benchmarks.matrix_small import FAMILIES
from svrl.benchmarks.rows import Row
from svrl.benchmarks.update_device import (
    UpdateSizes,
    measure_update_device,
    recorded_memory,
    share_of,
    spread,
    update_operations,
)
from svrl.envs.vector import EnvSpec

pytest.importorskip("ale_py")

CPU = torch.device("cpu")
TINY_ESTIMATOR = EstimatorSizes(counts=(2, 5), rounds=2, drawn=4, batches=(1, 6), shapes=((1, 2), (5, 3)))
TINY = UpdateSizes(
    agents=("dqn", "double"),
    batches=(4,),
    burst=2,
    long_burst=3,
    lanes=1,
    steps=40,
    learned=4,
    warm=1,
    rounds=2,
    bursts=1,
    eager_warm=1,
    eager=2,
    product=64,
    copied=1 << 12,
    estimator=TINY_ESTIMATOR,
)
FROSTBITE = EnvSpec(
    id="atari/frostbite", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=18
)
MULTIPLY_ADDS = (20 * 20 * 32 * 4 * 64, 9 * 9 * 64 * 32 * 16, 7 * 7 * 64 * 64 * 9, 3136 * 512, 512 * 18)
"""Of the Nature network's layers for one state."""


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(measure_update_device(quick=True, device="cpu", sizes=TINY))


def test_every_row_is_there_and_finite(rows: list[Row]) -> None:
    eager, host = "the authors' way, eager, batch 32", "the authors' estimator, NumPy on the host"
    assert [(row.name, row.peer_name) for row in rows] == [
        ("structure's share of an update, dqn, batch 4, bursts of 2, CPU", "limit"),
        (
            "one update, dqn, batch 4, CPU, against its arithmetic floor",
            "its operations at the rate of a large product, float32",
        ),
        ("one update, dqn, batch 4, CPU, against its memory floor", "its bytes over copy bandwidth"),
        ("structure's share of an update, dqn, batch 4, bursts of 3, CPU", "limit"),
        ("structure's share of an update, double, batch 4, bursts of 2, CPU", "limit"),
        ("one update, dqn, batch 4, bursts of 2, CPU", eager),
        ("one update, sv-dqn, batch 4, bursts of 2, CPU", eager),
        ("2 matrices 4x18 in one launch, CPU", host),
        ("5 matrices 4x18 in one launch, CPU", host),
        *(
            (f"distance of an entry from the optimum, {what}, tolerance {tolerance}, CPU", "limit")
            for tolerance in ("1e-05", "0.001")
            for what in ("32x18 in batches", "other shapes")
        ),
    ]
    assert all(math.isfinite(row.ours) and row.peer > 0 for row in rows)


def test_a_share_is_that_of_its_two_times(rows: list[Row]) -> None:
    for row in (rows[0], rows[3], rows[4]):
        plain, structured = row.note["plain_us"], row.note["structured_us"]
        assert row.ours == pytest.approx(100 * (structured - plain) / structured)
        assert row.note["rounds"] == 2
        assert row.note["precision"] == "float32"
        assert row.note["tolerance"] == 1e-3


def test_floors_are_what_an_update_cannot_do_without(rows: list[Row]) -> None:
    arithmetic, memory = rows[1:3]
    # The target's forward pass, the network's own, and backwards to weights and inputs; nobody needs the first input's.
    assert arithmetic.note["operations"] == 4 * 2 * (4 * sum(MULTIPLY_ADDS) - MULTIPLY_ADDS[0])
    weights = 32 * (4 * 64 + 1) + 64 * (32 * 16 + 1) + 64 * (64 * 9 + 1) + 512 * 3137 + 18 * 513
    assert memory.note["bytes"] == 4 * 8 * weights + 4 * 5 * 84 * 84
    assert arithmetic.peer == pytest.approx(
        1e6 * arithmetic.note["operations"] / arithmetic.note["operations_per_second"]
    )
    assert memory.peer == pytest.approx(1e6 * memory.note["bytes"] / memory.note["bytes_per_second"])
    assert arithmetic.ours == memory.ours == rows[0].note["plain_us"]


def test_a_dueling_network_has_one_more_stream() -> None:
    networks = [
        build_network(FROSTBITE, AgentConfig.of("short", agent=agent), torch.Generator().manual_seed(0))
        for agent in ("dqn", "dueling")
    ]
    plain, dueling = (update_operations(network, FROSTBITE) for network in networks)
    assert dueling - plain == 2 * 4 * (3136 * 512 + 512)


def test_counting_operations_leaves_a_network_alone() -> None:
    network = build_network(FROSTBITE, AgentConfig.of("short"), torch.Generator().manual_seed(0))
    before = copy.deepcopy(network.state_dict())
    update_operations(network, FROSTBITE)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())


def test_times_of_a_launch_are_shared_out_among_its_matrices(rows: list[Row]) -> None:
    for row, count in zip(rows[7:9], (2, 5), strict=True):
        assert row.ours == pytest.approx(row.note["launch_us"] / count)
        assert row.note["solver"] == "CPU kernel"


def test_arms_take_turns_and_have_learned_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock whose reading is the number of structured agents' updates in the call."""
    structured_before: list[int] = []
    made: list[update_device.Arm] = []
    make = update_device._arm

    def kept(*settings: object) -> update_device.Arm:
        made.append(make(*settings))  # type: ignore[arg-type]
        return made[-1]

    def clock(work: object, device: torch.device) -> float:
        assert all(arm.learner.updates >= TINY.learned for arm in made)
        structured_before.append(made[1].learner.updates)
        work()  # type: ignore[operator]
        return float(made[1].learner.updates - structured_before[-1])

    monkeypatch.setattr(update_device, "_arm", kept)
    monkeypatch.setattr(update_device, "elapsed", clock)
    memory, spec = recorded_memory(2, 20, CPU)
    config = AgentConfig.of("short", batch_size=4, target_every=update_device.NEVER)
    timed = update_device._in_turns(config, 2, memory, spec, TINY, CPU)
    assert [arm.learner.config.structured for arm in made] == [False, True]
    assert timed.plain == [0.0, 0.0]
    assert timed.structured == [1e6, 1e6]
    assert structured_before == [6, 6, 8, 10], "plain first, then structured first"
    new = build_network(spec, config, torch.Generator().manual_seed(0))
    for arm in made:
        pairs = [*zip(arm.learner.target.parameters(), new.parameters(), strict=True)]
        assert any(not torch.equal(one, two) for one, two in pairs), "targets are those of a network that learned"


def test_the_memory_holds_what_was_played() -> None:
    memory, spec = recorded_memory(2, 20, CPU)
    assert len(memory) == 40
    assert spec.n_actions == 18
    batch = memory.sample(64, torch.Generator().manual_seed(0))
    assert batch.windows.float().std() > 0


@pytest.mark.parametrize("shape", [(1, 2), (5, 3), (32, 18)])
@pytest.mark.parametrize("family", FAMILIES)
def test_matrices_have_a_largest_entry_of_one(family: str, shape: tuple[int, int]) -> None:
    drawn = draw_values(family, 3, shape, np.random.default_rng(0))
    assert drawn.shape == (3, *shape)
    assert np.allclose(np.abs(drawn).max((1, 2)), 1.0)
    if family == "exact rank 4":
        assert np.linalg.matrix_rank(drawn[0], tol=1e-4) == min(*shape, 4)


def test_accuracy_is_the_worst_of_the_low_rank_families(rows: list[Row]) -> None:
    batches, shapes = rows[9:11]
    assert list(batches.note["worst_of"]) == ["batch of 1", "batch of 6"]
    assert list(shapes.note["worst_of"]) == ["1x2", "5x3"]
    for row in rows[9:]:
        assert row.ours == max(row.note["worst_of"].values())
    assert batches.note["worst_of"]["batch of 1"] <= batches.note["worst_of"]["batch of 6"]
    assert [row.peer for row in rows[9:]] == [2e-4, 2e-4, 5e-3, 5e-3]
    assert rows[9].ours < rows[11].ours, "a finer tolerance stops nearer to the optimum"
    assert 0.0 < rows[9].ours < 1e-3


def test_an_estimator_that_stops_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svrl.benchmarks.estimator_device.MOST_STEPS", {1e-5: 1, 1e-3: 1})
    first = next(measure_accuracy(CPU, TINY_ESTIMATOR))
    assert first.ratio < 1


def test_shares_and_spreads() -> None:
    assert share_of(9.0, 10.0) == pytest.approx(10.0)
    assert share_of(10.0, 10.0) == 0.0
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == 2.0


def test_the_cpu_is_timed_by_the_wall_clock() -> None:
    with own_stream(CPU, "float32"):
        assert elapsed(lambda: sum(range(1000)), CPU) > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_card_is_named() -> None:
    with pytest.raises(ValueError, match="Updates on cuda needs a CUDA device"):
        next(measure_update_device(quick=True, device="cuda"))
    assert found_device("cpu", "Updates") == CPU
