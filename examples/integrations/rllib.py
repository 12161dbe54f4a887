"""RLlib's DQN with structure: the word `StructuredDQNConfig` in place of `DQNConfig`.

Two iterations, to see it run; most of the time is Ray's start. Env runners, learners and checkpoints are RLlib's:
`.env_runners(num_env_runners=8)` or `.learners(num_learners=2)` change nothing here.
"""

import tempfile

import ray
from ray.rllib.algorithms.algorithm import Algorithm

from svrl import StructuredTargets
from svrl.integrations.rllib import StructuredDQNConfig

ray.init(num_cpus=2, include_dashboard=False, object_store_memory=200 * 2**20, logging_level="ERROR")
config = (
    StructuredDQNConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    .training(
        structure=StructuredTargets(p=0.9),  # or 0.9, or None: the plain agent
        rank_every=20,
        lr=1e-3,
        num_steps_sampled_before_learning_starts=200,
    )
    .reporting(min_sample_timesteps_per_iteration=500)
    .debugging(seed=0, log_level="ERROR")
)
algorithm = config.build_algo()
for _ in range(2):
    results = algorithm.train()
    learned = results["learners"]["default_policy"]
    score = results["env_runners"]["episode_return_mean"]
    print(f"{results['num_env_steps_sampled_lifetime']:5.0f} steps, mean score {score:4.1f}, ", end="")
    print(f"loss {learned['qf_loss']:.4f}, rank of the values {learned['rank_99']:.0f} of 2")

with tempfile.TemporaryDirectory() as folder:
    path = algorithm.save_to_path(folder)
    algorithm.stop()
    again = Algorithm.from_checkpoint(path)
updates = again.learner_group.get_state()["learner"]["structured_updates"]["default_policy"]
print(f"loaded after {updates} updates; the next mask is the one that would have come")
again.stop()
ray.shutdown()
