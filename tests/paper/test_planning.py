"""The experiments on planning: their smallest runs are computed, and their claims judged from runs made by hand."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from svrl.mdp.tasks import make_task
from svrl.paper.claim import Evidence, Finding
from svrl.paper.experiment import Experiment
from svrl.paper.experiments import control_low_rank_policy, noisy_simulator, toy_rank
from svrl.paper.experiments.control import OPTIMUM, PLANNED, TASKS, judged_q, problem_of, same_end
from svrl.paper.experiments.control_discretisation import EXPERIMENT as GRIDS
from svrl.paper.experiments.control_discretisation import FINE, MIDDLE, PRINTED, STARTS_KIND
from svrl.paper.experiments.control_low_rank_policy import EXPERIMENT as LOW_RANK
from svrl.paper.experiments.control_svp import BASELINES
from svrl.paper.experiments.control_svp import EXPERIMENT as SVP
from svrl.paper.experiments.diagrams import EXPERIMENT as DIAGRAMS
from svrl.paper.experiments.noisy_simulator import EXPERIMENT as NOISY
from svrl.paper.experiments.toy_rank import EXPERIMENT as TOY
from svrl.paper.experiments.toy_rank import ONLINE, VANILLA
from svrl.runs.local import run_locally
from svrl.runs.spec import Kind, Work
from svrl.runs.store import HERE, Kept, Store

CLAIMS = {claim.name: claim for experiment in (TOY, SVP, LOW_RANK, GRIDS, NOISY) for claim in experiment.claims}
YES, NO, OTHERWISE = "reproduced", "not reproduced", "reproduced under another definition"


# Runs that are computed.


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(root=tmp_path_factory.mktemp("runs"))


def smoke(experiment: Experiment, store: Store) -> Evidence:
    """All smoke runs, computed by their own functions once for all tests."""
    run_locally(experiment.missing("smoke", (store,)), store.address, here=True)
    evidence = experiment.evidence("smoke", (store,))
    assert evidence is not None, "a smoke run was not kept"
    return evidence


SERIES = {
    "fig1": {"99-of-the-energy", "n-0-1-rewards"},
    "fig2": {"whole-matrix", "observed", "backups", "matrix-estimation"},
    "fig3": {"svp-the-paper-s", "optimum", "incumbent", "coarse"},
    "fig5": {"value-based-rl", "sv-rl", "matrix-estimation"},
    "fig8": {"low-rank-policy", "optimum"},
    "fig9": {"optimum", "from-p-0-5-of-q"},
    "fig10": {"optimum", "svp-p-0-6", "svp-p-0-2", "svp-ours-p-0-2", "row-mean-update-p-0-2"},
    "table1": {"ours-paper-s-variant", "ours-authors-variant"},
    "baselines": {"modified-policy-iteration", "svp-ours", "cross"},
    "noise": {"structured-average-ours", "plain-average", "incumbent-3", "noise-0-3"},
}


@pytest.mark.parametrize(
    ("experiment", "figure"),
    [(experiment, name) for experiment in (TOY, SVP, LOW_RANK, GRIDS, NOISY, DIAGRAMS) for name in experiment.says],
    ids=lambda value: getattr(value, "name", value),
)
def test_every_figure_has_its_series_and_findings(experiment: Experiment, figure: str, store: Store, tmp_path: Path):
    whole = smoke(experiment, store)
    evidence = experiment.evidence("smoke", (store,), figure)
    assert evidence is not None
    path = tmp_path / "figure.svg"
    experiment.draw(figure, evidence).savefig(path, dpi=40)  # nobody looks at the maps in it
    assert SERIES.get(figure, set()) <= set(re.findall(r'id="series--([a-z0-9-]+)"', path.read_text()))
    for claim in (claim for claim in experiment.claims if claim.figure == figure and "laptop" in claim.scales):
        assert claim.judged(whole).verdict == "not run at this scale"
        grid = claim.name.rpartition("-at-")[2]
        if experiment is not GRIDS or not grid[0].isdigit():  # of grids that a laptop plans
            assert claim.judged(dataclasses.replace(whole, scale="laptop")).ours, claim.name


def test_value_iteration_contracts_by_the_discount_at_every_step(store: Store):
    for run in smoke(TOY, store).where(method=VANILLA):
        errors = [row["mse"] for row in run.rows if row["t"] is not None]
        assert len(errors) == 41
        # Root mean squares contract like the largest error only up to its spread, which is small here.
        assert all(after < 0.95**2 * 1.05 * before for before, after in pairwise(errors[1:]))


def test_reconstruction_starts_from_the_same_q_and_counts_half_of_the_pairs(store: Store):
    evidence = smoke(TOY, store)
    first, other = (run.rows[0] for run in evidence.where(reward="uniform", seed=0))
    assert first == other
    for run in evidence.where(method=ONLINE):
        share = run.rows[40]["backups"] / (40 * run.settings["states"] * run.settings["actions"])
        assert share == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("experiment", [TOY, SVP, NOISY], ids=lambda experiment: experiment.name)
def test_a_run_is_the_same_twice_but_for_its_clock(experiment: Experiment, tmp_path: Path):
    run = next(run for run in experiment.budgets["smoke"].runs if run.settings.get("method"))
    one, two = (run.kind.compute(run.settings, Work(folder=tmp_path)) for _ in range(2))
    for row in (*one.rows, *two.rows):
        row |= {"seconds_backup": 0.0, "seconds_estimate": 0.0}
    assert one.rows == two.rows
    assert all((one.arrays[name] == two.arrays[name]).all() for name in one.arrays)


def test_no_method_beats_the_optimum_and_all_count_their_backups(store: Store):
    evidence = smoke(SVP, store)
    for row in evidence.rows(OPTIMUM.name):
        assert abs(row["policy_loss_relative"]) < 1e-8
        assert (row["same_end"], row["input_gap"]) == (1.0, 0.0)
        assert row["rank_99"] <= row["rank_tight"]
    plans = list(evidence.rows(PLANNED.name))
    assert {row["method"] for row in plans} == {"paper-svp", *BASELINES}
    for row in plans:
        assert row["policy_loss_relative"] > -1e-8
        assert row["backups"] > 0
        assert row["iterations_made"] <= row["iterations_allowed"]
        if row["method"] == "paper-svp":
            assert row["sweep_equivalents"] == pytest.approx(row["p"] * row["iterations_made"], rel=0.03)


def test_trajectories_are_of_the_same_starts(store: Store):
    evidence = smoke(SVP, store)
    for task in TASKS:
        best = evidence.only(OPTIMUM.name, task=task, variant="paper")
        for run in evidence.where(PLANNED.name, task=task, variant="paper"):
            assert (run.arrays["states"][0] == best.arrays["states"][0]).all()


def test_ends_are_compared_around_the_circle():
    task = make_task("inverted-pendulum", states=(5, 5), actions=3)
    one = torch.tensor([[3.1, 0.0], [0.0, 0.0], [0.0, 0.0]])
    other = torch.tensor([[-3.1, 0.0], [0.0, 1.1], [0.0, 0.9]])
    assert same_end(task, one, other) == pytest.approx(2 / 3)


def test_all_of_q_gives_the_optimal_policy(tmp_path: Path):
    settings = {**LOW_RANK.budgets["smoke"].runs[1].settings, "p": 1.0}
    (row,) = control_low_rank_policy.compute(settings, Work(folder=tmp_path)).rows
    assert row["policy_loss_relative"] < 1e-6
    assert row["mse"] < 1e-8


def test_the_judge_reads_the_q_that_it_is_given():
    problem = problem_of(LOW_RANK.budgets["smoke"].runs[0].settings, "cpu")
    row, _ = judged_q(problem, -problem.q, (-problem.q).argmax(1))
    assert row["policy_loss_relative"] > 0.05
    assert row["mse"] == pytest.approx(float((2 * problem.q).square().mean()))
    assert torch.equal(problem.optimum.policy, problem.q.argmax(1))


@pytest.mark.parametrize(("scale", "masks", "beside"), [("smoke", 2, 1), ("laptop", 3, 3), ("full", 5, 5)])
def test_the_middle_grid_is_computed_once_for_both_experiments(scale: str, masks: int, beside: int):
    shared = {run.id for run in GRIDS.budgets[scale].runs} & {run.id for run in SVP.budgets[scale].runs}
    assert len(shared) == 2 * (1 + masks) + 2 * beside


def test_the_first_set_of_starts_is_the_one_of_the_optimum(store: Store):
    evidence = smoke(GRIDS, store)
    for run in evidence.where(STARTS_KIND.name):
        where = {name: run.settings[name] for name in ("variant", "states", "actions")}
        (best,) = evidence.only(OPTIMUM.name, **where).rows
        first, second = run.rows
        assert (first["metric"], first["mean_degrees"]) == (best["metric"], best["mean_degrees"])
        assert second["metric"] != first["metric"]


PLAIN = {"samples": 1, "p": 1.0, "challengers": None, "rank": None}


def test_without_noise_the_average_finds_the_optimum(tmp_path: Path):
    settings = {"states": [9, 9], "levels": 3, "iterations": 400, "method": "averaged", "sigma": 0.0, "seed": 0}
    assert noisy_simulator.compute(PLAIN | settings, Work(folder=tmp_path)).rows[0]["loss"] < 0.02


def test_all_noisy_methods_draw_equally_many_samples(store: Store):
    for row in smoke(NOISY, store).rows(p=1.0):
        # The incumbent averages whole numbers of samples of its few pairs: at most one action's worth is left over.
        # averaged-svp makes whole iterations, and of 12 at 27 actions 10 are paid for.
        assert row["iterations"] * 0.8 <= row["sweep_equivalents"] <= row["iterations"] * 1.0001


# Runs made by hand.


def kept(kind: Kind, rows: Iterable[dict[str, Any]], *, machine: str = "one", **settings: Any) -> Kept:
    """A run that was never computed."""
    text = {"kind": kind.name, "id": str(settings), "settings": settings, "rows": list(rows), "source": HERE}
    return Kept(**text, provenance={"machine": machine}, load=dict)


def judged(claim: str, runs: Iterable[Kept]) -> Finding:
    return CLAIMS[claim].judged(Evidence(scale="full", words="made by hand", runs=tuple(runs)))


def toy(rank_at: list[int], ours: float) -> list[Kept]:
    """Two seeds of every reward and method; value iteration ends at an error of 1."""
    runs = []
    for reward, method, seed in ((r, m, s) for r in ("uniform", "normal") for m in (VANILLA, ONLINE) for s in (0, 1)):
        row: dict[str, Any] = {"rank_99_centred": 9, "mse": 1.0 if method == VANILLA else ours + 0.001 * seed}
        rows = [{**row, "t": t, "rank_99": rank} for t, rank in enumerate(rank_at)]
        rows.append({**row, "t": None, "rank_99": rank_at[-1]})
        runs.append(kept(toy_rank.KIND, rows, reward=reward, method=method, seed=seed))
    return runs


GOOD: dict[str, Any] = {"metric": 1.9, "mean_degrees": 4.0, "median_degrees": 4.0, "share_upright": 0.9}
GOOD |= {"policy_loss_relative": 0.003, "input_gap": 0.01, "same_end": 0.97}
GOOD |= {"iterations_made": 10, "seconds_backup": 0.01, "seconds_estimate": 0.0}
BEST: dict[str, Any] = {"metric": 1.8, "metric_name": "norm_rad", "mean_degrees": 2.0}
BEST |= {"rank_99": 1, "rank_tight": 5, "rank_tight_centred": 30}
BEST |= {"vanilla_iterations": 10, "vanilla_seconds_backup": 0.1, "exact_sweeps": 8.0}


def svp(best: dict[str, Any] | None = None, losses: dict[str, dict[str, list[float]]] | None = None, **changes: Any):
    """Three masks of everything that claims read; losses of baselines are by task and method, .001 by default."""
    runs: list[Kept] = []
    for task in TASKS:
        for variant in ("paper", "authors"):
            runs.append(kept(OPTIMUM, [BEST | (best or {})], task=task, variant=variant))
            for seed in range(3):
                for share in (0.2, 0.6):
                    row = GOOD | {"sweep_equivalents": 10 * share} | changes
                    settings = {"task": task, "variant": variant, "method": "paper-svp", "p": share, "seed": seed}
                    runs.append(kept(PLANNED, [row], **settings))
            for method in BASELINES if variant == "paper" else ():
                for seed, loss in enumerate((losses or {}).get(task, {}).get(method, [0.001] * 3)):
                    row, settings = {"policy_loss_relative": loss}, {"task": task, "variant": variant, "p": None}
                    runs.append(kept(PLANNED, [GOOD | row], **settings, method=method, seed=seed))
    return runs


def losing(**others: list[float]) -> dict[str, dict[str, list[float]]]:
    """On every task all baselines lose more than SVP, which loses .003, but for these."""
    return {task: {**{name: [0.01] * 3 for name in BASELINES}, **others} for task in TASKS}


def timed_at(*machines: str, slow_elsewhere: float = 0.0, last: str = "a") -> list[Kept]:
    """Every task's optimum on machine a; plans on these, with so many seconds of estimation if it is not a."""
    runs = []
    for task in TASKS:
        runs.append(kept(OPTIMUM, [BEST], machine="a" if task != TASKS[-1] else last, task=task, variant="paper"))
        for seed, machine in enumerate(machines):
            row = GOOD | {"seconds_estimate": 0.0 if machine == "a" else slow_elsewhere}
            settings = {"task": task, "variant": "paper", "method": "paper-svp", "p": 0.2, "seed": seed}
            runs.append(kept(PLANNED, [row], machine=machine, **settings))
    return runs


