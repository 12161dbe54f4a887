from __future__ import annotations

import json
import subprocess
import sys

import pytest

from svrl.runs.settings import spec_of
from svrl.runs.spec import RunSpec
from svrl.runs.train_run import TRAIN

TRAINING = {"env": "CartPole-v1", "agent": "double", "structured": True, "seed": 3, "observe": 0.7, "hidden": [8, 4]}
PLAN = {"task": "toy", "method": "svp", "seed": 1, "observe": 0.3, "final_sweep": False, "compare": True}


def test_the_id_does_not_depend_on_the_order_of_names_or_on_the_process():
    spec = spec_of("train", TRAINING)
    backwards = spec_of("train", dict(reversed(TRAINING.items())))
    assert spec.id == backwards.id
    assert len(spec.id) == 16
    shuffled = RunSpec(kind=TRAIN, settings=dict(reversed(spec.settings.items())))
    assert shuffled.id == spec.id
    program = (
        "import json, sys; from svrl.runs.settings import spec_of; print(spec_of('train', json.loads(sys.argv[1])).id)"
    )
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", program, json.dumps(TRAINING)],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == spec.id


def test_a_spec_survives_its_file():
    for kind, settings in (("train", TRAINING), ("plan", PLAN)):
        spec = spec_of(kind, settings)  # type: ignore[arg-type]
        fields = json.loads(json.dumps(spec.as_json()))
        assert spec_of(fields["kind"], fields["settings"]) == spec
        assert (fields["id"], fields["full"]) == (spec.id, json.loads(json.dumps(spec.settings)))


def test_labels_tell_runs_apart():
    assert spec_of("train", TRAINING).label == "CartPole-v1 sv-double observe=0.7 hidden=8x4 seed 3"
    assert spec_of("plan", PLAN).label == "toy svp observe=0.3 final_sweep=False compare=True seed 1"


@pytest.mark.parametrize("name", ["inf", "nan"])
def test_numbers_that_json_cannot_hold_are_refused(name):
    with pytest.raises(ValueError, match=r"JSON|learning_rate"):
        _ = spec_of("train", {**TRAINING, "learning_rate": float(name)}).id
