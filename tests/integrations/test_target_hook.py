"""Hooks on a target network: what structure replaces, when it goes, what it refuses; ranks against known ones."""

from __future__ import annotations

import copy
import io
import re
import runpy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from svrl.agents.structured_targets import StructuredTargets
from svrl.integrations.pytorch import structured, structured_quantiles
from svrl.integrations.target_hook import RankMonitor, TargetHook, ranks_of, structure


def network(actions: int = 6, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, actions))


class Quantiles(nn.Module):
    """(B, N, A), of a network that gives them side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(15)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x).view(-1, 5, 3)


def states(count: int = 16, seed: int = 1) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


def hooks_of(module: nn.Module) -> list[TargetHook]:
    return [hook.__self__ for hook in module._forward_hooks.values()]


@pytest.mark.parametrize("quantiles", [False, True])
def test_what_the_network_says_is_completed_once_for_each_call(quantiles: bool) -> None:
    net, x = Quantiles() if quantiles else network(), states()
    raw = net(x).detach()
    hook = structure(net, 0.7, seed=3, quantiles=quantiles)
    for update in range(3):
        assert hook.updates == update
        found = net(x)
        whole = structured_quantiles if quantiles else structured
        assert torch.equal(found, whole(raw, 0.7, seed=3, updates=update))
        assert not found.requires_grad
    assert hook.ranks() == ranks_of(raw.mean(1) if quantiles else raw)


def test_removing_or_the_end_of_a_block_ends_it_and_another_can_come() -> None:
    net, x = network(), states()
    raw = net(x)
    with structure(net) as hook:
        assert (hook.updates, hook.ranks(), hook.rule) == (
            0,
            {},
            StructuredTargets(scale="row", next_value_from="completed"),
        )
        assert not torch.equal(net(x), raw)
    hook.remove()
    assert torch.equal(net(x), raw)
    with pytest.raises(KeyError), structure(net):
        raise KeyError("mine")
    assert hooks_of(net) == []
    structure(net, seed=5)
    assert torch.equal(net(x), structured(raw, seed=5, updates=0))


def test_a_context_that_never_saw_a_value_says_so() -> None:
    net = network()
    with pytest.raises(ValueError, match="never asked for a value, so nothing was structured"), structure(net):
        copy.deepcopy(net)(states())
    assert hooks_of(net) == []


def test_a_saved_run_draws_on_as_it_would_have() -> None:
    net, x = network(), states()
    raw = net(x).detach()
    first = structure(net, seed=7)
    for _ in range(3):
        net(x)
    file = io.BytesIO()
    torch.save({"network": net.state_dict(), "structure": first.state_dict()}, file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    again = network(seed=9)
    second = structure(again)
    again.load_state_dict(state["network"])
    second.load_state_dict(state["structure"])
    assert torch.equal(again(x), structured(raw, seed=7, updates=3))
    assert second.state_dict() == {"seed": 7, "updates": 4}


def test_a_copy_has_a_hook_of_its_own() -> None:
    net, x = network(), states()
    raw = net(x).detach()
    first = structure(net, StructuredTargets(p=0.6, next_value_from="completed"))
    net(x)
    other = copy.deepcopy(net)
    (second,) = hooks_of(other)
    assert second is not first
    assert torch.equal(other(x), structured(raw, 0.6, updates=1))
    assert (first.updates, second.updates) == (1, 2)
    second.remove()
    assert torch.equal(other(x), raw)
    assert torch.equal(net(x), structured(raw, 0.6, updates=1))


def test_a_compiled_network_is_structured_and_counted() -> None:
    net, x = network(), states()
    raw = net(x).detach()
    hook = structure(net)
    torch._dynamo.reset()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    for update in range(4):
        assert torch.allclose(compiled(x), structured(raw, updates=update), atol=1e-6)
    assert hook.updates == 4


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


def not_a_number() -> nn.Module:
    net = network()
    nn.init.constant_(net[2].bias, float("nan"))
    return net


@pytest.mark.parametrize(
    ("make", "quantiles", "x", "sentence"),
    [
        (network, False, states()[0], r"values \(B, A\), and this one gave \(6,\)"),
        (Quantiles, False, states(), r"values \(B, A\), and this one gave \(16, 5, 3\)"),
        (not_a_number, False, states(), "not finite"),
        (network, True, states(), r"quantiles \(B, N, A\), and this one gave \(16, 6\)"),
        (Pair, False, states(), "and this one gave tuple"),
    ],
)
def test_what_is_no_matrix_of_values_is_refused(make, quantiles: bool, x: Tensor, sentence: str) -> None:
    net = make()
    hook = structure(net, quantiles=quantiles)
    with pytest.raises(ValueError, match=sentence):
        net(x)
    assert hook.updates == 0


@pytest.mark.slow
def test_the_script_with_the_line_learns_cartpole(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "integrations" / "cleanrl_style.py"))
    scores = [float(score) for score in re.findall(r"last 20:\s+(\S+)", capsys.readouterr().out)]
    assert scores[0] < 80
    assert max(scores) > 150


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda net: structure(lambda x: x), r"takes the target network, a torch.nn.Module, got function"),
        (lambda net: structure(net, StructuredTargets()), r"value='completed', or use structured_values\(\)"),
        (lambda net: structure(net, "half"), "probability"),
        (lambda net: (structure(net), structure(net)), "structured already"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call(network())


def test_ranks_are_means_over_batches_and_none_where_values_are_not_finite() -> None:
    q = torch.stack([torch.diag(torch.tensor([1.0, 1.0, 0.02])), torch.diag(torch.tensor([1.0, 0.0, 0.0]))])
    assert ranks_of(q) == {"rank_99": 1.5, "rank_9999": 2.0, "row_centred_rank_99": 1.5}
    q[0, 1, 2] = torch.nan
    assert ranks_of(q) == {}


def test_it_watches_and_changes_nothing() -> None:
    net, x = network(), states()
    raw = net(x)
    with RankMonitor(net) as monitor:
        assert monitor.ranks() == {}
        assert torch.equal(net(x), raw)
        assert net(x).requires_grad
        assert monitor.updates == 2
        assert monitor.ranks() == ranks_of(raw)
    net(x)
    assert monitor.updates == 2
    assert len(net._forward_hooks) == 0
