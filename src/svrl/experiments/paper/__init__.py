"""What all experiments of the paper share: cells that are computed once, evidence, claims, and the map of figures."""
