"""A sweep on a Ray cluster: a task a run, on whatever node has room, and again on another if that one is lost.

Ray only says where a run goes. What is done, and how far it is, stands in the store, which every node must reach: a
shared folder, or an address such as s3://bucket/prefix. So a run whose worker or node is lost goes on from its last
checkpoint elsewhere; the lock of its folder keeps a second process away for as long as the first one lives.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from svrl.runs.stop_signals import Signals
from svrl.sweeps.driver import LOOK_EVERY, TO_DO, Driver, LostProcess
from svrl.sweeps.engine import Effort, Listener, Summary
from svrl.sweeps.one_run import OTHER_CODE, job_of
from svrl.sweeps.outcome import BUSY, DONE, STOPPED, STORE_BROKEN, Ended, reason_in
from svrl.sweeps.ray_connection import check_ray, connected, first_sentence
from svrl.sweeps.ray_task import carry_out, listed, options_of, room_on
from svrl.sweeps.run_spec import RunSpec
from svrl.sweeps.states import State, failure_of
from svrl.sweeps.store import open_store
from svrl.sweeps.sweep_file import Resources
from svrl.sweeps.work import Terms, next_attempt
from svrl.training.card import is_card

NODES_EVERY = 5.0
"""Seconds between two looks at the nodes of the cluster."""
BEGAN_EVERY = 2.0
"""Seconds between two looks at which tasks have begun; Ray does not tell."""
OLDEST = 20
"""Tasks that are looked at then: those that Ray was given first begin first."""
IN_QUEUE = 4
"""Tasks that wait in Ray beyond twice what has room, so that a node that frees up has work at once."""


@dataclass(kw_only=True)
class _Task:
    """A run that Ray was given.

    Attributes:
        spec: The run.
        attempts: The number that its next one had when Ray was given it.
        begun: Whether the listener knows that it has.
        host: The machine that it has begun on; empty before that.
    """

    spec: RunSpec
    attempts: int
    begun: bool = False
    host: str = ""


def run_on_ray(
    specs: Sequence[RunSpec],
    address: str,
    *,
    cluster: str | None = None,
    resources: Resources | None = None,
    effort: Effort | None = None,
    listener: Listener | None = None,
    signals: Signals | None = None,
) -> Summary:
    """Work on all runs that are neither done nor failed, and return when nothing is left or a signal came.

    Args:
        specs: The runs.
        address: Of the store; a folder must be the same one on every node.
        cluster: Of Ray, as in host:6379. By default RAY_ADDRESS, then a cluster on this machine, then a new one that
            ends with this process.
        resources: What one run takes.
        effort: How they are worked on; `jobs` is the most tasks at a time.
        listener: Is told how it goes.
        signals: Those that somebody holds back already; by default they are held back here.

    Raises:
        ValueError: If Ray is missing, has an untested version, or no cluster answers.
        OSError: If the store cannot be written to before anything has begun.
        KeyboardInterrupt: At a second Ctrl-C; runs that had no time to save go on from their last checkpoints.
    """
    check_ray()
    store = open_store(address if "://" in address else Path(address).resolve())
    for spec in specs:
        store.add(spec)
    with ExitStack() as held:
        signals = signals or held.enter_context(Signals().held_back())
        engine = _Engine(store, signals, resources=resources, effort=effort, listener=listener)
        if engine.sort_out(specs):
            engine.prepare(held.enter_context(connected(cluster)))
            engine.work()
    return engine.summary(specs)


class _Engine(Driver):
    """Who has which run: `_waiting` nobody, `_tasks` Ray, `_elsewhere` a process that Ray does not know (any more)."""

    def prepare(self, ray: Any) -> None:
        """Work with Ray: the library, connected."""
        self._ray = ray
        self._tasks: dict[Any, _Task] = {}
        self._lost: dict[str, str] = {}
        self._gone: set[str] = set()
        # By whether runs are on a card.
        self._warned: set[bool] = set()
        self._room: Counter[bool] = Counter()
        self._nodes_seen = self._began_seen = float("-inf")
        # Ray begins nothing again by itself: what was lost is looked up in the store first.
        self._carry_out = ray.remote(max_retries=0)(carry_out)

    def _is_at_work(self) -> bool:
        return bool(self._tasks)

    def _begin(self) -> None:
        self._look_at_nodes()
        self._hand_over()

    def _wait_for_ends(self) -> None:
        self._look_at_nodes()
        if self._tasks:
            ended, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=LOOK_EVERY)
        else:
            time.sleep(LOOK_EVERY)
            ended = []
        self._tell_of_those_that_began()
        for reference in ended:
            self._end(reference)

    def _tell_all_to_stop(self) -> None:
        """Tasks that have not begun go; those that have save, and end."""
        for reference in self._tasks:
            self._ray.cancel(reference, force=False)

    def _take_back(self, spec: RunSpec, state: State) -> None:
        if state == "running":
            return
        reason = self._lost.pop(spec.id, None)
        if reason is not None and state in TO_DO:
            self._go_on_after_loss(spec, reason)
        elif reason is not None and state == "failed":  # its process had still written that down
            row = failure_of(self.store.attempts(spec.id))
            self.listener.ends(spec, "failed", str(row["reason"]) if row else reason)
        else:
            super()._take_back(spec, state)

    def _look_at_nodes(self) -> None:
        now = time.monotonic()
        if now - self._nodes_seen < NODES_EVERY:
            return
        self._nodes_seen = now
        found = self._ray.nodes()
        alive = {node["NodeManagerHostname"] for node in found if node["Alive"]}
        self._leave_machines({node["NodeManagerHostname"] for node in found} - alive)
        nodes = [node["Resources"] for node in found if node["Alive"]]
        for on_a_card, spec in {is_card(spec.device): spec for spec in self._waiting}.items():
            asked = options_of(spec, self.resources)
            self._room[on_a_card] = sum(room_on(asked, node) for node in nodes)
            if self._room[on_a_card] == 0 and on_a_card not in self._warned:
                self._warned.add(on_a_card)
                self.listener.notes(
                    f"Note: none of the {len(nodes)} nodes has room for a run, which takes {listed(asked)}. "
                    "Runs wait for a node that has, or change [resources]."
                )

    def _leave_machines(self, gone: set[str]) -> None:
        """Wait no longer for tasks on machines that are gone.

        Nothing comes back from one without power or network, and over such a connection Ray itself waits for minutes.
        """
        newly, self._gone = gone - self._gone, gone
        for reference, task in list(self._tasks.items()):
            if task.host in gone:
                del self._tasks[reference]
                self._lose(task.spec, f"Its machine, {task.host}, was lost.")
            elif newly and not task.begun:  # it may have been on its way there; the lock keeps a second one away
                del self._tasks[reference]
                self._ray.cancel(reference, force=False)
                self._leave_to_others(task.spec)

    def _lose(self, spec: RunSpec, reason: str) -> None:
        """Its process may go on, and save or even finish; so the store is asked what became of it."""
        self._lost[spec.id] = reason
        self._elsewhere[spec.id] = (float("-inf"), spec)

    def _who_did(self, spec: RunSpec) -> str:
        return "" if self._lost.pop(spec.id, None) else super()._who_did(spec)

    def _hand_over(self) -> None:
        given = Counter(is_card(task.spec.device) for task in self._tasks.values())
        for spec in list(self._waiting):
            on_a_card = is_card(spec.device)
            if self.effort.jobs is not None and given.total() >= self.effort.jobs:
                return
            if given[on_a_card] >= 2 * self._room[on_a_card] + IN_QUEUE:
                continue
            given[on_a_card] += 1
            self._waiting.remove(spec)
            terms = Terms(threads=self.resources.cores, checkpoint_every=self.effort.checkpoint_every)
            job = job_of(self.store.address, self.store.code, spec.id, terms)
            task = self._carry_out.options(name=spec.label, **options_of(spec, self.resources))
            attempts = next_attempt(self.store.attempts(spec.id))
            reference = task.remote(job, memory_gb=self.resources.memory_gb, on_a_card=on_a_card)
            self._tasks[reference] = _Task(spec=spec, attempts=attempts)

    def _tell_of_those_that_began(self) -> None:
        now = time.monotonic()
        if now - self._began_seen < BEGAN_EVERY:
            return
        self._began_seen = now
        for task in [task for task in self._tasks.values() if not task.begun][:OLDEST]:
            attempts = self.store.attempts(task.spec.id)
            if next_attempt(attempts) > task.attempts:
                task.begun = True
                task.host = next(str(row["host"]) for row in reversed(attempts) if "began" in row)
                self.listener.begins(task.spec)

    def _end(self, reference: Any) -> None:
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        task = self._tasks.pop(reference)
        spec = task.spec
        try:
            report = self._ray.get(reference)
        except TaskCancelledError:
            return  # it had not begun
        except RayTaskError as error:
            self.broken = (
                f"A node could not begin a run: {_last_line(error)}. Install the same version of svrl on every machine "
                "of the cluster."
            )
            return
        except RayError as error:
            self._lose(spec, f"Its Ray worker or its node was lost: {first_sentence(error)}")
            return
        ended, reason = self._ending(spec, report)
        if ended is not None:
            if not task.begun and ended != "stopped":
                self.listener.begins(spec)
            self.listener.ends(spec, ended, reason)

    def _ending(self, spec: RunSpec, report: dict[str, Any]) -> tuple[Ended | None, str]:
        """What became of a run whose process ended; None if somebody else has it."""
        code = int(report["code"])
        if self.store.result(spec.id) is not None:
            return "done", ""
        if code == BUSY:
            self._leave_to_others(spec)
            return None, ""
        attempts = self.store.attempts(spec.id)
        last = attempts[-1] if attempts else {}
        if code in (OTHER_CODE, STORE_BROKEN):
            told = str(last.get("reason", "")) if code == STORE_BROKEN else ""
            self.broken = (
                told or reason_in(report["said"].splitlines()) or f"{self.store.address} cannot be written to."
            )
            return "stopped", self.broken
        if "outcome" in last and code >= 0:
            return last["outcome"], str(last["reason"])
        if code in (DONE, STOPPED) or (self._told and code < 0):
            return "stopped", ""
        return self._without_an_end(spec, report, int(last.get("attempt", 0)))

    def _without_an_end(self, spec: RunSpec, report: dict[str, Any], attempt: int) -> tuple[Ended, str]:
        """A process that could not write down how it ended."""
        code = int(report["code"])
        said = reason_in(report["said"].splitlines()) or "nothing"
        reason = f"The process on {report['host']} ended with code {code} before the run began, and said: {said}"
        lost = LostProcess(
            code=code,
            seconds=report["seconds"],
            peak_gb=float(report["peak_gb"]),
            too_large=report["too_large"],
        )
        return self._go_on_after(lost, spec, attempt, ("failed", reason))

    def _go_on_after_loss(self, spec: RunSpec, reason: str) -> None:
        """A run whose worker or node is gone, and whose process is too: it saved, or it had no time to."""
        attempts = self.store.attempts(spec.id)
        last = attempts[-1] if attempts else {}
        ended: Ended = "stopped"
        if "began" in last:
            seconds = (datetime.now(UTC) - datetime.fromisoformat(last["began"])).total_seconds()
            ended, _ = self._write_down(spec, int(last["attempt"]), "killed", reason, seconds=seconds, peak_gb=0.0)
        self.listener.ends(spec, ended, reason)
        if ended != "failed" and self._may_begin_again(spec, "lost its worker"):
            self._waiting.appendleft(spec)


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].rstrip(".")
