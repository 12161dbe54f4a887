"""Training: the events, the seeds, acting, and what interruptions leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import svrl
from svrl.agents.agent import Agent, load_agent
from svrl.agents.checkpoint import Checkpoints
from svrl.agents.config import AgentConfig
from svrl.agents.evaluation import epsilon_greedy, explore
from svrl.agents.events import EpisodeEnded, Evaluated, Event, Learned, Stepped
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.training import Actor, Training, train
from svrl.envs.vector import EnvSpec

from .small_envs import identity

SMALL = AgentConfig.of(
    "classic",
    n_envs=1,
    hidden=(32,),
    batch_size=32,
    gamma=0.5,
    learning_starts=100,
    buffer_size=2_000,
    target_update_interval=50,
    epsilon_steps=500,
    steps=1_500,
    log_every=500,
    eval_every=0,
    eval_episodes=20,
    learning_rate=3e-3,
)
BRIEF = SMALL.replace(steps=400, log_every=100)
ARMS = [(agent, structured) for agent in ("dqn", "double", "dueling") for structured in (False, True)]
Source = str | Callable[[], Any]


def run(source: Source, config: AgentConfig, seed: int = 0) -> tuple[Training, list[Event]]:
    training = Training(source, config, seed=seed)
    return training, list(training.events())


def same_weights(a: Training, b: Training) -> bool:
    pairs = zip(a.network.parameters(), b.network.parameters(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize(("agent", "structured"), ARMS)
def test_all_six_solve_the_identity(agent: str, structured: bool) -> None:
    found = train(identity, SMALL.replace(agent=agent, structured=structured))
    games = found.evaluate(episodes=20, seed=1)
    assert games.mean > 9.5
    assert np.array_equal(found.act(np.arange(4)), np.arange(4))


@pytest.mark.parametrize("act_lag", [0, 1])
def test_one_seed_one_run_and_another_seed_another(act_lag: int) -> None:
    config = BRIEF.replace(structured=True, act_lag=act_lag, n_envs=3)
    one, first = run(identity, config)
    two, second = run(identity, config)
    other, _ = run(identity, config, seed=1)
    assert same_weights(one, two)
    assert first == second
    assert not same_weights(one, other)


@pytest.mark.parametrize(("answer", "ends"), [(False, True), (np.False_, True), (None, False), (0, False), ([], False)])
def test_a_callback_that_returns_false_ends_training(answer: object, ends: bool) -> None:
    heard: list[Event] = []

    def watch(event: Event) -> object:
        heard.append(event)
        return answer if isinstance(event, EpisodeEnded) and event.steps >= 130 else None

    config = BRIEF.replace(n_envs=3, eval_every=200, eval_episodes=2, learning_rate_left=1.0)
    agent = train(identity, config, watch=watch)
    wanted = train(identity, config.replace(steps=150)) if ends else train(identity, config)
    assert agent.steps == wanted.steps
    assert agent.steps == (150 if ends else 402)
    for one, other in zip(agent.network.parameters(), wanted.network.parameters(), strict=True):
        assert torch.equal(one, other)
    evaluations = [event.steps for event in heard if isinstance(event, Evaluated)]
    assert evaluations == ([150] if ends else [201, 402])
    assert [event.steps for event in heard if isinstance(event, Stepped)][-1] == agent.steps


def test_a_callback_that_ends_training_at_an_evaluation_gets_no_other() -> None:
    heard: list[int] = []

    def watch(event: Event) -> bool | None:
        if not isinstance(event, Evaluated):
            return None
        heard.append(event.steps)
        return False

    assert train(identity, BRIEF.replace(eval_every=100, eval_episodes=2), watch=watch).steps == 100
    assert heard == [100]


def test_the_callback_of_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "deep-rl.md").read_text(encoding="utf-8")
    section = page.split("## Stopping early, and the best agent")[1]
    snippet = section.split("```python\n")[1].split("```")[0]
    assert snippet.count("475") == 1
    heard: list[Evaluated] = []
    config = AgentConfig.for_env("CartPole-v1", "smoke", eval_every=50, eval_episodes=3)
    svrl.train(
        "CartPole-v1", config, seed=0, watch=lambda event: heard.append(event) if isinstance(event, Evaluated) else None
    )
    enough = sorted(event.mean for event in heard)[4]
    names: dict[str, Any] = {"svrl": svrl, "config": config}
    exec(snippet.replace("475", str(enough)), names)
    assert names["agent"].steps == next(event.steps for event in heard if event.mean >= enough) < 400


def test_training_moves_no_global_generator() -> None:
    before, arrays = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    run(identity, BRIEF.replace(structured=True))
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(arrays, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(("rate", "envs"), [(0.25, 1), (1.0, 1), (0.25, 3), (2.0, 4)])
def test_updates_keep_pace_with_the_steps(rate: float, envs: int) -> None:
    training, events = run(identity, BRIEF.replace(updates_per_step=rate, n_envs=envs))
    assert training.steps == BRIEF.steps + (-BRIEF.steps) % envs
    assert training.updates == int(training.steps * rate) - int(BRIEF.learning_starts * rate)
    for event in events:
        if isinstance(event, Stepped) and event.steps >= BRIEF.learning_starts:
            assert event.updates == int(event.steps * rate) - int(BRIEF.learning_starts * rate)


def test_bursts_are_cut_at_copies_of_the_target_network(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    training = Training(identity, BRIEF.replace(n_envs=8, updates_per_step=1.0, target_update_interval=5))
    monkeypatch.setattr("svrl.agents.learner.copy_weights", lambda *_: copies.append(training.updates))
    list(training.events())
    assert copies == list(range(5, training.updates + 1, 5))


def test_with_a_lag_the_actions_come_from_before_the_burst() -> None:
    """Environments step as if the burst under way had not been made."""
    training = Training(identity, BRIEF.replace(act_lag=1, epsilon_start=0.0, epsilon_final=0.0))
    checked = 0
    for event in training.events():
        if isinstance(event, Stepped) and event.updates and training._pending is not None:
            with torch.no_grad():
                behind = training._actor.network(torch.as_tensor(training._observations)).argmax(-1)
            assert training._pending.tolist() == behind.tolist()
            online = zip(training._actor.network.parameters(), training.network.parameters(), strict=True)
            checked += any(not torch.equal(a, b) for a, b in online)
    assert checked > 50


def test_events_tell_the_whole_story() -> None:
    training, events = run(identity, BRIEF.replace(structured=True))
    games = [event for event in events if isinstance(event, EpisodeEnded)]
    learned = [event for event in events if isinstance(event, Learned)]
    assert [game.length for game in games] == [10] * 40
    assert [game.truncated for game in games[:4]] == [True, False, True, False]
    assert list(training.recent_scores) == [game.score for game in games]
    assert [event.steps for event in learned] == [200, 300, 400]
    for event in learned:
        assert event.p == 0.9
        assert event.loss > 0
        assert event.held_out_error is not None
        assert event.held_out_error > 0
        assert 0 < event.targets_changed < 1
        assert 1 <= event.rank_99 <= event.rank_9999 <= 4
        assert 0 <= event.dormant <= 1
        assert event.estimates_converged == 1
    assert [event.steps for event in events if isinstance(event, Stepped)] == list(range(1, 401))


def test_a_plain_agent_has_no_bias_and_no_held_out_error() -> None:
    _, events = run(identity, BRIEF)
    learned = [event for event in events if isinstance(event, Learned)]
    assert learned
    for event in learned:
        assert (event.target_bias, event.target_gap, event.targets_changed, event.row_max_bias) == (0.0,) * 4
        assert event.held_out_error is event.p is event.estimate_rank is event.estimates_converged is None


def test_the_two_biases_are_two_things() -> None:
    """With the network's value a target can only fall, whatever the largest entry of a completed row does."""
    config = BRIEF.replace(structured=True, next_value_from="network", p=0.5, steps=800, log_every=20)
    _, events = run(identity, config)
    learned = [event for event in events if isinstance(event, Learned)]
    assert all(event.target_bias <= 0 for event in learned)
    assert any(event.row_max_bias != pytest.approx(event.target_bias, rel=0.01) for event in learned)


