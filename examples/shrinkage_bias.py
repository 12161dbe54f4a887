"""What shrinkage does to a matrix far from zero, and what centring does about it.

The truth is an advantage of rank 2 plus an offset, 32 x 18, 90% observed, 200 matrices. Printed are
the mean signed error of the missing entries, the mean change of each row's largest entry, which is
what a Bellman backup reads, and how often that largest entry is a missing one.
"""

import numpy as np

from svrl import Observed, SoftImpute

rng = np.random.default_rng(0)
advantage = rng.normal(size=(200, 32, 2)) @ rng.normal(size=(200, 2, 18)) / 2
mask = rng.random(advantage.shape) < 0.9

print(f"{'offset':>7} {'centre':>7} {'output':>9} {'missing entries':>16} {'row maximum':>12} {'missing wins':>13}")
for offset in (10.0, 0.0, -10.0):
    truth = advantage + offset
    observed = Observed(values=truth, mask=mask)
    seen = np.take_along_axis(mask, truth.argmax(-1, keepdims=True), -1)
    print(f"{offset:>7g} {'the truth':>17} {0:>+16.3f} {0:>+12.3f} {(~seen).mean():>13.1%}")
    for centre in ("none", "row"):
        for output in ("estimate", "fill"):
            matrix = SoftImpute(centre=centre, output=output)(observed).matrix
            missing = (matrix - truth)[~mask].mean()
            row_maximum = (matrix.max(-1) - truth.max(-1)).mean()
            unseen = (~np.take_along_axis(mask, matrix.argmax(-1, keepdims=True), -1)).mean()
            print(f"{offset:>7g} {centre:>7} {output:>9} {missing:>+16.3f} {row_maximum:>+12.3f} {unseen:>13.1%}")
