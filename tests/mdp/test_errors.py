"""Wrong input: each error names what was wrong, and where."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from svrl.mdp.control_task import Axis, UprightNorm
from svrl.mdp.grid import GridMDP
from svrl.mdp.model import Model, sparse_rows
from svrl.mdp.simulator import NoisyBackups, Simulator
from svrl.mdp.tabular import TabularMDP, toy_mdp
from svrl.mdp.tasks import TASKS, make_task

from .tables import csr, random_table

TASK = make_task("inverted-pendulum", states=(7, 6), actions=5)
P, R = random_table(1)
NAN, INF = math.nan, math.inf


def table(**change: Any) -> TabularMDP:
    return TabularMDP(**{"transitions": csr(P), "rewards": R, "gamma": 0.9, **change})


def toy_text(rows: dict[int, Any]) -> TabularMDP:
    return TabularMDP.from_toy_text(rows, 0.9)


def simulator(**change: Any) -> Simulator:
    return Simulator(lambda s, a, g: (s, s[:, 0]), axes=TASK.axes, actions=TASK.actions, **{"gamma": 0.9, **change})


def task(**change: Any) -> Any:
    return dataclasses.replace(TASK, **change)


ONE = [(1.0, 0, 0.0, False)]
ERRORS: dict[str, list[tuple[Callable[[], object], str]]] = {
    "tables": [
        *((lambda g=g: table(gamma=g), "discount between 0 and 1") for g in (0.0, 1.0, -0.1, 1.5, NAN)),
        (lambda: table(rewards=np.full((7, 3), 1e308)), r"the limit is 1e\+30. Rescale the reward"),
        (lambda: table(device="gpu"), "no device 'gpu'"),
        (lambda: table(transitions=np.ones((2, 3))), r"\(S, A, S\), with S and A not 0, got \(2, 3\)"),
        (lambda: table(transitions=np.ones((2, 3, 4))), r"got \(2, 3, 4\)"),
        (lambda: table(transitions=sp.csr_array((7, 3))), r"\(S \* A, S\), with S and A not 0, got \(7, 3\)"),
        (lambda: table(transitions=np.ones((1, 1, 1), complex)), "real numbers, got complex128"),
        (lambda: table(transitions=torch.eye(2).to_sparse_coo()), "must be CSR"),
        (
            lambda: table(transitions=sparse_rows(torch.arange(2), torch.arange(1), torch.ones(1), (4, 2))),
            "need 5 row bounds",
        ),
        (lambda: table(rewards=np.ones(7)), r"\(7, 3\), \(7, 3, 7\) or"),
        (lambda: table(rewards=np.ones((3, 7))), r"got \(3, 7\)"),
        (lambda: table(rewards=sp.csr_array((7, 7))), r"shape of the transitions, \(21, 7\)"),
        (lambda: table(terminal=np.zeros(6, bool)), r"terminal needs one bool for each state, that is \(7,\)"),
        (lambda: table(terminal=np.array([1, 2])), "terminal needs one bool"),
        (lambda: table(done=np.zeros(3, bool)), "done needs one bool for each stored transition"),
        (
            lambda: TabularMDP.deterministic(following=[[0.5]], rewards=[[1.0]], gamma=0.9),
            r"whole numbers \(S, A\), got torch.float32 \(1, 1\)",
        ),
        (lambda: toy_text({0: {0: ONE}, 2: {0: ONE}}), "State 1 of 2 has no entry"),
        (lambda: toy_text({0: {0: ONE}, 1: {1: ONE}}), r"State 1 of 2 has actions \[1\]"),
        (lambda: toy_text({0: {0: ONE}, 1: {0: [(1.0, 2, 0.0, True)]}}), "next state of state 1, action 0 is 2"),
        (lambda: toy_text({0: {0: ONE, 1: [(0.9, 0, 0.0, True)]}}), "state 0, action 1 sum to 0.9,"),
        (lambda: toy_text({0: {0: ONE, 1: []}}), "state 0, action 1 sum to 0,"),
        (lambda: toy_text({0: {0: [(1.0, 0, NAN, True)]}}), "reward of state 0, action 0 is nan"),
        (lambda: toy_text({}), "S and A not 0"),
        (lambda: toy_mdp(0, reward="gamma"), "uniform or normal, got 'gamma'"),
        (lambda: toy_mdp(0, n_states=0), "n_states as a whole number of at least 1, got 0"),
    ],
    "grids": [
        (lambda: GridMDP("inverted-pendulum"), "takes a ControlTask, .* got 'inverted-pendulum'"),
        (lambda: GridMDP(TASK, mode="disk"), "no mode 'disk'"),
        (lambda: GridMDP(TASK, threads="2"), "threads as a whole number of at least 1, got '2'"),
        (lambda: GridMDP(TASK, dtype="float32"), "floating-point dtype such as torch.float32, got 'float32'"),
        (lambda: GridMDP(TASK, device="gpu"), "no device 'gpu'"),
        (
            lambda: GridMDP(task(reward_range=(1e9, 1e9 + 1))),
            "to 1000000001, which torch.float32 can hardly tell apart",
        ),
    ],
    "samplers": [
        *((lambda s=s: NoisyBackups(GridMDP(TASK), s), "noise level") for s in (-0.1, NAN, INF, 1e200)),
        (lambda: NoisyBackups(TASK, 0.1), r"NoisyBackups takes a model .*got ControlTask\. .* GridMDP\(task\)"),
        (lambda: NoisyBackups("pendulum", 0.1), r"takes a model .* got 'pendulum'\."),
        (lambda: NoisyBackups(NoisyBackups(GridMDP(TASK), 0.1), 0.1), "this problem can only be sampled"),
        (lambda: simulator(reward_range=(1.0, 1.0)), "low < high"),
        (lambda: simulator(reward_range=(-INF, 1e39)), "Rescale the reward"),
    ],
    "tasks": [
        (lambda: make_task("mountain"), "Did you mean mountain-car"),
        (lambda: make_task("inverted_pendulum"), "Did you mean inverted-pendulum"),
        (lambda: make_task("zzz"), "Choose one of cart-pole, double-integrator"),
        (lambda: make_task("cart-pole", variant="author"), "no variant 'author'. Did you mean authors"),
        (lambda: make_task("mountain-car", xmax=0.5), "no switch 'xmax'. Did you mean x_max"),
        (lambda: make_task("mountain-car", x_max=0.4), "x_max of at least 0.5"),
        (lambda: make_task("mountain-car", time_step=0.0), "time_step above 0"),
        (lambda: make_task("mountain-car", reward_offset=NAN), "finite reward_offset"),
        (lambda: make_task("inverted-pendulum", reward_offset=1e308), r"values reach inf, and the limit is"),
        (lambda: make_task("mountain-car", actions=1), "at least 2 values"),
        (lambda: make_task("cart-pole", states=(10, 10)), "4 coordinates"),
        (lambda: make_task("cart-pole", states=10), "4 coordinates and needs as many grid sizes, got states=10"),
        *(
            (lambda axes=axes: task(action_axes=axes), rf"5 actions .* whose product is that number, got {said}\. Give")
            for axes, said in (((2, 3), r"\(2, 3\)"), ((-1, -5), r"\(-1, -5\)"), ((2.5, 2), r"\(2.5, 2\)"), (5, "5"))
        ),
        (lambda: task(gamma=1.0), "discount between 0 and 1, both excluded, got 1.0"),
        *((lambda n=n: task(noise=(n, 0.0)), "noise level for each") for n in (NAN, 1e300)),
        (lambda: task(reward_range=(1.0, 0.0)), "reward range"),
        (lambda: task(reward_range=(0.0, 1e39)), r"the limit is 1e\+30. Rescale the reward"),
        *(
            (lambda ends=ends: Axis(name="x", low=ends[0], high=ends[1], points=3), "finite low < high")
            for ends in ((1.0, 1.0), (-1e308, 1e308), (NAN, 1.0))
        ),
        *(
            (lambda name=name: GridMDP(make_task(name, time_step=1e300)), f"step of {name} is too large at state")
            for name in TASKS
        ),
        (lambda: UprightNorm()(torch.zeros(52, 3, 2)), "from 51 on, and this rollout has 51"),
        (lambda: UprightNorm()(torch.zeros(52, 2)), r"trajectory \(T \+ 1, N, d\)"),
    ],
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors(what: str):
    for call, message in ERRORS[what]:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    "model", [table(), GridMDP(TASK, mode="table"), GridMDP(TASK, mode="on-the-fly")], ids=["table", "grid", "no table"]
)
def test_questions_are_checked(model: Model):
    # A compiled backup would read past the end of its arrays, or into the next state's actions.
    n_states, n_actions = model.n_states, model.n_actions
    v, one = torch.zeros(n_states), torch.tensor([0])
    questions: list[tuple[Callable[[], object], str]] = [
        (lambda: model.backup(v[1:]), f"{n_states} values in float32 or float64"),
        (lambda: model.improve(v.half()), "got .*float16"),
        (lambda: model.improve(v.long()), "got .*int64"),
        (lambda: model.backup_rows(v, one + n_states), f"no state {n_states}: they go from 0 to {n_states - 1}"),
        (lambda: model.backup_rows(v, one - 1), "no state -1"),
        (lambda: model.backup_columns(v, one + n_actions), f"no action {n_actions}"),
        (lambda: model.backup_columns(v, torch.tensor([True])), "whole numbers"),
        (lambda: model.backup_at(v, one, one - 1), "no action -1"),
        (lambda: model.backup_at(v, one, torch.tensor([0, 1])), "one action for each state"),
        (lambda: model.backup_at(v, one[None], one[None]), "one axis"),
        (lambda: model.policy_chain(one), f"one action for each of {n_states} states"),
        (lambda: model.policy_chain(v), f"one action for each of {n_states} states"),
        (lambda: model.policy_chain(torch.full((n_states,), n_actions)), f"no action {n_actions}"),
    ]
    for question, message in questions:
        with pytest.raises(ValueError, match=message):
            question()


def spoilt(what: str) -> tuple[sp.csr_array, np.ndarray]:
    """A table whose row 5 (state 2, action 1 of 2 actions) is wrong, and row 7 too: only the first is named."""
    p, r = random_table(12, n_states=5, n_actions=2)
    matrix, reward = csr(p), (p * r).sum(2)
    for row in (5, 7):
        at = matrix.indptr[row]
        if what == "bounds":
            matrix.indptr[row] = 99
        elif what in ("index", "before"):
            matrix.indices[at] = 5 if what == "index" else -1
        elif what == "reward":
            reward.reshape(-1)[row] = np.inf
        else:
            matrix.data[at] = {"negative": -0.1, "nan": np.nan, "infinite": np.inf, "sum": 1.5}[what]
    return matrix, reward


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("negative", "probability of state 2, action 1 is -0.1"),
        ("nan", "probability of state 2, action 1 is nan"),
        ("infinite", "probability of state 2, action 1 is inf"),
        ("index", "next state of state 2, action 1 is 5, but states are numbered from 0 to 4"),
        ("before", "next state of state 2, action 1 is -1"),
        ("reward", "reward of state 2, action 1 is inf"),
        ("sum", r"state 2, action 1 sum to \d\.\d+, which is not 1 within 1e-06"),
        ("bounds", "bounds of the transitions are broken at state 2, action 0"),  # row 4 ends where row 5 begins
    ],
)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_the_first_wrong_pair_of_a_table_is_named(what: str, message: str, index: type):
    matrix, reward = spoilt(what)
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    with pytest.raises(ValueError, match=message):
        table(transitions=matrix, rewards=reward)


@pytest.mark.parametrize("form", ["dense", "list", "same CSR", "other CSR"])
def test_the_first_reward_of_a_transition_that_is_not_finite_is_named(form: str):
    p, r = random_table(13, n_states=5, n_actions=2)
    at = np.argwhere(p > 0)
    state, action, following = at[len(at) // 2]
    r[state, action, following] = np.nan
    rewards = {"dense": r, "list": r[p > 0], "same CSR": csr(np.where(p > 0, r, 0.0)), "other CSR": csr(r)}[form]
    with pytest.raises(ValueError, match=f"reward of state {state}, action {action} is nan"):
        table(transitions=csr(p), rewards=rewards)


def test_sums_may_be_off_by_a_millionth_and_no_more():
    p = np.array([[[0.5, 0.5]], [[0.5, 0.5]]])
    for off, ok in ((9e-7, True), (-9e-7, True), (1.1e-6, False), (-1.1e-6, False)):
        p[1, 0, 1] = 0.5 + off
        if ok:
            table(transitions=p, rewards=np.zeros((2, 1)))
        else:
            with pytest.raises(ValueError, match="state 1, action 0"):
                table(transitions=p, rewards=np.zeros((2, 1)))


@pytest.mark.parametrize(
    ("what", "bad", "wrong"),
    [
        ("step", NAN, "not finite"),
        ("step", -INF, "not finite"),
        ("step", 1e300, "too large"),
        ("reward", NAN, "not finite"),
        ("reward", INF, "not finite"),
        ("reward", 1e39, "too large"),
    ],
)
@pytest.mark.parametrize("kind", ["table", "on-the-fly", "simulator"])
def test_the_pair_whose_step_or_reward_is_wrong_is_named(what: str, bad: float, wrong: str, kind: str):
    place = TASK.states()[17]

    def spoil(states: torch.Tensor, inputs: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        here = (states == place).all(-1) & (inputs[..., 0] == 0.5)
        return torch.where(here if right.ndim == here.ndim else here[..., None], bad, right)

    def step(states: torch.Tensor, inputs: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        right = TASK.step(states, inputs, noise)
        return spoil(states, inputs, right) if what == "step" else right

    def reward(states: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        right = TASK.reward(states, inputs)
        return spoil(states, inputs, right) if what == "reward" else right

    def ask() -> None:
        v = torch.zeros(TASK.n_states)
        if kind == "simulator":
            drawn = Simulator(
                lambda s, a, g: (step(s, a, 0.0 * s), reward(s, a)), axes=TASK.axes, actions=TASK.actions, gamma=0.9
            )
            drawn.sample(v, torch.Generator())
        else:
            GridMDP(task(step=step, reward=reward, reward_range=None), mode=kind).backup(v)

    with pytest.raises(ValueError, match="finite on the whole box, and keep it within") as error:
        ask()
    name = "simulator" if kind == "simulator" else TASK.name
    at = [round(x, 6) for x in place.tolist()]
    assert f"The {what} of {name} is {wrong} at state {at} and action [0.5]: it returned" in str(error.value)


@pytest.mark.parametrize("kind", ["one coordinate", "reward column"])
def test_wrong_shapes_of_a_simulator_are_named(kind: str):
    def sample(states: torch.Tensor, actions: torch.Tensor, generator: torch.Generator) -> Any:
        return (states[:, :1], states[:, 0]) if kind == "one coordinate" else (states, states[:, :1])

    got = r"\(210, 1\) and \(210,\)" if kind == "one coordinate" else r"\(210, 2\) and \(210, 1\)"
    with pytest.raises(ValueError, match=rf"next states \(210, 2\) and rewards \(210,\), got {got}"):
        Simulator(sample, axes=TASK.axes, actions=TASK.actions, gamma=0.9).sample(torch.zeros(42), torch.Generator())
