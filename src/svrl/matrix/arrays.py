"""Check and convert what callers pass in: arrays, generators and the settings of an estimator.

Inside the package everything is torch. These functions convert NumPy arrays at the public edge, so that a caller gets
back the kind of array that went in, and they check settings when a record is created.
"""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any, Literal, SupportsIndex, TypeAlias, get_args

import numpy as np
import torch

Array: TypeAlias = "torch.Tensor | np.ndarray"
Generator: TypeAlias = "torch.Generator | np.random.Generator"
Output = Literal["estimate", "fill"]
Centre = Literal["none", "mean", "midrange", "row"]
Bounds = tuple[float, float] | None

_DTYPES = (torch.float32, torch.float64)


def as_tensor(array: Array) -> torch.Tensor:
    """Return a tensor on the same memory, without gradient; raise TypeError for anything that is not an array."""
    if isinstance(array, torch.Tensor):
        return array.detach()
    if isinstance(array, np.ndarray):
        contiguous = as_array(array)
        # torch has no read-only tensors and would warn.
        return torch.from_numpy(contiguous if contiguous.flags.writeable else contiguous.copy())
    raise TypeError(
        f"Expected a NumPy array or a torch tensor, got {type(array).__name__}. "
        # numpy.asarray would make an array of one object from a sparse matrix.
        + (
            "Give a dense array: its .toarray(), with NaN for missing entries."
            if hasattr(array, "toarray")
            else "Wrap it with numpy.asarray(...)."
        )
    )


def as_array(array: Array) -> np.ndarray:
    """Return a contiguous NumPy array, on the same CPU memory where possible."""
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
    """Like `as_tensor`, but in float32 or float64; whole numbers become float64."""
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
    """Return the tensor, or a NumPy array on the same memory."""
    return tensor.numpy() if numpy else tensor


def torch_generator(generator: Generator | None, device: torch.device) -> torch.Generator:
    """Return a torch generator on `device`: the caller's, or a new one seeded from it.

    Without a generator the seed is 0: equal calls give equal results. The global random state is never used.
    """
    if generator is None:
        seed = 0
    elif isinstance(generator, torch.Generator):
        if generator.device.type == device.type:
            return generator
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    elif isinstance(generator, np.random.Generator):
        seed = int(generator.integers(2**62))
    else:
        raise TypeError(
            f"Expected a torch.Generator or a numpy.random.Generator, got {type(generator).__name__}. "
            "Create one with torch.Generator().manual_seed(0) or numpy.random.default_rng(0)."
        )
    return torch.Generator(device=device).manual_seed(seed)


def check_whole(name: str, **numbers: SupportsIndex) -> None:
    """Raise ValueError unless all are whole numbers of at least 1, from Python or NumPy."""
    for what, got in numbers.items():
        if not hasattr(got, "__index__") or operator.index(got) < 1:
            raise ValueError(f"{name} needs {what} as a whole number of at least 1, got {got!r}.")


def check_positive(name: str, **numbers: object) -> None:
    """Raise ValueError unless all are above zero and finite; None means not given."""
    for what, got in numbers.items():
        if got is not None and not (isinstance(got, Real) and 0 < float(got) < math.inf):
            raise ValueError(f"{name} needs {what} above 0 and finite, got {got}.")


def check_settings(record: Any, *, whole: tuple[str, ...] = (), positive: tuple[str, ...] = ()) -> None:
    """Check the settings that estimators share, and the fields that are whole or positive numbers.

    Raises:
        ValueError: If the output or centre is unknown, clip bounds are in the wrong order, or a number is out of range.
    """
    name, clip = type(record).__name__, getattr(record, "clip", None)
    for what, known in (("output", get_args(Output)), ("centre", get_args(Centre))):
        check_choice(name, what, getattr(record, what, known[0]), known)
    if clip is not None and not (isinstance(clip, tuple) and len(clip) == 2 and clip[0] < clip[1]):
        raise ValueError(f"{name} needs clip bounds (low, high) with low < high, got {clip}.")
    check_whole(name, **{what: getattr(record, what) for what in whole})
    check_positive(name, **{what: getattr(record, what) for what in positive})
    tolerance = getattr(record, "tolerance", 1)
    if not (isinstance(tolerance, Real) and 0 < tolerance <= 1):  # type: ignore[operator]
        raise ValueError(
            f"{name} needs tolerance above 0 and at most 1, because it is a relative change; got {tolerance}."
        )


def check_choice(name: str, what: str, got: str, known: tuple[str, ...]) -> None:
    """Raise ValueError unless `got` is one of the known choices."""
    if got not in known:
        raise ValueError(f"{name} has no {what} {got!r}: choose one of {', '.join(known)}.")
