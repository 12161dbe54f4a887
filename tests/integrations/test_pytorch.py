"""The pure functions: what they compute, that they change nothing at p = 1, and that a compiler takes them whole."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations import pytorch as module
from svrl.integrations.pytorch import observed_entries, structured, structured_quantiles, structured_values
from svrl.matrix import Observed, RowMean

KINDS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def values(*shape: int, seed: int = 0) -> Tensor:
    """Nearly of rank 3, far from zero."""
    source = torch.Generator().manual_seed(seed)
    *batch, m, n = shape
    low_rank = torch.randn(*batch, m, 3, generator=source) @ torch.randn(*batch, 3, n, generator=source)
    return low_rank + 3.0 + 0.05 * torch.randn(shape, generator=source)


def drawn(q: Tensor, p: float = 0.9, seed: int = 0, updates: int = 0) -> Tensor:
    return observed_entries(tuple(q.shape), p, seed=seed, updates=updates)


@pytest.mark.parametrize("shape", [(32, 18), (5, 32, 18), (8, 40), (1, 3), (6, 1)], ids=str)
@pytest.mark.parametrize("settings", [{}, {"scale": "row", "output": "estimate"}, {"estimator": RowMean()}], ids=str)
def test_it_is_structured_targets_with_a_mask_by_counting(shape: tuple[int, ...], settings: dict) -> None:
    q = values(*shape)
    kept = q.clone()
    rule = StructuredTargets(p=0.7, **settings)
    found = structured(q, rule, seed=3, updates=11)
    assert torch.equal(found, rule.complete(q, drawn(q, 0.7, 3, 11)).matrix)
    assert torch.equal(found, structured(q.mT.contiguous().mT, rule, seed=3, updates=11))
    if not settings:
        assert torch.equal(found, structured(q, 0.7, seed=3, updates=11))
    assert torch.equal(q, kept)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("scale", ["none", "minmax", "row"])
def test_observing_everything_changes_no_bit(kind: torch.dtype, scale: str) -> None:
    rule = StructuredTargets(p=1.0, scale=scale)
    for shape in ((32, 18), (3, 32, 18)):
        q = (values(*shape) * 7 - 50).to(kind)
        found = structured(q, rule)
        assert found.dtype == kind
        assert torch.equal(found, q)
    z = values(32, 9, 6).to(kind)
    assert torch.equal(structured_quantiles(z, rule), z)


def test_a_given_mask_is_taken_and_each_of_several_matrices_is_completed_by_itself() -> None:
    q = values(5, 32, 18)
    mask = drawn(q)
    whole = structured(q, mask=mask, seed=9, updates=9)
    for k in range(5):
        assert torch.equal(whole[k], structured(q[k], mask=mask[k]))
    assert torch.equal(whole, structured(q, updates=0)), "one count runs over the entries of several"
    assert torch.equal(structured(q, mask=torch.ones_like(mask)), q)


def test_the_probability_rises_with_the_updates() -> None:
    q = values(64, 18)
    rule = StructuredTargets(p=0.2, rise=100)
    for updates in (0, 40, 99, 100, 5000):
        mask = drawn(q, rule.probability(updates), 0, updates)
        assert torch.equal(structured(q, rule, updates=updates), rule.complete(q, mask).matrix)
        assert torch.equal(structured(q, rule, updates=torch.tensor(updates)), structured(q, rule, updates=updates))
    assert torch.equal(structured(q, rule, updates=100), q)


def test_several_updates_in_a_row_rise_inside() -> None:
    q = values(4, 64, 18)
    found = structured(q, StructuredTargets(p=0.25, rise=4), updates=1)
    steps = torch.tensor([0.4375, 0.625, 0.8125, 1.0]).view(-1, 1, 1)
    assert torch.equal(found, structured(q, mask=observed_entries((4, 64, 18), steps, seed=0, updates=1)))


@pytest.mark.parametrize("shape", [(32, 18), (3, 32, 18)], ids=str)
def test_all_six_agents_of_the_table(shape: tuple[int, ...]) -> None:
    """Each row of the table in svrl.agents.targets, written out: who chooses, and who values the choice."""
    target, online = values(*shape, seed=1), values(*shape, seed=2)
    mask = drawn(target, 0.5, 3, 4)
    of_target, of_online = (StructuredTargets().complete(q, mask).matrix for q in (target, online))
    rows = {
        ("dqn", 1.0, "completed"): (target, target),
        ("double", 1.0, "completed"): (online, target),
        ("dqn", 0.5, "completed"): (of_target, of_target),
        ("dqn", 0.5, "network"): (of_target, target),
        ("double", 0.5, "completed"): (online, of_target),
        ("double", 0.5, "network"): (of_online, target),
    }
    said = []
    for (kind, p, value), (chooser, valuer) in rows.items():
        rule = StructuredTargets(p=p, next_value_from=value)
        found = structured_values(target, rule, online_q=online if kind == "double" else None, seed=3, updates=4)
        flat = zip(chooser.flatten(0, -2), valuer.flatten(0, -2), strict=True)
        expected = [float(worth[max(range(len(row)), key=row.tolist().__getitem__)]) for row, worth in flat]
        assert found.flatten().tolist() == expected
        assert found.shape == target.shape[:-1]
        said.append(found)
    assert all(not torch.equal(a, b) for i, a in enumerate(said) for b in said[:i]), "the six are not all different"


def test_quantiles_are_moved_by_what_their_mean_moved() -> None:
    z = values(32, 18)[:, None] + torch.linspace(-1, 1, 11).view(1, 11, 1)
    found = structured_quantiles(z, 0.5, seed=2, updates=5)
    mask = drawn(z[:, 0], 0.5, 2, 5)[:, None].expand_as(z)
    assert torch.equal(found[mask], z[mask])
    whole = structured(z.mean(1), 0.5, seed=2, updates=5)
    assert torch.allclose(found.mean(1), whole, atol=1e-5)
    assert torch.allclose(found.diff(dim=1), z.diff(dim=1), atol=1e-5)
    assert bool((found != z)[~mask].any())


def valid_actions(q: Tensor) -> Tensor:
    """About 70%, at least one in each state."""
    valid = torch.rand(q.shape, generator=torch.Generator().manual_seed(4)) < 0.7
    valid[..., 1] = True
    return valid


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("shape", [(32, 18), (3, 32, 18)], ids=str)
def test_a_mask_of_all_actions_is_no_mask(kind: torch.dtype, shape: tuple[int, ...]) -> None:
    q, online = values(*shape).to(kind), values(*shape, seed=1).to(kind)
    z = torch.stack((q, online), -2).flatten(0, -3)
    for rule in (RULE, StructuredTargets(p=0.5, scale="minmax", next_value_from="completed")):
        for function, given in ((structured, {}), (structured_values, {}), (structured_values, {"online_q": online})):
            found = function(q, rule, updates=2, action_mask=torch.ones_like(q, dtype=torch.bool), **given)
            assert torch.equal(found, function(q, rule, updates=2, **given))
        found = structured_quantiles(z, rule, updates=2, action_mask=torch.ones_like(z[:, 0], dtype=torch.bool))
        assert torch.equal(found, structured_quantiles(z, rule, updates=2))


@pytest.mark.parametrize("function", [structured, structured_values, structured_quantiles])
@pytest.mark.parametrize("value", ["completed", "network"])
def test_values_of_invalid_actions_have_no_influence(function, value) -> None:
    q = values(32, 18)
    valid = valid_actions(q)
    z = q[:, None] + torch.linspace(-1, 1, 5).view(1, 5, 1)
    rule = StructuredTargets(p=0.5, next_value_from=value)
    given, mask = (z, valid[:, None].expand_as(z)) if function is structured_quantiles else (q, valid)
    one, other = (
        function(torch.where(mask, given, wrong), rule, updates=3, action_mask=valid) for wrong in (1e6, -torch.inf)
    )
    if function is structured_values:
        assert torch.equal(one, other)
        assert bool(torch.isfinite(one).all())
        return
    assert torch.equal(one[mask], other[mask])
    assert bool((other[mask] != given[mask]).any())
    assert bool((one[~mask] == 1e6).all())
    assert bool((other[~mask] == -torch.inf).all())


def test_no_gradient_comes_back() -> None:
    q = values(32, 18).requires_grad_()
    z = values(32, 5, 18).requires_grad_()
    for found in (
        structured(q, updates=0),
        structured_values(q, online_q=q, updates=0),
        structured_quantiles(z, updates=0),
    ):
        assert not found.requires_grad
    for value in ("completed", "network"):
        q.grad = None
        worth = structured_values(q, StructuredTargets(next_value_from=value), online_q=q, updates=0)
        (q.sum(-1) - worth).square().sum().backward()
        assert torch.equal(q.grad, (2 * (q.detach().sum(-1) - worth))[:, None].expand_as(q))


RULE, RISING = StructuredTargets(p=0.5, scale="row"), StructuredTargets(p=0.7, rise=10)


def everything(target: Tensor, online: Tensor, updates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    matrix = structured(target, RISING, seed=3, updates=updates)
    worth = structured_values(target, 0.7, online_q=online, seed=3, updates=updates)
    return matrix * 2, worth + 1, structured_quantiles(online[:, None], RULE, updates=updates)


def masked(target: Tensor, online: Tensor, updates: Tensor) -> tuple[Tensor, Tensor]:
    valid = target > 2.0
    worth = structured_values(target, RULE, online_q=online, updates=updates, action_mask=valid)
    return worth, structured(target, RULE, updates=updates, action_mask=valid) * 2


def double_dqn(target: Tensor, online: Tensor, updates: Tensor) -> tuple[Tensor]:
    return (0.99 * structured_values(target, 0.7, online_q=online, updates=updates),)


@pytest.mark.parametrize(
    ("backend", "function"), [("aot_eager", everything), ("aot_eager", masked), ("inductor", double_dqn)]
)
def test_a_compiler_takes_it_in_one_graph(backend: str, function) -> None:
    """Products of a counter are an index to Inductor, and one that overflows would be computed wrongly."""
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    target, online = values(32, 18, seed=1), values(32, 18, seed=2)
    for updates in map(torch.tensor, (0, 1, 10**6)):
        for found, expected in zip(compiled(target, online, updates), function(target, online, updates), strict=True):
            assert torch.allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_the_operator_keeps_the_rules_of_operators(kind: torch.dtype) -> None:
    name = module._registered(RULE)[0]
    for shape in ((32, 18), (3, 8, 4)):
        q = values(*shape).to(kind)
        torch.library.opcheck(module._complete, (q, drawn(q), name))
        torch.library.opcheck(module._complete, (q, drawn(q), name, valid_actions(q)))
        torch.library.opcheck(module._complete, (q.mT.contiguous().mT, drawn(q), name))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda q: structured([[1.0]]), r"takes a torch tensor \(\.\.\., B, A\), got list"),
        (lambda q: structured(q.long()), "got int64 of shape"),
        (lambda q: structured(q[:0]), r"none of them empty; got float32 of shape \(0, 6\)"),
        (lambda q: structured(q, 0.0), r"a probability in \(0, 1\], got 0.0"),
        (structured_quantiles, r"\(B, N, A\), got \(8, 6\)"),
        (lambda q: structured_quantiles([q]), r"\(B, N, A\), got list"),
        (lambda q: structured(q, 0.5), "which mask is drawn"),
        (lambda q: structured(q, 0.5, updates=1.5), "int, or a 0-d int64 tensor; got 1.5"),
        (lambda q: structured(q, mask=q), "A mask is bool and has the shape of the values"),
        (lambda q: structured(q, mask=(q > 0)[:4]), r"got torch.bool of shape \(4, 6\)"),
        (lambda q: structured(q, updates=0, action_mask=q), "A mask is bool and has the shape of the values"),
        (lambda q: structured(q, "0.9", updates=0), "got '0.9'"),
        (lambda q: structured(q, 0.5, updates=0, seed=None), "A seed is a whole number, got None"),
        (lambda q: structured_values(q, 0.5, online_q=q[:4], updates=0), "Both networks value the same states"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call(values(8, 6))


@dataclass(frozen=True)
class Constant:
    """Your own estimator: it says one number everywhere, and shows nothing of it."""

    number: float = field(repr=False)

    def __call__(self, observed, **_):
        return RowMean()(
            Observed.trusted(torch.full_like(observed.values, self.number), torch.ones_like(observed.mask))
        )


def test_rules_that_look_alike_are_not_mixed_up() -> None:
    q = values(12, 6)
    one, other = (StructuredTargets(estimator=Constant(number), scale="none") for number in (3.0, 99.0))
    assert repr(one) == repr(other)
    compiled = torch.compile(lambda q, n: structured(q, one, updates=n), backend="aot_eager", fullgraph=True)
    first = compiled(q, torch.tensor(4))
    assert structured(q, other, updates=4).max() == 99
    assert torch.equal(compiled(q, torch.tensor(4)), first)
    assert first.max() < 99


def test_probabilities_may_change_from_call_to_call() -> None:
    q, kept = values(32, 18), len(module._RULES)
    for k in range(1, 50):
        structured(q, k / 50, updates=k)
        structured(q, StructuredTargets(p=k / 50), updates=k)
    assert len(module._RULES) <= kept + 1
    compiled = torch.compile(lambda q, p, n: structured(q, p, updates=n), backend="aot_eager", fullgraph=True)
    for p in (0.5, 0.6, 0.7):
        assert torch.equal(compiled(q, p, torch.tensor(2)), structured(q, p, updates=2))


def test_values_that_are_not_finite_pass_through() -> None:
    q = values(3, 16, 6)
    q[1, 2, 3] = torch.nan
    found = structured(q, 0.5, updates=0)
    assert torch.equal(found[1].nan_to_num(7.0), q[1].nan_to_num(7.0))
    assert bool(torch.isfinite(found[[0, 2]]).all())
    z = torch.randn(8, 5, 6, generator=torch.Generator().manual_seed(0))
    z[2, 3, 1] = torch.nan
    assert torch.equal(structured_quantiles(z, 1.0).nan_to_num(77), z.nan_to_num(77))
    assert int(structured_quantiles(z, 0.5, updates=0).isnan().sum()) == 1
