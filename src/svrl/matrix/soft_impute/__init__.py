"""Soft-Impute: one convex problem, several solvers that share its optimum."""

from svrl.matrix.soft_impute.estimator import SoftImpute

__all__ = ["SoftImpute"]
