"""The figures and tables of docs/planning-results.md, from the rows in this folder; nothing is computed here.

python results/draw_planning.py          # writes docs/images/planning_*.png and prints the tables
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svrl.plots.style import BLUE, GREEN, GREY, ORANGE, STYLE, save_figure

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "images"
NAMES = {
    "inverted-pendulum": "inverted pendulum",
    "mountain-car": "mountain car",
    "double-integrator": "double integrator",
    "cart-pole": "cart-pole",
}
Rows = Sequence[Mapping[str, Any]]
METHODS = {"averaged-svp": "averaged, low-rank part", "averaged": "averaged", "incumbent": "incumbent + 3"}
COLOURS = {"averaged-svp": BLUE, "averaged": ORANGE, "incumbent": GREEN}


def read(name: str) -> list | dict:
    return json.loads((HERE / f"planning_{name}.json").read_text())


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def percent(row: dict) -> str:
    return f"{100 * max(row['policy_loss_relative'], 0.0):.2f}%"


def main_metric(row: dict) -> str:
    metric = row["metric"]
    if "norm_rad" in metric:
        return f"{metric['norm_rad']:.2f} rad, {metric['share_upright']:.0%} upright"
    return f"{metric['time_to_goal']:.1f} steps, {metric['share_reached']:.1%} reach"


def paper() -> None:
    rows = [row for row in read("paper") if row["kind"] != "toy"]
    size = lambda row: f"{row['states']}x{row['actions']}"  # noqa: E731
    optima = [row for row in rows if row["kind"] == "optimum"]
    key = lambda row: (row["task"], row["variant"], row["states"], row["actions"])  # noqa: E731
    budgets = {key(row): str(row["budget"]) for row in optima}
    heads = ["task", "variant", "size", "iterations", "rank at .99", "at 1 - 1e-6"]
    table(
        [*heads, "row-centred, .99", "row-centred, 1 - 1e-6"],
        [
            [NAMES[r["task"]], r["variant"], size(r), budgets.get(key(r), "")]
            + [str(r[k]) for k in ("raw_99", "raw_tight", "row_centred_99", "row_centred_tight")]
            for r in read("ranks")
        ],
    )
    shown = [
        r
        for r in rows
        if r["kind"] in ("optimum", "paper-svp") and (r["states"], r["actions"]) in ((2500, 1000), (10000, 1000))
    ]
    table(
        ["task", "variant", "policy", "metric", "return", "policy loss"],
        [
            [
                NAMES[r["task"]],
                r["variant"],
                policy_name(r),
                main_metric(r),
                f"{r['return']:.2f}",
                f"{percent(r)}",
            ]
            for r in shown
        ],
    )
    table(
        ["size", "variant", "rank at 1 - 1e-6", "optimum, norm", "SVP at .2, norm", "SVP, policy loss"],
        [
            [
                size(o),
                o["variant"],
                str(o["raw_tight"]),
                f"{o['metric']['norm_rad']:.2f}",
                ", ".join(f"{r['metric']['norm_rad']:.2f}" for r in scale_runs(rows, o)),
                ", ".join(f"{percent(r)}" for r in scale_runs(rows, o)),
            ]
            for o in sorted(optima, key=lambda o: o["states"])
            if o["task"] == "inverted-pendulum"
        ],
    )
    table(
        ["task", "variant", "20% of Q*", "50% of Q*"],
        [
            [NAMES[task], variant]
            + [
                f"{percent(r)}, {main_metric(r)}"
                for r in rows
                if r["kind"] == "low-rank policy" and (r["task"], r["variant"]) == (task, variant)
            ]
            for task in NAMES
            for variant in ("paper", "authors")
        ],
    )


def scale_runs(rows: list, optimum: dict) -> list:
    keys = ("task", "variant", "states", "actions")
    return [
        r
        for r in rows
        if r["kind"] == "paper-svp"
        and r["observe"] == 0.2
        and r["output"] == "fill"
        and all(r[k] == optimum[k] for k in keys)
    ]


def policy_name(row: dict) -> str:
    if row["kind"] == "optimum":
        return "optimum"
    kept = ", the minimiser" if row["output"] == "estimate" else ""
    return f"SVP, p = {row['observe']}, mask {row['seed']}{kept}"


def toy() -> None:
    rows = [row for row in read("paper") if row["kind"] == "toy" and row["reward"] == "uniform"]
    methods = ("value-iteration", "paper-svp")
    at = {(r["method"], r["t"]): r for r in rows}
    table(
        ["t", *[f"{m}, {what}" for m in methods for what in ("rank at .99", "MSE")]],
        [
            [str(t)]
            + [
                x
                for m in methods
                for x in ((str(at[m, t]["raw_99"]), f"{at[m, t]['mse']:.2f}") if (m, t) in at else ("", ""))
            ]
            for t in (0, 1, 2, 3, 5, 10, 20, 30, 40)
        ],
    )


def quality() -> None:
    rows = read("quality")
    grids = [r for r in rows if r["actions"] == 1000]
    methods = ("svp", "paper-svp", "async", "sampled-max", "row-mean-update", "incumbent", "coarse")
    table(
        ["task", "reward", *[f"{m}" for m in methods]],
        [
            [NAMES[task], "as it is" if offset == 0 else "less 1"] + [losses(grids, task, offset, m) for m in methods]
            for task in NAMES
            for offset in (0.0, -1.0)
        ],
    )
    table(
        [
            "task",
            "method",
            "seed",
            "policy loss",
            "after one sweep",
            "iterations",
            "share of a sweep an iteration",
            "sweep-equivalents",
        ],
        [
            [
                NAMES[r["task"]],
                r["method"],
                str(r["seed"]),
                f"{100 * max(r['policy_loss_relative'], 0):.3f}%",
                f"{100 * max(r['after_one_full_sweep'], 0):.4f}%",
                str(r["iterations"]),
                f"{100 * r['sweep_equivalents'] / r['iterations']:.2f}%",
                f"{r['sweep_equivalents']:.2f}",
            ]
            for r in rows
            if r["actions"] == 4000
        ],
    )


def losses(rows: list, task: str, offset: float, method: str) -> str:
    mine = [r for r in rows if (r["task"], r["reward_offset"], r["method"]) == (task, offset, method)]
    worst = max(r["policy_loss_relative"] for r in mine)
    swept = max(r["after_one_full_sweep"] for r in mine)
    return f"{100 * max(worst, 0):.3f}% / {100 * max(swept, 0):.3f}%"


def noise() -> None:
    found = read("noise")
    bars = found["bars"]
    levels = (0.1, 0.3, 1.0)
    names = list(dict.fromkeys(row["record"] for row in bars))
    rows = []
    for name in names:
        mine = {row["sigma"]: row for row in bars if row["record"] == name}
        label = (
            name.split("(")[0]
            if "challengers" not in name
            else "incumbent + " + name.split("challengers=")[1].split(",")[0]
        )
        cells = [
            f"{mine[s]['mean']:.4f} ({min(mine[s]['losses']):.4f} to {max(mine[s]['losses']):.4f})" for s in levels
        ]
        rows.append([label, *cells])
    table(["method", *[f"noise {s}" for s in levels]], rows)
    for sigma in levels:
        here = [row for row in bars if row["sigma"] == sigma]
        best = min(row["mean"] for row in here if row["method"] != "averaged-svp")
        ours = next(row["mean"] for row in here if row["method"] == "averaged-svp")
        print(f"noise {sigma}: {best / ours:.1f} times less than the best baseline")
    save_figure(draw_noise(found["sweep"]), IMAGES / "planning_noise.png")


def draw_noise(rows: Rows) -> Figure:
    """Three panels from rows with method, sigma, mean and the method's own settings.

    (a) loss against the noise of one backup, one and four samples a pair; (b) loss against the share
    of pairs sampled in an iteration; (c) loss against a fixed rank, beside the rank that held-out samples chose.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 2.9), layout="constrained")
        noise, share, rank = figure.subplots(1, 3, sharey=True)
        _against_noise(noise, rows)
        _against_share(share, rows)
        _against_rank(rank, rows)
        for letter, panel in zip("abc", (noise, share, rank), strict=True):
            panel.set_title(f"({letter})")
            panel.set_yscale("log")
        noise.set_ylabel("policy loss / span of V*")
    return figure