@pytest.mark.parametrize("kind", [EpisodeEnded, Learned, Stepped])
def test_left_at_any_event_it_goes_on_with_the_next(kind: type[Event]) -> None:
    config = BRIEF.replace(n_envs=3, log_every=30)
    _, whole = run(identity, config)
    training = Training(identity, config, seed=0)
    heard: list[Event] = []
    while training.steps < config.steps or training._untold:
        for event in training.events():
            heard.append(event)
            if isinstance(event, kind):
                break
    assert heard == whole


def interrupted(source: Source, config: AgentConfig, folder: Path, at: int, seed: int = 0) -> tuple[Training, list]:
    """Leave a run at a step, save it, and go on from the file in a new one."""
    first = Training(source, config, seed=seed)
    events: list[Event] = []
    for event in first.events():
        events.append(event)
        if isinstance(event, Stepped) and event.steps >= at:
            break
    Checkpoints(folder).save(first.capture(), first.replay)
    second = Training(source, config, seed=seed)
    loaded = Checkpoints(folder).load(second.replay)
    assert loaded is not None
    second.restore(loaded.state)
    return second, events + list(second.events())


@pytest.mark.parametrize(
    "changes", [{}, {"act_lag": 1, "n_envs": 3}, {"agent": "double", "next_value_from": "network"}], ids=str
)
@pytest.mark.parametrize(
    ("source", "at"),
    [("FrozenLake-v1", 37), ("FrozenLake-v1", 250), ("CartPole-v1", 250)],
    ids=["early", "late", "CartPole"],
)
def test_interrupted_and_resumed_equals_uninterrupted(tmp_path: Path, source: Source, changes: dict, at: int) -> None:
    config = BRIEF.replace(structured=True, **changes)
    whole, events = run(source, config)
    resumed, others = interrupted(source, config, tmp_path, at)
    assert same_weights(whole, resumed)
    assert events == others
    assert (whole.steps, whole.updates, whole.episodes) == (resumed.steps, resumed.updates, resumed.episodes)


