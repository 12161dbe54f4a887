"""Figures of plans: the policy as a map, what it does over time, how it converged, and a metric against p.

All make a whole figure but `draw_maps`, which draws into given axes: figures of the paper are composed with it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from svrl.mdp.control_task import Axis
from svrl.plots.style import BLUE, CYCLE, GREEN, GREY, MAP, ORANGE, SIGNED_MAP, STYLE, letter


def draw_policies(
    axes: Sequence[Axis], policies: Mapping[str, np.ndarray], *, inputs: Sequence[str] = ("input",)
) -> Figure:
    """Maps of policies over the first two coordinates; further ones are held at the grid point nearest 0.

    Args:
        axes: The d coordinates of the grid, at least 2.
        policies: Title -> inputs (S, k) of the grid states, the last axis running fastest.
        inputs: Names of the k inputs, for the colour bars.
    """
    shape = tuple(axis.points for axis in axes)
    held = tuple(int(axis.values.abs().argmin()) for axis in axes[2:])
    part: Any = (slice(None), slice(None), *held)
    maps = {title: values.reshape(*shape, -1)[part] for title, values in policies.items()}
    x, y = (axis.values.numpy() for axis in axes[:2])
    rows, columns = len(inputs), len(maps)
    size = (3.0 * columns + 0.8, 2.5 * rows + 0.5)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for k, name in enumerate(inputs):
            row = [(x, y, picture[..., k]) for picture in maps.values()]
            draw_maps(figure, list(panels[k]), row, (axes[0].name if k == rows - 1 else "", axes[1].name, name))
        _letter_several(list(panels.flat), [*maps, *[""] * (panels.size - columns)])
        if held:
            places = [f"{axis.name} = {float(axis.values[at]):.2g}" for axis, at in zip(axes[2:], held, strict=True)]
            figure.suptitle("at " + ", ".join(places), fontsize=8, color=GREY)
    return figure


def draw_q(matrix: np.ndarray, *, title: str = "Q") -> Figure:
    """A Q matrix (S, A) and its singular values, for problems without coordinates."""
    values = np.linalg.svd(matrix, compute_uv=False)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained")
        panels = figure.subplots(1, 2, width_ratios=[1.2, 1], squeeze=False)
        image = panels[0, 0].imshow(matrix, aspect="auto", cmap=MAP, interpolation="nearest", rasterized=True)
        panels[0, 0].set(xlabel="action", ylabel="state")
        figure.colorbar(image, ax=panels[0, 0], label="value", pad=0.02)
        shown = values[values > 1e-12 * max(float(values[0]), 1e-300)]
        panels[0, 1].loglog(np.arange(1, len(shown) + 1), shown / max(float(values[0]), 1e-300), ".-", color=BLUE)
        panels[0, 1].set(xlabel="index", ylabel="singular value / largest")
        letter(list(panels.flat), (title, "spectrum"))
    return figure


def draw_trajectories(
    axes: Sequence[Axis],
    paths: Mapping[str, tuple[np.ndarray, np.ndarray]],
    *,
    time_step: float,
    time_unit: str = "s",
    inputs: Sequence[str] = ("input",),
) -> Figure:
    """Every coordinate and every input over time, one colour a start, one kind of line a policy.

    Args:
        axes: The d coordinates.
        paths: Title -> states (T + 1, N, d) and inputs (T, N, k) of the same N starts.
        time_step: Between two states.
        time_unit: Of the time step.
        inputs: Names of the k inputs.
    """
    names = [axis.name for axis in axes] + list(inputs)
    narrow = 0.02 * np.array([axis.high - axis.low for axis in axes])
    shown = max(settled(states, narrow) for states, _ in paths.values())
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    kinds: list[dict[str, Any]] = [{"linestyle": "-", "alpha": 0.95}, {"linestyle": (0, (2, 1.5)), "alpha": 0.8}]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.0 * columns, 2.2 * rows + 0.3), layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, squeeze=False)
        periods = [axis.high - axis.low if axis.periodic else None for axis in axes] + [None] * len(inputs)
        for kind, (states, moves) in zip(kinds * len(paths), paths.values(), strict=False):
            curves = [*np.moveaxis(states[: shown + 1], 2, 0), *np.moveaxis(moves[:shown], 2, 0)]
            for at, (panel, values, period) in enumerate(zip(panels.flat, curves, periods, strict=False)):
                look = kind if at < len(axes) else {**kind, "drawstyle": "steps-post"}
                for line, colour in zip(values.T, itertools.cycle(CYCLE), strict=False):
                    panel.plot(*cut(line, time_step, period), color=colour, linewidth=1.2, **look)
        for at, panel in enumerate(panels.flat):
            if at >= len(names):
                panel.set_visible(False)
                continue
            panel.set_ylabel(names[at])
            if at + columns >= len(names):
                panel.set_xlabel(f"time ({time_unit})")
                panel.tick_params(labelbottom=True)
        _letter_several(list(panels.flat)[: len(names)], [""] * len(names))
        if len(paths) > 1:
            marks = [Line2D([], [], color=GREY, **kind) for kind, _ in zip(kinds, paths, strict=False)]
            figure.legend(marks, list(paths), loc="outside upper right", ncols=len(paths), fontsize=8)
    return figure


def draw_comparison(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Policy loss against backups, one point a method; the first row is the plan itself.

    Args:
        rows: As `svrl plan --json` has them under "comparison". One without a loss is left out.
    """
    known = [row for row in rows if row.get("policy_loss_relative") is not None]
    floor = 1e-8
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.4, 3.0), layout="constrained")
        panel = figure.subplots()
        for at, (row, marker) in enumerate(zip(known, itertools.cycle("oDsv^<>PX*"), strict=False)):
            colour = BLUE if at == 0 else GREEN if row["method"] == "optimum" else CYCLE[at % len(CYCLE)]
            place = row["sweep_equivalents"], max(row["policy_loss_relative"], floor)
            # Methods of equal cost and loss lie on each other: open markers of several shapes stay legible.
            face = colour if at == 0 else "none"
            panel.loglog(*place, marker, color=colour, label=row["method"], markerfacecolor=face)
        panel.axhline(floor, color=GREY, linewidth=0.6, linestyle=":")
        panel.margins(x=0.15, y=0.15)
        panel.xaxis.set_major_formatter("{x:g}")
        panel.xaxis.set_minor_formatter("{x:g}")
        panel.tick_params(axis="x", which="minor", labelsize=7)
        panel.set(xlabel="backups (sweeps of all pairs)", ylabel="policy loss / range of V*")
        panel.set_title("at the dotted line: no loss", fontsize=8, color=GREY)
        panel.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def draw_convergence(rows: Sequence[Mapping[str, Any]], *, pairs: int) -> Figure:
    """Residual, and the error where it is known, against backups; and the rank of the estimates if it changes.

    Args:
        rows: One an iteration, with backups, residual, and perhaps error and rank; None and NaN are left out.
        pairs: S * A, the backups of one sweep.
    """
    names = ("backups", "residual", "error", "rank")
    found = {name: np.array([row.get(name) for row in rows], float) for name in names}  # NaN for None
    sweeps, ranks = found["backups"] / pairs, found["rank"]
    with mpl.rc_context(STYLE):
        wide = 2 if len(np.unique(ranks[np.isfinite(ranks)])) > 1 else 1
        figure = Figure(figsize=(3.6 * wide, 2.7), layout="constrained")
        panels = figure.subplots(1, wide, squeeze=False)
        curves = (("residual", BLUE, "residual of an iteration"), ("error", ORANGE, "error against the optimum"))
        for name, colour, label in curves:
            values = found[name]
            if (values > 0).any():
                panels[0, 0].semilogy(sweeps, np.where(values > 0, values, np.nan), color=colour, label=label)
        panels[0, 0].set(xlabel="backups (sweeps of all pairs)", ylabel="largest difference of V")
        if panels[0, 0].get_legend_handles_labels()[0]:
            panels[0, 0].legend(fontsize=8)
        if wide == 2:
            panels[0, 1].plot(np.arange(1, len(rows) + 1), ranks, color=BLUE, drawstyle="steps-mid")
            panels[0, 1].set(xlabel="iteration", ylabel="rank of the estimate", ylim=(0, 1.1 * np.nanmax(ranks)))
        _letter_several(list(panels.flat), [""] * wide)
    return figure