def low_rank(**changes: Any) -> list[Kept]:
    row = {"metric": 1.05, "policy_loss_relative": 0.001, "same_end": 0.95, "input_gap": 0.01} | changes
    runs = [kept(OPTIMUM, [{"metric": 1.0}], task=task, variant="paper") for task in TASKS]
    kind = control_low_rank_policy.KIND
    return runs + [kept(kind, [row], task=task, p=0.5, seed=seed) for task in TASKS for seed in range(3)]


def grids(*, rank: str = "rank_tight", scale: float = 1.0, degrees: float = 9.0, loss: float = 0.001) -> list[Kept]:
    """The paper's own numbers, times `scale`, as norms; ranks under the name of one definition."""
    runs = []
    for (points, actions), (ranks, best, plan) in PRINTED.items():
        for variant in ("paper", "authors"):
            where = {"task": TASKS[0], "states": [points, points], "actions": actions, "variant": variant}
            runs.append(kept(OPTIMUM, [{"rank_99": 1, "rank_tight": 99} | {rank: ranks}], **where))
            near = (0.95 * best, best, 1.05 * best)
            runs.append(
                kept(STARTS_KIND, [{"metric": scale * one, "mean_degrees": degrees * one} for one in near], **where)
            )
            row = {"metric": scale * plan, "mean_degrees": degrees * plan, "policy_loss_relative": loss}
            runs += [kept(PLANNED, [row], **where, method="paper-svp", seed=seed) for seed in range(3)]
    return runs


