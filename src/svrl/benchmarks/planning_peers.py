"""Other people's solvers of Markov decision processes, given a control task on its grid.

Their arrays are built from the same table as ours, in pieces that stay in a cache. Each solver is called
the way its users call it, and told to stop where the Bellman residual max |TV - V| is about 1e-6.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
import torch

from svrl.benchmarks.peers import MissingPeerError
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid_table import Quadrature, corner_offsets, tabulate

RESIDUAL = 1e-6
PIECE = 1 << 16
"""Pairs worked on at once."""


@dataclass(frozen=True, kw_only=True)
class PairArrays:
    """A task of two dimensions as arrays over its N = S * A pairs.

    Attributes:
        weights: Probabilities of the four next states, (N, 4).
        columns: Their numbers, (N, 4), int32.
        reward: (N,).
        n_states, n_actions: S and A.
        discount: In (0, 1).
    """

    weights: np.ndarray
    columns: np.ndarray
    reward: np.ndarray
    n_states: int
    n_actions: int
    discount: float

    @property
    def matrix(self) -> scipy.sparse.csr_matrix:
        """The transitions (N, S), without a copy."""
        bounds = np.arange(0, 4 * len(self.reward) + 1, 4, dtype=np.int32)
        shape = len(self.reward), self.n_states
        return scipy.sparse.csr_matrix((self.weights.reshape(-1), self.columns.reshape(-1), bounds), shape=shape)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A solver's optimum.

    Attributes:
        method: Which of its methods, with settings.
        v: Values (S,).
        seconds: Of the solution alone.
    """

    method: str
    v: np.ndarray
    seconds: float


def pair_arrays(task: ControlTask) -> PairArrays:
    """Tabulate a task of two dimensions for the peers: float64, with the float32 fractions that ours uses."""
    states, quadrature = task.states(), Quadrature.of(task, 1)
    offsets = corner_offsets(task).to(torch.int32).numpy()
    pairs = task.n_states * task.n_actions
    weights, columns, reward = np.empty((pairs, 4)), np.empty((pairs, 4), np.int32), np.empty(pairs)
    rows = max(1, PIECE // task.n_actions)
    for low in range(0, task.n_states, rows):
        table = tabulate(task, states[low : low + rows, None], task.actions, quadrature, torch.float32)
        to = slice(low * task.n_actions, low * task.n_actions + len(table.base))
        across, along = table.fraction.double().numpy()
        for corner, (x, y) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
            weights[to, corner] = (across if x else 1.0 - across) * (along if y else 1.0 - along)
        np.add(table.base.numpy()[:, None], offsets, out=columns[to])
        reward[to] = table.reward.numpy()
    return PairArrays(
        weights=weights,
        columns=columns,
        reward=reward,
        n_states=task.n_states,
        n_actions=task.n_actions,
        discount=task.discount,
    )


def quantecon_problem(arrays: PairArrays) -> Any:
    """QuantEcon's DiscreteDP of the sparse state-action pairs."""
    states = np.repeat(np.arange(arrays.n_states), arrays.n_actions)
    actions = np.tile(np.arange(arrays.n_actions), arrays.n_states)
    problem = _quantecon().markov.DiscreteDP
    return problem(arrays.reward, arrays.matrix, arrays.discount, states, actions)


def quantecon_answers(problem: Any, repeats: int) -> Iterator[Answer]:
    """Every method of QuantEcon, the best of some repeats each; value iteration takes long, and is run once."""
    epsilon = 2.0 * RESIDUAL * problem.beta / (1.0 - problem.beta)
    methods: list[tuple[str, dict[str, Any], int]] = [
        ("value_iteration", {"epsilon": epsilon}, 1),
        ("policy_iteration", {}, repeats),
        ("modified_policy_iteration", {"epsilon": epsilon, "k": 20}, repeats),
        ("modified_policy_iteration", {"epsilon": epsilon, "k": 100}, repeats),
    ]

    def solve(method: str, settings: dict[str, Any]) -> np.ndarray:
        v: np.ndarray = getattr(problem, method)(max_iter=10_000, **settings).v
        return v

    for method, settings, times in methods:
        name = f"{method}, k={settings['k']}" if "k" in settings else method
        yield _timed(name, partial(solve, method, settings), times)


def mdpsolver_problem(arrays: PairArrays) -> Any:
    """An mdpsolver model, which takes lists."""
    size = arrays.n_states, arrays.n_actions, 4
    model = _mdpsolver().model()
    model.mdp(
        discount=arrays.discount,
        rewards=arrays.reward.reshape(size[:2]).tolist(),
        tranMatProbs=arrays.weights.reshape(size).tolist(),
        tranMatColumns=arrays.columns.reshape(size).tolist(),
    )
    return model


def mdpsolver_answers(model: Any, arrays: PairArrays, repeats: int) -> Iterator[Answer]:
    """mdpsolver's methods on one thread, from 0. Its value iteration takes ten times as long and is left out."""
    start: dict[str, Any] = {"initValueVector": [0.0] * arrays.n_states, "initPolicy": [0] * arrays.n_states}
    tolerance = RESIDUAL * arrays.discount / (1.0 - arrays.discount)

    def solve(algorithm: str, update: str) -> np.ndarray:
        model.solve(algorithm=algorithm, update=update, tolerance=tolerance, parallel=False, **start)
        return np.array(model.getValueVector())

    for algorithm, update in (("mpi", "standard"), ("mpi", "gs"), ("pi", "standard")):
        yield _timed(f"{algorithm}, {update}", partial(solve, algorithm, update), repeats)


@contextmanager
def one_thread() -> Iterator[None]:
    """Everybody on one thread. The peers are imported first: QuantEcon sets the number of torch's threads."""
    import numba

    before = torch.get_num_threads()
    _quantecon(), _mdpsolver()
    compiled = numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    try:
        yield
    finally:
        numba.set_num_threads(compiled)
        torch.set_num_threads(before)


def _timed(method: str, work: Callable[[], np.ndarray], repeats: int) -> Answer:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        v = work()
        times.append(time.perf_counter() - began)
    return Answer(method=method, v=v, seconds=min(times))


def _quantecon() -> Any:
    try:
        import quantecon
    except ImportError as error:
        raise MissingPeerError("The peer is missing: pip install 'svrl[bench]'") from error
    return quantecon


def _mdpsolver() -> Any:
    try:
        import mdpsolver
    except ImportError as error:
        raise MissingPeerError("The peer is missing: pip install 'svrl[bench]'") from error
    return mdpsolver
