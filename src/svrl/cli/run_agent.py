"""The agent of a run, as `svrl eval`, `watch` and `rank` ask for it.

A run on "package:Name-v0", or with the network "module:function", names what would be imported. Nothing is imported
because a file says so: the user has to name the environment, which must look like the one of the training, and the
network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from svrl.cli.flags import here_on_path
from svrl.cli.progress import Bars
from svrl.runtime.run_directory import AGENT, BEST, CONFIG

if TYPE_CHECKING:
    from svrl.agents.agent import Agent

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, finished or not.")]
EnvAgain = Annotated[
    str | None,
    typer.Option(
        "--env", metavar="NAME", help="The run's environment again, where it is package:Name-v0: imports the package."
    ),
]
NetworkAgain = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="MODULE:FUNCTION",
        help="The run's network again, where it is your own: imports the module.",
    ),
]
Epsilon = Annotated[
    float | None, typer.Option(min=0, max=1, help="Probability of a random action (default: the run's own).")
]
Best = Annotated[
    bool, typer.Option("--best", help="Take the agent with the best evaluation, which svrl train --keep-best keeps.")
]
MOST_NAMED = 3
"""Runs that are named when their parent folder was given."""


@contextmanager
def working_with(
    run: Path, device: str = "cpu", env: str | None = None, network: str | None = None, *, best: bool = False
) -> Iterator[tuple[Agent, Callable[[str], None]]]:
    """The agent of a run, and what shows a person how the work with it goes; torch has one thread.

    Args:
        run: The folder.
        device: Where to put the network.
        env: The environment as the user named it, or None for the run's own.
        network: The user's own network by its name, or None for the run's.
        best: Take the agent with the best evaluation.

    Raises:
        ValueError: If there is no agent, if it does not fit the environment, or if what the run names would import a
            package; the sentence names --env or --network.
    """
    import torch

    _refuse_other_folders(run)
    torch.set_num_threads(1)
    with Bars() as bars:
        update = bars.stage(str(run))
        yield _agent_of(run, device, env, network, best), lambda text: update(0, text)


def _refuse_other_folders(run: Path) -> None:
    """Refuse what is not the folder of a run, with a sentence that says what it is instead."""
    if not run.exists():
        raise ValueError(f"{run} does not exist. Give the folder of a run; svrl runs lists them.")
    if not run.is_dir():
        raise ValueError(f"{run} is a file. Give the folder of a run.")
    inside = sorted(file.parent.name for file in run.glob(f"*/{CONFIG}"))
    if inside and not (run / AGENT).exists() and not (run / CONFIG).exists():
        more = " and more" if len(inside) > MOST_NAMED else ""
        raise ValueError(f"{run} holds runs: {', '.join(inside[:MOST_NAMED])}{more}. Give one of them.")


def _agent_of(run: Path, device: str, env: str | None, network: str | None, best: bool) -> Agent:
    from svrl.agents.agent import load_agent

    here_on_path(env, network)
    try:
        agent = load_agent(run, device, source=env, network=network, best=best)
    except ValueError as error:
        if "would import" not in str(error):
            raise
        # A name that a shell could take for more than a name is not offered for repeating.
        named = re.search(r"'([\w./:-]+)'", str(error))
        flag = "--network" if "network=" in str(error) else "--env"
        raise ValueError(f"{error} Or repeat it: {flag} {named[1] if named else 'NAME'}") from error
    if env is not None:
        agent.check_fits(env, f"--env {env}")
    elif (file := run / (BEST if best else AGENT)).exists():
        try:
            agent.check_fits(agent.env, f"its environment, {agent.env}")
        except ValueError as error:
            raise ValueError(f"{file}: {error}") from error
    return agent
