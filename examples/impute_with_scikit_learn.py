"""Gaps in a table, filled inside scikit-learn: new rows, a grid search on hidden entries, a pipeline."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline

from svrl import FactorALS, RowMean
from svrl.integrations.scikit_learn import LowRankImputer, SoftImputer, held_out_score

rng = np.random.default_rng(0)
digits, labels = load_digits(return_X_y=True)  # 1797 pictures of 8 x 8 pixels, 0..16
holes = np.where(rng.random(digits.shape) < 0.5, digits, np.nan)
seen, new, of_seen, of_new = train_test_split(holes, labels, train_size=500, random_state=0)

print("one line:", SoftImputer().fit_transform(seen).shape, "and no NaN")

grid = {"ratio": [0.02, 0.1, 0.2, 0.4], "standardise": [False, True]}
search = GridSearchCV(SoftImputer(clip=(0, 16)), grid, scoring=held_out_score, cv=3).fit(seen)
soft = search.best_estimator_
print(f"chosen on hidden entries: {search.best_params_}; rank {soft.rank_}, {soft.n_iter_} iterations")

print("relative error on entries hidden in new rows; share of new digits told from the filled pixels")
imputers = {
    "RowMean": LowRankImputer(RowMean()),
    "SimpleImputer": SimpleImputer(),
    "KNNImputer": KNNImputer(),
    "FactorALS": LowRankImputer(FactorALS(clip=(0, 16))),
    "SoftImputer": SoftImputer(),
    "chosen": soft,
}
for name, imputer in imputers.items():
    error = -held_out_score(imputer.fit(seen), new)
    right = make_pipeline(imputer, RidgeClassifier()).fit(seen, of_seen).score(new, of_new)
    print(f"{name:<14} {error:.2f} {right:.1%}")
