"""The preset `classic` beside Stable-Baselines3's DQN with RL-Zoo's settings: how soon they learn, and how it ends.

Both play the same evaluations: 20 games with the preset's `eval_epsilon`, every 2,500 steps and at the end, from seeds
that follow from the training's seed and the step. Seconds are CPU time of training alone, on one thread.
Adds to or makes beside_sb3.json, one row a run; rows that are there are not made again.

    pip install -c constraints.txt ".[sb3]" "gymnasium[box2d]"
    python results/measure_beside_sb3.py CartPole-v1 --seeds 0,1,2,3,4,5,6,7,8,9
    python results/measure_beside_sb3.py Acrobot-v1 --seeds 0,1,2,3,4
    python results/measure_beside_sb3.py LunarLander-v3 --seeds 0,1,2,3,4 --steps 100000
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

from svrl.agents.config import AgentConfig
from svrl.agents.evaluation import derived_seed, evaluate
from svrl.agents.events import Stepped
from svrl.agents.training import Training
from svrl.runtime.provenance import commit, machine, versions

OUT = Path(__file__).with_name("beside_sb3.json")
EVERY, GAMES = 2_500, 20
_SLOW: dict[str, Any] = {
    "steps": 100_000,
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "gamma": 0.99,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
}
ZOO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "steps": 50_000,
        "learning_rate": 2.3e-3,
        "batch_size": 64,
        "buffer_size": 100_000,
        "learning_starts": 1_000,
        "gamma": 0.99,
        "target_update_interval": 10,
        "train_freq": 256,
        "gradient_steps": 128,
        "exploration_fraction": 0.16,
        "exploration_final_eps": 0.04,
    },
    "Acrobot-v1": _SLOW,
    "LunarLander-v3": _SLOW,
}
"""hyperparams/dqn.yml of rl-baselines3-zoo at 22e3ff2; all have two layers of 256."""


class Scores:
    """The evaluations of one training, and the seconds that they took."""

    def __init__(self, env: str, seed: int) -> None:
        self.env, self.seed = env, seed
        self.means: dict[int, float] = {}
        self.seconds = 0.0

    def add(self, network: nn.Module, steps: int) -> None:
        """Play the games of this step."""
        began = time.process_time()
        seed = derived_seed(self.seed, f"evaluation after {steps} steps")
        games = evaluate(network, self.env, AgentConfig.of("classic"), episodes=GAMES, seed=seed)
        self.means[steps] = games.mean
        self.seconds += time.process_time() - began


def train_ours(scores: Scores, changes: dict[str, Any]) -> int:
    """Train the preset `classic`, and return how many steps."""
    config = AgentConfig.of("classic", log_every=10**9, **changes)
    with closing(Training(scores.env, config, seed=scores.seed)) as training:
        for event in training.events():
            due = training.steps // EVERY > (training.steps - config.n_envs) // EVERY
            if isinstance(event, Stepped) and (due or training.steps >= config.steps):
                scores.add(training.network, training.steps)
    return config.steps


def train_sb3(scores: Scores, changes: dict[str, Any]) -> int:
    """Train Stable-Baselines3's DQN as RL-Zoo does, and return how many steps."""

    class Evaluations(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps % EVERY == 0:
                scores.add(self.model.q_net, self.num_timesteps)
            return True

    settings = {**ZOO[scores.env], **changes}
    steps = settings.pop("steps")
    model = stable_baselines3.DQN(
        "MlpPolicy",
        gymnasium.make(scores.env),
        policy_kwargs={"net_arch": [256, 256]},
        seed=scores.seed,
        device="cpu",
        **settings,
    )
    model.learn(steps, callback=Evaluations())
    scores.add(model.q_net, model.num_timesteps)  # the last updates come after the last step
    return steps


LIBRARIES: dict[str, Callable[[Scores, dict[str, Any]], int]] = {"svrl": train_ours, "stable-baselines3": train_sb3}


def run(env: str, library: str, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    """One training as a row."""
    goal = gymnasium.spec(env).reward_threshold
    assert goal is not None
    scores, began = Scores(env, seed), time.process_time()
    steps = LIBRARIES[library](scores, changes)
    seconds = time.process_time() - began - scores.seconds
    means = [round(mean, 1) for mean in scores.means.values()]
    return {
        "env": env,
        "library": library,
        "seed": seed,
        "steps": steps,
        "goal": goal,
        "first_at_goal": next((at for at, mean in scores.means.items() if mean >= goal), None),
        "final": means[-1],
        "seconds": round(seconds, 1),
        "evaluations": means,
        "commit": commit(),
    }


def main() -> None:
    """Make the runs that are not there yet, and write the file after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", choices=ZOO)
    parser.add_argument("--seeds", default="0", help="as in 0,1,2")
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--steps", type=int, default=0, help="of both, instead of their own")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for seed in map(int, asked.seeds.split(",")):
        for library in asked.libraries.split(","):
            found = json.loads(asked.out.read_text()) if asked.out.exists() else {"rows": []}
            there = [
                row for row in found["rows"] if (row["env"], row["library"], row["seed"]) == (asked.env, library, seed)
            ]
            if any(asked.steps in (0, row["steps"]) for row in there):
                continue
            row = run(asked.env, library, seed, {"steps": asked.steps} if asked.steps else {})
            print(row, file=sys.stderr, flush=True)
            found = json.loads(asked.out.read_text()) if asked.out.exists() else found
            rows = sorted(
                [*found["rows"], row], key=lambda row: (row["env"], row["library"], row["seed"], row["steps"])
            )
            about = {
                "command": "python results/measure_beside_sb3.py ENV --seeds 0,1,...",
                "machine": machine("cpu"),
                **versions(),
                "gymnasium": gymnasium.__version__,
                "stable-baselines3": stable_baselines3.__version__,
            }
            lines = ",\n".join("  " + json.dumps(row) for row in rows)
            asked.out.write_text(json.dumps(about, indent=1)[:-2] + f',\n "rows": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    main()
