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

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from benchmarks.rows import MissingPeerError, Parts, Row, median_seconds, peer, seconds, wait
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.grid_table import Quadrature, tabulate
from svrl.mdp.interpolation import corner_offsets
from svrl.mdp.inverted_pendulum import inverted_pendulum
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.method import Method
from svrl.planning.plan import advance, begin, plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration
from svrl.planning.svp import StructuredValueIteration
from svrl.runtime.device import usable_cores
from svrl.runtime.threads import torch_threads

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
    """Everybody on one thread. QuantEcon is imported first: it sets the number of torch's threads."""
    import numba

    earlier = torch.get_num_threads()
    with suppress(MissingPeerError):
        peer("quantecon")
    torch.set_num_threads(earlier)
    compiled = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with torch_threads(1):
            yield
    finally:
        numba.set_num_threads(compiled)


class Pairs(NamedTuple):
    """A task as arrays over its N = S * A pairs: rewards (N,), transitions (N, S), four to a row, and (S, A)."""

    reward: np.ndarray
    transitions: scipy.sparse.csr_matrix
    size: tuple[int, int]
    discount: float


def pair_arrays(task: ControlTask) -> Pairs:
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
    parts = weights.reshape(-1), columns.reshape(-1), np.arange(0, 4 * pairs + 1, 4, dtype=np.int32)
    transitions = scipy.sparse.csr_matrix(parts, shape=(pairs, task.n_states))
    return Pairs(reward, transitions, (task.n_states, task.n_actions), task.discount)


Answers = dict[str, tuple[float, np.ndarray]]
"""By a solver's method: seconds of the solution alone, and values (S,)."""


def quantecon_problem(arrays: Pairs) -> Any:
    """QuantEcon's DiscreteDP of the sparse state-action pairs."""
    n_states, n_actions = arrays.size
    states, actions = np.repeat(np.arange(n_states), n_actions), np.tile(np.arange(n_actions), n_states)
    problem = peer("quantecon").markov.DiscreteDP
    return problem(arrays.reward, arrays.transitions, arrays.discount, states, actions)


def quantecon_answers(problem: Any) -> Answers:
    """QuantEcon's methods but value iteration, which takes longest; the best of some repeats each."""
    epsilon = 2.0 * RESIDUAL * problem.beta / (1.0 - problem.beta)
    modified = partial(problem.modified_policy_iteration, max_iter=10_000, epsilon=epsilon)
    methods = {
        "policy_iteration": partial(problem.policy_iteration, max_iter=10_000),
        "modified_policy_iteration, k=20": partial(modified, k=20),
        "modified_policy_iteration, k=100": partial(modified, k=100),
    }
    return {
        name: (min(seconds(method) for _ in range(REPEATS)), np.asarray(method().v)) for name, method in methods.items()
    }


def mdpsolver_problem(arrays: Pairs) -> Any:
    """An mdpsolver model, which takes lists."""
    model = peer("mdpsolver").model()
    model.mdp(
        discount=arrays.discount,
        rewards=arrays.reward.reshape(arrays.size).tolist(),
        tranMatProbs=arrays.transitions.data.reshape(*arrays.size, 4).tolist(),
        tranMatColumns=arrays.transitions.indices.reshape(*arrays.size, 4).tolist(),
    )
    return model


def mdpsolver_answers(model: Any, arrays: Pairs) -> Answers:
    """mdpsolver's methods on one thread, from 0. Its value iteration takes ten times as long and is left out."""
    n_states, answers = arrays.size[0], {}
    start: dict[str, Any] = {"initValueVector": [0.0] * n_states, "initPolicy": [0] * n_states, "parallel": False}
    tolerance = RESIDUAL * arrays.discount / (1.0 - arrays.discount)
    for algorithm, update in (("mpi", "standard"), ("mpi", "gs"), ("pi", "standard")):
        solve = partial(model.solve, algorithm=algorithm, update=update, tolerance=tolerance, **start)
        answers[f"{algorithm}, {update}"] = seconds(solve), np.array(model.getValueVector())
    return answers


def quantecon_operator(arrays: Pairs) -> Callable[[np.ndarray], np.ndarray]:
    """QuantEcon's Bellman operator."""
    problem = quantecon_problem(arrays)
    return lambda v: np.asarray(problem.bellman_operator(v, Tv=np.empty_like(v)))


def scipy_operator(arrays: Pairs) -> Callable[[np.ndarray], np.ndarray]:
    """The same as a product with a sparse matrix."""
    return lambda v: np.asarray(
        (arrays.reward + arrays.discount * (arrays.transitions @ v)).reshape(arrays.size).max(1)
    )


