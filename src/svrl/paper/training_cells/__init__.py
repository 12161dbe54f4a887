"""One training is one cell: an agent is trained, its Q is studied, and both become rows.

All deep experiments of the paper ask for cells of this kind. What two of them ask for alike is trained once.
"""

from svrl.paper.training_cells.plan import ARMS, TrainingPlan, training_cell

__all__ = ["ARMS", "TrainingPlan", "training_cell"]
