from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from svrl.agents.config import AgentConfig
from svrl.agents.structured_targets import AUTHORS_WAY, StructuredTargets
from svrl.matrix import ESTIMATORS, Observed, RowMean, SoftImpute

SCALES = ("none", "minmax", "row")


def values(*shape: int, seed: int = 0, offset: float = 3.0) -> torch.Tensor:
    """Nearly of rank 3, far from zero, as values of states are."""
    source = torch.Generator().manual_seed(seed)
    *batch, m, n = shape
    left = torch.randn(*batch, m, 3, generator=source)
    right = torch.randn(*batch, 3, n, generator=source)
    return left @ right + offset + 0.01 * torch.randn(shape, generator=source)


def masks(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("scale", SCALES)
def test_observing_everything_and_filling_changes_no_bit(scale: str) -> None:
    q = values(4, 32, 18)
    found = StructuredTargets(p=1.0, scale=scale, output="fill")(q, masks())
    assert torch.equal(found.matrix, q)


@pytest.mark.parametrize("scale", SCALES)
def test_fill_keeps_observed_entries_bit_for_bit_and_changes_the_others(scale: str) -> None:
    q = values(4, 32, 18)
    found = StructuredTargets(scale=scale, output="fill")(q, masks())
    assert torch.equal(found.matrix[found.mask], q[found.mask])
    assert bool((found.matrix[~found.mask] != q[~found.mask]).all())
    assert 0.85 < float(found.mask.float().mean()) < 0.95


@pytest.mark.parametrize("scale", SCALES)
def test_estimate_takes_every_entry_from_the_estimator(scale: str) -> None:
    q = values(2, 32, 18)
    found = StructuredTargets(scale=scale, output="estimate")(q, masks())
    assert torch.equal(found.matrix, found.estimate)


def test_the_authors_recipe_written_out_by_hand() -> None:
    """Scale to [-1, 1] by the extremes of all entries, Soft-Impute, clip, scale back, keep what was observed."""
    q = values(32, 18)
    found = StructuredTargets(scale="minmax", estimator=SoftImpute(tolerance=1e-9, max_steps=5000))(q, masks())
    low, high = q.min(), q.max()
    scaled = 2 * (q - low) / (high - low) - 1
    exact = SoftImpute(tolerance=1e-9, max_steps=5000, solver="plain")
    z = exact(Observed(values=torch.where(found.mask, scaled, 0.0).double(), mask=found.mask)).matrix
    back = (z.clamp(-1, 1) + 1) / 2 * (high - low) + low
    expected = torch.where(found.mask, q, back.float())
    assert torch.allclose(found.matrix, expected, atol=2e-4)


def test_row_scale_does_not_see_what_is_added_to_a_row_and_none_does() -> None:
    q, shift = values(32, 18), torch.linspace(-20, 20, 32)[:, None]
    for scale, invariant in (("row", True), ("none", False)):
        rule = StructuredTargets(scale=scale, estimator=SoftImpute(tolerance=1e-7))
        plain, shifted = rule(q, masks()), rule(q + shift, masks())
        assert torch.allclose(shifted.matrix - shift, plain.matrix, atol=2e-3) is invariant


def test_minmax_does_not_see_offset_or_scale_of_all_values() -> None:
    q = values(32, 18)
    rule = StructuredTargets(scale="minmax", estimator=SoftImpute(tolerance=1e-7))
    assert torch.allclose(rule(7 * q - 50, masks()).matrix, 7 * rule(q, masks()).matrix - 50, atol=1e-2)


def test_each_matrix_of_a_burst_is_completed_by_itself() -> None:
    q = values(5, 32, 18)
    rule = StructuredTargets()
    mask = rule(q, masks()).mask
    whole = rule.complete(q, mask).matrix
    for k in range(5):
        assert torch.equal(rule.complete(q[k], mask[k]).matrix, whole[k])


@pytest.mark.parametrize("output", ["fill", "estimate"])
@pytest.mark.parametrize("scale", SCALES)
def test_a_row_that_nobody_observed_keeps_its_values(scale: str, output: str) -> None:
    q = values(32, 2)
    mask = torch.ones(32, 2, dtype=torch.bool)
    mask[7] = False
    found = StructuredTargets(scale=scale, output=output).complete(q, mask)
    assert torch.equal(found.matrix[7], q[7])


@pytest.mark.parametrize(("scale", "output"), list(itertools.product(SCALES, ("fill", "estimate"))))
@pytest.mark.parametrize("fill", [0.0, 4.0, -1e4])
def test_constant_matrices_stay_finite_and_filled_ones_stay(scale: str, output: str, fill: float) -> None:
    q = torch.full((3, 32, 6), fill)
    found = StructuredTargets(scale=scale, output=output)(q, masks())
    assert bool(torch.isfinite(found.matrix).all())
    if scale != "none":
        assert torch.allclose(found.matrix, q)


def test_values_that_are_not_finite_pass_through() -> None:
    q = values(2, 32, 6)
    q[0, 3, 2] = torch.inf
    found = StructuredTargets()(q, masks())
    assert torch.equal(found.matrix[0], q[0])
    assert bool(torch.isfinite(found.matrix[1]).all())
    assert (found.code == 0).tolist() == [False, True]


def test_the_probability_rises_linearly_to_one() -> None:
    rule = StructuredTargets(p=0.8, rise=100)
    assert [rule.probability(u) for u in (0, 50, 100, 1000)] == pytest.approx([0.8, 0.9, 1.0, 1.0])
    assert StructuredTargets(p=0.8).probability(10**9) == 0.8


def test_a_burst_rises_inside_as_single_calls_would() -> None:
    q = values(200, 32, 18)
    shares = StructuredTargets(p=0.2, rise=200)(q, masks()).mask.float().mean((1, 2))
    assert float((shares - torch.linspace(0.2, 1.0, 200)).abs().max()) < 0.1
    assert float(shares[-1]) > 0.98


def test_more_actions_than_states() -> None:
    q = values(2, 8, 40)
    found = StructuredTargets()(q, masks())
    assert torch.equal(found.matrix[found.mask], q[found.mask])


def test_same_seed_same_masks_and_the_values_are_not_touched() -> None:
    q = values(2, 32, 18)
    kept = q.clone()
    a, b = (StructuredTargets()(q, masks(3)) for _ in range(2))
    assert torch.equal(a.matrix, b.matrix)
    assert torch.equal(q, kept)
    assert not torch.equal(a.mask, StructuredTargets()(q, masks(4)).mask)


def test_float64_and_float32_agree() -> None:
    q = values(2, 32, 18)
    rule = StructuredTargets(estimator=SoftImpute(tolerance=1e-7))
    mask = rule(q, masks()).mask
    single, double = rule.complete(q, mask).matrix, rule.complete(q.double(), mask).matrix
    assert double.dtype == torch.float64
    assert torch.allclose(single.double(), double, atol=1e-3)


def test_a_low_rank_matrix_is_recovered_where_it_was_not_observed() -> None:
    q = values(8, 32, 18)
    found = StructuredTargets(scale="minmax", estimator=SoftImpute(ratio=1e-3, tolerance=1e-6))(q, masks())
    hidden = ~found.mask
    error = (found.matrix - q)[hidden].norm() / (q - q.mean())[hidden].norm()
    assert float(error) < 0.05


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"p": 0.0}, r"probability in \(0, 1\], got 0.0"),
        ({"p": 1.5}, "got 1.5"),
        ({"rise": -1}, "rise >= 0"),
        ({"p": "a"}, "got a"),
        ({"estimator": "factor-als"}, r"an estimator such as SoftImpute\(\), got 'factor-als'"),
        ({"scale": "rows"}, "none, minmax, row, got 'rows'"),
        ({"output": "both"}, "fill, estimate"),
        ({"next_value_from": "x"}, "completed, network"),
    ],
)
def test_bad_settings_are_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        StructuredTargets(**changes)  # type: ignore[arg-type]


