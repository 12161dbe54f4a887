"""Options of training on real environments: they learn, repeat, and resume bit for bit."""

import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from tests.envs.test_action_masks import AsMethod, Countdown

import svrl
from svrl.agents.checkpoint import Checkpoints
from svrl.agents.training import Training

SMALL = {"steps": 600, "learning_starts": 64, "eval_every": 0, "eval_episodes": 1, "hidden": (16,), "log_every": 200}
OPTIONS = {
    "n-step": {"n_steps": 3},
    "soft": {"tau": 0.05, "target_update_interval": 1},
    "prioritised": {"priority_alpha": 0.6},
    "all": {"n_steps": 3, "tau": 0.05, "target_update_interval": 1, "priority_alpha": 0.6, "act_lag": 1},
}


def weights(training: Training) -> bytes:
    return pickle.dumps([parameter.detach().numpy().tobytes() for parameter in training.network.parameters()])


def config_of(agent: str, **changes: object) -> svrl.AgentConfig:
    return svrl.AgentConfig.of("classic", agent=agent, **{**SMALL, **changes})


def trained(env: object, config: svrl.AgentConfig, stop: int | None = None) -> Training:
    training = Training(env, config, seed=3)
    for _ in training.events():
        if stop is not None and training.steps >= stop:
            break
    return training