def fine_ranks(paper: int, authors: int) -> list[Kept]:
    """Ranks of the finest grid in both variants; those of the one before are 7."""
    ranks = {(MIDDLE, "paper"): 7, (MIDDLE, "authors"): 7, (FINE, "paper"): paper, (FINE, "authors"): authors}
    return [
        kept(OPTIMUM, [{"rank_99": 1, "rank_tight": rank}], states=[n, n], actions=a, variant=variant, task=TASKS[0])
        for ((n, a), variant), rank in ranks.items()
    ]


def noisy(ours: float) -> list[Kept]:
    return [
        kept(noisy_simulator.KIND, [{"loss": loss * (1 + 0.01 * seed)}], **PLAIN, sigma=sigma, seed=seed, method=method)
        for sigma in (0.1, 0.3, 1.0)
        for seed in range(3)
        for method, loss in (("averaged-svp", ours), ("averaged", 0.1), ("value-iteration", 0.3))
    ]


STAYS, UPRIGHT = "toy-rank-stays-low-under-reconstruction", "pendulum-upright-at-20-percent"
BETTER, TIMED, FAIR = "a-baseline-does-better", "timed-work-falls", "rank-is-similar-on-fine-grids"
CAR, RECOVERED = "mountain-car-nearly-optimal-from-20-percent", "mountain-car-perfect-recovery-from-20-percent"
ON_THREE = ("rank-stays-low-on-every-grid", FAIR)
OF_GRIDS = [claim.name for claim in GRIDS.claims]