def test_from_config() -> None:
    assert StructuredTargets.from_config(AgentConfig(estimator="hard-impute")) is None
    rule = StructuredTargets.from_config(AgentConfig(structured=True, estimator="row-mean", scale="row"))
    assert rule is not None
    assert isinstance(rule.estimator, RowMean)
    with pytest.raises(ValueError, match="no estimator 'softimp'"):
        StructuredTargets.from_config(AgentConfig(structured=True, estimator="softimp"))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_of_the_catalogue_serves_an_agent(name: str) -> None:
    config = AgentConfig(structured=True, estimator=name, rank=2 if name == "hard-impute" else 0)
    rule = StructuredTargets.from_config(config)
    assert rule is not None
    q = values(2, 32, 6)
    found = rule(q, masks())
    assert bool(torch.isfinite(found.matrix).all())
    assert found.rank.shape == found.code.shape == (2,)


def test_a_rank_that_is_missing_or_out_of_place_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="hard-impute cannot find the rank by itself"):
        StructuredTargets.from_config(AgentConfig(structured=True, estimator="hard-impute"))
    with pytest.raises(ValueError, match="row-mean has no rank to set"):
        StructuredTargets.from_config(AgentConfig(structured=True, estimator="row-mean", rank=3))


@pytest.mark.parametrize(
    ("q", "sentence"),
    [
        (np.zeros((4, 3)), "takes a torch tensor"),
        (torch.zeros(3), r"got float32 of shape \(3,\)"),
        (torch.zeros(0, 3), r"none of them empty"),
        (torch.zeros(4, 3, dtype=torch.int64), "got int64"),
    ],
)
def test_what_is_no_matrix_of_values_is_one_sentence(q: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        StructuredTargets()(q, masks())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a torch\.Generator on cpu, got int"):
        StructuredTargets()(torch.zeros(4, 3), 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("output", ["fill", "estimate"])
def test_half_precision_stays_what_it_is(dtype: torch.dtype, output: str) -> None:
    q = values(2, 32, 6).to(dtype)
    found = StructuredTargets(output=output)(q, masks())
    assert found.matrix.dtype == dtype
    whole = StructuredTargets(output=output).complete(q.float(), found.mask)
    assert torch.allclose(found.matrix.float(), whole.matrix, atol=0.1)
    if output == "fill":
        assert torch.equal(found.matrix[found.mask], q[found.mask])


def test_by_default_rows_are_centred_and_the_network_values() -> None:
    assert StructuredTargets() == StructuredTargets(scale="row", next_value_from="network")
    assert StructuredTargets(scale="minmax", next_value_from="completed") == AUTHORS_WAY
    assert StructuredTargets.from_config(AgentConfig.of("authors", structured=True)) == AUTHORS_WAY
