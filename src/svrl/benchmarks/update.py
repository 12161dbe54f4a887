"""What structure costs: the share of SV-RL in one update of the Nature network, ours and the authors' estimator.

18 actions, a batch of 32, on the CPU with one thread. The matrices are a new network's at the frames of a real
game, whose rank is low, and Gaussian ones, which have no structure and take the estimator longest. Plain
updates and completions are timed in turns, so that whatever else the machine does falls on both; a share is
completion / (completion + plain update).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from svrl.agents.config import AgentConfig
from svrl.agents.learner import Learner
from svrl.agents.networks import build_network
from svrl.agents.replay import Batch, Replay, next_observations
from svrl.agents.structured_targets import StructuredTargets
from svrl.benchmarks.peers import fancy_soft_impute
from svrl.benchmarks.rows import Row, median_seconds, one_torch_thread
from svrl.envs.catalogue import make_env
from svrl.envs.vector import EnvSpec, step

GAME = "atari/frostbite"
LIMIT = 2.0
"""Per cent of an update that structure may cost on the CPU."""


def measure_update(quick: bool = False) -> Iterator[Row]:
    """The share of structure in an update, against the authors' estimator and against the limit."""
    config = AgentConfig.of("authors", structured=True)
    batches, spec = game_batches(2 if quick else 25)
    network = build_network(spec, config, torch.Generator().manual_seed(0))
    learner = Learner(network, copy.deepcopy(network), config.but(structured=False), None)
    with torch.no_grad():
        played = [learner.target(next_observations(batch)) for batch in batches]
    source = torch.Generator().manual_seed(1)
    families = {
        "a new network's": played,
        "Gaussian": [torch.randn(32, spec.n_actions, generator=source) for _ in batches],
    }
    with one_torch_thread():
        for name, matrices in families.items():
            yield from _share(name, learner, batches, matrices, config)


def _share(
    name: str, learner: Learner, batches: list[Batch], matrices: list[Tensor], config: AgentConfig
) -> Iterator[Row]:
    update, ours, theirs = _timed(learner, batches, matrices, config)
    share, peer = (100 * seconds / (seconds + update) for seconds in (ours, theirs))
    note = {"update_ms": 1e3 * update, "ours_us": 1e6 * ours, "peer_us": 1e6 * theirs}
    what = f"structure's share of an update, Nature CNN, 32x18, CPU, {name} values"
    yield Row(name=what, unit="%", ours=share, peer=peer, peer_name="the authors' estimator (fancyimpute)", note=note)
    yield Row(name=f"{what}, against its limit", unit="%", ours=share, peer=LIMIT, peer_name="limit", note=note)


def _timed(learner: Learner, batches: list[Batch], matrices: list[Tensor], config: AgentConfig) -> list[float]:
    """Median seconds of a plain update, of our completion and of the authors' one."""
    structure = StructuredTargets.from_config(config)
    assert structure is not None
    masks = torch.Generator().manual_seed(0)
    calls = []
    for batch, q in zip(batches, matrices, strict=True):
        holes = _authors_matrix(q.numpy(), masks)
        calls.append(
            (
                lambda batch=batch: learner.burst(batch, 1, masks),
                lambda q=q: structure(q[None], masks),
                lambda holes=holes: fancy_soft_impute(holes),
            )
        )
    for call in calls[0]:
        call()  # compile, and warm the caches
    return median_seconds(calls)


def game_batches(count: int, steps: int = 600, seed: int = 0) -> tuple[list[Batch], EnvSpec]:
    """Batches of 32 transitions of a game played at random, and what the game looks like."""
    env = make_env(GAME, 1, seed=seed)
    memory = Replay(env.spec, lanes=1, capacity=steps)
    memory.begin(env.reset())
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        actions = rng.integers(env.spec.n_actions, size=1)
        memory.append(actions, step(env, actions))
    env.close()
    source = torch.Generator().manual_seed(seed)
    return [memory.sample(32, source) for _ in range(count)], env.spec


def _authors_matrix(q: np.ndarray, masks: torch.Generator) -> np.ndarray:
    """Scaled to [-1, 1] with NaN for what is not observed: what the authors' program hands to its estimator."""
    low, high = q.min(), q.max()
    hidden = (torch.rand(q.shape, generator=masks) >= 0.9).numpy()
    return np.where(hidden, np.nan, 2 * (q - low) / (high - low) - 1)