def _line(panel: Axes, points: list[tuple[float, float]], **look: Any) -> None:
    points.sort()
    panel.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, **look)


def _against_noise(panel: Axes, rows: Rows) -> None:
    for name, colour in COLOURS.items():
        for samples, style in ((1, "-"), (4, ":")):
            points = [
                (row["sigma"], row["mean"])
                for row in rows
                if row["method"] == name and row["samples"] == samples and row["observe"] == 1.0 and row["chosen"]
            ]
            label = METHODS[name] if samples == 1 else None
            _line(panel, points, color=colour, linestyle=style, label=label)
    panel.set_xscale("log")
    panel.set_xlabel("noise of one backup (dotted: 4 samples)")
    panel.legend(fontsize=7)


def _against_share(panel: Axes, rows: Rows) -> None:
    for sigma, style in ((0.1, "-"), (0.3, "--"), (1.0, ":")):
        for name in ("averaged-svp", "averaged"):
            points = [
                (row["observe"], row["mean"])
                for row in rows
                if row["method"] == name and row["sigma"] == sigma and row["samples"] == 1 and row["chosen"]
            ]
            label = f"noise {sigma:g}" if name == "averaged-svp" else None
            _line(panel, points, color=COLOURS[name], linestyle=style, label=label)
    panel.set_xscale("log")
    panel.set_xlabel("share of pairs sampled in an iteration")
    panel.legend(fontsize=7)


def _against_rank(panel: Axes, rows: Rows) -> None:
    for sigma, style in ((0.1, "-"), (0.3, "--"), (1.0, ":")):
        ours = [row for row in rows if row["method"] == "averaged-svp" and row["sigma"] == sigma]
        fixed = [(row["rank"], row["mean"]) for row in ours if not row["chosen"]]
        chosen = [row for row in ours if row["chosen"] and row["samples"] == 1 and row["observe"] == 1.0]
        _line(panel, fixed, color=BLUE, linestyle=style, label=f"noise {sigma:g}")
        if chosen:
            panel.axhline(chosen[0]["mean"], color=GREY, linestyle=style, linewidth=0.9)
    panel.set_xscale("log")
    ticks = sorted({row["rank"] for row in rows if not row["chosen"]})
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set_xlabel("fixed rank (grey: chosen by held-out samples)")
    panel.legend(fontsize=7)


if __name__ == "__main__":
    for part in (paper, toy, quality, noise):
        print(f"## {part.__name__}\n")
        part()
