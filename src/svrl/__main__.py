"""python -m svrl: the same as the svrl program."""

from svrl.cli.main import run

run()
