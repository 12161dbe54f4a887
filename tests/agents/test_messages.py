"""What the agents answer to wrong arguments, one sentence each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig, check_precision
from svrl.agents.evaluation import evaluate
from svrl.agents.networks import build_network
from svrl.agents.replay import Replay
from svrl.agents.structured_targets import StructuredTargets
from svrl.agents.study import rank_study
from svrl.agents.targets import next_values
from svrl.agents.training import train
from svrl.envs.vector import EnvSpec

from .replay_oracle import Counting, spec_of
from .small_envs import identity

VECTOR = EnvSpec(id="v", family="gymnasium", frame_shape=(5,), dtype="float32", n_actions=3)
GRID = EnvSpec(id="minatar/x", family="minatar", frame_shape=(4, 10, 10), dtype="uint8", n_actions=6)
PICTURES = EnvSpec(id="p", family="atari", frame_shape=(84, 84), dtype="uint8", stack=4, high=255.0, n_actions=4)
SMOKE = AgentConfig.of("smoke", network="mlp", hidden=(16,))
CONFIG: list[tuple[dict[str, Any], str]] = [
    ({"p": 0.0}, r"p lies in \(0, 1\], got 0.0"),
    ({"epsilon_final": 1.2}, r"epsilon_final lies in \[0, 1\], got 1.2"),
    ({"gamma": 1.0}, r"gamma lies in \(0, 1\), got 1.0"),
    ({"agent": "dqnn"}, "agent is one of dqn, double, got 'dqnn'"),
    ({"batch_size": 0}, r"batch_size lies in \[1, inf\), got 0"),
    ({"learning_rate": float("nan")}, r"learning_rate lies in \(0, inf\), got nan"),
    ({"act_lag": 2}, r"act_lag lies in \[0, 1\], got 2"),
    ({"learning_starts": 10}, "learning_starts must be at least the batch size, 32"),
    ({"hidden": ()}, "hidden needs at least one width"),
    ({"hidden": "64"}, "hidden is a tuple of whole numbers"),
    ({"hidden": (64, 1.5)}, "hidden is a tuple of whole numbers"),
    ({"structured": "no"}, "structured is True or False, got 'no'"),
    ({"steps": 1.5}, "steps is a whole number, got 1.5"),
    ({"steps": True}, "steps is a whole number, got True"),
    ({"gamma": "high"}, "gamma is a number, got 'high'"),
    ({"gamma": True}, "gamma is a number, got True"),
    ({"agent": 3}, "agent is a word, got 3"),
    ({"buffer_size": 10}, "buffer_size must hold at least a batch, 32 transitions, got 10"),
    ({"gradient_clamp": -1.0}, r"gradient_clamp lies in \[0, inf\), got -1.0"),
]
RULE: list[tuple[dict[str, Any], str]] = [
    ({"p": 0.0}, r"probability p in \(0, 1\], got 0.0"),
    ({"p": 1.5}, "got 1.5"),
    ({"p": "a"}, "got a"),
    ({"rise": -1}, "rise >= 0"),
    ({"estimator": "factor-als"}, r"an estimator such as SoftImpute\(\), got 'factor-als'"),
    ({"scale": "rows"}, "none, minmax, row, got 'rows'"),
    ({"output": "both"}, "fill, estimate"),
    ({"next_value_from": "x"}, "completed, network"),
]
MATRICES: list[tuple[Any, Any, str]] = [
    (np.zeros((4, 3)), torch.Generator(), "takes a torch tensor"),
    (torch.zeros(3), torch.Generator(), r"got float32 of shape \(3,\)"),
    (torch.zeros(0, 3), torch.Generator(), "none of them empty"),
    (torch.zeros(4, 3, dtype=torch.int64), torch.Generator(), "got int64"),
    (torch.zeros(4, 3), 5, r"a torch\.Generator on cpu, got int"),
]


def structured(**changes: Any) -> object:
    return StructuredTargets.from_config(AgentConfig(structured=True, **changes))


def network(spec: EnvSpec, name: str) -> object:
    return build_network(spec, AgentConfig.of("classic", network=name), None)


def played(network: Any = None, **changes: Any) -> object:
    network = torch.nn.Linear(4, 4) if network is None else network
    return evaluate(network, identity, SMOKE, **{"episodes": 1, "seed": 0, **changes})


CALLS: list[tuple[Callable[[], object], str]] = [
    *((lambda given=given: AgentConfig(**given), sentence) for given, sentence in CONFIG),
    (lambda: AgentConfig.of("author"), "Did you mean authors"),
    (lambda: AgentConfig.of("authors", learning_rte=1.0), "Did you mean learning_rate"),
    (lambda: check_precision("tf32", "cpu"), "needs a CUDA device"),
    (lambda: check_precision("float16", "cuda"), "one of float32, tf32, bf16"),
    *((lambda given=given: StructuredTargets(**given), sentence) for given, sentence in RULE),
    *((lambda q=q, source=source: StructuredTargets()(q, source), sentence) for q, source, sentence in MATRICES),
    (lambda: structured(estimator="softimp"), "no estimator 'softimp'"),
    (lambda: structured(estimator="hard-impute"), "hard-impute cannot find the rank by itself"),
    (lambda: structured(estimator="row-mean", rank=3), "row-mean has no rank to set"),
    (lambda: next_values("double", torch.zeros(2, 3)), "double agent needs"),
    (lambda: network(VECTOR, "nature"), "Use network mlp"),
    (lambda: network(GRID, "nature"), "larger pictures than minatar/x"),
    (lambda: played(episodes=0), "at least 1 game"),
    (lambda: played(epsilon=1.1), "probability"),
    (lambda: played("agent"), r"such as agent\.network; got str"),
    (lambda: train(identity(), SMOKE), "a function without arguments that creates one; got Identity"),  # type: ignore[arg-type]
    (lambda: train(identity, "smoke"), "train takes an AgentConfig"),  # type: ignore[arg-type]
    (lambda: rank_study(None, states=20, batch_size=32), "1 to 20 distinct states"),  # type: ignore[arg-type]
    (lambda: rank_study(None, energy=99), "energy is a share"),  # type: ignore[arg-type]
    (lambda: Replay(spec_of(4), n_envs=3, capacity=2), "for 3 environments must hold at least 3 transitions, got 2"),
    (
        lambda: Replay(PICTURES, n_envs=1, capacity=10**10),
        r"takes .* GB, and .* GB of RAM are free\. Lower buffer_size to",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), CALLS, ids=[sentence for _, sentence in CALLS])
def test_wrong_arguments_are_one_sentence(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()


def test_a_buffer_that_is_used_wrongly_says_so_and_stays_empty() -> None:
    env, memory = Counting(spec_of(4), 3, 0, 0.0), Replay(spec_of(4), n_envs=3, capacity=30)
    start = env.reset()
    actions, step = env.step()
    with pytest.raises(ValueError, match=r"Call begin\(observations\) first"):
        memory.append(actions, step)
    with pytest.raises(ValueError, match="no transition to draw"):
        memory.sample(1, torch.Generator())
    with pytest.raises(ValueError, match=r"observations of shape \(3, 4, 2, 3\), got \(2, 4, 2, 3\)"):
        memory.begin(start[:2])
    memory.begin(start)
    with pytest.raises(ValueError, match="3 actions and rewards"):
        memory.append(actions[:2], step)
    assert len(memory) == 0