def draw_maps(
    figure: Figure,
    panels: Sequence[Axes],
    maps: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
    labels: tuple[str, str, str],
) -> None:
    """Maps of several policies on one scale of colours, which a bar beside the last panel explains.

    Args:
        figure: Where the colour bar goes.
        panels: One a map.
        maps: Of each policy two coordinates, (m,) and (n,), and an input of every grid point, (m, n).
        labels: Of the x axis, the y axis and the input.
    """
    limit = max(float(np.abs(inputs).max()) for _, _, inputs in maps) or 1.0  # white is 0
    look: dict[str, Any] = {"cmap": SIGNED_MAP, "vmin": -limit, "vmax": limit, "shading": "nearest", "rasterized": True}
    for panel, (x, y, inputs) in zip(panels, maps, strict=True):
        image = panel.pcolormesh(x, y, np.asarray(inputs, np.float32).T, **look)
        panel.set_xlabel(labels[0])
        panel.tick_params(labelleft=panel is panels[0])
    panels[0].set_ylabel(labels[1])
    figure.colorbar(image, ax=list(panels), label=labels[2], pad=0.02, aspect=25)


def settled(states: np.ndarray, near: float | np.ndarray) -> int:
    """Steps worth showing of trajectories (T + 1, N, ...): somewhat more than until all stay `near` where they end."""
    states = np.asarray(states, float)
    away = (np.abs(states - states[-1]) > near).any(tuple(range(1, states.ndim)))
    last = int(np.flatnonzero(away).max(initial=0))
    return min(len(states) - 1, max(20, int(1.3 * last)))


def cut(values: np.ndarray, time_step: float, period: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Times and a coordinate (T,) of that period, with a gap where it wraps; None if it does not."""
    line, times = np.array(values, float), time_step * np.arange(len(values))
    if period is None:
        return times, line
    cuts = np.flatnonzero(np.abs(np.diff(line)) > 0.5 * period) + 1
    return np.insert(times, cuts, math.nan), np.insert(line, cuts, math.nan)


def _letter_several(panels: Sequence[Axes], titles: Sequence[str]) -> None:
    """Letters where there is more than one panel, else the title alone."""
    if len(panels) > 1:
        letter(panels, titles)
    else:
        panels[0].set_title(titles[0])
