"""NaN, masks and empty rows: what is accepted, what is refused, and what the refusal says."""

import numpy as np

from svrl import Observed, SoftImpute, complete

rng = np.random.default_rng(0)
table = np.outer(np.arange(1.0, 7.0), [1.0, 2.0, 3.0, 4.0])
table[rng.random(table.shape) < 0.25] = np.nan
print("NaN marks a missing entry:", Observed.from_nan(table))

table[2] = np.nan
try:
    complete(table)
except ValueError as error:
    print("An empty row is refused:", error)

estimate = SoftImpute(centre="row")(Observed.from_nan(table, allow_empty=True))
print("Allowed, it gets what the estimator falls back on:", estimate.matrix[2].round(2))

table[0, 0] = np.inf
try:
    complete(table)
except ValueError as error:
    print("Infinity is never a missing entry:", error)
