"""Evaluation: whole games, counted without bias, by seeds of their own, beside a training that does not notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import TimeLimit
from torch import nn

from svrl.agents.agent import Agent
from svrl.agents.config import AgentConfig
from svrl.agents.evaluation import (
    Games,
    _whole_games,
    evaluate,
    human_normalised_mean,
    with_evaluation,
)
from svrl.agents.events import Evaluated, Event, Stepped
from svrl.agents.training import Training
from svrl.envs.vector import Step

CONFIG = AgentConfig.of("smoke", network="mlp", hidden=(16,), eval_epsilon=0.0)


def envs_with_games(lengths: list[list[int]]) -> Iterator[Step]:
    """Environment i plays games of these lengths, for ever; in its k-th game every step pays 100 i + k."""
    game, left = [0] * len(lengths), [games[0] for games in lengths]
    while True:
        rewards = np.array([100.0 * i + game[i] for i in range(len(lengths))])
        left = [steps - 1 for steps in left]
        ended = np.array([steps == 0 for steps in left])
        nothing = np.zeros(len(lengths), dtype=bool)
        blank = np.zeros((len(lengths), 1), dtype=np.float32)
        # Games end in turn by themselves and by a limit, which is all the same to a score.
        terminal = ended & (np.array(game) % 2 == 0)
        yield Step(blank, blank, rewards, terminal, ended & ~terminal, nothing)
        for i in np.flatnonzero(ended):
            game[i] += 1
            left[i] = lengths[i][game[i] % len(lengths[i])]


def test_the_kth_game_belongs_to_environment_k_mod_n() -> None:
    told: list[tuple[int, int]] = []
    steps = envs_with_games([[1, 2], [50, 40], [3, 7]])
    games = _whole_games(steps, 3, 5, lambda done, of: told.append((done, of)))
    # Environment 0 has long been through dozens of games when environment 1 ends its second.
    assert games.lengths == (1, 50, 3, 2, 40)
    assert games.scores == (0.0, 100.0 * 50, 200.0 * 3, 1.0 * 2, 101.0 * 40)
    assert told == [(k, 5) for k in range(1, 6)]


class Dice(gymnasium.Env):
    """Short games of 1 step and long ones of 30, equally likely; each step pays 1. Action 1 ends the game."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 1 if self.np_random.random() < 0.5 else 30
        return self.look(), {}

    def look(self):
        return self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)

    def step(self, action):
        self.left -= 1
        return self.look(), 1.0, self.left <= 0 or action == 1, False, {}


class Always(nn.Module):
    """Prefers one action everywhere, and notes the mode it is asked in."""

    def __init__(self, action: int) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.eye(2)[action])
        self.asked_while_training = False

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        self.asked_while_training |= self.training or torch.is_grad_enabled()
        return self.row.expand(len(observations), 2)


def test_the_seed_decides_and_nothing_else_does() -> None:
    def play(seed: int, episodes: int = 20) -> Games:
        return evaluate(Always(0), Dice, CONFIG, episodes=episodes, seed=seed, epsilon=0.1)

    before = torch.random.get_rng_state()
    assert play(1) == play(1)
    assert play(1) != play(2)
    assert len(play(1, 3).scores) == 3
    assert torch.equal(torch.random.get_rng_state(), before)


def test_epsilon_is_the_configuration_s_unless_given() -> None:
    never = evaluate(Always(1), Dice, CONFIG, episodes=30, seed=0)
    assert set(never.lengths) == {1}
    often = evaluate(Always(1), Dice, CONFIG.replace(eval_epsilon=1.0), episodes=30, seed=0)
    assert max(often.lengths) > 1
    assert evaluate(Always(1), Dice, CONFIG.replace(eval_epsilon=1.0), episodes=30, seed=0, epsilon=0.0) == never


def test_an_agent_plays_its_own_environment_unless_you_name_another() -> None:
    training = Training(Dice, CONFIG.replace(eval_episodes=3), seed=0)
    training.close()
    agent = Agent.of(training)
    assert agent.evaluate(episodes=20, seed=4) == evaluate(agent.network, Dice, CONFIG, episodes=20, seed=4)
    assert len(agent.evaluate().scores) == 3
    assert agent.evaluate(episodes=20) == agent.evaluate(episodes=20, seed=0)
    elsewhere = agent.evaluate(lambda: TimeLimit(Dice(), 5), episodes=20, seed=4, epsilon=1.0)
    assert max(elsewhere.lengths) <= 5
    with pytest.raises(ValueError, match=r"does not fit CartPole-v1: .* observations \(3,\) .* got \(4,\)"):
        agent.evaluate("CartPole-v1")


def test_the_network_is_asked_in_evaluation_mode_and_left_in_its_own() -> None:
    network = Always(0)
    for mode in (True, False):
        network.train(mode)
        evaluate(network, Dice, CONFIG, episodes=2, seed=0)
        assert network.training is mode
    assert not network.asked_while_training