@pytest.mark.parametrize(
    ("name", "runs", "verdict"),
    [
        *((claim.name, toy([50, 1] + 39 * [1], 1.5), YES) for claim in TOY.claims),
        *((claim.name, toy(41 * [50], 3.0), NO) for claim in TOY.claims),
        (STAYS, toy(10 * [50] + 31 * [1], 1.5), YES),
        (STAYS, toy([50] + 29 * [1] + [50] + 10 * [1], 1.5), NO),  # one high rank late on the path is enough
        ("pendulum-rank-7", svp(), NO),
        ("pendulum-rank-7", svp({"rank_tight": 7}), OTHERWISE),
        ("pendulum-rank-7", svp({"rank_99": 7}), YES),
        ("all-four-tasks-are-low-rank", svp(), YES),
        ("all-four-tasks-are-low-rank", svp({"rank_99": 40}), NO),
        ("total-work-below-exact-planning", svp(), YES),
        ("total-work-below-exact-planning", svp({"exact_sweeps": 1.0}), NO),
        ("pendulum-svp-metric", svp(), OTHERWISE),
        ("pendulum-svp-metric", svp(mean_degrees=1.9), YES),
        ("pendulum-svp-metric", svp(metric=9.0), NO),
        (UPRIGHT, svp(), YES),
        (UPRIGHT, svp(mean_degrees=6.0), OTHERWISE),
        (UPRIGHT, svp(mean_degrees=6.0, median_degrees=7.0), NO),
        (CAR, svp(), YES),
        (CAR, svp(policy_loss_relative=0.02), NO),
        *((f"{task}-metric-from-20-percent", svp(), YES) for task in TASKS),
        *((f"{task}-metric-from-20-percent", svp(metric=3.0), NO) for task in TASKS),
        (RECOVERED, svp(), YES),
        (RECOVERED, svp(input_gap=0.06), NO),
        (RECOVERED, svp(metric=3.0), NO),
        ("double-integrator-svp-ends-from-20-percent", svp(), YES),
        ("double-integrator-svp-ends-from-60-percent", svp(same_end=0.5), NO),
        (TIMED, svp(), YES),
        (TIMED, svp(seconds_estimate=1.0), NO),
        (BETTER, svp(), YES),
        (BETTER, svp(policy_loss_relative=0.0), NO),
        (BETTER, svp(losses=losing(svp=[0.0] * 3, cross=[0.0] * 3)), NO),  # those estimate matrices
        (BETTER, svp(losses=losing(**{"async": [0.001] * 3})), YES),
        (BETTER, svp(losses=losing(**{"async": [0.001] * 3}) | {TASKS[2]: losing()[TASKS[2]]}), NO),  # on every task
        (BETTER, svp(losses=losing(**{"async": [0.0, 0.0, 0.006]})), NO),  # and surely
        (BETTER, svp(losses=losing(**{"async": [0.0]})), NO),  # it draws its pairs: one plan does not show its spread
        *(
            (f"{task}-low-rank-{part}", low_rank(), YES)
            for task in TASKS
            for part in ("policy", "map", "metric", "ends")
        ),
        ("cart-pole-low-rank-policy", low_rank(policy_loss_relative=0.02), NO),
        ("cart-pole-low-rank-map", low_rank(input_gap=0.06), NO),
        ("cart-pole-low-rank-metric", low_rank(metric=1.4), NO),
        ("cart-pole-low-rank-ends", low_rank(same_end=0.5), NO),
        # The paper's own table is reproduced as norms.
        *((name, grids(), OTHERWISE) for name in OF_GRIDS if "-at-" in name),
        *((name, grids(rank="rank_99", degrees=1.0), YES) for name in OF_GRIDS),
        *((name, grids(rank="none", scale=2.0, loss=0.1), NO) for name in OF_GRIDS if name not in ON_THREE),
        (FAIR, fine_ranks(9, 8), YES),
        (FAIR, fine_ranks(10, 8), OTHERWISE),
        (FAIR, fine_ranks(10, 11), NO),
        *((claim.name, noisy(0.02), YES) for claim in NOISY.claims),
        *((claim.name, noisy(0.12), NO) for claim in NOISY.claims),
    ],
)
def test_verdicts(name: str, runs: list[Kept], verdict: str):
    assert judged(name, runs).verdict == verdict


