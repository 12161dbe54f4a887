"""The figures of docs/evidence.md, drawn from the committed rows: python docs/output/evidence_figures.py FOLDER."""

import sys
from pathlib import Path

from svrl.paper.catalogue import chosen, load_experiment
from svrl.paper.page import write_figure
from svrl.paper.table import committed_table

for figure in chosen(["ways", "control", "values", "fig7", "fig30", "minatar"]):
    experiment = load_experiment(figure.experiment)
    evidence = experiment.evidence("short", (committed_table(),), figure.id)
    write_figure(experiment.draw(figure.id, evidence), figure, evidence, Path(sys.argv[1]), "svg")
