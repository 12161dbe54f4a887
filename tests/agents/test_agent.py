"""An agent acts on what an environment gives, one observation or a batch of any space, in the environment's actions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from svrl.agents.agent import Agent, load_agent
from svrl.agents.config import AgentConfig
from svrl.agents.training import Training
from svrl.envs.vector import step
from svrl.runtime.arrays import read_arrays, write_arrays
from svrl.runtime.device import chosen_device

CONFIG = AgentConfig.of("smoke", network="mlp", hidden=(16,))
BOX = spaces.Box(-1.0, 1.0, (3,), np.float64)
SPACES = [
    BOX,
    spaces.Box(-1.0, 1.0, (), np.float32),
    spaces.Box(0, 255, (6, 7, 3), np.uint8),
    spaces.Box(0, 255, (3, 6, 7), np.uint8),
    spaces.Box(0, 255, (6, 7), np.uint8),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(6),
    spaces.Tuple([spaces.Discrete(2), BOX]),
    spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Dict({"c": BOX, "d": spaces.Box(0, 255, (2, 2), np.uint8)})}),
]


class Sampled(gymnasium.Env):
    """Shows samples of its space for ten steps; its actions begin at -2."""

    def __init__(self, space: spaces.Space) -> None:
        self.observation_space, self.action_space = space, spaces.Discrete(5, start=-2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action)
        self.time += 1
        return self.observation_space.sample(), 0.0, False, self.time == 10, {}


def agent_on(source: Any, config: AgentConfig = CONFIG) -> Agent:
    """Untrained, with weights large enough for its actions to differ."""
    training = Training(source, config, seed=0)
    training.close()
    with torch.no_grad():
        for parameter in training.network.parameters():
            parameter.mul_(3.0)
    return Agent.of(training)


def seen_in_training(space: spaces.Space) -> tuple[list[Any], np.ndarray]:
    """Observations of 20 n_envs, and what training sees of them."""
    raw: list[Any] = []

    class Noted(Sampled):
        def reset(self, **kwargs: Any) -> tuple[Any, dict]:
            raw.append(super().reset(**kwargs)[0])
            return raw[-1], {}

    training = Training(lambda: Noted(space), CONFIG.replace(n_envs=20, buffer_size=1_000), seed=3)
    seen = training._envs.reset()
    training.close()
    return raw, seen


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_it_acts_on_what_the_environment_gives_as_training_sees_it(space: spaces.Space, tmp_path: Path) -> None:
    agent = agent_on(lambda: Sampled(space))
    raw, seen = seen_in_training(space)
    with torch.no_grad():
        values = agent.network(torch.from_numpy(seen))
    expected = (values.argmax(-1).numpy() - 2).tolist()
    agent.save(tmp_path / "agent.npz")
    for acting in (agent, Agent.load(tmp_path / "agent.npz")):
        single = [acting.act(one) for one in raw]
        assert single == expected
        assert {type(action) for action in single} == {int}
        torch.testing.assert_close(acting.q(raw[0]), values[0])
    env = gymnasium.vector.SyncVectorEnv([lambda: Sampled(space)] * 4)
    batch, _ = env.reset(seed=[5, 6, 7, 8])
    actions = agent.act(batch)
    assert isinstance(actions, np.ndarray)
    assert actions.dtype == np.int64
    alone = [agent.act(Sampled(space).reset(seed=seed)[0]) for seed in (5, 6, 7, 8)]
    assert actions.tolist() == alone
    assert agent.q(batch).shape == (4, 5)
    env.step(actions)


def test_random_actions_are_the_environment_s_and_need_a_generator() -> None:
    agent = agent_on(lambda: Sampled(BOX))
    generator = torch.Generator().manual_seed(0)
    assert {agent.act(np.zeros(3), 1.0, generator) for _ in range(100)} == {-2, -1, 0, 1, 2}
    with pytest.raises(ValueError, match="need a generator"):
        agent.act(np.zeros(3), 0.1)


@pytest.mark.parametrize("name", ["control/inverted-pendulum", "minatar/seaquest", "atari/breakout"])
def test_environments_of_svrl_s_own(name: str, tmp_path: Path) -> None:
    pytest.importorskip({"m": "minatar", "a": "ale_py"}.get(name[0], "svrl"))
    training = Training(name, AgentConfig.for_env(name, "smoke", n_envs=3), seed=0)
    env, agent = training._envs, Agent.of(training)
    agent.save(tmp_path / "agent.npz")
    back = Agent.load(tmp_path / "agent.npz")
    seen = step(env, back.act(env.reset())).observations
    assert [back.act(one) for one in seen] == agent.act(seen).tolist()
    with pytest.raises(ValueError, match=f"{name}: the observation must be .* of shape"):
        agent.act(seen[..., :-1])
    training.close()


@pytest.mark.parametrize(
    ("space", "given", "sentence"),
    [
        (BOX, np.array([0.0, np.nan, 0.0]), "it: the observation has a number that is nan or infinite"),
        (BOX, np.array([[0.0, np.inf, 0.0]]), "nan or infinite"),
        (BOX, np.array([0.0, 1e300, 0.0]), "infinite in float32"),
        (
            BOX,
            np.zeros(4),
            r"it: the observation must be float64 of shape \(3,\), or N of them .* got float64 of shape",
        ),
        (BOX, np.zeros((2, 2, 3)), r"got float64 of shape \(2, 2, 3\)"),
        (BOX, "left", "got 'left'"),
        (BOX, None, "got None"),
        (BOX, (np.zeros(3), {}), r"got \(array"),
        (SPACES[2], np.zeros((3, 6, 7), np.uint8), r"uint8 of shape \(6, 7, 3\)"),
        (SPACES[2], np.zeros((6, 7, 3)), "got float64"),
        (SPACES[2], np.full((6, 7, 3), 256), "got numbers from 256 to 256"),
        (SPACES[5], 2, r"of Discrete\(4, start=-2\), .* got 2"),
        (SPACES[5], 1.0, "got 1.0"),
        (SPACES[5], np.array([0, 1, 7]), "got numbers from 0 to 7"),
        (SPACES[6], np.array([1, 3]), "got numbers from 1 to 3"),
        (SPACES[8], 5, r"must be of Tuple\(.*, got 5"),
        (SPACES[8], (1, np.zeros(2)), r"the observation\[1\] must be float64 of shape \(3,\)"),
        (SPACES[9], {"b": 1}, r"must be of Dict\(.*, got \{'b': 1\}"),
    ],
)
def test_what_is_no_observation_gets_one_sentence(space: spaces.Space, given: Any, sentence: str) -> None:
    def it() -> Sampled:
        return Sampled(space)

    with pytest.raises(ValueError, match=sentence) as refused:
        agent_on(it).act(given)
    assert "\n" not in str(refused.value)


def rewritten(path: Path, **changes: Any) -> None:
    """Change what an agent's file says of the environment."""
    tree = dict(read_arrays(path))
    about = json.loads(tree["about"])
    about["spec"] |= changes
    write_arrays(path, {**tree, "about": json.dumps(about)})


