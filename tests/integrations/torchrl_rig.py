"""Small losses, batches and comparisons for the tests of TorchRL."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictSequential
from torch import Tensor, nn
from torchrl.collectors import Collector
from torchrl.data import Categorical, LazyTensorStorage, OneHot, TensorDictReplayBuffer
from torchrl.envs import GymEnv, StepCounter
from torchrl.modules import MLP, DistributionalQValueActor, EGreedyModule, QValueActor
from torchrl.objectives import DistributionalDQNLoss, DQNLoss, SoftUpdate, ValueEstimators
from torchrl.trainers.algorithms.dqn import DQNTrainer

from svrl.integrations.torchrl import LogRanks, StructuredDistributionalDQNLoss, StructuredDQNLoss

ACTIONS, WIDTH, BATCH, ATOMS = 5, 3, 12, 7
SPECS: dict[str, Any] = {"one_hot": OneHot(ACTIONS), "categorical": Categorical(ACTIONS)}


def actor_of(spec: Any, action_mask_key: str | None = None) -> QValueActor:
    torch.manual_seed(0)
    net = MLP(in_features=WIDTH, out_features=ACTIONS, num_cells=[16])
    return QValueActor(net, in_keys=["observation"], spec=spec, action_mask_key=action_mask_key)


def loss_of(
    cls: type = StructuredDQNLoss, space: str = "categorical", action_mask_key: str | None = None, **settings: Any
) -> Any:
    loss = cls(actor_of(SPECS[space], action_mask_key), action_space=SPECS[space], **settings)
    loss.make_value_estimator(gamma=0.9)
    return loss


def distributional(cls: type = StructuredDistributionalDQNLoss, space: str = "categorical", **settings: Any) -> Any:
    torch.manual_seed(0)
    net = MLP(in_features=WIDTH, out_features=(ATOMS, ACTIONS), num_cells=[16])
    actor = DistributionalQValueActor(net, spec=SPECS[space], support=torch.linspace(-2, 2, ATOMS))
    return cls(actor, gamma=0.9, **settings)


def batch_of(space: str = "categorical", shape: tuple[int, ...] = (BATCH,), seed: int = 1) -> TensorDict:
    random = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    ended = torch.rand(*shape, 1, generator=random) < 0.2
    return TensorDict(
        {
            "observation": torch.randn(*shape, WIDTH, generator=random),
            "action": SPECS[space].rand(shape),
            "next": {
                "observation": torch.randn(*shape, WIDTH, generator=random),
                "reward": torch.randn(*shape, 1, generator=random),
                "done": ended,
                "terminated": ended,
            },
        },
        shape,
    )


def train(
    loss: Any, updater: Any, *, times: int = 12, space: str = "categorical", shape: Any = (BATCH,)
) -> list[float]:
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-2)
    said = []
    for update in range(times):
        value = loss(batch_of(space, shape, seed=update))["loss"]
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        if updater is not None:
            updater.step()
        said.append(float(value))
    return said


def values_of(loss: Any, observations: Tensor, *, online: bool) -> Tensor:
    params = loss.value_network_params if online else loss.target_value_network_params
    states = TensorDict({"observation": observations}, observations.shape[:-1])
    with torch.no_grad(), params.data.to_module(loss.value_network):
        return loss.value_network(states)["action_value"]


def masked_batch(*, all_valid: bool = False, space: str = "categorical", seed: int = 1) -> TensorDict:
    """A batch whose last next state, a terminal one, has no valid action."""
    batch, random = batch_of(space, seed=seed), torch.Generator().manual_seed(seed)
    valid = (torch.rand(BATCH, ACTIONS, generator=random) < 0.6) | all_valid
    valid[torch.arange(BATCH), torch.randint(ACTIONS, (BATCH,), generator=random)] = True
    if not all_valid:
        valid[-1] = False
        batch["next", "terminated"][-1] = batch["next", "done"][-1] = True
    batch["action_mask"] = torch.ones_like(valid)
    batch["next", "action_mask"] = valid
    return batch


def chosen(values: Tensor, actions: Tensor) -> Tensor:
    """Of integers or one-hot rows."""
    index = actions if actions.ndim < values.ndim else actions.long().argmax(-1)
    return values.gather(-1, index.unsqueeze(-1)).squeeze(-1)


class Kept:
    """A logger that remembers what the trainer gives it."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float]] = []

    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        self.rows.append((name, float(value)))


