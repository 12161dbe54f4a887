import numpy as np
import pytest
import torch

from svrl.matrix import Bernoulli, Observed, complete

from .problems import seeded


def everything(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


def test_empty_rows_and_columns_are_accepted_where_allowed():
    mask = everything(5, 4)
    mask[2], mask[:, 3] = False, False
    observed = Observed(values=torch.ones(5, 4), mask=mask, allow_empty=True)
    assert torch.equal(observed.values, mask.float())


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_what_stands_at_missing_entries_becomes_zero(kind: str):
    values = np.array([[1.0, np.nan, 3.0], [np.inf, 5.0, 9.0]])
    mask = np.array([[True, False, True], [False, True, False]])
    if kind == "torch":
        values, mask = torch.from_numpy(values), torch.from_numpy(mask)
    observed = Observed(values=values, mask=mask)
    assert torch.equal(observed.tensors[0], torch.tensor([[1.0, 0, 3], [0, 5, 0]], dtype=torch.float64))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_the_callers_values_are_neither_written_to_nor_shared(kind: str):
    values, mask = np.array([[1.0, np.nan], [3.0, 4.0]]), np.array([[True, False], [True, True]])
    given = (values, mask) if kind == "numpy" else (torch.from_numpy(values), torch.from_numpy(mask))
    observed = Observed(values=given[0], mask=given[1])
    assert np.isnan(values[0, 1])
    values[:], mask[:] = -7, False
    assert torch.equal(observed.tensors[0], torch.tensor([[1.0, 0], [3, 4]], dtype=torch.float64))
    assert observed.fraction == 0.75


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_stays_numpy_and_torch_stays_torch(dtype: type):
    values, mask = np.ones((3, 2), dtype), np.ones((3, 2), bool)
    numpy = Observed(values=values, mask=mask)
    torch_ = Observed(values=torch.from_numpy(values), mask=torch.from_numpy(mask))
    assert numpy.numpy
    assert not torch_.numpy
    assert isinstance(numpy.values, np.ndarray)
    assert isinstance(numpy.mask, np.ndarray)
    assert isinstance(torch_.values, torch.Tensor)
    assert isinstance(torch_.mask, torch.Tensor)
    assert numpy.values.dtype == torch_.values.numpy().dtype == dtype


def test_whole_numbers_become_float64():
    assert Observed(values=np.array([[1, 2]]), mask=np.ones((1, 2), bool)).values.dtype == np.float64
    assert Observed(values=torch.tensor([[1, 2]]), mask=everything(1, 2)).values.dtype == torch.float64


def test_a_transposed_view_is_read_in_its_own_order():
    values = np.arange(6.0).reshape(2, 3).T
    observed = Observed(values=values, mask=np.ones((2, 3), bool).T)
    assert np.array_equal(observed.values, values)


def test_a_tensor_with_a_gradient_is_detached():
    observed = Observed(values=torch.ones(2, 2, requires_grad=True), mask=everything(2, 2))
    assert not observed.values.requires_grad


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_from_nan_reads_gaps(kind: str):
    matrix = np.array([[1.0, np.nan], [np.nan, 4.0]], np.float32)
    observed = Observed.from_nan(matrix if kind == "numpy" else torch.from_numpy(matrix))
    assert observed.numpy == (kind == "numpy")
    assert torch.equal(observed.tensors[1], torch.eye(2, dtype=torch.bool))
    assert torch.equal(observed.tensors[0], torch.diag(torch.tensor([1.0, 4.0])))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_drawn_indices_and_their_values_make_the_matrix_again(kind: str):
    matrix = torch.randn(30, 20, generator=seeded(), dtype=torch.float64)
    at = Bernoulli(p=0.3, cover=True).indices((30, 20), seeded(1))
    entries = matrix.reshape(-1)[at]
    arrays = (at.numpy(), entries.numpy()) if kind == "numpy" else (at, entries)
    observed = Observed.from_entries((30, 20), *arrays)
    values, mask = observed.tensors
    assert observed.numpy == (kind == "numpy")
    assert int(mask.sum()) == len(at)
    assert torch.equal(values, torch.where(mask, matrix, 0.0))
    assert torch.equal(torch.nonzero(mask.reshape(-1)).squeeze(-1), at)


def test_trusted_skips_the_checks_and_shares_the_memory():
    values, mask = torch.zeros(3, 2), ~everything(3, 2)
    observed = Observed.trusted(values, mask)
    assert observed.values is values
    assert observed.mask is mask
    assert observed.allow_empty


def test_shape_fraction_and_repr_describe_the_record():
    mask = everything(2, 4, 5)
    mask[0, 0, :2] = False
    observed = Observed(values=np.ones((2, 4, 5), np.float32), mask=mask.numpy())
    assert observed.shape == (2, 4, 5)
    assert observed.fraction == 38 / 40
    assert repr(observed) == "Observed(shape=(2, 4, 5), observed=95.0%, float32, numpy)"
    assert repr(Observed(values=torch.ones(2, 2).double(), mask=everything(2, 2))).endswith("100.0%, float64, cpu)")


def test_a_record_cannot_be_changed():
    observed = Observed(values=torch.ones(2, 2), mask=everything(2, 2))
    with pytest.raises(AttributeError):
        observed.values = torch.zeros(2, 2)


def test_foreign_byte_order_is_read():
    observed = Observed(values=np.arange(6.0).reshape(2, 3).astype(">f8"), mask=np.ones((2, 3), bool))
    assert np.array_equal(observed.values, np.arange(6.0).reshape(2, 3))


def test_read_only_arrays_are_read_in_silence(recwarn):
    values = np.ones((3, 4))
    values.flags.writeable = False
    complete(values)
    assert not recwarn.list