@pytest.mark.parametrize("agent", ["dqn", "sv-dqn", "sv-double-network"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, options, agent):
    config = config_of(agent, **options)
    whole = trained("CartPole-v1", config)
    part = trained("CartPole-v1", config, stop=304)
    Checkpoints(tmp_path).save(part.capture(), part.replay)
    resumed = Training("CartPole-v1", config, seed=3)
    loaded = Checkpoints(tmp_path).load(resumed.replay)
    resumed.restore(loaded.state)
    for _ in resumed.events():
        pass
    assert resumed.updates == whole.updates > 100
    assert weights(resumed) == weights(whole) != weights(part)


@pytest.mark.parametrize("agent", ["dqn", "double", "dueling", "sv-dqn", "sv-double", "sv-dqn-network"])
@pytest.mark.parametrize("make", [Countdown, AsMethod])
def test_an_agent_never_makes_an_illegal_move(make, agent):
    training = trained(make, config_of(agent, n_envs=2, n_steps=2, gamma=0.9, epsilon_steps=300))
    learned = svrl.Agent.of(training)
    assert learned.evaluate(episodes=10, seed=1, epsilon=0.3).mean >= -10
    env = make()
    seen, info = env.reset(seed=0)
    over = False
    while not over:  # an illegal move raises
        action = learned.act(
            seen, action_mask=info.get("action_mask", env.action_masks() if make is AsMethod else None)
        )
        seen, _, over, _, info = env.step(action)


def test_masks_survive_a_checkpoint(tmp_path):
    config = config_of("sv-dqn", n_envs=2)
    part = trained(Countdown, config, stop=304)
    Checkpoints(tmp_path).save(part.capture(), part.replay)
    resumed = Training(Countdown, config, seed=3)
    Checkpoints(tmp_path).load(resumed.replay)
    source = [torch.Generator().manual_seed(0) for _ in range(2)]
    one, other = part.replay.sample(200, source[0]), resumed.replay.sample(200, source[1])
    assert not one.action_masks.all()
    assert torch.equal(one.action_masks, other.action_masks)


class Always(gymnasium.Wrapper):
    """CartPole with a mask that allows every action."""

    def reset(self, **options):
        seen, info = super().reset(**options)
        return seen, {**info, "action_mask": np.ones(2, np.int8)}

    def step(self, action):
        *rest, info = super().step(action)
        return *rest, {**info, "action_mask": np.ones(2, np.int8)}


@pytest.mark.parametrize("agent", ["dqn", "sv-dqn", "sv-double"])
def test_a_mask_of_all_actions_is_no_mask(agent):
    config = config_of(agent)
    plain = trained(lambda: gymnasium.make("CartPole-v1"), config)
    masked = trained(lambda: Always(gymnasium.make("CartPole-v1")), config)
    assert masked.replay.masks is not None
    assert weights(plain) == weights(masked)


class Point(gymnasium.Env):
    """Push a point to the middle of a line or a square, in any action space."""

    def __init__(self, action_space: spaces.Space) -> None:
        self.action_space = action_space
        size = int(np.prod(action_space.shape)) or 1
        self.observation_space = spaces.Box(-np.inf, np.inf, (size,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, self.observation_space.shape)
        self.time = 0
        return self.place.astype(np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        push = np.asarray(action, np.float64).reshape(-1)
        low, high = (0, np.array(self.action_space.nvec) - 1) if hasattr(self.action_space, "nvec") else (-1, 1)
        low, high = (0, 1) if isinstance(self.action_space, spaces.MultiBinary) else (low, high)
        self.place = self.place + 0.3 * (2 * (push - low) / (high - low) - 1)
        self.time += 1
        return self.place.astype(np.float32), -float(np.abs(self.place).sum()), False, self.time == 10, {}


@pytest.mark.parametrize(
    ("space", "bins"),
    [
        (spaces.MultiDiscrete([3, 3]), ()),
        (spaces.MultiBinary(2), ()),
        (spaces.Box(-1, 1, (2,), np.float32), (3,)),
        (spaces.Box(-1, 1, (2,), np.float32), (3, 5)),
    ],
)
def test_every_action_space_is_learned(tmp_path, space, bins):
    config = config_of("sv-dqn", steps=4_000, bins=bins, epsilon_steps=2_000, gamma=0.8, hidden=(64,))
    training = trained(lambda: Point(space), config)
    agent = svrl.Agent.of(training)
    random = agent.evaluate(episodes=20, seed=1, epsilon=1.0).mean
    assert agent.evaluate(episodes=20, seed=1, epsilon=0.0).mean > random / 2  # scores are negative
    agent.save(tmp_path / "agent.npz")
    loaded = svrl.Agent.load(tmp_path / "agent.npz", source=lambda: Point(space))
    seen = np.array([[0.9, -0.9], [-0.9, 0.9]], np.float32)
    both = loaded.act(seen)
    assert both.shape == (2, 2)
    assert all(space.contains(action) for action in both.astype(space.dtype))
    for one, action in zip(seen, both, strict=True):
        chosen = loaded.predict(one)[0]
        assert space.contains(chosen)
        np.testing.assert_array_equal(chosen, action)


def test_a_resumed_run_with_masks_is_the_uninterrupted_one(tmp_path):
    config = config_of("sv-double-network", n_envs=2, act_lag=1, priority_alpha=0.6)
    whole, part = trained("CartPole-v1", config), trained("CartPole-v1", config, stop=304)
    Checkpoints(tmp_path).save(part.capture(), part.replay)
    resumed = Training("CartPole-v1", config, seed=3)
    resumed.restore(Checkpoints(tmp_path).load(resumed.replay).state)
    for _ in resumed.events():
        pass
    assert weights(resumed) == weights(whole)


@pytest.mark.parametrize(
    ("masks", "words"),
    [
        ([[1, 1, 1]] * 3, "2 observations need 2 masks.*got 3"),
        ([[1, 1, 1], [0, 0, 0]], "allows none"),
        ([[1, 1], [1, 1]], "3 entries"),
    ],
)
def test_masks_that_do_not_fit_are_answered(masks, words):
    agent = svrl.Agent.of(Training(Countdown, config_of("dqn"), seed=3))
    with pytest.raises(ValueError, match=words):
        agent.act(np.array([3, 4]), action_mask=np.array(masks))


class Never(Countdown):
    """Take 3 is never valid."""

    def _info(self):
        mask = super()._info()["action_mask"]
        mask[2] = 0
        return {"action_mask": mask}


@pytest.mark.parametrize("agent", ["sv-dqn", "sv-double-network"])
def test_numbers_about_values_do_not_look_at_invalid_actions(agent):
    training = trained(Never, config_of(agent, n_envs=2, gamma=0.9))
    metrics, studies = [], []
    for raised in (0.0, 100.0):
        with torch.no_grad():
            for network in (training.learner.online, training.learner.target):
                network.head.bias[2] += raised
        row = training._describe()
        metrics.append((row.target_mean, row.row_max_bias, row.held_out_error))
        studies.append(svrl.rank_study(svrl.Agent.of(training), states=64, batches=4).optimism)
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-3)
    assert repr(studies[1]) == repr(studies[0])


@pytest.mark.parametrize("lost", ["values", "largest", "priorities", "open_masks"])
def test_a_checkpoint_without_its_priorities_or_masks_is_not_used(tmp_path, lost):
    from svrl.agents.checkpoint import positions, restore, segments

    part = trained(Countdown, config_of("dqn", n_envs=2, priority_alpha=0.6), stop=304)
    saved, pieces = positions(part.replay), list(segments(part.replay))
    if lost == "values":
        saved["priorities"]["values"] = saved["priorities"]["values"][:1]
    elif lost == "largest":
        saved["priorities"]["values"][3] = -1.0
    else:
        del saved[lost]
    fresh = Training(Countdown, config_of("dqn", n_envs=2, priority_alpha=0.6), seed=3)
    if lost == "open_masks":
        fresh.replay.add_masks()
    with pytest.raises(ValueError, match=r"priorities|contradicts"):
        restore(fresh.replay, saved, pieces)
