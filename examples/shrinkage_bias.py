"""What shrinkage does to a matrix far from zero, and what centring does about it.

The truth is an advantage of rank 2 plus an offset, 32 x 18, for 200 matrices. Printed are the mean
signed error of the missing entries, the mean change of each row's largest entry, which is what a
Bellman backup reads, and how often that largest entry is a missing one.
"""

import numpy as np

from svrl import Observed, SoftImpute

rng = np.random.default_rng(0)
advantage = rng.normal(size=(200, 32, 2)) @ rng.normal(size=(200, 2, 18)) / 2
uniform = rng.random(advantage.shape)


def report(name, matrix, truth, mask):
    error = (matrix - truth)[~mask].mean()
    change = (matrix.max(-1) - truth.max(-1)).mean()
    wins = (~np.take_along_axis(mask, matrix.argmax(-1, keepdims=True), -1)).mean()
    print(f"  {name:<24}{error:>+16.3f}{change:>+14.3f}{wins:>15.1%}")


for p in (0.9, 0.3):
    for offset in (10, -10):
        truth, mask = advantage + offset, uniform < p
        observed = Observed(values=truth, mask=mask, allow_empty=True)
        print(f"{p:.0%} observed, offset {offset:+d}")
        print(f"  {'':<24}{'missing entries':>16}{'row maximum':>14}{'missing wins':>15}")
        report("truth", truth, truth, mask)
        for centre in ("none", "row"):
            for output in ("estimate", "fill"):
                matrix = SoftImpute(centre=centre, output=output)(observed).matrix
                report(f"centre {centre}, {output}", matrix, truth, mask)
