import pytest
import torch

from svrl.matrix import Bernoulli

from .problems import seeded

DRAWS = [Bernoulli(p=0.2), Bernoulli(p=0.02, cover=True)]


def mask_of(draw: Bernoulli, verb: str, shape: tuple[int, int], seed: int) -> torch.Tensor:
    if verb == "mask":
        return draw.mask(shape, seeded(seed))
    flat = torch.zeros(shape[0] * shape[1], dtype=torch.bool)
    flat[draw.indices(shape, seeded(seed))] = True
    return flat.view(shape)


@pytest.mark.parametrize("verb", ["mask", "indices"])
@pytest.mark.parametrize("p", [0.03, 0.2, 0.5, 0.9])
def test_bernoulli_observes_each_entry_with_probability_p(verb: str, p: float):
    draws, size = 40, 200 * 100
    counts = torch.stack([mask_of(Bernoulli(p=p), verb, (200, 100), seed) for seed in range(draws)]).double()
    deviation = (p * (1 - p) * size) ** 0.5
    totals = counts.sum((1, 2))
    # Six deviations of the mean; the spread of a binomial, between half and twice what it should be.
    assert abs(float(totals.mean()) - p * size) < 6 * deviation / draws**0.5
    assert 0.5 < float(totals.std()) / deviation < 2
    for line in (1, 2):
        share = counts.mean((0, line))
        assert float((share - p).abs().max()) < 6 * (p * (1 - p) / (size * draws / len(share))) ** 0.5


@pytest.mark.parametrize("verb", ["mask", "indices"])
def test_neighbours_are_drawn_independently(verb: str):
    p = 0.3
    mask = mask_of(Bernoulli(p=p), verb, (400, 500), 5).reshape(-1).double()
    both = float((mask[1:] * mask[:-1]).mean())
    assert abs(both - p * p) < 6 * (p * p * (1 - p * p) / len(mask)) ** 0.5 * 2


@pytest.mark.parametrize("cover", [False, True])
def test_p_one_observes_everything(cover: bool):
    draw = Bernoulli(p=1, cover=cover)
    assert bool(draw.mask((3, 7, 5), seeded()).all())
    assert torch.equal(draw.indices((7, 5), seeded()), torch.arange(35))


@pytest.mark.parametrize("p", [1e-300, 1e-12, 1e-6])
def test_a_tiny_p_draws_next_to_nothing_and_ends(p: float):
    assert len(Bernoulli(p=p).indices((300, 300), seeded())) <= 3
    covered = Bernoulli(p=p, cover=True).indices((30, 20), seeded())
    assert 30 <= len(covered) <= 50


def test_indices_of_a_huge_matrix_cost_what_they_draw():
    at = Bernoulli(p=1e-8).indices((10**6, 10**6), seeded())
    assert abs(len(at) - 10**4) < 600
    assert int(at[-1]) > 0.99 * 10**12


@pytest.mark.parametrize("draw", [Bernoulli(p=1e-3, cover=True), Bernoulli(p=0.3, cover=True)], ids=repr)
@pytest.mark.parametrize("verb", ["mask", "indices"])
@pytest.mark.parametrize("shape", [(40, 9), (9, 40), (1, 1), (1, 20)])
def test_cover_leaves_no_row_and_no_column_empty(draw: Bernoulli, verb: str, shape: tuple[int, int]):
    for seed in range(10):
        mask = mask_of(draw, verb, shape, seed)
        assert bool(mask.any(0).all())
        assert bool(mask.any(1).all())


def test_covering_entries_are_drawn_uniformly():
    mask = Bernoulli(p=1e-9, cover=True).mask((4000, 10), seeded())
    assert float((mask.double().mean(0) - 0.1).abs().max()) < 6 * (0.09 / 4000) ** 0.5
    at = Bernoulli(p=1e-9, cover=True).indices((4000, 10), seeded())
    share = torch.bincount(at % 10, minlength=10) / 4000
    assert float((share - 0.1).abs().max()) < 6 * (0.09 / 4000) ** 0.5


@pytest.mark.parametrize("draw", DRAWS, ids=repr)
def test_leading_axes_are_separate_draws(draw: Bernoulli):
    mask = draw.mask((2, 3, 30, 20), seeded())
    assert mask.shape == (2, 3, 30, 20)
    assert mask.dtype == torch.bool
    flat = mask.reshape(6, -1)
    assert len(torch.unique(flat, dim=0)) == 6


@pytest.mark.parametrize("draw", DRAWS, ids=repr)
def test_equal_generators_give_equal_draws_and_move_on(draw: Bernoulli):
    assert torch.equal(draw.mask((30, 20), seeded(1)), draw.mask((30, 20), seeded(1)))
    assert torch.equal(draw.indices((30, 20), seeded(1)), draw.indices((30, 20), seeded(1)))
    source = seeded(1)
    assert not torch.equal(draw.mask((30, 20), source), draw.mask((30, 20), source))


def test_a_tiny_probability_is_honoured():
    drawn = Bernoulli(p=1e-8).mask((2000, 2000), seeded())
    assert int(drawn.sum()) <= 2  # .04 expected; float32 uniforms would draw about .24 a million
