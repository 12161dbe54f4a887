"""Structure for your own training loop: pure functions of the target network's values.

    values = target(next_states)                                 (B, A)
    values = structured(values, 0.9, seed=0, updates=update)     the one line
    targets = rewards + gamma * continues * values.max(-1).values

Masks are drawn by counting: an entry's number, the number of updates and a seed are mixed to 64 bits (the finaliser of
splitmix64, Steele, Lea and Flood 2014), and an entry is observed if those bits, as a number in [0, 1), are below p. So
nothing but the count of updates has to be kept, a run that was saved and loaded draws what it would have drawn, and
CPU and CUDA draw the same.

Estimation is the custom operator `svrl::complete`: torch.compile traces through it without a break, and on a GPU
Soft-Impute is one launch, which a CUDA graph records. Targets are constants: no gradient comes back.

What is completed:

| what the network gives                | call                                    | completed                          |
|---------------------------------------|-----------------------------------------|------------------------------------|
| values (B, A)                         | `structured(q, updates=n)`              | the matrix                         |
| values of K batches (K, B, A)         | `structured(q, updates=n)`              | each of the K matrices             |
| quantiles or samples (B, N, A)        | `structured_quantiles(z, updates=n)`    | their means (B, A); all N of an    |
|                                       |                                         | action are moved by what its mean  |
|                                       |                                         | moved, so the shape stays          |
| probabilities of atoms (C51)          | `structured(expected values, ...)`      | the expected values choose; the    |
|                                       |                                         | distribution of the choice stays   |

An n-step agent completes the values at the n-th next states; only its rewards and discount differ.

Where not every action is valid in every state, give `action_mask`: an invalid action is an entry that is never observed
and never chosen.

    values = structured(values, 0.9, updates=update, action_mask=valid)
    targets = rewards + gamma * continues * values.masked_fill(~valid, -torch.inf).max(-1).values
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from svrl.agents.config import Value
from svrl.agents.structured_targets import OUR_WAY, StructuredTargets, check_values
from svrl.agents.targets import completes_online, next_values

_FIRST = -4658895280553007687  # 0xBF58476D1CE4E5B9 as a signed number; multiplication wraps
_SECOND = -7723592293110705685  # 0x94D049BB133111EB
_BITS = 24  # what a float32 holds exactly
_RULES: dict[str, StructuredTargets] = {}
"""By name: an operator takes tensors, numbers and text, so that is how a rule comes in. Equal rules share a name."""
_NAMES: dict[object, str] = {}


@torch.library.custom_op("svrl::complete", mutates_args=())
def _complete(q: Tensor, mask: Tensor, rule: str, action_mask: Tensor | None = None) -> Tensor:
    if rule not in _RULES:
        raise ValueError(
            "This program was exported with structure that lives in another process. Export it here again."
        )
    return _RULES[rule].complete(q, mask, action_mask).matrix


@_complete.register_fake
def _(q: Tensor, mask: Tensor, rule: str, action_mask: Tensor | None = None) -> Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)


def structured(
    q: Tensor,
    rule: StructuredTargets | float = OUR_WAY,
    *,
    seed: int = 0,
    updates: int | Tensor | None = None,
    mask: Tensor | None = None,
    action_mask: Tensor | None = None,
) -> Tensor:
    """Sub-sample and complete values: all of SV-RL, as a pure function.

    Args:
        q: (B, A), or (K, B, A) for K updates in a row; not changed. A matrix that is not finite at a valid action
            comes back as it is.
        rule: A `StructuredTargets`, or the probability alone that an entry is observed.
        seed: For the masks.
        updates: Made before: another number draws another mask. As a 0-d int64 tensor on q's device it can change
            under a compiler or in a graph. It may be left out only where nothing is drawn.
        mask: bool, q's shape: what is observed, instead of drawing it.
        action_mask: bool, q's shape: the valid actions; None if all are. The values of the others have no influence
            and come back as they are, so mask them again before you take a maximum.

    Returns:
        Of q's shape and type, without a gradient. With p = 1 and output "fill" it is q, bit for bit.

    Raises:
        ValueError: If q is no matrix of numbers, or a setting is wrong.
    """
    check_values(q)
    name, p, rise, _ = _wanted(rule)
    q = q.detach()
    for given in (mask, action_mask):
        if given is not None and (given.shape != q.shape or given.dtype != torch.bool):
            raise ValueError(
                f"A mask is bool and has the shape of the values, {tuple(q.shape)}; got {given.dtype} of shape "
                f"{tuple(given.shape)}."
            )
    if mask is None:
        mask = _draw(q, p, rise, seed, updates)
    return _complete(q, mask, name, action_mask)


def structured_values(
    target_q: Tensor,
    rule: StructuredTargets | float = OUR_WAY,
    *,
    online_q: Tensor | None = None,
    seed: int = 0,
    updates: int | Tensor | None = None,
    action_mask: Tensor | None = None,
) -> Tensor:
    """What the next states are worth, (..., B), for DQN or double DQN and both ways to value the choice.

    Args:
        target_q: Values of the target network at the next states, (B, A) or (K, B, A).
        rule: As in `structured`; here `next_value_from` counts, too: "completed" takes a value from the completed
            matrix, "network" lets it choose only and takes the value from the target network.
        online_q: Values of the online network there: then the agent is double.
        seed: As in `structured`.
        updates: As in `structured`.
        action_mask: bool, of their shape: the valid actions of the next states; None if all are. No other is chosen.
            A terminal state may have none: its value is finite and means nothing.
    """
    if online_q is not None and online_q.shape != target_q.shape:
        raise ValueError(
            f"Both networks value the same states and actions; got {tuple(target_q.shape)} of the target network and "
            f"{tuple(online_q.shape)} of the online one."
        )
    value = (rule if isinstance(rule, StructuredTargets) else OUR_WAY).next_value_from
    matrix = online_q if online_q is not None and completes_online(True, value) else target_q
    completed = structured(matrix, rule, seed=seed, updates=updates, action_mask=action_mask)
    kind: Literal["double", "dqn"] = "dqn" if online_q is None else "double"
    return next_values(
        kind,
        target_q.detach(),
        online_q=online_q,
        completed=completed,
        next_value_from=value,
        action_mask=action_mask,
    )


def structured_quantiles(
    z: Tensor,
    rule: StructuredTargets | float = OUR_WAY,
    *,
    seed: int = 0,
    updates: int | Tensor | None = None,
    action_mask: Tensor | None = None,
) -> Tensor:
    """Quantiles moved by what structure does to their means.

    Args:
        z: (B, N, A): N quantiles, or samples, of the return of each action.
        rule: As in `structured`.
        seed: As in `structured`.
        updates: As in `structured`.
        action_mask: (B, A), bool, as in `structured`.

    Returns:
        (B, N, A). An entry whose mean was kept is kept, bit for bit.
    """
    if not isinstance(z, Tensor) or z.ndim != 3:
        got = tuple(z.shape) if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(f"Quantiles are a tensor (B, N, A), got {got}. For values (B, A) there is structured().")
    z = z.detach()
    mean = z.mean(1)
    whole = structured(mean, rule, seed=seed, updates=updates, action_mask=action_mask)
    moved = (whole - mean).unsqueeze(1)
    # Where nothing moved nothing is added, not even a rounded zero; and nothing can move what is not finite.
    return torch.where(torch.isfinite(moved) & (moved != 0), z + moved, z)


def _wanted(rule: StructuredTargets | float) -> tuple[str, float, int, Value]:
    """The rule's name, p now, the updates over which it rises, and who values."""
    if isinstance(rule, StructuredTargets):
        return _registered(rule)
    if not isinstance(rule, float | int) or not 0.0 < rule <= 1.0:
        raise ValueError(f"A rule is a StructuredTargets, or a probability in (0, 1], got {rule!r}.")
    name, _, rise, value = _OURS
    return name, float(rule), rise, value


