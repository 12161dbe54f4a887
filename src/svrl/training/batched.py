"""Runs of many seeds at once, each with a folder of its own: what `svrl train --batched` does.

A folder holds what that of any finished run holds, but rows of training games and diagnostics: config.json (with
"batched"), evaluations.jsonl, agent.npz and result.json. The seeds of one arm are trained together and written at the
end. They take seconds to minutes, so there are no checkpoints: an arm that was interrupted is trained again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from svrl.agents.agent import Agent
from svrl.agents.batched import SeedsEvaluated, batched_task, train_seeds
from svrl.agents.events import Evaluated
from svrl.agents.networks import layers_of
from svrl.envs.control import STEP_LIMIT
from svrl.runtime import run_directory as files
from svrl.runtime.device import torch_threads
from svrl.runtime.files import finite
from svrl.runtime.provenance import commit, machine, versions
from svrl.runtime.rows import RowLog
from svrl.runtime.run_directory import RunDirectory, locked, refuse_other_settings
from svrl.runtime.stop_signals import Signals
from svrl.training.population import Member
from svrl.training.result import evaluation_of


def train_batched(
    members: Sequence[Member],
    *,
    signals: Signals | None = None,
    progress: Callable[[Sequence[Member], int], object] = lambda members, steps: None,
    say: Callable[[str], object] = lambda sentence: None,
) -> None:
    """Train runs of one environment and write their folders; those of one configuration are trained together.

    Args:
        members: The runs, all on one device. Their folders hold no runs, or unfinished ones with the same settings,
            which begin again.
        signals: The signals that the caller already holds back; by default this function holds them back.
        progress: Called with the runs at work and their agent steps.
        say: Called with warnings, a sentence each.

    Raises:
        Stopped: If Ctrl-C, SIGTERM or SIGHUP came; arms that were finished are on disk.
        ValueError: If the environment or a setting is not for batches of seeds, or if a folder is not free.
    """
    for member in members:
        batched_task(member.env, member.config)  # before anything is written
    with ExitStack() as held:
        heard = signals or held.enter_context(Signals().held_back())
        for _, arm in groupby(members, key=lambda member: member.config):
            _train_arm(list(arm), heard, progress, say)


def _train_arm(
    members: Sequence[Member],
    signals: Signals,
    progress: Callable[[Sequence[Member], int], object],
    say: Callable[[str], object],
) -> None:
    """Train the seeds of one configuration."""
    first = members[0]
    found: list[SeedsEvaluated] = []

    def watch(steps: int) -> None:
        signals.stop_if_came()
        progress(members, steps)

    with ExitStack() as held:
        held.enter_context(torch_threads(first.threads or 1))
        runs = [_begun(member, held) for member in members]
        began = time.monotonic()
        agents = train_seeds(
            first.env,
            first.config,
            seeds=[member.seed for member in members],
            device=first.device,
            precision=first.precision,
            watch=watch,
            say=say,
            evaluated=found.append,
        )
        seconds = time.monotonic() - began
        for k, (run, agent) in enumerate(zip(runs, agents, strict=True)):
            _write(run, agent, [_of_seed(each, k, agent) for each in found], seconds)


def batched_settings(member: Member) -> dict[str, Any]:
    """The settings that config.json of a run holds."""
    return {**member.settings, "batched": True}


def _begun(member: Member, held: ExitStack) -> RunDirectory:
    """Begin a run, which is removed again unless it is finished."""
    if (member.folder / files.CONFIG).exists():  # its process was killed
        refuse_other_settings(member.folder, batched_settings(member))
        RunDirectory(path=member.folder, config={}).take_back()
    how = {"begun": datetime.now(UTC).isoformat(timespec="microseconds"), "versions": versions()}
    how |= {"machine": machine(member.device), "commit": commit()}
    run = RunDirectory.begin(member.folder, {**batched_settings(member), **how})
    held.enter_context(locked(run.path))
    held.callback(_take_back_unless_finished, run)
    return run


def _take_back_unless_finished(run: RunDirectory) -> None:
    if not files.is_finished(run.path):
        run.take_back()


def _of_seed(found: SeedsEvaluated, k: int, agent: Agent) -> dict[str, Any]:
    """An evaluation of the k-th seed, as a row of evaluations.jsonl with two more numbers."""
    scores = tuple(found.scores[k].tolist())
    event = Evaluated(
        steps=found.steps,
        updates=agent.config.updates_after(found.steps),
        scores=scores,
        lengths=(STEP_LIMIT,) * len(scores),
        human_normalised=None,
    )
    returned = float(found.returns[k].mean())
    overestimation = float(found.promised[k].double().mean()) - returned
    return {**asdict(event), "mean": event.mean, "discounted_return": returned, "overestimation": overestimation}


def _write(run: RunDirectory, agent: Agent, rows: Iterable[dict[str, Any]], seconds: float) -> None:
    """Write the files of a finished run."""
    rows = list(rows)
    log = RowLog(run.path / files.EVALUATIONS, up_to=0)
    for row in rows:
        log.append(row)
    log.flush()
    log.close()
    replace(agent, network=agent.network.cpu()).save(run.path / files.AGENT)
    last, config = rows[-1], agent.config
    run.finish(
        finite(
            {
                "run": str(run.path),
                "env": agent.env,
                "agent": config.agent,
                "structured": config.structured,
                "arm": config.arm,
                "preset": config.preset,
                "layers": layers_of(agent.network),
                "parameters": sum(parameter.numel() for parameter in agent.network.parameters()),
                "seed": agent.seed,
                **{name: run.config[name] for name in ("device", "threads", "precision")},
                "batched": True,
                "steps": agent.steps,
                "updates": agent.updates,
                "episodes": agent.steps // (STEP_LIMIT * config.n_envs) * config.n_envs,
                "score_last_100": None,
                "score_last_100_reason": "batches of seeds keep no training games",
                "score_episodes": 0,
                "steps_per_second": agent.steps / seconds,
                "evaluation": {
                    "steps": last["steps"],
                    "epsilon": config.eval_epsilon,
                    **evaluation_of(agent.env, last["scores"], last["lengths"]),
                },
                "discounted_return": last["discounted_return"],
                "overestimation": last["overestimation"],
            }
        )
    )
