"""TorchRL's DQN on CartPole, structured. The one line that differs from a plain agent is marked.

About half a minute. CartPole has 2 actions, which leaves structure little to find, so expect the score of a
plain agent, not a better one.
"""

import torch
from tensordict.nn import TensorDictSequential
from torchrl import logger
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import SoftUpdate

from svrl.integrations.torchrl import LogRanks, StructuredDQNLoss

FRAMES, SEED = 6_000, 0


def main() -> None:
    logger.setLevel("WARNING")
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    actor = QValueActor(
        MLP(in_features=4, out_features=2, num_cells=[128, 128]), in_keys=["observation"], spec=env.action_spec
    )
    explore = EGreedyModule(spec=env.action_spec, eps_init=1.0, eps_end=0.05, annealing_num_steps=FRAMES // 3)
    collector = Collector(
        env,
        TensorDictSequential(actor, explore),
        frames_per_batch=50,
        total_frames=FRAMES,
        auto_register_policy_transforms=False,
    )
    collector.set_seed(SEED)
    memory = TensorDictReplayBuffer(storage=LazyTensorStorage(FRAMES), batch_size=64)

    loss = StructuredDQNLoss(actor, action_space=env.action_spec, structure=0.9)  # instead of DQNLoss
    loss.make_value_estimator(gamma=0.98)
    updater = SoftUpdate(loss, tau=0.02)
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3)
    look = LogRanks(loss, every=500)

    for data in collector:
        memory.extend(data)
        explore.step(data.numel())
        for _ in range(10 if len(memory) >= 500 else 0):
            batch = memory.sample()
            value = loss(batch)["loss"]
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            updater.step()
            if ranks := look(batch):
                print(f"update {int(loss.structure_updates):4d}: approximate rank {ranks['rank_99']:.0f} of 2")
        collector.update_policy_weights_()

    with torch.no_grad():
        scores = [float(env.rollout(500, actor)["next", "reward"].sum()) for _ in range(5)]
    print(f"mean score of 5 games: {sum(scores) / 5:.0f}")


if __name__ == "__main__":
    main()
