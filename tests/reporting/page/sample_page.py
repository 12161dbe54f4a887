"""A small report of real figures: curves with bands, a map, a figure at two scales, and one that is not made."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from svrl.plots.style import CYCLE, GREY, MAP, STYLE, tag
from svrl.reporting.page.content import ClaimRow, Exhibit, FigureEntry, Page, Section

NASTY = "<script>alert(\"x\")</script> & 'quotes' | `a < b` Q* and V*, $p$ of _n_ [x](y)"


def curves(names: tuple[str, ...] = ("DQN", "SV-DQN"), *, points: int = 60) -> Figure:
    """Lines with bands in two panels, each series tagged."""
    steps = np.linspace(0.0, 10.0, points)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        panels = figure.subplots(1, 2)
        for at, (name, colour) in enumerate(zip(names, CYCLE, strict=False)):
            for k, panel in enumerate(panels):
                heights = (1 + 0.25 * at) * (1 - np.exp(-steps / (2 + k))) + 0.03 * np.sin(7 * steps + at)
                tag(panel.plot(steps, heights, color=colour, label=name), name)
                tag(panel.fill_between(steps, heights - 0.1, heights + 0.1, color=colour, alpha=0.2, linewidth=0), name)
        panels[0].axhline(1.0, color="black", linewidth=0.8, linestyle=":")
        panels[0].set(title="(a) breakout", xlabel="agent steps (millions)", ylabel="score")
        panels[1].set(title="(b) zaxxon", xlabel="agent steps (millions)")
        panels[0].legend(loc="lower right")
    return figure


def heat_map() -> Figure:
    """Maps of two policies, rasterized, with a colour bar."""
    x, y = np.meshgrid(np.linspace(-np.pi, np.pi, 50), np.linspace(-8, 8, 50))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(6.6, 2.9), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, name, k in zip(panels, ("(a) optimal", "(b) SVP, p = 0.2"), (1.0, 1.1), strict=True):
            image = panel.pcolormesh(x, y, np.tanh(3 * np.sin(k * x) + y / 2), cmap=MAP, rasterized=True)
            panel.set(title=name, xlabel="angle (rad)")
        panels[0].set_ylabel("speed (rad/s)")
        figure.colorbar(image, ax=list(panels), label="torque (N m)", pad=0.02)
    return figure


def toy(*, points: int = 40) -> Figure:
    """One panel, one tagged series, open markers on a white ground, grey words."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(4.2, 2.8), layout="constrained")
        panel = figure.subplots()
        steps = np.arange(1, points + 1)
        tag(
            panel.semilogy(steps, 0.8**steps, "o-", color=CYCLE[0], markerfacecolor="white", label="error of Q"),
            "error of Q",
        )
        panel.annotate("converged", (0.6, 0.7), xycoords="axes fraction", color=GREY)
        panel.set(xlabel="iteration", ylabel="largest error")
        panel.legend()
    return figure


def _exhibit(figure: Figure, scale: str = "laptop", source: str = "committed", **more: object) -> Exhibit:
    known: dict[str, object] = {
        "label": f"{scale} scale, {source}",
        "scale": scale,
        "source": source,
        "caption": f"3 seeds, 200,000 steps each, at {scale} scale. The paper spent 200 million frames: this is less.",
        "figure": figure,
        "command": f"svrl paper run fig6 --scale {scale}",
        "provenance": ("svrl 0.4.0, torch 2.8.0, numpy 2.3.1", "12 cells, 41 minutes on two cores", "seeds 0, 1, 2"),
    }
    return Exhibit(**{**known, **more})  # type: ignore[arg-type]


def _claim(name: str, verdict: str, **more: object) -> ClaimRow:
    known: dict[str, object] = {
        "name": name,
        "section": "3.3",
        "figure": "fig3",
        "says": "SVP keeps the pendulum up as well as the optimal policy while it sees a fifth of the entries.",
        "paper": "about equal from p = 0.2 on",
        "test": "The mean angular deviation at p = 0.2 is at most 1.1 times that of the optimal policy.",
        "verdict": verdict,
    }
    return ClaimRow(**{**known, **more})  # type: ignore[arg-type]