def test_environments_that_cannot_be_restored_begin_new_games(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="games of identity cannot be saved, so those under way are lost"):
        resumed, events = interrupted(identity, BRIEF, tmp_path, 203)
    assert resumed.steps == BRIEF.steps
    lengths = [event.length for event in events if isinstance(event, EpisodeEnded)]
    assert set(lengths) == {10}, "no game is made of two halves"
    again, others = interrupted(identity, BRIEF, tmp_path / "again", 203)
    assert same_weights(resumed, again)
    assert events == others


def test_games_that_go_another_way_when_they_are_played_again_begin_anew() -> None:
    first, said = Training("CartPole-v1", BRIEF, seed=0), []
    for event in first.events():
        if event.steps >= 9:
            break
    state = first.capture()
    state["environments"]["observations"] += 1.0
    second = Training("CartPole-v1", BRIEF, seed=0, say=said.append)
    second.restore(state)
    assert "turned out differently when they were played again. So those under way are lost" in said[-1]
    assert not np.array_equal(second._observations, first._observations)


def test_with_a_lag_a_resumed_agent_acts_with_its_own_network(tmp_path: Path) -> None:
    config = BRIEF.replace(act_lag=1)
    first = Training(identity, config, seed=0)
    for event in first.events():
        if event.steps >= 300:
            break
    Checkpoints(tmp_path).save(first.capture(), first.replay)
    second = Training(identity, config, seed=0)
    loaded = Checkpoints(tmp_path).load(second.replay)
    assert loaded is not None
    second.restore(loaded.state)
    pairs = zip(second._actor.network.parameters(), first.network.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_an_agent_survives_its_file(tmp_path: Path) -> None:
    training, _ = run("CartPole-v1", BRIEF.replace(agent="dueling"))
    agent = Agent.of(training)
    agent.save(tmp_path / "agent.npz")
    back = load_agent(tmp_path)
    look = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    assert torch.equal(agent.q(look), back.q(look))
    assert (back.config, back.spec, back.steps, back.env) == (agent.config, agent.spec, 400, "CartPole-v1")


def test_training_that_diverged_stops_with_a_sentence() -> None:
    training = Training(identity, BRIEF.replace(learning_rate=1e30, loss="squared"), seed=0)
    with pytest.raises(ValueError, match=r"identity, seed 0: the loss is not finite at update \d+, after \d+ steps"):
        list(training.events())
    assert training.updates <= 10  # long before a row of diagnostics is due


def test_no_checkpoint_is_made_of_a_training_that_diverged() -> None:
    training = Training(identity, BRIEF, seed=3)
    for event in training.events():
        if event.updates > 0 and isinstance(event, Stepped):
            break
    training._losses.append(torch.tensor(torch.nan))  # as a GPU, which is not asked after every burst, leaves it
    with pytest.raises(ValueError, match="seed 3: the loss is not finite by update"):
        training.capture()


@pytest.mark.parametrize("source", ["CartPole-v1", identity, "control/cart-pole", "minatar/breakout", "atari/breakout"])
def test_too_many_environments_are_refused_before_one_is_made(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svrl.agents.training.make_env", lambda *_, **__: pytest.fail("made"))
    with pytest.raises(
        ValueError, match=r"^1,000,000,000,000 environments .* at least .* GB of RAM are free\. Lower n_envs"
    ):
        Training(source, SMALL.replace(n_envs=10**12))
    with pytest.raises(
        ValueError, match="A replay buffer for 2001 environments must hold at least 2001 transitions, got 2000"
    ):
        Training(source, SMALL.replace(n_envs=2001))


WARNED = AgentConfig.for_env("CartPole-v1", "smoke")


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 67},
        {"steps": 68},
        {"steps": 67, "n_envs": 8},
        {"steps": 68, "n_envs": 4, "act_lag": 1},
        {"steps": 72, "n_envs": 8, "act_lag": 1},
        {"steps": 80, "n_envs": 8, "act_lag": 1},
    ],
    ids=str,
)
def test_trainings_that_make_no_update_are_warned_of_and_no_others(settings: dict[str, int]) -> None:
    config = WARNED.replace(**settings)
    said: list[str] = []
    training = Training("CartPole-v1", config, say=said.append)
    for _ in training.events():
        pass
    training.close()
    assert bool(said) == (training.updates == 0)


