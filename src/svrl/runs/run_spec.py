"""One run of a sweep: what was asked for, and everything that follows from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from svrl.agents.config import AgentConfig

Kind = Literal["train", "plan"]

SUBJECT: dict[str, str] = {"train": "env", "plan": "task"}
"""The setting that is the command's argument."""
_BESIDE_THE_AGENT = ("env", "seed", "device", "precision")
_NOT_IN_LABEL = ("env", "task", "agent", "structured", "method", "seed", "preset", "device", "precision", "threads")


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One run.

    Attributes:
        kind: The command, train or plan.
        settings: What the sweep says about it: its subject, its seed and the options that were given.
        full: Everything that decides its result, presets written out. Its hash is the run's identity.
        steps: Agent steps of a training, most iterations of a plan; None if only the method knows.
    """

    kind: Kind
    settings: Mapping[str, Any]
    full: Mapping[str, Any]
    steps: int | None = None

    @property
    def id(self) -> str:
        """The hash of the full configuration, 16 hexadecimal digits: equal runs have one, whoever asks for them."""
        text = json.dumps({"kind": self.kind, **self.full}, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def subject(self) -> str:
        """The environment or the task."""
        return str(self.settings[SUBJECT[self.kind]])

    @property
    def arm(self) -> str:
        """What is compared: dqn, sv-dqn, ..., or the method of a plan."""
        if self.kind == "plan":
            return str(self.full["method"])
        return f"sv-{self.full['agent']}" if self.full["structured"] else str(self.full["agent"])

    @property
    def seed(self) -> int:
        """Of everything random."""
        return int(self.full["seed"])

    @property
    def device(self) -> str:
        """cpu, cuda or cuda:N."""
        return str(self.settings.get("device", "cpu"))

    @property
    def label(self) -> str:
        """What to call it, as in "atari/pong sv-dqn batch_size=64 seed 0"."""
        more = [f"{name}={_shown(value)}" for name, value in self.settings.items() if name not in _NOT_IN_LABEL]
        return " ".join([self.subject, self.arm, *more, f"seed {self.seed}"])

    def agent_config(self) -> AgentConfig:
        """All settings of a training's agent."""
        from svrl.agents.config import AgentConfig

        fields = {name: value for name, value in self.full.items() if name not in _BESIDE_THE_AGENT}
        preset = self.settings.get("preset", AgentConfig.for_env(self.subject).preset)
        return AgentConfig.from_json({"preset": preset, **fields})

    def as_json(self) -> dict[str, Any]:
        """For spec.json."""
        return {
            "id": self.id,
            "kind": self.kind,
            "label": self.label,
            "arm": self.arm,
            "settings": dict(self.settings),
            "full": dict(self.full),
            "steps": self.steps,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> RunSpec:
        """Back from `as_json`."""
        return cls(kind=fields["kind"], settings=fields["settings"], full=fields["full"], steps=fields["steps"])


def _shown(value: Any) -> str:
    return "x".join(str(part) for part in value) if isinstance(value, list | tuple) else str(value)
