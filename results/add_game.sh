#!/usr/bin/env bash
# Add a game to the evidence on Atari: train what is missing, study it, and put new rows beside the committed ones.
#
#   results/add_game.sh GAME [SEEDS [NAME=VALUE...]]
#
# as in: results/add_game.sh krull, or results/add_game.sh krull 0,1, or results/add_game.sh krull 0,1 arm=dqn,sv-dqn;
# SEEDS "" are all.
#
# DEVICE (cuda), TOGETHER (trainings at a time, 3), SCALE (short), WHAT (atari_diagnosis; atari_learning for double and
# dueling DQN, atari_batch_size for larger batches), STORE (runs/evidence) and DEST (results/paper) may be set.
# Stopped at any moment, the same command resumes. A run that is there already is never written over.
set -euo pipefail
if [ $# -lt 1 ]; then
    echo "usage: results/add_game.sh GAME [SEEDS [NAME=VALUE...]]" >&2
    exit 2
fi
game=$1
store=${STORE:-runs/evidence}
dest=${DEST:-results/paper}
python=${PYTHON:-python}
where=(--where "env=atari/$game")
if [ -n "${2:-}" ]; then where+=(--where "seed=$2"); fi
for setting in "${@:3}"; do where+=(--where "$setting"); done
"$python" -m svrl paper run "${WHAT:-atari_diagnosis}" --scale "${SCALE:-short}" "${where[@]}" --device "${DEVICE:-cuda}" \
    --together "${TOGETHER:-3}" --store "$store" --out "$store/figures"
"$python" "$(dirname "$0")/collect.py" "$store" "$dest"
