"""The paper's experiments and our additions, a file each: what a run computes, budgets, claims, figures.

`trainings`, `training_figures`, `gains` and `control` are what several of them share.
"""
