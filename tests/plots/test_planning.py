from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from svrl.mdp.control_task import Axis
from svrl.mdp.tasks import make_task
from svrl.plots.planning import draw_comparison, draw_convergence, draw_policies, draw_q, draw_trajectories
from svrl.plots.style import save_figure

PLANE = (
    Axis(name="angle (rad)", low=-3.0, high=3.0, points=5, periodic=True),
    Axis(name="speed (rad/s)", low=-1.0, high=1.0, points=4),
)


def panels(figure: Figure) -> list:
    """Axes that are neither colour bars nor hidden."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>" and axes.get_visible()]


def row(method: str, **more: object) -> dict[str, object]:
    numbers = {"iterations": 7, "sweep_equivalents": 1.25, "seconds_backup": 0.5, "seconds_estimate": 0.25}
    worth = {"policy_loss_relative": 0.031, "discounted_return": 12.5, "metric": 0.75}
    return {"method": method, **numbers, **worth, "policy_followed_by": "interpolated Q", "outcome": "", **more}


def test_a_policy_map_shows_each_state_at_its_place():
    values = np.arange(20.0)[:, None] / 19 - 0.3
    figure = draw_policies(PLANE, {"mine": values, "optimum": -values}, inputs=("force (N)",))
    left, right = panels(figure)
    mesh = left.collections[0]
    shown = np.asarray(mesh.get_array()).reshape(4, 5)
    assert np.allclose(shown, values.reshape(5, 4).T)
    assert mesh.get_clim() == right.collections[0].get_clim() == (-0.7, 0.7)
    assert (left.get_xlabel(), left.get_ylabel()) == ("angle (rad)", "speed (rad/s)")
    assert (left.get_title("left"), right.get_title("left")) == ("(a) mine", "(b) optimum")
    figure = draw_policies(PLANE, {"a": np.zeros((20, 3)), "b": np.ones((20, 3))}, inputs=("x", "y", "z"))
    assert len(panels(figure)) == 6, "a row for each input"


def test_further_coordinates_are_held_near_zero():
    task = make_task("cart-pole", states=(4, 3, 5, 4), actions=3)
    values = np.random.default_rng(0).normal(size=(task.n_states, 1))
    figure = draw_policies(task.axes, {"mine": values})
    shown = np.asarray(panels(figure)[0].collections[0].get_array()).reshape(3, 4)
    assert np.allclose(shown, values.reshape(4, 3, 5, 4)[:, :, 2, 1].T)
    assert "position (m) = 0" in figure.get_suptitle()


def test_trajectories_cut_a_periodic_coordinate_where_it_wraps():
    angles = np.array([2.0, 2.8, -2.9, -2.0, -1.0])
    states = np.stack([angles, np.linspace(1, 0, 5)], -1)[:, None]
    figure = draw_trajectories(PLANE, {"mine": (states, np.zeros((4, 1, 1)))}, time_step=0.5)
    angle, speed, force = panels(figure)
    drawn = angle.lines[0].get_ydata()
    assert np.isnan(drawn).sum() == 1
    assert np.array_equal(drawn[~np.isnan(drawn)], angles)
    assert np.array_equal(speed.lines[0].get_xdata(), 0.5 * np.arange(5))
    assert force.get_ylabel() == "input"
    assert force.get_xlabel() == "time (s)"


def test_convergence_leaves_out_what_is_not_known():
    rows = [
        {"backups": 100 * k, "residual": None if k == 1 else 1 / k, "error": 0.0 if k == 5 else 2 / k, "rank": 3 + k}
        for k in range(1, 6)
    ]
    left, right = panels(draw_convergence(rows, pairs=200))
    residual, error = (line.get_ydata() for line in left.lines)
    assert np.array_equal(np.isnan(residual), [True, False, False, False, False])
    assert np.array_equal(np.isnan(error), [False, False, False, False, True])
    assert np.array_equal(left.lines[0].get_xdata(), [0.5, 1.0, 1.5, 2.0, 2.5])
    assert np.array_equal(right.lines[0].get_ydata(), [4, 5, 6, 7, 8])


def test_figures_are_written(tmp_path: Path):
    assert len(panels(draw_q(np.zeros((4, 3))))) == 2
    figure = draw_q(np.random.default_rng(1).random((30, 12)))
    for ending, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")):
        path = tmp_path / f"q{ending}"
        save_figure(figure, path)
        assert path.read_bytes().startswith(start)
        assert path.stat().st_size > 3000


def test_a_comparison_shows_every_method_where_it_belongs():
    rows = [
        row("svp"),
        row("optimum", policy_loss_relative=0.0, sweep_equivalents=8.0),
        row("lost", policy_loss_relative=None),
    ]
    (panel,) = panels(draw_comparison(rows))
    points = {line.get_label(): line for line in panel.lines if line.get_label() in ("svp", "optimum", "lost")}
    assert set(points) == {"svp", "optimum"}
    assert points["svp"].get_xydata().tolist() == [[1.25, 0.031]]
    assert points["optimum"].get_xydata().tolist() == [[8.0, 1e-8]]