@pytest.mark.parametrize("space", [{}, {"kind": "Graph"}, {"kind": "Box", "shape": [4], "dtype": "float32"}, 5])
def test_a_space_that_is_not_the_agent_s_is_refused(tmp_path: Path, space: Any) -> None:
    agent_on(lambda: Sampled(BOX)).save(tmp_path / "agent.npz")
    rewritten(tmp_path / "agent.npz", space=space)
    with pytest.raises(ValueError, match=r"agent\.npz is not the file of an agent"):
        Agent.load(tmp_path / "agent.npz")


def test_a_file_from_before_tasks_had_axes_plays_the_same(tmp_path: Path) -> None:
    agent, path = agent_on("control/three-motor-pendulum", CONFIG.replace(actions=27)), tmp_path / "agent.npz"
    agent.save(path)
    assert Agent.load(path).spec.axes == (3, 3, 3)
    rewritten(path, axes=[])
    earlier = Agent.load(path)
    assert earlier.spec.axes == ()
    assert earlier.evaluate(episodes=2, seed=1).scores == agent.evaluate(episodes=2, seed=1).scores


# The habits of Stable-Baselines3.


def test_predict_returns_the_action_and_the_state() -> None:
    agent = agent_on(lambda: Sampled(BOX))
    observation = np.array([0.3, -0.2, 0.9])
    action, state = agent.predict(observation)
    assert (action, state) == (agent.act(observation), None)
    assert type(action) is int
    batch = np.stack([observation, -observation, 0 * observation])
    memory = (np.zeros(2),)
    actions, state = agent.predict(batch, memory, np.array([True, False, False]), deterministic=True)
    assert state is memory
    assert actions.shape == (3,)
    assert actions.tolist() == agent.act(batch).tolist()