@torch.compiler.assume_constant_result
def _registered(rule: StructuredTargets) -> tuple[str, float, int, Value]:
    """Where the operator finds the rule, and what of it is not the operator's business."""
    # Probabilities change from call to call, so they are no part of the name.
    kept = dataclasses.replace(rule, p=1.0, rise=0, next_value_from="completed")
    try:
        hash(kept)
        key: object = kept
    except TypeError:  # an estimator of yours that cannot be hashed; it is kept below, so no other gets its id
        key = (id(kept.estimator), kept.scale, kept.output)
    name = _NAMES.setdefault(key, f"rule {len(_NAMES)}")
    _RULES.setdefault(name, kept)
    return name, float(rule.p), rule.rise, rule.next_value_from


# Compilers of torch before 2.13 cannot take a frozen record from a global variable.
_OURS = _registered(OUR_WAY)


def _draw(q: Tensor, p: float, rise: int, seed: int, updates: int | Tensor | None) -> Tensor:
    """The mask of values (B, A) or (K, B, A)."""
    if updates is None:
        if p < 1.0:
            raise ValueError(
                "The number of updates says which mask is drawn, and without it every update would have the same. "
                "Give updates=, or a mask."
            )
        updates = 0
    if isinstance(updates, float) or (isinstance(updates, Tensor) and (updates.dtype != torch.int64 or updates.ndim)):
        raise ValueError(f"The number of updates is an int, or a 0-d int64 tensor; got {updates!r}.")
    probability: float | Tensor = p
    if rise:
        steps = torch.as_tensor(updates, device=q.device)
        if q.ndim == 3:
            steps = steps + torch.arange(q.shape[0], device=q.device).view(-1, 1, 1)
        probability = torch.clamp(p + (1.0 - p) * steps / rise, max=1.0)
    return observed_entries(tuple(q.shape), probability, seed=seed, updates=updates, device=q.device)


def observed_entries(
    shape: tuple[int, ...], p: float | Tensor, *, seed: int, updates: int | Tensor, device: torch.device | str = "cpu"
) -> Tensor:
    """What is observed, bool, of matrices (..., B, A).

    Args:
        shape: Of the matrices.
        p: Probability of an entry, or a tensor of it that broadcasts to the shape.
        seed: Any whole number.
        updates: How many were made before; another number draws another mask. A tensor stays on its device.
        device: Where the mask is made.
    """
    if not isinstance(seed, int | np.integer):
        raise ValueError(f"A seed is a whole number, got {seed!r}.")
    if not isinstance(updates, Tensor):
        updates = torch.full((), updates, dtype=torch.int64, device=device)  # filled on the device: nothing waits
    # Joined by xor: a compiler takes sums and products of a counter for an index, which must not overflow.
    key = _mixed(updates ^ _seeded(int(seed)))
    bits = _mixed(torch.arange(math.prod(shape), device=device) ^ key)
    uniform = (bits & ((1 << _BITS) - 1)).to(torch.float32) * 2.0**-_BITS
    return uniform.view(shape) < p


def _seeded(seed: int) -> int:
    """A seed as a signed number of 64 bits, mixed a little, so that neighbouring seeds are not neighbouring updates."""
    mixed = (seed * 0xD1342543DE82EF95 + 0x2545F4914F6CDD1D) % 2**64
    return mixed - 2**64 if mixed >= 2**63 else mixed


def _mixed(x: Tensor) -> Tensor:
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, by: int) -> Tensor:
    """The bits moved right, zeros moved in: `>>` alone repeats the sign."""
    return (x >> by) & ((1 << (64 - by)) - 1)