def test_the_interval_of_a_bernoulli_is_the_binomial_s() -> None:
    games = Games(scores=(0.0,) * 50 + (1.0,) * 50, lengths=(1,) * 100)
    assert games.mean == 0.5
    # Quantiles .025 and .975 of Binomial(100, 1/2) / 100 are .40 and .60.
    assert games.interval() == pytest.approx((0.40, 0.60), abs=0.011)
    assert games.interval(seed=1) == games.interval(seed=1)
    narrow, wide = games.interval(0.5), games.interval(0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
    assert Games(scores=(3.0,), lengths=(1,)).interval() == (3.0, 3.0)
    with pytest.raises(ValueError, match="level"):
        games.interval(1.0)


class Endless(Dice):
    """Each step pays 1, for ever."""

    def step(self, action):
        return self.look(), 1.0, False, False, {}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svrl.agents.evaluation.STEP_LIMIT", 50)
    monkeypatch.setattr("svrl.agents.evaluation.TICK", 0.0)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("make", "length"),
    [(Endless, 50), (lambda: TimeLimit(Endless(), 70), 70), (lambda: TimeLimit(Endless(), 30), 30)],
    ids=["none", "longer than ours", "shorter"],
)
def test_games_end_by_the_environment_s_limit_or_else_by_ours(make: Callable[[], gymnasium.Env], length: int) -> None:
    said: list[str] = []
    told: list[tuple[int, int]] = []
    games = evaluate(
        Always(0), make, CONFIG, episodes=10, seed=0, progress=lambda *games: told.append(games), say=said.append
    )
    assert games.lengths == (length,) * 10
    assert games.scores == (float(length),) * 10
    assert [sentence.split(" games off after ")[1][:2] for sentence in said] == (["50"] if length == 50 else [])
    assert told[0] == (0, 10), "progress comes before a game is over"
    assert told[-1] == (10, 10)


@pytest.mark.usefixtures("soon")
def test_training_on_an_environment_without_a_limit_ends_and_says_why() -> None:
    said: list[str] = []
    training = Training(Endless, TRAIN.replace(steps=60, eval_every=0), seed=0, say=said.append)
    (found,) = evaluations(list(with_evaluation(training)))
    training.close()
    assert found.lengths == (50, 50)
    assert sum("cut games off after 50" in sentence for sentence in said) == 1


def test_scores_in_other_units() -> None:
    assert human_normalised_mean("CartPole-v1", [1.0]) is None
    assert human_normalised_mean("atari/breakout", []) is None
    # Random 1.7, human 30.5 (Wang et al., 2016).
    assert human_normalised_mean("atari/breakout", [30.5, 1.7]) == pytest.approx(0.5)


TRAIN = AgentConfig.of(
    "smoke",
    network="mlp",
    hidden=(8,),
    steps=150,
    eval_every=40,
    eval_episodes=2,
    n_envs=3,
    log_every=30,
    learning_starts=32,
)


def trained(config: AgentConfig = TRAIN) -> tuple[list[Event], Training]:
    training = Training(Dice, config, seed=5)
    events = list(with_evaluation(training))
    training.close()
    return events, training


def evaluations(events: list[Event]) -> list[Evaluated]:
    return [event for event in events if isinstance(event, Evaluated)]


def test_evaluations_come_at_multiples_and_at_the_end() -> None:
    assert [event.steps for event in evaluations(trained()[0])] == [42, 81, 120, 150]
    ends_on_one, _ = trained(TRAIN.replace(steps=120))
    assert [event.steps for event in evaluations(ends_on_one)] == [42, 81, 120]
    assert [event.steps for event in evaluations(trained(TRAIN.replace(eval_every=0))[0])] == [150]
    found = evaluations(ends_on_one)
    assert all(len(event.scores) == 2 and event.human_normalised is None for event in found)
    assert len({(event.scores, event.lengths) for event in found}) > 1


def test_an_evaluation_comes_just_before_the_last_event_of_its_step() -> None:
    events, _ = trained()
    for event in evaluations(events)[:-1]:
        *_, before_last, last = (other for other in events if other.steps == event.steps)
        assert before_last is event
        assert isinstance(last, Stepped)


def test_training_does_not_notice_evaluation() -> None:
    events, seen = trained()
    alone = Training(Dice, TRAIN, seed=5)
    assert [event for event in events if not isinstance(event, Evaluated)] == list(alone.events())
    for one, other in zip(seen.network.parameters(), alone.network.parameters(), strict=True):
        assert torch.equal(one, other)
    alone.close()


def left_and_resumed(leave: Callable[[Event], bool]) -> list[Event]:
    training = Training(Dice, TRAIN, seed=5)
    events = []
    for event in with_evaluation(training):
        events.append(event)
        if leave(event):
            break
    events += with_evaluation(training)
    training.close()
    return events


@pytest.mark.parametrize(
    ("kind", "steps"), [(Stepped, 39), (Stepped, 42), (Stepped, 45), (Stepped, 120), (Evaluated, 42), (Evaluated, 120)]
)
def test_leaving_and_resuming_gives_the_same_evaluations(kind: type[Event], steps: int) -> None:
    events = left_and_resumed(lambda event: isinstance(event, kind) and event.steps == steps)
    assert evaluations(events) == evaluations(trained()[0])


def test_a_training_that_is_over_is_evaluated_as_it_was() -> None:
    *_, last = found = evaluations(left_and_resumed(lambda event: event.steps == 150 and type(event) is Evaluated))
    assert found[-2] == last
