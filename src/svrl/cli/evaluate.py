"""svrl eval: let a trained agent play, and say how well."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from svrl.cli.answers import (
    answering,
    check_device,
    print_json,
    say,
    sentences,
    tell,
)
from svrl.cli.flags import Device, Json, Seed
from svrl.cli.run_agent import EnvAgain, Epsilon, RunFolder, check_numbers, working_with
from svrl.runtime.threads import torch_threads


def evaluate_run(
    run: RunFolder,
    episodes: Annotated[int, typer.Option(help="Games to play.")] = 20,
    epsilon: Epsilon = None,
    seed: Seed = 0,
    device: Device = "cpu",
    env: EnvAgain = None,
    as_json: Json = False,
) -> None:
    """Let a trained agent play whole games on fresh environments.

    Scores are raw. The interval is a percentile bootstrap over the games: it is about their luck, not about that of
    training, which only several seeds can show.
    """
    with answering("Stopped before the last game was over."), sentences(), torch_threads(1):
        from svrl.agents.evaluation import evaluate
        from svrl.training.result import evaluation_of

        check_numbers(epsilon, episodes=episodes)
        check_device(device)
        with working_with(run, device, env) as (agent, show):
            games = evaluate(
                agent.network,
                agent.source,
                agent.config,
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
    if as_json:
        print_json(result)
    else:
        _print(result)


def _print(result: dict[str, Any]) -> None:
    low, high, mean = result["ci_low"], result["ci_high"], result["mean"]
    games = "1 game" if result["episodes"] == 1 else f"{result['episodes']} games"
    lines = [
        f"{result['env']}, {result['arm']} after {result['steps']:,} steps: {games}",
        f"mean score {mean:.5g}, from {low:.5g} to {high:.5g} ({result['interval']})",
    ]
    if result["human_normalised"] is not None:
        lines.append(f"human-normalised {result['human_normalised']:.1%} (0% a random player, 100% a human)")
    for line in lines:
        tell(line)
