from __future__ import annotations

from pathlib import Path

import pytest
import torch

from svrl.mdp.grid import GridMDP
from svrl.mdp.simulator import NoisyBackups
from svrl.mdp.tasks import inverted_pendulum
from svrl.planning.averaged import AveragedStructuredIteration
from svrl.planning.baselines import AsyncValueIteration, IncumbentIteration, RowMeanUpdate
from svrl.planning.checkpoint import load_run, plan_resumably, save_run
from svrl.planning.cross_iteration import CrossValueIteration
from svrl.planning.method import Meter, Method, State
from svrl.planning.plan import Plan, Run, begin, plan
from svrl.planning.svp import StructuredValueIteration, paper_svp

METHODS: list[Method] = [
    StructuredValueIteration(p=0.4, max_iterations=12),
    paper_svp(p=0.4, max_iterations=12),
    CrossValueIteration(rank=5, max_iterations=12),
    AsyncValueIteration(max_iterations=12),
    RowMeanUpdate(max_iterations=12),
    IncumbentIteration(max_iterations=12),
]
METHOD = AsyncValueIteration(max_iterations=5)


@pytest.fixture(scope="module")
def model() -> GridMDP:
    return GridMDP(inverted_pendulum(states=(9, 8), actions=25))


def same(one: Plan, other: Plan) -> None:
    assert torch.equal(one.policy, other.policy)
    assert torch.equal(one.v, other.v)
    assert (one.q is None) == (other.q is None)
    if one.q is not None and other.q is not None:
        assert torch.equal(one.q, other.q)
    if one.factors is not None and other.factors is not None:
        assert all(torch.equal(a, b) for a, b in zip(one.factors, other.factors, strict=True))
    assert (one.outcome, one.iterations, one.ledger.backups) == (other.outcome, other.iterations, other.ledger.backups)
    parts = [[(row.iteration, row.residual, row.rank, row.backups) for row in found.trace] for found in (one, other)]
    assert parts[0] == parts[1]


def stop_after(count: int) -> object:
    def watch(run: Run) -> None:
        if run.state.iteration == count:
            raise KeyboardInterrupt

    return watch


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("count", [1, 7])
def test_an_interrupted_plan_goes_on_to_the_same_result(model: GridMDP, tmp_path: Path, method: Method, count: int):
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(KeyboardInterrupt):
        plan_resumably(model, method, path, seed=3, watch=stop_after(count))
    assert load_run(path, model, method)[0].state.iteration == count
    same(plan_resumably(model, method, path, seed=3), plan(model, method, seed=3))


def test_noise_goes_on_too(model: GridMDP, tmp_path: Path):
    problem, method = NoisyBackups(model, 0.3), AveragedStructuredIteration(rank=4, max_iterations=10)
    path = tmp_path / "checkpoint.pt"
    for count in (2, 5, 9):
        with pytest.raises(KeyboardInterrupt):
            plan_resumably(problem, method, path, seed=1, watch=stop_after(count))
    same(plan_resumably(problem, method, path, seed=1), plan(problem, method, seed=1))


class Breaks(AsyncValueIteration):
    """Fails inside its fifth step, after it has changed its state."""

    def step(self, meter: Meter, state: State, generator: torch.Generator) -> State:
        state = super().step(meter, state, generator)
        if state.iteration == 4:
            raise KeyboardInterrupt
        return state


def test_an_exception_inside_a_step_leaves_the_checkpoint_before_it(model: GridMDP, tmp_path: Path):
    path = tmp_path / "checkpoint.pt"
    with pytest.raises(KeyboardInterrupt):
        plan_resumably(model, Breaks(max_iterations=12), path, every=0.0)
    assert load_run(path, model, METHOD)[0].state.iteration == 4
    method = AsyncValueIteration(max_iterations=12)
    same(plan_resumably(model, method, path), plan(model, method))


def test_checkpoints_come_as_often_as_asked(model: GridMDP, tmp_path: Path):
    path, seen = tmp_path / "c.pt", []

    def watch(run: Run) -> None:
        seen.append(load_run(path, model, METHOD)[0].state.iteration if path.exists() else 0)

    plan_resumably(model, AsyncValueIteration(max_iterations=5), path, every=0.0, watch=watch)
    assert seen == [0, 1, 2, 3, 4]
    plan_resumably(model, AsyncValueIteration(max_iterations=5), tmp_path / "d.pt", every=1e9, watch=watch)
    assert load_run(tmp_path / "d.pt", model, METHOD)[0].state.iteration == 5


def test_notes_are_kept_and_given_back(model: GridMDP, tmp_path: Path):
    path, method = tmp_path / "c.pt", AsyncValueIteration(max_iterations=9)

    def noting(notes: dict[str, object], until: int) -> object:
        def watch(run: Run) -> None:
            notes.setdefault("seen", []).append(run.state.iteration)
            notes["v"] = run.state.v
            if run.state.iteration == until:
                raise KeyboardInterrupt

        return watch

    first: dict[str, object] = {}
    with pytest.raises(KeyboardInterrupt):
        plan_resumably(model, method, path, watch=noting(first, 4), notes=first)
    second: dict[str, object] = {}
    found = plan_resumably(model, method, path, watch=noting(second, 0), notes=second)
    assert second["seen"] == [1, 2, 3, 4, 4, 5, 6, 7, 8, 9]  # the one that was cut short is told again
    assert torch.equal(second["v"], found.v)


def test_another_problem_or_seed_is_refused(model: GridMDP, tmp_path: Path):
    path, method = tmp_path / "c.pt", AsyncValueIteration(max_iterations=2)
    plan_resumably(model, method, path, seed=1)
    with pytest.raises(ValueError, match="seed 1"):
        plan_resumably(model, method, path, seed=2)
    other = GridMDP(inverted_pendulum(states=(5, 5), actions=25))
    with pytest.raises(ValueError, match="72 states"):
        plan_resumably(other, method, path, seed=1)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"not a file of ours", {"a": 1}, {"a": Path("b")}])
def test_a_damaged_file_gets_a_sentence(model: GridMDP, tmp_path: Path, content: object):
    path = tmp_path / "c.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)  # a path could only be read by running code of its class
    with pytest.raises(ValueError, match="damaged"):
        load_run(path, model, METHOD)


def test_a_file_of_another_version_gets_a_sentence(model: GridMDP, tmp_path: Path):
    path = tmp_path / "c.pt"
    save_run(begin(model, AsyncValueIteration()), path)
    torch.save({**torch.load(path, weights_only=True), "format": 0}, path)
    with pytest.raises(ValueError, match="another version"):
        load_run(path, model, METHOD)


def test_a_checkpoint_of_another_method_is_refused(model: GridMDP, tmp_path: Path):
    path = tmp_path / "c.pt"
    plan_resumably(model, METHOD, path)
    with pytest.raises(ValueError, match="not a run of cross"):
        plan_resumably(model, CrossValueIteration(rank=5), path)
