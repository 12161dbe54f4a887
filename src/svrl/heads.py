"""Heads: the last layers of a Q network, from features (N, F) to the values of all actions (N, A).

| head                | Q(s, a) =                                                  | for                             |
|---------------------|------------------------------------------------------------|---------------------------------|
| `flat`              | w_a x(s)                                                   | few actions                     |
| `dueling`           | V(s) + centred A(s, a), a hidden layer for each            | few actions (Wang et al., 2016) |
| `low-rank`          | V(s) + centred e_a u(s)                                    | many actions without an order   |
| `additive`          | V(s) + sum over axes of centred A_d(s, a_d)                | motors, bins: actions with axes |
| `additive+low-rank` | V(s) + sum of centred A_d(s, a_d) + centred e_a u(s)       | axes that interact              |

Centred means less the mean over actions, so V(s) is the mean of the row. A network that sees one action's target learns
about the others as far as the head ties them together: a flat head does not, a low-rank head ties actions with similar
e_a, and an additive one ties all actions that share a part.

**Low rank.** u(s) = U x(s) + b has `rank` numbers, and the rows e_a of E (A, rank) are learnt, so the centred values of
any set of states have at most that rank. The effective rank is found by a ridge on both factors,

    loss + ridge * (|E|^2 + |U|^2),        min over E U = W of (|E|^2 + |U|^2) / 2  =  |W|_*   (Srebro et al., 2005)

which is the nuclear norm of the last layer's weights W: the regulariser of matrix estimation, inside the network. So a
`rank` above the number of actions makes sense, too. A forward pass costs N (F + A) rank products instead of N F A.

They are plain torch modules. In a training loop of your own:

    network = nn.Sequential(body, LowRankHead(512, actions, rank=128))
    loss = loss_of(network(states), ...) + ridge_of(network)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from numbers import Integral

import torch
from torch import Tensor, nn

from svrl.agents.config import CHOICES, HEAD_RANK, HEAD_RIDGE, Head


class DuelingHead(nn.Module):
    """V(s) + centred A(s, a), each with a hidden layer of its own.

    Args:
        features: F.
        actions: A.
        width: Units of each hidden layer.
        layer_norm: Layer normalisation before their activations.
        activation: Of the hidden layers.
    """

    def __init__(
        self,
        features: int,
        actions: int,
        *,
        width: int = 512,
        layer_norm: bool = False,
        activation: type[nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        _check(features=features, actions=actions, width=width)
        hidden = partial(_hidden, features, width, layer_norm, activation)
        self.advantage_hidden, self.advantage = hidden(), nn.Linear(width, actions)
        self.value_hidden, self.value = hidden(), nn.Linear(width, 1)

    def activations(self, x: Tensor) -> Tensor:
        """Both hidden layers after their activations, value first, (N, 2 width)."""
        return torch.cat([self.value_hidden(x), self.advantage_hidden(x)], -1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, F) -> (N, A)."""
        advantage: Tensor = self.advantage(self.advantage_hidden(x))
        value: Tensor = self.value(self.value_hidden(x))
        return value + advantage - advantage.mean(-1, keepdim=True)


