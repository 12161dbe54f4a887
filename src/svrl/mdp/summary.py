"""How models print: what they are and how large, never their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from svrl.mdp.model import Model, Sampler


def summary(model: Model | Sampler, name: str, *more: str) -> str:
    """As in GridMDP('mountain-car', 2,500 states, 1,000 actions, discount 0.95, table, on cpu)."""
    sizes = (f"{model.n_states:,} states", f"{model.n_actions:,} actions", f"discount {model.discount:g}")
    return f"{type(model).__name__}({', '.join((repr(name), *sizes, *more, f'on {model.device}'))})"