def test_every_task_may_have_another_baseline_that_is_better():
    names = ("async", "sampled-max", "incumbent", "coarse")
    losses = {
        task: losing(**{name: [0.001] if name == "coarse" else [0.001, 0.0011, 0.0012]})[task]
        for task, name in zip(TASKS, names, strict=True)
    }
    found = judged(BETTER, svp(losses=losses))
    assert found.verdict == YES
    assert all(f"{task} {name}" in found.note for task, name in zip(TASKS, names, strict=True))
    # The task with the least gap is shown: .003 - .0011, and the spread is the baseline's alone.
    assert found.value == pytest.approx(0.0019)
    half = 4.302653 * 0.0001 / 3**0.5
    assert found.interval == pytest.approx((0.0019 - half, 0.0019 + half), rel=1e-5)


def test_times_of_other_machines_are_left_out():
    found = judged(TIMED, timed_at("a", "a", "b", slow_elsewhere=100.0))
    assert (found.verdict, found.value) == (YES, pytest.approx(0.1))
    for runs in (timed_at("b", "b", "b"), timed_at("a", "a", last="b")):  # one task keeps the claim open
        none = judged(TIMED, runs)
        assert none.verdict == "not run at this scale"
        assert "no times to compare on" in none.note
        assert "cart-pole" in none.note


def test_the_optimum_has_an_interval_over_sets_of_starts():
    found = judged("optimum-at-2500x1000", grids())
    assert found.value == pytest.approx(0.53)
    half = 4.302653 * 0.05 * 0.53 / 3**0.5
    assert found.interval == pytest.approx((0.53 - half, 0.53 + half), rel=1e-5)
    size = f"{FINE[0] ** 2}x{FINE[1]}"
    assert {claim.scales for claim in GRIDS.claims if claim.name.endswith(size)} == {("full",)}
