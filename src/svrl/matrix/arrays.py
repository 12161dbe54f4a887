"""NumPy arrays and torch tensors at the public edge: one in, the same kind out.

Everything inside the package is torch. These few functions are the only place that knows about
the other kind.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch

Array: TypeAlias = "torch.Tensor | np.ndarray"
Generator: TypeAlias = "torch.Generator | np.random.Generator"

_DTYPES = (torch.float32, torch.float64)


def as_tensor(array: Array) -> torch.Tensor:
    """A tensor on the same memory, without gradient; other sequences are refused by name."""
    if isinstance(array, torch.Tensor):
        return array.detach()
    if isinstance(array, np.ndarray):
        contiguous = as_array(array)
        # torch has no read-only tensors and would warn.
        return torch.from_numpy(contiguous if contiguous.flags.writeable else contiguous.copy())
    raise TypeError(f"Expected a NumPy array or a torch tensor, got {type(array).__name__}. {_remedy(array)}")


def from_lists(given: Any, name: str) -> Any:
    """Nested lists as a NumPy array; anything else as it is."""
    if not isinstance(given, list | tuple):
        return given
    try:
        return np.asarray(given)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths. Give each row the same number of entries.") from None


def as_array(array: Array) -> np.ndarray:
    """A contiguous NumPy array on the same CPU memory where that is possible."""
    if isinstance(array, torch.Tensor):
        return array.detach().contiguous().numpy()
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("Got a masked array. Pass its parts: values=x.filled(0) and mask=~np.ma.getmaskarray(x).")
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise TypeError(f"Expected float32, float64 or whole numbers, got {array.dtype}. Convert the array first.")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # ascontiguousarray would give a single number a shape of (1,).
    return np.ascontiguousarray(array) if array.ndim else array


def as_floating(array: Array, name: str) -> torch.Tensor:
    """As `as_tensor`, in float32 or float64; whole numbers become float64."""
    tensor = as_tensor(array)
    if tensor.dtype in _DTYPES:
        return tensor
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        raise TypeError(
            f"{name} must be float32, float64 or whole numbers, got {str(tensor.dtype).removeprefix('torch.')}. "
            "Convert it first."
        )
    return tensor.double()


def like(tensor: torch.Tensor, numpy: bool) -> Array:
    """The tensor as the kind the caller gave."""
    return tensor.numpy() if numpy else tensor


def torch_generator(generator: Generator | None, device: torch.device) -> torch.Generator:
    """A torch generator on `device`: the caller's own, or one seeded from the caller's NumPy generator.

    Without a generator the seed is 0: equal calls give equal results, and the global random
    state is never touched.
    """
    if isinstance(generator, torch.Generator) and generator.device.type == device.type:
        return generator
    if generator is None:
        seed = 0
    elif isinstance(generator, torch.Generator):
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    elif isinstance(generator, np.random.Generator):
        seed = int(generator.integers(2**62))
    else:
        raise TypeError(
            f"Expected a torch.Generator or a numpy.random.Generator, got {type(generator).__name__}. "
            "Make one with torch.Generator().manual_seed(0) or numpy.random.default_rng(0)."
        )
    return torch.Generator(device=device).manual_seed(seed)


def _remedy(given: object) -> str:
    if hasattr(given, "toarray"):  # a sparse matrix, of which numpy.asarray would make an array of one object
        return "Give a dense array: its .toarray(), with NaN for what is missing."
    return "Wrap it with numpy.asarray(...)."
