from __future__ import annotations

import itertools

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


@pytest.mark.parametrize("shape", [(4, 32, 18), (2, 8, 40)], ids=str)
@pytest.mark.parametrize("scale", SCALES)
def test_fill_keeps_observed_entries_bit_for_bit_and_estimate_none(scale: str, shape: tuple[int, ...]) -> None:
    q = values(*shape)
    found = StructuredTargets(scale=scale, output="fill")(q, masks())
    assert torch.equal(found.matrix[found.mask], q[found.mask])
    assert bool((found.matrix[~found.mask] != q[~found.mask]).all())
    assert 0.85 < float(found.mask.float().mean()) < 0.95
    assert torch.equal(StructuredTargets(p=1.0, scale=scale, output="fill")(q, masks()).matrix, q)
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


def test_the_probability_rises_linearly_to_one() -> None:
    rule = StructuredTargets(p=0.8, rise=100)
    assert [rule.probability(u) for u in (0, 50, 100, 1000)] == pytest.approx([0.8, 0.9, 1.0, 1.0])
    assert StructuredTargets(p=0.8).probability(10**9) == 0.8


def test_same_seed_same_masks_and_the_values_are_not_touched() -> None:
    q = values(2, 32, 18)
    kept = q.clone()
    a, b = (StructuredTargets()(q, masks(3)) for _ in range(2))
    assert torch.equal(a.matrix, b.matrix)
    assert torch.equal(q, kept)
    assert not torch.equal(a.mask, StructuredTargets()(q, masks(4)).mask)


def test_from_config() -> None:
    assert StructuredTargets.from_config(AgentConfig(estimator="hard-impute")) is None
    rule = StructuredTargets.from_config(AgentConfig(structured=True, estimator="row-mean", scale="row"))
    assert rule is not None
    assert isinstance(rule.estimator, RowMean)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_of_the_catalogue_serves_an_agent(name: str) -> None:
    config = AgentConfig(structured=True, estimator=name, rank=2 if name == "hard-impute" else 0)
    rule = StructuredTargets.from_config(config)
    assert rule is not None
    q = values(2, 32, 6)
    found = rule(q, masks())
    assert bool(torch.isfinite(found.matrix).all())
    assert found.rank.shape == found.code.shape == (2,)


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
