"""What the agents of all libraries share: the argument `structure`, the values that a library is given, the count.

An integration replaces the values of next states that a library's own code asks for, and the library forms its targets
from them. `structure` is a `StructuredTargets`, a probability p, or None for the library's own agent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from svrl.agents.structured_targets import OUR_WAY, StructuredTargets
from svrl.agents.targets import chooser_and_valuer, completes_online, only_valid
from svrl.integrations.pytorch import structured, structured_quantiles
from svrl.integrations.versions import changed


def rule_of(structure: Any, *, usual: StructuredTargets = OUR_WAY) -> StructuredTargets | None:
    """What an integration's argument `structure` asks for.

    Args:
        structure: A rule, a probability p, or None for the plain agent.
        usual: Whose other settings a probability takes.

    Raises:
        ValueError: If it is something else.
    """
    if structure is None or isinstance(structure, StructuredTargets):
        return structure
    if isinstance(structure, bool) or not isinstance(structure, float | int):
        raise ValueError(
            f"structure is a StructuredTargets, a probability or None for the plain agent, got {structure!r}."
        )
    return dataclasses.replace(usual, p=structure)


def checked_every(updates: Any) -> int:
    """The setting `rank_every`, if it is one.

    Raises:
        ValueError: If not.
    """
    if isinstance(updates, bool) or not isinstance(updates, int) or updates < 1:
        raise ValueError(f"rank_every is a number of updates of 1 or more, got {updates!r}.")
    return updates


def values_to_maximise(
    target_q: Tensor,
    *,
    online_q: Tensor | None = None,
    rule: StructuredTargets | None,
    seed: int,
    updates: int | Tensor,
    action_mask: Tensor | None = None,
) -> Tensor:
    """What an agent that takes the maximum is given, so that it finds what `structured_values` would say.

    Args:
        target_q: The target network's values at the next states (B, A), or quantiles (B, N, A), whose means choose.
        online_q: The online network's, of the same shape: then the agent is double.
        rule: None for a plain agent.
        seed: For the masks.
        updates: Made before.
        action_mask: (B, A), bool: the valid actions; None if all are.

    Returns:
        Of the shape of `target_q`: the completed matrix, with -inf for invalid actions; or, where another one chooses,
        the value of the chosen action, and -inf for the others.
    """
    completed, value = None, "network" if rule is None else rule.next_value_from
    if rule is not None:
        matrix = online_q if online_q is not None and completes_online(True, value) else target_q
        complete = structured if matrix.ndim == 2 or value == "network" else structured_quantiles
        matrix = means(matrix) if value == "network" else matrix
        completed = complete(matrix, seed=seed, updates=updates, rule=rule, action_mask=action_mask)
    chooser, valuer = chooser_and_valuer(
        target_q.detach(), online_q=online_q, completed=completed, next_value_from=value
    )
    if chooser is valuer:
        each = action_mask.unsqueeze(1) if action_mask is not None and valuer.ndim == 3 else action_mask
        return only_valid(valuer, each)
    choice = (
        only_valid(means(chooser), action_mask)
        .argmax(-1)
        .view(-1, *[1] * (valuer.ndim - 1))
        .expand(*valuer.shape[:-1], 1)
    )
    return torch.full_like(valuer, -torch.inf).scatter(-1, choice, valuer.gather(-1, choice))


def means(q: Tensor) -> Tensor:
    """(B, A), of values (B, A) or quantiles (B, N, A)."""
    return q.mean(1) if q.ndim == 3 else q


def valid_actions(q: Tensor) -> Tensor:
    """bool, of q's shape: False where a library marks an action as invalid, by -inf or (nearly) the smallest float."""
    return ~(q <= 0.999 * torch.finfo(q.dtype).min)


class StructuredModule:
    """Mixed into a library's torch module: its structure, and the number of updates, which `state_dict` holds.

    Attributes:
        structure_seed: For the masks.
        structure_updates: Made so far, a 0-d int64 tensor; there is none before the first structure.
    """

    structure_seed: int
    structure_updates: Tensor
    _rule: StructuredTargets | None = None
    _completions = 0

    @property
    def structure(self) -> StructuredTargets | None:
        """What is done to the values of next states; None does nothing. A probability p can be assigned, too."""
        return self._rule

    @structure.setter
    def structure(self, structure: StructuredTargets | float | None) -> None:
        rule = rule_of(structure)
        self._check(rule)
        if rule is not None and not hasattr(self, "structure_updates"):
            module: Any = self
            device = next((value.device for value in module.parameters()), None)
            module.register_buffer("structure_updates", torch.zeros((), dtype=torch.int64, device=device))
        self._rule = rule

    def _check(self, rule: StructuredTargets | None) -> None:
        """Raise ValueError if there can be no such structure."""

    def _completed(self, complete: Callable[..., Tensor], values: Tensor, **more: Tensor | None) -> Tensor:
        """What `structured` and its like make of values; once for each update."""
        self._completions += 1
        return complete(values, rule=self._rule, seed=self.structure_seed, updates=self.structure_updates, **more)

    def _end_update(self, package: str, *, counts: bool = True) -> None:
        """Count an update.

        Raises:
            RuntimeError: If it did not complete one matrix.
        """
        made, self._completions = self._completions, 0
        if made != 1:
            raise changed(package, f"{type(self).__name__} made an update with {made} completed matrices in place of 1")
        if counts:
            self.structure_updates.add_(1)