SWEEPS = {"QuantEcon": quantecon_operator, "SciPy CSR": scipy_operator}
"""V (S,) to the best backups (S,), of arrays over pairs."""
SOLVERS: dict[str, tuple[Callable[[Pairs], Any], Callable[[Any, Pairs], Answers]]] = {
    "QuantEcon": (quantecon_problem, lambda problem, _: quantecon_answers(problem)),
    "mdpsolver": (mdpsolver_problem, mdpsolver_answers),
}
"""How a peer's problem is built, and how it is solved."""


def measure_sweep(task: ControlTask, name: str) -> Iterator[Row]:
    """A full sweep against a peer's."""
    with one_thread():
        operator = SWEEPS[name](pair_arrays(task))
        model = GridMDP(task, threads=1)
        rng = np.random.default_rng(0)
        calls: list[tuple[Callable[[], Any], ...]] = []
        for _ in range(TURNS):
            v = 5.0 * rng.standard_normal(task.n_states)
            calls.append((partial(model.improve, torch.from_numpy(v)), partial(operator, v)))
        ours, theirs = calls[0]
        distance = float(np.abs(theirs() - ours()[0].numpy()).max())  # compiles, too
        taken, peer_taken = median_seconds(calls, repeats=REPEATS)
        yield Row(
            name=f"{task.n_states}x{task.n_actions} full sweep",
            unit="ms",
            ours=1e3 * taken,
            peer=1e3 * peer_taken,
            peer_name=name,
            note={"sup_distance": distance},
        )


def measure_optimum(task: ControlTask, name: str) -> Iterator[Row]:
    """The optimum, from the task to its values, against a peer's best method."""
    build, solve = SOLVERS[name]
    with one_thread():
        small = inverted_pendulum(states=(5, 5), actions=40)  # compile what is compiled
        solve(build(pair_arrays(small)), pair_arrays(small))
        plan(GridMDP(small, threads=1), ModifiedPolicyIteration(tolerance=RESIDUAL))
        times = []
        for _ in range(REPEATS):
            began = time.perf_counter()
            model = GridMDP(task, threads=1)
            built = time.perf_counter()
            v = plan(model, ModifiedPolicyIteration(tolerance=RESIDUAL)).v
            times.append((time.perf_counter() - began, built - began))
        ours, building = min(times)
        began = time.perf_counter()
        arrays = pair_arrays(task)
        problem = build(arrays)
        built_in = time.perf_counter() - began
        answers = solve(problem, arrays)
        best = min(answers, key=lambda method: answers[method][0])
        solving, theirs = answers[best][0], torch.as_tensor(answers[best][1])
        yield Row(
            name=f"{task.n_states}x{task.n_actions} optimum to residual {RESIDUAL:g}, building included",
            unit="s",
            ours=ours,
            peer=built_in + solving,
            peer_name=name,
            note={
                "ours_build_s": building,
                "ours_solve_s": ours - building,
                "ours_residual": _residual(model, v),
                "peer_build_s": built_in,
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
        size, cpu = f"{task.n_states}x{task.n_actions}", f"CPU, {cores} thread{'s' if cores > 1 else ''}"

        def sweep(model: GridMDP, v: Tensor) -> Tensor:
            best = model.improve(v)[0]
            wait(model.device)
            return best

        rng = np.random.default_rng(0)
        values = [torch.from_numpy(5 * rng.standard_normal(here.n_states, dtype=np.float32)) for _ in range(TURNS)]
        calls = [(partial(sweep, there, v.to(device)), partial(sweep, here, v)) for v in values]
        distance = float((calls[0][0]().cpu() - calls[0][1]()).abs().max())  # compiles, too
        ours, theirs = median_seconds(calls, repeats=REPEATS)
        name, note = f"{size} full sweep on {device}", {"sup_distance": distance}
        yield Row(name=name, unit="s", ours=ours, peer=theirs, peer_name=cpu, note=note)
        steps = LEFT_OUT + TIMED
        methods = CrossValueIteration(max_iterations=steps), StructuredValueIteration(observe=0.2, max_iterations=steps)
        for method in methods:
            ours, theirs = iteration_seconds(there, method), iteration_seconds(here, method)
            name = f"{size} iteration of {method.name} on {device}"
            yield Row(name=name, unit="s", ours=ours, peer=theirs, peer_name=cpu)


def iteration_seconds(model: GridMDP, method: Method) -> float:
    """Median seconds of an iteration, after the first few."""
    moments = []
    for _ in advance(model, method, begin(model, method, seed=0)):
        wait(model.device)
        moments.append(time.perf_counter())
    return statistics.median(np.diff(moments[LEFT_OUT - 1 :]).tolist())
