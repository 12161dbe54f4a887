"""The content of config.json and result.json of a training: settings and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from svrl.agents.config import default_precision
from svrl.agents.networks import layers_of
from svrl.runtime import run_directory as files
from svrl.runtime.files import finite
from svrl.runtime.rows import last_rows, read_rows

if TYPE_CHECKING:
    from svrl.agents.config import AgentConfig
    from svrl.training.session import TrainingSession

INTERVAL = "95%, percentile bootstrap over games"


def settings_of(
    env: str, config: AgentConfig, *, seed: int, device: str, threads: int, precision: str | None
) -> dict[str, Any]:
    """The content of config.json without the versions.

    Args:
        env: Name of the environment.
        config: All settings of the agent.
        seed: Seed of all random numbers.
        device: cpu, cuda or cuda:N.
        threads: CPU threads of torch; their number may change the last digits.
        precision: float32, tf32 or bf16; None uses the device's default.
    """
    precision = precision or default_precision(device)
    own = {"env": env, "seed": seed, "device": device, "threads": threads, "precision": precision}
    return {**own, **config.as_json()}


def result_of(session: TrainingSession) -> dict[str, Any]:
    """The content of result.json; each value that is None comes with a reason."""
    training, asked = session.training, session.run.config
    scores = training.recent_scores
    steps_here = training.steps - session.began_at
    rows = len(read_rows(session.run.path / files.EPISODES))
    return finite(
        {
            "run": str(session.run.path),
            "env": training.env,
            "agent": training.config.agent,
            "structured": training.config.structured,
            "arm": training.config.arm,
            "preset": training.config.preset,
            "layers": layers_of(training.network),
            "parameters": sum(parameter.numel() for parameter in training.network.parameters()),
            "seed": training.seed,
            "device": asked["device"],
            "threads": asked["threads"],
            "precision": asked["precision"],
            "steps": training.steps,
            "stopped_early": session.stopped and training.steps < training.config.steps,
            "updates": training.updates,
            "episodes": training.episodes,
            **({} if rows == training.episodes else {"episodes_reason": f"{rows:,} of them are in {files.EPISODES}"}),
            **_or_reason("score_last_100", _mean(scores), "no game has ended"),
            "score_episodes": len(scores),
            **_or_reason(
                "steps_per_second",
                steps_here / session.seconds if steps_here > 0 else None,
                "no step was taken since the run was resumed",
            ),
            **_evaluation(session),
            **(_or_reason("best", session.best, "no score was finite") if session.habits.keep_best else {}),
            **_q_star(session),
        }
    )


def evaluation_of(env: str, scores: Sequence[float], lengths: Sequence[int]) -> dict[str, Any]:
    """Mean and interval of the scores of games, and the human-normalised mean."""
    from svrl.agents.evaluation import Games, human_normalised_mean

    games = Games(scores=tuple(scores), lengths=tuple(lengths))
    low, high = games.interval()
    human = human_normalised_mean(env, games.scores)
    return finite(
        {
            "episodes": len(games.scores),
            "mean": games.mean,
            "ci_low": low,
            "ci_high": high,
            "interval": INTERVAL,
            **_or_reason("human_normalised", human, "human scores are known for Atari only"),
            "scores": list(games.scores),
        }
    )


def _evaluation(session: TrainingSession) -> dict[str, Any]:
    rows = last_rows(session.run.path / files.EVALUATIONS, 1)
    if not rows:
        return {"evaluation": None, "evaluation_reason": "nothing was evaluated"}
    row = rows[0]
    if None in row["scores"]:
        return {"evaluation": None, "evaluation_reason": "a score was not finite"}
    found = evaluation_of(session.training.env, row["scores"], row["lengths"])
    return {"evaluation": {"steps": row["steps"], "epsilon": session.training.config.eval_epsilon, **found}}


def _q_star(session: TrainingSession) -> dict[str, Any]:
    if session.q_star is None:
        return {}
    last = session.q_star.last
    return _or_reason("q_star_error", None if last is None else finite(last), session.q_star.reason)


def _mean(scores: Sequence[float]) -> float | None:
    return sum(scores) / len(scores) if scores else None


def _or_reason(name: str, value: Any, reason: str) -> dict[str, Any]:
    return {name: value} if value is not None else {name: None, f"{name}_reason": reason}
