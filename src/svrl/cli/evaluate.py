"""svrl eval: let a trained agent play, and say how well."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from svrl.cli.answers import answer, say, tell
from svrl.cli.flags import Device, Json, Seed
from svrl.cli.run_agent import Best, EnvAgain, Epsilon, NetworkAgain, RunFolder, working_with


def evaluate_run(
    run: RunFolder,
    episodes: Annotated[int, typer.Option(min=1, help="Games to play.")] = 20,
    best: Best = False,
    epsilon: Epsilon = None,
    seed: Seed = 0,
    device: Device = "cpu",
    env: EnvAgain = None,
    network: NetworkAgain = None,
    as_json: Json = False,
) -> None:
    """Let a trained agent play whole games on fresh environments.

    Scores are raw. The interval is a percentile bootstrap over the games: it is about their luck, not about that of
    training, which only several seeds can show.
    """
    from svrl.training.result import evaluation_of

    with working_with(run, device, env, network, best=best) as (agent, show):
        games = agent.evaluate(
            episodes=episodes,
            seed=seed,
            epsilon=epsilon,
            progress=lambda done, of: show(f"{done} of {of} games over"),
            say=say,
        )
    result = {
        "run": str(run),
        "env": agent.env,
        "arm": agent.config.arm,
        "steps": agent.steps,
        "seed": seed,
        "epsilon": agent.config.eval_epsilon if epsilon is None else epsilon,
        **evaluation_of(agent.env, games.scores, games.lengths),
        "lengths": list(games.lengths),
    }
    answer(result, as_json, _print)


def _print(result: dict[str, Any]) -> None:
    low, high, mean = result["ci_low"], result["ci_high"], result["mean"]
    games = "1 game" if result["episodes"] == 1 else f"{result['episodes']} games"
    tell(
        f"{result['env']}, {result['arm']} after {result['steps']:,} steps: {games}",
        f"mean score {mean:.5g}, from {low:.5g} to {high:.5g} ({result['interval']})",
    )
    if result["human_normalised"] is not None:
        tell(f"human-normalised {result['human_normalised']:.1%} (0% a random player, 100% a human)")
