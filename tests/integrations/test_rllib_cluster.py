"""RLlib's algorithm, structured, against its own: whole trainings in Ray."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("ray", reason="RLlib is not installed here; make test-integrations installs it")

import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.dqn.dqn_learner import QF_PREDS
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from tests.integrations.ladder import ACTIONS, RUNGS, Ladder
from tests.integrations.rllib_rig import MODULE, SMALL, flat_weights, settled

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.rllib import StructuredDQNConfig, StructuredDQNLearner


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(
        num_cpus=3,
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        log_to_driver=False,
        logging_level="ERROR",
        configure_logging=False,
    )
    yield
    ray.shutdown()


def short(config: DQNConfig, **training: object) -> DQNConfig:
    """A few dozen updates in an iteration."""
    return settled(
        config,
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 2_000},
        num_steps_sampled_before_learning_starts=40,
        target_network_update_freq=30,
        **training,
    ).reporting(min_sample_timesteps_per_iteration=60)


def built(config: DQNConfig) -> Algorithm:
    algorithm = config.build_algo()
    algorithm.local_replay_buffer.rng = np.random.default_rng(0)  # RLlib seeds all but its memory
    return algorithm


@pytest.mark.usefixtures("cluster")
def test_observing_everything_makes_rllibs_own_training() -> None:
    found = {}
    for name, config in (
        ("plain", DQNConfig()),
        ("all", StructuredDQNConfig().training(structure=1.0)),
        # With two actions completion seldom changes a choice, and often a value.
        ("half", StructuredDQNConfig().training(structure=StructuredTargets(p=0.5, next_value_from="completed"))),
    ):
        algorithm = built(short(config, n_step=2))
        for _ in range(2):
            algorithm.train()
        one = algorithm.learner_group._learner
        found[name] = flat_weights(one)
        assert name == "plain" or one.updates[MODULE] > 20
        algorithm.stop()
    assert torch.equal(found["plain"], found["all"])
    assert not torch.equal(found["plain"], found["half"])


class OneVector(Ladder):
    """A rung and the valid moves, one after the other, because RLlib's default encoders take no dictionary."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (RUNGS + ACTIONS,), np.float32)

    def __init__(self, config: object = None) -> None:
        super().__init__()

    def observed(self, rung: np.ndarray, valid: np.ndarray) -> np.ndarray:
        # RLlib asks for an action at the top, too, and ignores it.
        return np.concatenate([rung, valid if valid.any() else np.ones(ACTIONS)], dtype=np.float32)


class MaskedModule(DefaultDQNTorchRLModule):
    def _qf_forward_helper(self, batch: dict, encoder: object, head: object) -> dict:
        said = super()._qf_forward_helper(batch, encoder, head)
        invalid = batch["obs"][..., RUNGS:] == 0
        return {**said, QF_PREDS: said[QF_PREDS].masked_fill(invalid, -torch.inf)}


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("double", [False, True])
def test_a_training_with_masks_makes_no_invalid_move(double: bool) -> None:
    found = {}
    for name, config in (
        ("plain", DQNConfig()),
        ("all", StructuredDQNConfig().training(structure=1.0)),
        ("half", StructuredDQNConfig().training(structure=StructuredTargets(p=0.5, next_value_from="completed"))),
    ):
        spec = RLModuleSpec(module_class=MaskedModule, model_config=SMALL)
        algorithm = built(short(config, double_q=double).environment(OneVector).rl_module(rl_module_spec=spec))
        for _ in range(3):
            results = algorithm.train()
        assert results["env_runners"]["num_env_steps_sampled_lifetime"] >= 180
        found[name] = flat_weights(algorithm.learner_group._learner)
        algorithm.stop()
    assert bool(torch.isfinite(found["half"]).all())
    assert torch.equal(found["plain"], found["all"])
    assert not torch.equal(found["plain"], found["half"])


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_two_env_runners_results_and_a_checkpoint(tmp_path: Path) -> None:
    config = short(StructuredDQNConfig(), structure=0.8, rank_every=5).env_runners(num_env_runners=2)
    algorithm = config.build_algo()
    results = algorithm.train()
    logged = results["learners"][MODULE]
    assert 1 <= logged["rank_99"] <= 2
    assert logged["row_centred_rank_99"] == 1, "two actions have one advantage"
    updates = dict(algorithm.learner_group._learner.updates)
    assert updates[MODULE] > 5
    path = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    kept = flat_weights(algorithm.learner_group._learner)
    algorithm.stop()
    again = Algorithm.from_checkpoint(path)
    one = again.learner_group._learner
    assert isinstance(again, DQN)
    assert isinstance(one, StructuredDQNLearner)
    assert one.updates == updates
    assert one.structure == StructuredTargets(p=0.8)
    assert torch.equal(flat_weights(one), kept)
    again.train()
    assert one.updates[MODULE] > updates[MODULE]
    again.stop()


@pytest.mark.usefixtures("cluster")
def test_two_learners_stay_in_step() -> None:
    algorithm = short(StructuredDQNConfig(), structure=0.5).learners(num_learners=2).build_algo()
    algorithm.train()

    def look(one: StructuredDQNLearner) -> tuple[int, dict[str, int], Tensor]:
        flat = torch.cat([parameter.detach().flatten() for parameter in one.module["default_policy"].parameters()])
        return one._learner_index, one.updates, flat

    first, second = (result.get() for result in algorithm.learner_group.foreach_learner(look))
    assert {first[0], second[0]} == {0, 1}
    assert first[1] == second[1]
    assert first[1][MODULE] > 5
    assert torch.equal(first[2], second[2])
    algorithm.stop()