@pytest.mark.parametrize("call", [train, Training])
def test_a_library_call_warns_at_the_line_that_made_it(call: Callable[..., Agent | Training]) -> None:
    with pytest.warns(UserWarning, match=r"^no update is due within 40 steps") as caught:
        made = call("CartPole-v1", WARNED.replace(steps=40))
    if isinstance(made, Training):
        made.close()
    assert [warning.filename for warning in caught] == [__file__]


FALLING = AgentConfig(epsilon_start=1.0, epsilon_final=0.1, epsilon_steps=100)


def test_epsilon_falls_linearly_and_stays() -> None:
    assert [FALLING.epsilon_at(steps) for steps in (0, 50, 100, 10**9)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert FALLING.replace(epsilon_steps=0).epsilon_at(0) == 0.1


def test_shares_of_random_and_greedy_actions() -> None:
    q = torch.zeros(20_000, 4)
    q[:, 2] = 1.0
    actions = epsilon_greedy(q, 0.4, torch.Generator().manual_seed(0))
    shares = np.bincount(actions, minlength=4) / len(actions)
    assert shares.tolist() == pytest.approx([0.1, 0.1, 0.7, 0.1], abs=0.01)


def test_greedy_actions_are_not_computed_if_all_are_random() -> None:
    explore(lambda: pytest.fail("asked"), 8, 4, 1.0, torch.Generator().manual_seed(0))


def test_epsilon_does_not_change_how_much_is_drawn() -> None:
    left = []
    for epsilon in (0.0, 1.0):
        source = torch.Generator().manual_seed(0)
        explore(lambda: torch.zeros(8, dtype=torch.int64), 8, 4, epsilon, source)
        left.append(source.get_state())
    assert torch.equal(*left)


SPEC = EnvSpec(id="v", family="gymnasium", frame_shape=(3,), dtype="float32", n_actions=6)


def network(seed: int = 0) -> QNetwork:
    return build_network(SPEC, AgentConfig.of("classic", hidden=(16,)), torch.Generator().manual_seed(seed))


def observations_of(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((40, 3)).astype(np.float32)


@pytest.mark.parametrize("lag", [False, True])
def test_actions_are_the_best_of_the_network(lag: bool) -> None:
    learning = network()
    actor = Actor(learning, SPEC, n_envs=40, lag=lag, precision="float32")
    for seed in (0, 1):
        seen = observations_of(seed)
        assert torch.equal(actor(seen), learning(torch.from_numpy(seen)).argmax(-1))


@pytest.mark.parametrize("lag", [False, True])
def test_a_lagging_actor_keeps_its_weights_until_it_follows(lag: bool) -> None:
    learning = network()
    actor = Actor(learning, SPEC, n_envs=40, lag=lag, precision="float32")
    learning.load_state_dict(network(1).state_dict())
    old, new = (network(seed)(torch.from_numpy(observations_of())).argmax(-1) for seed in (0, 1))
    assert not torch.equal(old, new)
    assert torch.equal(actor(observations_of()), old if lag else new)
    actor.follow(learning)
    assert torch.equal(actor(observations_of()), new)
