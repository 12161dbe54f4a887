"""A small report of real figures: curves with bands, a map, a figure at two scales, and one that is not made."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from svrl.plots.style import CYCLE, MAP, STYLE, tag
from svrl.reporting.page.content import ClaimRow, Exhibit, FigureEntry, Page, Section

NASTY = "<script>alert(\"x\")</script> & 'quotes' | `a < b` Q* and V*, $p$ of _n_ [x](y)"


def figure(points: int = 60) -> Figure:
    """Tagged lines with bands, and a rasterized map with a colour bar."""
    steps = np.linspace(0.0, 10.0, points)
    with mpl.rc_context(STYLE):
        made = Figure(figsize=(7.2, 2.9), layout="constrained")
        left, right = made.subplots(1, 2)
        for at, (name, colour) in enumerate(zip(("DQN", "SV-DQN"), CYCLE, strict=False)):
            heights = (1 + 0.25 * at) * (1 - np.exp(-steps / 2)) + 0.03 * np.sin(7 * steps + at)
            tag(left.plot(steps, heights, color=colour, label=name), name)
            tag(left.fill_between(steps, heights - 0.1, heights + 0.1, color=colour, alpha=0.2, linewidth=0), name)
        left.set(title="(a) breakout", xlabel="agent steps (millions)", ylabel="score")
        left.legend(loc="lower right")
        image = right.pcolormesh(np.sin(np.add.outer(steps, steps)), cmap=MAP, rasterized=True)
        made.colorbar(image, ax=right, label="torque (N m)", pad=0.02)
    return made


def exhibit(scale: str = "laptop", source: str = "committed", **more: object) -> Exhibit:
    """A picture at a scale."""
    known: dict[str, object] = {
        "label": f"{scale} scale, {source}",
        "scale": scale,
        "source": source,
        "caption": f"3 seeds, 200,000 steps each, at {scale} scale. The paper spent 200 million frames: this is less.",
        "figure": figure(),
        "command": f"svrl paper run fig6 --scale {scale}",
        "provenance": ("svrl 0.4.0, torch 2.8.0, numpy 2.3.1", "12 cells, 41 minutes on two cores", "seeds 0, 1, 2"),
    }
    return Exhibit(**{**known, **more})  # type: ignore[arg-type]


def claim(name: str, verdict: str, **more: object) -> ClaimRow:
    """A claim on figure 3."""
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


def entry(name: str, label: str, *exhibits: Exhibit, **more: str) -> FigureEntry:
    """A figure or an addition."""
    known = {"title": "policies and metric against p", "says": f"{label} has maps alike."}
    return FigureEntry(id=name, label=label, exhibits=exhibits, **{**known, **more})  # type: ignore[arg-type]


def planning() -> Section:
    """Three claims, a figure, and one that is not made."""
    rank = {"says": "The approximate rank of Q* is 7.", "paper": "7", "ours": "7", "note": "The sum would give 12."}
    return Section(
        name="control_svp",
        title="structured planning on control tasks",
        figures=(
            entry("fig3", "Figure 3", exhibit(command="svrl paper run fig3")),
            entry("fig10", "Figure 10", command="svrl paper run fig10 --scale full"),
        ),
        claims=(
            claim("svp-fifth", "reproduced", ours="1.02 times (0.98 to 1.07)", scale="laptop", source="committed"),
            claim("svp-rank", "reproduced under another definition", scale="laptop", source="committed", **rank),
            claim("svp-time", "not run at this scale", figure="fig10", section="C.1", note="smoke is too small"),
        ),
        command="svrl paper run control_svp",
        minutes=38.0,
        notes=("All tasks share one planner; a sweep of all pairs is one backup of `S x A` entries.",),
    )


def learning(nasty: bool = False) -> Section:
    """A figure at two scales; one claim, and another with awkward text if wanted."""
    claims = [claim("sv-better", "not reproduced", figure="fig6", section="4.3", ours="-1,240 (-3,051 to 571)")]
    words = dict.fromkeys(("title", "says"), NASTY) if nasty else {}
    if nasty:
        said = dict.fromkeys(("says", "paper", "test", "ours", "note"), NASTY)
        claims.append(claim("awkward-at-0.1", "not reproduced", figure="fig6", **said))
    return Section(
        name="atari_learning",
        title="learning on Atari games",
        figures=(entry("fig6", "Figure 6", exhibit(), exhibit("full", "here"), **words),),
        claims=tuple(claims),
        command="svrl paper run atari_learning",
        minutes=60.0 * 24 * 30,
    )


def addition() -> Section:
    """Not in the paper, without claims."""
    return Section(
        name="toy_rank",
        title="a toy problem",
        addition=True,
        figures=(entry("toy", "Addition", exhibit(), title="how fast the error falls"),),
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
