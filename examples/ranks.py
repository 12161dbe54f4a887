"""Four answers to 'how low-rank is it?', for a matrix that looks like a Q function."""

import numpy as np

from svrl import approximate_rank, effective_rank, spectrum
from svrl.matrix import stable_rank

rng = np.random.default_rng(0)
value = rng.normal(10.0, 1.0, size=(200, 1))
advantage = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 18)) / 5
q = value + advantage

for name, centred in (("Q", False), ("Q less its row means", True)):
    print(
        f"{name}: rank at 99% of the energy {approximate_rank(q, centre_rows=centred)}, "
        f"at 1 - 1e-6 {approximate_rank(q, energy=1 - 1e-6, centre_rows=centred)}, "
        f"effective {effective_rank(q, centre_rows=centred):.2f}, stable {stable_rank(q, centre_rows=centred):.2f}"
    )
print("leading singular values of Q:", spectrum(q)[:7].round(1))