class LowRankLinear(nn.Module):
    """A linear layer of low rank: E u(s), with u(s) = U x(s) + b of `rank` numbers.

    Attributes:
        ridge: Weight of |E|^2 + |U|^2 in the loss, see `ridge_of`.

    Args:
        features: F.
        outputs: A.
        rank: Columns of E; may be larger than A.
        ridge: At least 0.
    """

    def __init__(self, features: int, outputs: int, *, rank: int = HEAD_RANK, ridge: float = HEAD_RIDGE) -> None:
        super().__init__()
        _check(features=features, actions=outputs, rank=rank)
        if not 0.0 <= ridge < math.inf:
            raise ValueError(f"A head needs a finite ridge of at least 0, got {ridge!r}.")
        self.ridge = float(ridge)
        self.coordinates = nn.Linear(features, rank)
        self.factors = nn.Linear(rank, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(N, F) -> (N, A)."""
        return self.factors(self.coordinates(x))


class LowRankHead(nn.Module):
    """V(s) + centred E u(s).

    Args:
        features: F.
        actions: A.
        rank, ridge: As in `LowRankLinear`.
    """

    def __init__(self, features: int, actions: int, *, rank: int = HEAD_RANK, ridge: float = HEAD_RIDGE) -> None:
        super().__init__()
        self.advantage = LowRankLinear(features, actions, rank=rank, ridge=ridge)
        self.value = nn.Linear(features, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, F) -> (N, A)."""
        return self.value(x) + _centred(self.advantage(x))


class AdditiveHead(nn.Module):
    """V(s) + sum over axes d of centred A_d(s, a_d); actions are numbered row by row, the last axis fastest.

    Args:
        features: F.
        axes: Levels of each axis; A is their product.
        rank: Rank of an additional `LowRankLinear` for what is not additive; 0 for none.
        ridge: Of that part.
    """

    def __init__(self, features: int, axes: Sequence[int], *, rank: int = 0, ridge: float = HEAD_RIDGE) -> None:
        super().__init__()
        axes = tuple(axes)  # the nvec of a MultiDiscrete, too
        if not axes:
            raise ValueError("An additive head needs the levels of each axis of an action, such as (3, 3, 3); got ().")
        _check(features=features, **{f"axis {d}": levels for d, levels in enumerate(axes)})
        self.axes = axes
        self.effects = nn.Linear(features, sum(axes))
        self.rest = LowRankLinear(features, math.prod(axes), rank=rank, ridge=ridge) if rank else None
        self.value = nn.Linear(features, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(N, F) -> (N, A)."""
        total: Tensor = self.value(x)
        for effects in self.effects(x).split(self.axes, -1):
            total = (total.unsqueeze(-1) + _centred(effects).unsqueeze(-2)).flatten(-2)
        return total if self.rest is None else total + _centred(self.rest(x))


def make_head(
    kind: Head,
    features: int,
    actions: int,
    *,
    axes: Sequence[int] = (),
    width: int = 512,
    rank: int = HEAD_RANK,
    ridge: float = HEAD_RIDGE,
    layer_norm: bool = False,
    activation: type[nn.Module] = nn.ReLU,
) -> nn.Module:
    """Create a head by its name.

    Args:
        kind: A name from the table at the top of this file.
        features: F.
        actions: A.
        axes: Levels of each axis of an action, for the additive heads.
        width, layer_norm, activation: As in `DuelingHead`.
        rank, ridge: As in `LowRankHead`.

    Raises:
        ValueError: If there is no such head, or if `axes` do not fit the actions.
    """
    if kind == "flat":
        _check(features=features, actions=actions)
        return nn.Linear(features, actions)
    if kind == "dueling":
        return DuelingHead(features, actions, width=width, layer_norm=layer_norm, activation=activation)
    if kind == "low-rank":
        return LowRankHead(features, actions, rank=rank, ridge=ridge)
    if kind not in CHOICES["head"]:
        raise ValueError(f"There is no head {kind!r}. Choose one of {', '.join(CHOICES['head'])}.")
    axes = tuple(axes)
    if not axes:
        raise ValueError(
            f"Head {kind} needs actions of two or more numbers, as in MultiDiscrete, MultiBinary or a Box with bins. "
            f"The {actions:,} actions have one. Use head low-rank."
        )
    if math.prod(axes) != actions:
        raise ValueError(
            f"Head {kind} needs as many actions as its axes have together, {' x '.join(map(str, axes))} = "
            f"{math.prod(axes):,}; got {actions:,}."
        )
    if kind == "additive":
        return AdditiveHead(features, axes)
    _check(rank=rank)
    return AdditiveHead(features, axes, rank=rank, ridge=ridge)


def ridge_of(module: nn.Module) -> Tensor:
    """The sum of ridge * (|E|^2 + |U|^2) over all low-rank layers inside a module, (); 0 if it has none.

    Add it to the loss.
    """
    terms = [
        layer.ridge * (layer.factors.weight.square().sum() + layer.coordinates.weight.square().sum())
        for layer in ridged_layers(module)
    ]
    return torch.stack(terms).sum() if terms else torch.zeros(())


def ridged_layers(module: nn.Module) -> list[LowRankLinear]:
    """The low-rank layers inside a module whose ridge is above 0."""
    return [layer for layer in module.modules() if isinstance(layer, LowRankLinear) and layer.ridge > 0.0]


def ridge_in_backward(module: nn.Module) -> None:
    """Let every backward pass add the gradient of `ridge_of` to that of the loss.

    For libraries that compute the loss where you cannot change it. Call it once, on the network that the optimiser
    trains. Copies and pickles of the network do without; a `state_dict` that is loaded leaves it in place.
    """
    for layer in ridged_layers(module):
        for weight in (layer.factors.weight, layer.coordinates.weight):
            weight.register_hook(partial(_with_ridge, weight, layer.ridge))  # type: ignore[no-untyped-call]


def _with_ridge(weight: Tensor, ridge: float, gradient: Tensor) -> Tensor:
    return gradient + 2.0 * ridge * weight.detach()


def _centred(values: Tensor) -> Tensor:
    return values - values.mean(-1, keepdim=True)


def _hidden(features: int, width: int, layer_norm: bool, activation: type[nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Linear(features, width), *([nn.LayerNorm(width)] * layer_norm), activation())


def _check(**sizes: object) -> None:
    for name, size in sizes.items():
        if not isinstance(size, Integral) or size < 1:
            raise ValueError(f"A head needs a whole number of at least 1 for {name}, got {size!r}.")
