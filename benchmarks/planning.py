"""Planning on the inverted pendulum against QuantEcon, mdpsolver and SciPy; on a GPU against the same machine's CPU.

CPU    2500 states and 1000 actions (quick: 400 and 100), everybody on one thread. A sweep backs up all pairs and
       takes the maximum over actions; ours finds the maximisers as well. The optimum is timed from the task to
       values with max |TV - V| <= 1e-6, building included: ours is modified policy iteration, a peer's is the best
       of its methods. The peers' arrays are built from the table that ours is built from, in pieces that stay in a
       cache. The distance of each answer from ours is part of its row.
GPU    10000 states and 4000 actions (quick: 400 and 100), the paper's largest grid, in single precision. A full
       sweep and one iteration of `cross` and of `svp` (20% of the pairs observed), against all cores of the CPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from benchmarks.rows import Parts, Row, median_seconds, peer, timed, wait
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP, corner_offsets, tabulate
from svrl.mdp.tasks import inverted_pendulum
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.method import Method
from svrl.planning.plan import advance, begin, plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.svp import StructuredValueIteration
from svrl.runtime.device import torch_threads, usable_cores

RESIDUAL = 1e-6
TURNS, REPEATS = 7, 3
PIECE = 1 << 16
"""Pairs that are tabulated at once."""
LEFT_OUT, TIMED = 2, 5
"""Iterations on a GPU before the clock starts, and those that are timed."""


def parts(quick: bool, device: torch.device) -> Parts:
    """A sweep and the optimum, against each peer; on a GPU a sweep and iterations."""
    if device.type == "cuda":
        return {"a sweep and iterations against the CPU": partial(measure_device, quick, device)}
    task = inverted_pendulum(states=(20, 20) if quick else (50, 50), actions=100 if quick else 1000)
    return {
        **{f"a full sweep against {name}": partial(measure_sweep, task, name) for name in SWEEPS},
        **{f"the optimum against {name}": partial(measure_optimum, task, name) for name in SOLVERS},
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """Everybody on one thread. QuantEcon is imported inside: it sets the number of torch's threads."""
    compiled = numba.get_num_threads()
    try:
        with torch_threads(1):
            with suppress(ImportError):
                peer("quantecon")
            torch.set_num_threads(1)
            numba.set_num_threads(1)
            yield
    finally:
        numba.set_num_threads(compiled)


class Pairs(NamedTuple):
    """A task as arrays over its N = S * A pairs: rewards (N,), transitions (N, S), four to a row, and (S, A)."""

    reward: np.ndarray
    transitions: scipy.sparse.csr_matrix
    size: tuple[int, int]
    gamma: float


