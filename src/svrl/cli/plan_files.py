"""The files of a plan's run directory: rows, arrays and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from svrl.planning.plan import Plan
    from svrl.planning.score import Judge, Recorder, Score
    from svrl.runtime.run_directory import RunDirectory

SHOWN_STARTS = 4
INPUTS = {
    "inverted-pendulum": ("torque",),
    "mountain-car": ("throttle",),
    "double-integrator": ("force (N)",),
    "cart-pole": ("force (N)",),
    "three-motor-pendulum": ("motor 1", "motor 2", "motor 3"),
}
TIME_UNITS = {"mountain-car": "steps"}


def write_plan(
    directory: RunDirectory, result: dict[str, Any], found: Plan, score: Score, judge: Judge, recorder: Recorder
) -> None:
    """Write everything but result.json, with which the run is finished."""
    from svrl.cli.plan_run import trace_rows

    rows = trace_rows(found, recorder)
    directory.write_rows(rows)
    _write_arrays(directory, found)
    _write_figures(directory, found, score, judge, rows, result.get("comparison", []))


def _write_arrays(directory: RunDirectory, found: Plan) -> None:
    import numpy as np

    arrays = {"policy.npy": found.policy, "values.npy": found.v}
    if found.q is not None:
        arrays["q.npy"] = found.q
    for name, tensor in arrays.items():
        with directory.writing(name) as temporary, temporary.open("wb") as file:
            np.save(file, _array(tensor))
    if found.factors is not None:
        left, right = (_array(factor) for factor in found.factors)
        with directory.writing("factors.npz") as temporary, temporary.open("wb") as file:
            np.savez(file, left=left, right=right)


def _write_figures(
    directory: RunDirectory,
    found: Plan,
    score: Score,
    judge: Judge,
    rows: list[dict[str, Any]],
    comparison: list[dict[str, Any]],
) -> None:
    from svrl.plots import planning as figures
    from svrl.plots.style import save_figure

    task = judge.task
    drawn = {"convergence.png": figures.draw_convergence(rows, pairs=found.problem["pairs"])}
    if comparison:
        drawn["comparison.png"] = figures.draw_comparison(comparison)
    plans, paths = {found.name: found}, {found.name: score.rollout}
    if judge.exact:
        plans |= {"optimum": judge.optimum}
        paths |= {"optimum": judge.optimal.rollout}
    if task is None and judge.exact:
        drawn["q.png"] = figures.draw_q(_array(judge.model.backup(judge.optimum.v)), title="optimal Q")
    if task is not None:
        inputs = INPUTS.get(task.name, tuple(f"input {k + 1}" for k in range(task.actions.shape[1])))
        drawn["policy.png"] = figures.draw_policies(
            task.axes,
            {name: _array(task.actions[some.policy.cpu()]) for name, some in plans.items()},
            inputs=inputs,
        )
        drawn["trajectories.png"] = figures.draw_trajectories(
            task.axes,
            {
                name: (_array(path.states[:, :SHOWN_STARTS]), _array(path.inputs[:, :SHOWN_STARTS]))
                for name, path in paths.items()
                if path is not None
            },
            time_step=float(task.label.get("time_step", 1.0)),
            time_unit=TIME_UNITS.get(task.name, "s" if "time_step" in task.label else "steps"),
            inputs=inputs,
        )
    for name, figure in drawn.items():
        with directory.writing(name) as temporary:
            save_figure(figure, temporary)


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.cpu().numpy()
