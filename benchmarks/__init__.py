"""svrl and its peers, measured in the same run: `python -m benchmarks matrix` from a checkout.

Absolute times mean little on a shared machine, so each row has ours, the peer's, and their ratio. The folder is no part
of the package: a file for each benchmark, `rows.py` for what all report and how they time, and `authors.py` for the
authors' estimator.
"""