def pair_arrays(task: ControlTask) -> Pairs:
    """Tabulate a task of two dimensions for the peers: float64, with the float32 fractions that ours uses."""
    states = task.states()
    offsets = corner_offsets(task).to(torch.int32).numpy()
    pairs = task.n_states * task.n_actions
    weights, columns, reward = np.empty((pairs, 4)), np.empty((pairs, 4), np.int32), np.empty(pairs)
    rows = max(1, PIECE // task.n_actions)
    for low in range(0, task.n_states, rows):
        table = tabulate(task, states[low : low + rows, None], task.actions, torch.float32)
        to = slice(low * task.n_actions, low * task.n_actions + len(table.base))
        across, along = table.fraction.double().numpy()
        for corner, (x, y) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
            weights[to, corner] = (across if x else 1.0 - across) * (along if y else 1.0 - along)
        np.add(table.base.numpy()[:, None], offsets, out=columns[to])
        reward[to] = table.reward.numpy()
    parts = weights.reshape(-1), columns.reshape(-1), np.arange(0, 4 * pairs + 1, 4, dtype=np.int32)
    transitions = scipy.sparse.csr_matrix(parts, shape=(pairs, task.n_states))
    return Pairs(reward, transitions, (task.n_states, task.n_actions), task.gamma)


def quantecon_problem(arrays: Pairs) -> Any:
    """QuantEcon's DiscreteDP of the sparse state-action pairs."""
    n_states, n_actions = arrays.size
    states, actions = np.repeat(np.arange(n_states), n_actions), np.tile(np.arange(n_actions), n_states)
    problem = peer("quantecon").markov.DiscreteDP
    return problem(arrays.reward, arrays.transitions, arrays.gamma, states, actions)


def quantecon_operator(arrays: Pairs) -> Callable[[np.ndarray], np.ndarray]:
    """QuantEcon's Bellman operator."""
    problem = quantecon_problem(arrays)
    return lambda v: np.asarray(problem.bellman_operator(v, Tv=np.empty_like(v)))


def scipy_operator(arrays: Pairs) -> Callable[[np.ndarray], np.ndarray]:
    """The same as a product with a sparse matrix."""
    return lambda v: np.asarray((arrays.reward + arrays.gamma * (arrays.transitions @ v)).reshape(arrays.size).max(1))


Solutions = dict[str, Callable[[], np.ndarray]]
"""By a solver's method: solves a problem that is built; values (S,)."""


def quantecon_solutions(arrays: Pairs) -> Solutions:
    """QuantEcon's methods but value iteration, which takes longest."""
    problem = quantecon_problem(arrays)
    epsilon = 2.0 * RESIDUAL * problem.beta / (1.0 - problem.beta)
    modified = partial(problem.modified_policy_iteration, max_iter=10_000, epsilon=epsilon)
    return {
        "policy_iteration": lambda: np.asarray(problem.policy_iteration(max_iter=10_000).v),
        "modified_policy_iteration, k=20": lambda: np.asarray(modified(k=20).v),
        "modified_policy_iteration, k=100": lambda: np.asarray(modified(k=100).v),
    }


def mdpsolver_solutions(arrays: Pairs) -> Solutions:
    """mdpsolver's methods on one thread, from 0. Its value iteration takes ten times as long and is left out."""
    n_states = arrays.size[0]
    tolerance = RESIDUAL * arrays.gamma / (1.0 - arrays.gamma)
    model = peer("mdpsolver").model()
    model.mdp(  # it takes lists
        discount=arrays.gamma,
        rewards=arrays.reward.reshape(arrays.size).tolist(),
        tranMatProbs=arrays.transitions.data.reshape(*arrays.size, 4).tolist(),
        tranMatColumns=arrays.transitions.indices.reshape(*arrays.size, 4).tolist(),
    )

    def solve(algorithm: str, update: str) -> np.ndarray:
        start: dict[str, Any] = {"initValueVector": [0.0] * n_states, "initPolicy": [0] * n_states}
        model.solve(algorithm=algorithm, update=update, tolerance=tolerance, parallel=False, **start)
        return np.array(model.getValueVector())

    methods = (("mpi", "standard"), ("mpi", "gs"), ("pi", "standard"))
    return {f"{name}, {update}": partial(solve, name, update) for name, update in methods}


SWEEPS = {"QuantEcon": quantecon_operator, "SciPy CSR": scipy_operator}
"""V (S,) to the best backups (S,), of arrays over pairs."""
SOLVERS = {"QuantEcon": quantecon_solutions, "mdpsolver": mdpsolver_solutions}
"""Builds a peer's problem."""


def measure_sweep(task: ControlTask, name: str) -> Iterator[Row]:
    """A full sweep against a peer's."""
    with one_thread():
        operator = SWEEPS[name](pair_arrays(task))
        model = GridMDP(task, threads=1)
        rng = np.random.default_rng(0)
        values = [5.0 * rng.standard_normal(task.n_states) for _ in range(TURNS)]
        distance = float(np.abs(operator(values[0]) - model.improve(torch.from_numpy(values[0]))[0].numpy()).max())
        calls = [(partial(model.improve, torch.from_numpy(v)), partial(operator, v)) for v in values]
        ours, theirs = median_seconds(calls, repeats=REPEATS)
        yield Row(
            name=f"{task.n_states}x{task.n_actions} full sweep",
            unit="ms",
            ours=1e3 * ours,
            peer=1e3 * theirs,
            peer_name=name,
            note={"sup_distance": distance},
        )


def measure_optimum(task: ControlTask, name: str) -> Iterator[Row]:
    """The optimum, from the task to its values, against a peer's best method."""

    def solve() -> Tensor:
        return plan(model, ModifiedPolicyIteration(tolerance=RESIDUAL)).v

    with one_thread():
        model = GridMDP(inverted_pendulum(states=(5, 5), actions=40), threads=1)  # compile what is compiled
        solve()
        for warm_up in SOLVERS[name](pair_arrays(model.task)).values():
            warm_up()
        times = []
        for _ in range(REPEATS):
            built, model = timed(partial(GridMDP, task, threads=1))
            solved, v = timed(solve)
            times.append((built + solved, built))
        ours, built = min(times)
        peer_built, solutions = timed(lambda: SOLVERS[name](pair_arrays(task)))
        answers = {
            method: min((timed(solution) for _ in range(REPEATS)), key=lambda answer: answer[0])
            for method, solution in solutions.items()
        }
        best = min(answers, key=lambda method: answers[method][0])
        solving, theirs = answers[best][0], torch.as_tensor(answers[best][1])
        yield Row(
            name=f"{task.n_states}x{task.n_actions} optimum to residual {RESIDUAL:g}, building included",
            unit="s",
            ours=ours,
            peer=peer_built + solving,
            peer_name=name,
            note={
                "ours_build_s": built,
                "ours_solve_s": ours - built,
                "ours_residual": _residual(model, v),
                "peer_build_s": peer_built,
                "peer_solve_s": solving,
                "peer_method": best,
                "peer_residual": _residual(model, theirs),
                "sup_distance": float((theirs - v).abs().max()),
                "peer_all_solve_s": {method: taken for method, (taken, _) in answers.items()},
            },
        )


def _residual(model: GridMDP, values: Tensor) -> float:
    return float((model.improve(values)[0] - values).abs().max())


def measure_device(quick: bool, device: torch.device) -> Iterator[Row]:
    """Rows for a full sweep and for an iteration of two methods, against all cores of the CPU."""
    task = inverted_pendulum(states=(20, 20) if quick else (100, 100), actions=100 if quick else 4000)
    cores = usable_cores()
    with torch_threads(cores):
        there, here = GridMDP(task, mode="table", device=device), GridMDP(task, mode="table", threads=cores)
        row = partial(Row, unit="s", peer_name=f"CPU, {cores} thread{'s' if cores > 1 else ''}")
        size = f"{task.n_states}x{task.n_actions}"

        def sweep(model: GridMDP, v: Tensor) -> Tensor:
            best = model.improve(v)[0]
            wait(model.device)
            return best

        rng = np.random.default_rng(0)
        values = [torch.from_numpy(5 * rng.standard_normal(here.n_states, dtype=np.float32)) for _ in range(TURNS)]
        calls = [(partial(sweep, there, v.to(device)), partial(sweep, here, v)) for v in values]
        distance = float((calls[0][0]().cpu() - calls[0][1]()).abs().max())  # compiles, too
        ours, theirs = median_seconds(calls, repeats=REPEATS)
        yield row(name=f"{size} full sweep on {device}", ours=ours, peer=theirs, note={"sup_distance": distance})
        steps = LEFT_OUT + TIMED
        methods = CrossValueIteration(max_iterations=steps), StructuredValueIteration(p=0.2, max_iterations=steps)
        for method in methods:
            ours, theirs = iteration_seconds(there, method), iteration_seconds(here, method)
            yield row(name=f"{size} iteration of {method.name} on {device}", ours=ours, peer=theirs)


def iteration_seconds(model: GridMDP, method: Method) -> float:
    """Median seconds of an iteration, after the first few."""
    moments = []
    for _ in advance(model, method, begin(model, method, seed=0)):
        wait(model.device)
        moments.append(time.perf_counter())
    return statistics.median(np.diff(moments[LEFT_OUT - 1 :]).tolist())
