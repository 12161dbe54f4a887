"""The fast path on a GPU: graphs, streams and resident memory make the plain path's updates, and never wait."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.cuda_graph import computing_in
from svrl.agents.learner import GraphedBursts, Learner
from svrl.agents.networks import build_network
from svrl.agents.replay import Replay
from svrl.agents.structured_targets import StructuredTargets
from svrl.agents.training import Training
from svrl.envs.vector import EnvSpec

from .test_agents_on_cuda import ARMS, ATARI, steps_of

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

AGREE = 0.02
"""How far both paths may be apart after a burst from one state, as a share of the way that the weights have gone."""
FLIP = 5e-3
"""What another choice between two actions of nearly the same value changes a loss by, of about .5."""
FREE = 0.2
"""The same after 200 updates on their own. Adam divides by the size of a gradient: where that is rounding, so is
the sign of the step, and what it leads to grows."""


def filled(spec: EnvSpec, device: str, n_envs: int = 4, steps: int = 300) -> Replay:
    memory = Replay(spec, n_envs=n_envs, capacity=1_000, device=device)
    first, *rest = steps_of(spec, n_envs, steps)
    memory.begin(first)
    for actions, step in rest:
        memory.append(actions, step)
    return memory


def learner(spec: EnvSpec, config: AgentConfig, precision: str = "float32") -> Learner:
    network = build_network(spec, config, torch.Generator().manual_seed(0)).cuda()
    structure = StructuredTargets.from_config(config)
    return Learner(network, config, structure, precision=precision)


def distance(one: torch.nn.Module, two: torch.nn.Module, before: torch.nn.Module) -> float:
    """How far two networks are apart, as a share of the way that the first has gone."""
    flat = [torch.cat([p.detach().flatten() for p in network.parameters()]) for network in (one, two, before)]
    return float((flat[0] - flat[1]).norm() / (flat[0] - flat[2]).norm())


def generators(memory: str = "cuda") -> tuple[torch.Generator, torch.Generator]:
    return torch.Generator(memory).manual_seed(1), torch.Generator("cuda").manual_seed(2)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: "-".join(map(str, arm.values())))
def test_graphs_make_200_updates_of_the_plain_path(arm: dict) -> None:
    config = AgentConfig.of("authors", target_update_interval=90, **arm)
    plain, led, free, before = (learner(ATARI, config) for _ in range(4))
    memory = filled(ATARI, "cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    apart = []
    with torch.cuda.stream(stream), computing_in("float32", torch.device("cuda")):
        fast = [GraphedBursts(one, memory, most=16) for one in (led, free)]
        (draws, masks), sources = generators(), [generators() for _ in fast]
        while plain.updates < 200:
            count = min(16, plain.until_copy(), 200 - plain.updates)
            began = copy.deepcopy(plain.online)
            losses = plain.burst(memory.sample(count * config.batch_size, draws), count, masks)
            found = [one.burst(count, *source).clone() for one, source in zip(fast, sources, strict=True)]
            for other, limit in zip(found, (1e-4, 2e-3), strict=True):
                assert float((losses - other).abs().median()) < limit
                assert float((losses - other).abs().max()) < FLIP
            apart.append(distance(plain.online, led.online, began))
            follow(led, plain)
    stream.synchronize()
    assert plain.updates == led.updates == free.updates == 200
    assert max(apart) < AGREE, apart
    assert distance(plain.online, free.online, before.online) < FREE
    assert distance(plain.target, free.target, before.target) < FREE


def follow(led: Learner, plain: Learner) -> None:
    """Go on from where another learner is, in the memory that graphs know."""
    with torch.no_grad():
        for one, two in ((led.online, plain.online), (led.target, plain.target)):
            torch._foreach_copy_(list(one.parameters()), list(two.parameters()))
        for mine, its in zip(led.parameters, plain.parameters, strict=True):
            for name, value in plain.optimiser.state[its].items():
                led.optimiser.state[mine][name].copy_(value)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_every_precision_learns_about_the_same(precision: str) -> None:
    config = AgentConfig.of("authors", learning_rate=1e-4, structured=True)
    plain, before = (learner(ATARI, config) for _ in range(2))
    fast = learner(ATARI, config, precision)
    memory = filled(ATARI, "cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        (draws, masks), sources = generators(), generators()
        with computing_in("float32", torch.device("cuda")):
            plain.burst(memory.sample(20 * config.batch_size, draws), 20, masks)
        with computing_in(precision, torch.device("cuda")):
            GraphedBursts(fast, memory, most=20).burst(20, *sources)
    stream.synchronize()
    assert distance(plain.online, fast.online, before.online) < {"float32": 0.01, "tf32": 0.3, "bf16": 0.6}[precision]


def test_a_burst_never_waits_for_the_gpu() -> None:
    config = AgentConfig.of("authors", structured=True, p_rise=100, learning_rate_left=0.5)
    fast, memory = learner(ATARI, config), filled(ATARI, "cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        graphed = GraphedBursts(fast, memory, most=8)
        sources = generators()
        for _ in range(2):
            graphed.burst(8, *sources)
        torch.cuda.set_sync_debug_mode("error")  # whatever waits raises
        try:
            losses = graphed.burst(8, *sources)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert fast.updates == 24
    assert bool((losses > 0).all())


def test_a_memory_in_ram_gives_the_same_updates() -> None:
    config = AgentConfig.of("authors", learning_rate=1e-4)
    plain, fast, before = (learner(ATARI, config) for _ in range(3))
    memory = filled(ATARI, "cpu")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), computing_in("float32", torch.device("cuda")):
        graphed = GraphedBursts(fast, memory, most=8)
        (draws, masks), sources = generators("cpu"), generators("cpu")
        for count in (8, 3, 8):
            batch = memory.sample(count * config.batch_size, draws)
            plain.burst(batch.each(torch.Tensor.cuda), count, masks)
            graphed.burst(count, *sources)
    stream.synchronize()
    assert distance(plain.online, fast.online, before.online) < AGREE


@pytest.mark.parametrize("estimator", ["hard-impute", "row-mean"])
def test_estimators_that_wait_work_outside_the_graph(estimator: str) -> None:
    config = AgentConfig.of(
        "authors", learning_rate=1e-4, structured=True, estimator=estimator, rank=2 if estimator == "hard-impute" else 0
    )
    plain, fast, before = (learner(ATARI, config) for _ in range(3))
    memory = filled(ATARI, "cuda")
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), computing_in("float32", torch.device("cuda")):
        graphed = GraphedBursts(fast, memory, most=4)
        (draws, masks), sources = generators(), generators()
        for count in (4, 4, 2):
            plain.burst(memory.sample(count * config.batch_size, draws), count, masks)
            graphed.burst(count, *sources)
    stream.synchronize()
    assert distance(plain.online, fast.online, before.online) < AGREE


@pytest.mark.parametrize("act_lag", [0, 1])
@pytest.mark.parametrize("structured", [False, True])
def test_a_training_with_graphs_is_the_training_without(act_lag: int, structured: bool) -> None:
    """All actions are random, so that both see the same games whatever their networks say."""
    pytest.importorskip("gymnasium")
    config = AgentConfig.of(
        "classic",
        structured=structured,
        steps=600,
        learning_starts=200,
        n_envs=4,
        act_lag=act_lag,
        epsilon_start=1.0,
        epsilon_final=1.0,
        log_every=100,
    )
    pair = [
        Training("CartPole-v1", config, seed=3, device="cuda", precision="float32", graphs=graphs)
        for graphs in (False, True)
    ]
    before = copy.deepcopy(pair[0].network)
    told = [[event for event in training.events() if hasattr(event, "loss")] for training in pair]
    assert pair[0].updates == pair[1].updates == 200 - 2 * act_lag
    assert distance(pair[0].network, pair[1].network, before) < AGREE
    for one, two in zip(*told, strict=True):
        assert np.isclose(one.loss, two.loss, rtol=0.02, atol=1e-4)
        assert np.isclose(one.q_mean, two.q_mean, rtol=0.02, atol=1e-3)
    for training in pair:
        training.close()


def test_greedy_actions_come_from_the_network_before_the_burst() -> None:
    pytest.importorskip("gymnasium")
    config = AgentConfig.of(
        "classic", steps=400, learning_starts=100, n_envs=4, act_lag=1, epsilon_start=0.0, epsilon_final=0.0
    )
    training = Training("CartPole-v1", config, seed=0, device="cuda", precision="float32")
    behind = copy.deepcopy(training.network)
    agreed = 0
    for event in training.events():
        if type(event).__name__ != "Stepped":
            continue
        training.settle()
        torch.cuda.synchronize()
        with torch.no_grad():
            q = behind(torch.as_tensor(training._observations).cuda())
        sure = (q.max(-1).values - q.min(-1).values) > 1e-4
        same = torch.from_numpy(training._pending).cuda() == q.argmax(-1)
        assert bool((same | ~sure).all())
        agreed += int(sure.sum())
        behind = copy.deepcopy(training.network)
    assert training.updates > 0
    assert agreed > 100
    training.close()
