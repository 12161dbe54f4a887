"""Other people's programs, called the way their users call them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


class MissingPeerError(ImportError):
    """A peer is not installed; the message is the pip command to run."""


@functools.cache
def _fancyimpute() -> Any:
    """fancyimpute's SoftImpute class, made to run with today's scikit-learn.

    fancyimpute 0.7.0, its last release, calls `check_array(force_all_finite=...)`, an argument that
    scikit-learn renamed to `ensure_all_finite` and dropped in 1.8. The wrapper translates it and
    touches nothing else.
    """
    try:
        import sklearn.utils
        from sklearn.utils import check_array
    except ImportError as error:
        raise MissingPeerError("The peer is missing: pip install 'svrl[bench]'") from error

    @functools.wraps(check_array)
    def translated(*args: Any, force_all_finite: Any = None, **kwargs: Any) -> Any:
        if force_all_finite is not None:
            kwargs["ensure_all_finite"] = force_all_finite
        return check_array(*args, **kwargs)

    original: Callable[..., Any] = sklearn.utils.check_array
    sklearn.utils.check_array = translated
    try:
        import fancyimpute
    except ImportError as error:
        raise MissingPeerError("The peer is missing: pip install 'svrl[bench]'") from error
    finally:
        sklearn.utils.check_array = original
    return fancyimpute.SoftImpute


def fancy_soft_impute(
    matrix: np.ndarray, *, shrinkage: float | None = None, tolerance: float = 1e-3, max_steps: int = 100
) -> np.ndarray:
    """fancyimpute's SoftImpute on a matrix (m, n) with NaN for missing; its defaults are the authors' settings."""
    solver = _fancyimpute()(
        shrinkage_value=shrinkage, convergence_threshold=tolerance, max_iters=max_steps, verbose=False
    )
    result: np.ndarray = solver.fit_transform(matrix)
    return result