def test_predict_draws_from_the_global_generator() -> None:
    agent = agent_on(lambda: Sampled(BOX), CONFIG.replace(eval_epsilon=0.5))
    batch = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    before = torch.get_rng_state()
    greedy, _ = agent.predict(batch, deterministic=True)
    assert torch.equal(torch.get_rng_state(), before), "greedy actions draw nothing"
    first, _ = agent.predict(batch, deterministic=False)
    second, _ = agent.predict(batch, deterministic=False)
    torch.set_rng_state(before)
    again, _ = agent.predict(batch, deterministic=False)
    torch.set_rng_state(before)
    assert first.tolist() == again.tolist()
    assert first.tolist() != second.tolist()
    assert 0.3 < np.mean(first != greedy) < 0.5, "half are random, and a fifth of those are greedy by chance"


def test_predict_takes_masks_under_the_name_of_sb3_contrib() -> None:
    agent = agent_on(lambda: Sampled(BOX))
    batch = np.random.default_rng(0).uniform(-1, 1, (6, 3))
    masks = np.zeros((6, 5), dtype=np.int8)
    masks[np.arange(6), np.arange(6) % 5] = 1
    assert agent.predict(batch, action_masks=masks)[0].tolist() == [-2, -1, 0, 1, 2, -2]
    assert agent.predict(batch[0], action_masks=masks[3])[0] == 1


def test_stable_baselines3_evaluates_it() -> None:
    pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    agent = agent_on("CartPole-v1")
    scores, lengths = evaluate_policy(
        agent, make_vec_env("CartPole-v1", n_envs=3, seed=5), n_eval_episodes=7, return_episode_rewards=True, warn=False
    )
    assert scores == lengths, "a point a step"
    assert len(scores) == 7


def test_evaluate_plays_where_it_is_told() -> None:
    agent = agent_on(lambda: Sampled(BOX))
    assert agent.evaluate(episodes=3).lengths == (10, 10, 10)
    assert len(agent.evaluate().lengths) == agent.config.eval_episodes

    def shorter() -> gymnasium.Env:
        return gymnasium.wrappers.TimeLimit(Sampled(BOX), 4)

    assert agent.evaluate(shorter, episodes=2, progress=False).lengths == (4, 4)
    with pytest.raises(ValueError, match="does not fit CartPole-v1"):
        agent.evaluate("CartPole-v1", episodes=2)
    with pytest.raises(ValueError, match="at least 1 game, got 0"):
        agent.evaluate(episodes=0)


# Devices.


def test_auto_is_a_gpu_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_on("CartPole-v1")
    agent.save(tmp_path / "agent.npz")
    there = "cuda" if torch.cuda.is_available() else "cpu"
    assert load_agent(tmp_path, "auto").device.type == there
    assert Agent.load(tmp_path / "agent.npz", device="auto").device.type == there
    training = Training("CartPole-v1", CONFIG, device="auto")
    training.close()
    assert training.device.type == there
    assert training.precision == ("float32" if there == "cpu" else "tf32")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: not torch.cuda.device_count())
    assert chosen_device("auto") != there
    assert chosen_device("cuda:7") == "cuda:7"
    with pytest.raises(ValueError, match="There is no device 'gpu'"):
        Training("CartPole-v1", CONFIG, device="gpu")