def planning() -> Section:
    """Three claims, a map, and a figure that is not made."""
    says = "The policy from a fifth of the entries looks like the optimal one, and the metric falls as p grows."
    return Section(
        name="control_svp",
        title="Structured planning on control tasks",
        figures=(
            FigureEntry(
                id="fig3",
                label="Figure 3",
                title="inverted pendulum: SVP policies and metric against p",
                says=says,
                got="At p = 0.2 the maps agree in 96% of the states; the metric falls from 3.1 to 1.9 degrees.",
                exhibits=(_exhibit(heat_map(), command="svrl paper run fig3"),),
            ),
            FigureEntry(
                id="fig10",
                label="Figure 10",
                title="what SVP policies do over time",
                says=says,
                got="",
                command="svrl paper run fig10 --scale full",
            ),
        ),
        claims=(
            _claim("svp-fifth", "reproduced", ours="1.02 times (0.98 to 1.07)", scale="laptop", source="committed"),
            _claim(
                "svp-rank",
                "reproduced under another definition",
                says="The approximate rank of Q* on the pendulum is 7.",
                paper="7",
                ours="7",
                note="Of 99% of the squared singular values; the sum of them would give 12.",
                scale="laptop",
                source="committed",
            ),
            _claim("svp-time", "not run at this scale", figure="fig10", section="C.1", note="smoke is too small"),
        ),
        command="svrl paper run control_svp",
        minutes=38.0,
        notes=("All tasks share one planner; a sweep of all pairs is one backup of `S x A` entries.",),
    )


def learning(nasty: bool) -> Section:
    """A figure at two scales; one claim, with awkward text if asked for."""
    claims = [
        _claim(
            "sv-better",
            "not reproduced",
            figure="fig6",
            section="4.3",
            says="Structure raises the score on games whose Q has a low rank, Breakout among them.",
            paper="higher in all 4 games",
            ours="-1,240 (-3,051 to 571)",
            note="At 200,000 steps; the interval holds zero.",
            scale="laptop",
            source="here",
        )
    ]
    if nasty:
        words = dict.fromkeys(("says", "paper", "test", "ours", "note"), NASTY)
        claims.append(_claim("awkward-at-0.1", "not reproduced", figure="fig6", **words))
    return Section(
        name="atari_learning",
        title="Learning on Atari games",
        figures=(
            FigureEntry(
                id="fig6",
                label="Figure 6",
                title=NASTY if nasty else "DQN with and without structure",
                says=NASTY if nasty else "With structure the curves rise faster on games of low rank.",
                got=NASTY if nasty else "At our budget the intervals of the two overlap.",
                exhibits=(_exhibit(curves()), _exhibit(curves(points=90), "full", "here")),
            ),
        ),
        claims=tuple(claims),
        command="svrl paper run atari_learning",
        minutes=60.0 * 24 * 30,
    )


def addition() -> Section:
    """Not in the paper, without claims."""
    return Section(
        name="toy_rank",
        title="A toy problem",
        addition=True,
        figures=(
            FigureEntry(
                id="toy",
                label="Addition",
                title="how fast the error falls",
                says="It is the smallest problem.",
                got="It falls by a fifth an iteration.",
                exhibits=(_exhibit(toy()),),
            ),
        ),
        claims=(),
        command="svrl paper run toy_rank",
        minutes=0.2,
    )


def sample_page(*, nasty: bool = False) -> Page:
    """The report; made anew, because figures can be changed."""
    return Page(
        title="Structured value-based planning and learning, redone",
        subtitle="Every figure and claim of the ICLR 2020 paper by Yang, Zhang, Xu and Katabi, computed again.",
        scale="laptop",
        sections=(planning(), learning(nasty), addition()),
        made="2026-11-15",
        version="0.4.0",
        notes=("Intervals are 95% over seeds.",),
    )
