"""Exact planning on the inverted pendulum: one sweep, and the optimum, against QuantEcon and mdpsolver.

2500 states and 1000 actions (quick: 400 and 100), everybody on one thread. A sweep backs up all pairs and
takes the maximum over actions; ours finds the maximisers as well. The optimum is timed from the task to
values with max |TV - V| <= 1e-6, building included: ours is modified policy iteration, a peer's is
the best of its methods. The distance of each answer from ours is part of its row.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from svrl.benchmarks.planning_peers import (
    RESIDUAL,
    Answer,
    PairArrays,
    mdpsolver_answers,
    mdpsolver_problem,
    one_thread,
    pair_arrays,
    quantecon_answers,
    quantecon_problem,
)
from svrl.benchmarks.rows import Row, median_seconds
from svrl.mdp.control_task import ControlTask
from svrl.mdp.grid import GridMDP
from svrl.mdp.inverted_pendulum import inverted_pendulum
from svrl.planning.plan import plan
from svrl.planning.policy_iteration import ModifiedPolicyIteration

TURNS, REPEATS = 7, 3
OURS = ModifiedPolicyIteration(tolerance=RESIDUAL)


def measure_planning(quick: bool) -> Iterator[Row]:
    """Rows for a sweep and for the optimum."""
    task = inverted_pendulum(states=(20, 20) if quick else (50, 50), actions=100 if quick else 1000)
    with one_thread():
        _warm_up()
        yield from _sweeps(task)
        yield from _optima(task)


def _warm_up() -> None:
    """Compile what is compiled, on a problem of the same kind."""
    task = inverted_pendulum(states=(5, 5), actions=40)
    arrays = pair_arrays(task)
    list(quantecon_answers(quantecon_problem(arrays), 1))
    plan(GridMDP(task, threads=1), OURS)


def _sweeps(task: ControlTask) -> Iterator[Row]:
    model, arrays = GridMDP(task, threads=1), pair_arrays(task)
    problem, matrix = quantecon_problem(arrays), arrays.matrix
    rng = np.random.default_rng(0)
    calls = []
    for _ in range(TURNS):
        v = 5.0 * rng.standard_normal(task.n_states)
        theirs = partial(problem.bellman_operator, v, Tv=np.empty_like(v))
        calls.append((partial(model.improve, torch.from_numpy(v)), theirs, partial(_product, arrays, matrix, v)))
    ours, quantecon, product = median_seconds(calls, repeats=REPEATS)
    best = calls[0][0]()[0].numpy()
    for seconds, peer, call in ((quantecon, "QuantEcon", calls[0][1]), (product, "SciPy CSR", calls[0][2])):
        yield Row(
            name=f"{task.n_states}x{task.n_actions} full sweep",
            unit="ms",
            ours=1e3 * ours,
            peer=1e3 * seconds,
            peer_name=peer,
            note={"sup_distance": _distance(call(), best)},
        )


def _product(arrays: PairArrays, matrix: Any, v: np.ndarray) -> np.ndarray:
    q = arrays.reward + arrays.discount * (matrix @ v)
    result: np.ndarray = q.reshape(arrays.n_states, arrays.n_actions).max(1)
    return result


def _optima(task: ControlTask) -> Iterator[Row]:
    model, building, solving, v = _ours(task)
    mine = {"ours_build_s": building, "ours_solve_s": solving, "ours_residual": _residual(model, v)}

    def row(peer: str, build: float, answers: list[Answer]) -> Row:
        best = min(answers, key=lambda answer: answer.seconds)
        return Row(
            name=f"{task.n_states}x{task.n_actions} optimum to residual {RESIDUAL:g}, building included",
            unit="s",
            ours=building + solving,
            peer=build + best.seconds,
            peer_name=peer,
            note={
                **mine,
                "peer_build_s": build,
                "peer_solve_s": best.seconds,
                "peer_method": best.method,
                "peer_residual": _residual(model, best.v),
                "sup_distance": _distance(best.v, v.numpy()),
                "peer_all_solve_s": {answer.method: answer.seconds for answer in answers},
            },
        )

    builds = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        arrays = pair_arrays(task)
        prepared = time.perf_counter() - began
        problem = quantecon_problem(arrays)
        builds.append(time.perf_counter() - began)
    yield row("QuantEcon", min(builds), list(quantecon_answers(problem, REPEATS)))
    began = time.perf_counter()
    lists = mdpsolver_problem(arrays)
    build = prepared + time.perf_counter() - began
    yield row("mdpsolver", build, list(mdpsolver_answers(lists, arrays, 1)))


def _ours(task: ControlTask) -> tuple[GridMDP, float, float, torch.Tensor]:
    """The model, seconds of building and of solving in the best of some repeats, and the values."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        model = GridMDP(task, threads=1)
        built = time.perf_counter()
        found = plan(model, OURS)
        times.append((time.perf_counter() - began, built - began))
    whole, building = min(times)
    return model, building, whole - building, found.v


def _residual(model: GridMDP, v: np.ndarray | torch.Tensor) -> float:
    values = torch.as_tensor(v)
    return float((model.improve(values)[0] - values).abs().max())


def _distance(theirs: Any, ours: np.ndarray) -> float:
    return float(np.abs(np.asarray(theirs) - ours).max())