def by_trainer(cls: type, *, frames: int, logger: Any = None, env: Any = None, **settings: Any) -> Any:
    """CartPole, or another environment, as the library's own trainer learns it; returns the loss."""
    torch.manual_seed(0)
    if env is None:
        env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env = env.append_transform(StepCounter())
    env.set_seed(0)
    mask = "action_mask" if "action_mask" in env.observation_spec else None
    width, actions = env.observation_spec["observation"].shape[-1], env.action_spec.n
    net = MLP(in_features=width, out_features=actions, num_cells=[128, 128])
    actor = QValueActor(net, in_keys=["observation"], spec=env.action_spec, action_mask_key=mask)
    greedy = EGreedyModule(
        spec=env.action_spec, eps_init=1.0, eps_end=0.05, annealing_num_steps=frames // 3, action_mask_key=mask
    )
    loss = cls(actor, action_space=env.action_spec, loss_function="smooth_l1", **settings)
    loss.make_value_estimator(gamma=0.98)
    collector = Collector(env, TensorDictSequential(actor, greedy), frames_per_batch=50, total_frames=frames)
    trainer = DQNTrainer(
        collector=collector,
        total_frames=frames,
        frame_skip=1,
        optim_steps_per_batch=3,
        loss_module=loss,
        optimizer=torch.optim.Adam(loss.parameters(), lr=1e-3),
        replay_buffer=TensorDictReplayBuffer(storage=LazyTensorStorage(2_000), batch_size=32),
        target_net_updater=SoftUpdate(loss, tau=0.05),
        greedy_module=greedy,
        progress_bar=False,
        logger=logger,
        log_interval=1,
        log_rewards=False,
        clip_grad_norm=False,
    )
    LogRanks(loss, every=2).register(trainer)
    trainer.train()
    return loss


# What test_contract.py asks for.

CASES: dict[str, dict[str, Any]] = {
    **{
        f"DQN, {space}, {'double' if double else 'single'}, {target} update": {
            "space": space,
            "double_dqn": double,
            "target": target,
            "delay_value": target is not None,
        }
        for space in SPECS
        for double, target in ((False, "soft"), (True, "soft"), (False, None))
    },
    **{
        f"DQN, {estimator.name}, {'double' if double else 'single'}": {
            "estimator": estimator,
            "double_dqn": double,
            "shape": (3, 4),
        }
        for estimator in (ValueEstimators.TD0, ValueEstimators.TD1, ValueEstimators.TDLambda)
        for double in (False, True)
    },
    **{f"distributional, {space}": {"space": space} for space in SPECS},
}
FEW = ("DQN, categorical, single, soft update", "DQN, categorical, double, soft update", "distributional, categorical")


def made(case: str, *, plain: bool = False, **settings: Any) -> Any:
    own = {name: value for name, value in CASES[case].items() if name not in ("target", "estimator", "shape")}
    if case.startswith("distributional"):
        cls: Any = DistributionalDQNLoss if plain else StructuredDistributionalDQNLoss
        return distributional(cls, **own, **settings)
    loss = loss_of(DQNLoss if plain else StructuredDQNLoss, **own, **settings)
    if estimator := CASES[case].get("estimator"):
        loss.make_value_estimator(estimator, gamma=0.9)
    return loss


def run(case: str, **settings: Any) -> Any:
    loss = made(case, **settings)
    go_on(loss, case)
    return loss


def go_on(loss: Any, case: str) -> None:
    about, before = CASES[case], copy.deepcopy(loss.state_dict())
    updater = None if about.get("target", "soft") is None else SoftUpdate(loss, eps=0.9)
    loss.load_state_dict(before)  # an updater begins with equal networks
    train(loss, updater, space=about.get("space", "categorical"), shape=about.get("shape", (BATCH,)))


def weights(loss: nn.Module) -> list[Tensor]:
    return [value for name, value in loss.state_dict().items() if name != "structure_updates"]


def same(one: nn.Module, two: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(two), strict=True))


def updates(loss: Any) -> int:
    return int(loss.structure_updates)


def ranks(loss: Any) -> dict[str, float]:
    return LogRanks(loss)(batch_of())


def resumed(loss: Any, case: str, folder: Path) -> Any:
    torch.save(loss.state_dict(), folder / "state.pt")
    loaded = made(case, structure=loss.structure)
    loaded.load_state_dict(torch.load(folder / "state.pt"))
    return loaded
