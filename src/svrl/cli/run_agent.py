"""The agent of a run, as `svrl eval`, `watch` and `rank` ask for it.

A run on "package:Name-v0" names a package that would be imported. Nothing is imported because a file says so:
the user has to name the environment, and it must look like the one that the agent was trained on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from svrl.cli.answers import BadInputError
from svrl.cli.flags import flag
from svrl.cli.progress import Bars
from svrl.runtime.run_directory import AGENT, CONFIG

if TYPE_CHECKING:
    from svrl.agents.agent import Agent

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, finished or not.")]
EnvAgain = Annotated[
    str | None,
    typer.Option(
        "--env", metavar="NAME", help="The run's environment again, where it is package:Name-v0: imports the package."
    ),
]
Epsilon = Annotated[float | None, typer.Option(help="Probability of a random action (default: the run's own).")]
MOST_NAMED = 3
"""Runs that are named when their parent folder was given."""


def check_numbers(epsilon: float | None = None, **counts: int | None) -> None:
    """Refuse a number of games, steps or states below 1, and an epsilon that is no probability."""
    for name, value in counts.items():
        if value is not None and value < 1:
            raise BadInputError(f"{flag(name)} must be at least 1, got {value}.")
    if epsilon is not None and not 0.0 <= epsilon <= 1.0:
        raise BadInputError(f"--epsilon is a probability in [0, 1], got {epsilon}.")


def check_run(run: Path) -> None:
    """Refuse what is not the folder of a run, with a sentence that says what it is instead."""
    if not run.exists():
        raise BadInputError(f"{run} does not exist. Give the folder of a run; svrl runs lists them.")
    if not run.is_dir():
        raise BadInputError(f"{run} is a file. Give the folder of a run.")
    if (run / AGENT).exists() or (run / CONFIG).exists():
        return
    inside = sorted(file.parent.name for file in run.glob(f"*/{CONFIG}"))
    if inside:
        more = ", ..." if len(inside) > MOST_NAMED else ""
        raise BadInputError(f"{run} holds runs: {', '.join(inside[:MOST_NAMED])}{more}. Give one of them.")


def agent_of(run: Path, device: str = "cpu", env: str | None = None) -> Agent:
    """The agent of a run.

    Args:
        run: The folder.
        device: Where to put the network.
        env: The environment as the user named it, or None for the run's own.

    Raises:
        BadInputError: If the run's own would import a package; the sentence names --env.
        ValueError: If there is no agent, or it does not fit the environment.
    """
    from svrl.agents.agent import load_agent

    check_run(run)
    try:
        agent = load_agent(run, device, source=env)
    except ValueError as error:
        if "would import" not in str(error):
            raise
        # A name that a shell could take for more than a name is not offered for repeating.
        named = re.search(r"'([\w./:-]+)'", str(error))
        raise BadInputError(f"{error} Or repeat it: --env {named[1] if named else 'NAME'}") from error
    if env is not None:
        _refuse_another(agent, env, f"--env {env}")
    elif (run / AGENT).exists():
        try:
            _refuse_another(agent, agent.env, f"its environment, {agent.env}")
        except (ValueError, BadInputError) as error:
            raise BadInputError(f"{run / AGENT}: {error}") from error
    return agent


@contextmanager
def working_with(
    run: Path, device: str = "cpu", env: str | None = None
) -> Iterator[tuple[Agent, Callable[[str], None]]]:
    """The agent of a run, and what shows a person how the work with it goes; see `agent_of`."""
    with Bars() as bars:
        update = bars.stage(str(run))
        yield agent_of(run, device, env), lambda text: update(0, text)


def _refuse_another(agent: Agent, env: str, called: str) -> None:
    from svrl.envs.make import describe_env

    spec = describe_env(env, agent.config.actions)
    seen, wanted = ((each.observation_shape, each.dtype, each.n_actions) for each in (spec, agent.spec))
    if seen != wanted:
        raise BadInputError(
            f"The agent does not fit {called}: it was trained on observations {wanted[0]} ({wanted[1]}) and "
            f"{wanted[2]} actions, got {seen[0]} ({seen[1]}) and {seen[2]}. Name the environment of the run."
        )
