"""Your own network: pass a function that creates it, or the function's name, such as "my_module:make".

The function takes the `EnvSpec` of the environment and returns an `nn.Module`, a new one at each call. The module maps
observations (N, *spec.observation_shape), float32, scaled so that `spec.high` is 1, to values (N, spec.n_actions),
float32. The function may draw weights with torch's global generator, which svrl seeds before and restores afterwards.

Training keeps a target network, redraws batches and resumes from checkpoints, so the values of an observation must
depend only on the observation and the weights: dropout, batch normalisation and noise raise an error.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from svrl.agents.config import AgentConfig
from svrl.envs.vector import EnvSpec

NetworkFactory = Callable[[EnvSpec], nn.Module]
NetworkSource = str | NetworkFactory
"""A function that creates a network, or its name, "module:function"."""

_TRIED = 3
"""Number of observations to test a new network on."""


def with_network(config: AgentConfig, network: NetworkSource | None) -> AgentConfig:
    """Return the configuration with the name of your own network, which has its own layers; unchanged if it is None.

    Raises:
        ValueError: If it is neither a function nor a name.
    """
    if network is None:
        return config
    if isinstance(network, str):
        return config.replace(network=network, layer_norm=False)
    if not callable(network) or isinstance(network, nn.Module):
        raise ValueError(
            "network is a function from EnvSpec to a new nn.Module, or its name, such as 'my_module:make'; "
            f"got {type(network).__name__}. Write lambda spec: ..."
        )
    named = network if hasattr(network, "__qualname__") else type(network)
    return config.replace(network=f"{named.__module__}:{named.__qualname__}", layer_norm=False)


def make_module(
    name: str, network: NetworkSource | None, spec: EnvSpec, generator: torch.Generator | None
) -> nn.Module:
    """Create a new network and test it on observations.

    Args:
        name: As in `AgentConfig.network`; its module is imported unless `network` is a function.
        network: The function.
        spec: The environment.
        generator: Seeds the weights; a CPU generator, which does not change.

    Raises:
        ValueError: If there is no such function, if it fails, or if its network breaks the rules of this module.
    """
    make = network if callable(network) else _imported(name)
    with _global_generator_like(generator):
        try:
            module = make(spec)
        except Exception as error:  # it is not our code
            raise ValueError(f"Network {name} could not be created: {error!r}") from error
        if not isinstance(module, nn.Module):
            raise ValueError(f"Network {name} must be a function that returns an nn.Module, got {module!r}.")
        module.train()
        _try(name, module, spec)
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ValueError(f"Network {name} has no weights to train. Give it parameters that require a gradient.")
    return module


def _imported(name: str) -> NetworkFactory:
    module, _, path = name.partition(":")
    try:
        found: object = importlib.import_module(module)
    except Exception as error:  # a module may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            raise ValueError(
                f"Network {name}: there is no module {module}. Install it, or add its folder to PYTHONPATH."
            ) from error
        raise ValueError(f"Network {name}: {module} could not be imported: {error!r}") from error
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ValueError(f"Network {name}: {module} has no function {path}.")
    return found


@contextmanager
def _global_generator_like(generator: torch.Generator | None) -> Iterator[None]:
    """Inside, torch's global generator draws the same as this one; afterwards its own state is back."""
    with torch.random.fork_rng(devices=[]):
        if generator is not None:
            torch.default_generator.set_state(generator.get_state())
        yield


@torch.no_grad()
def _try(name: str, module: nn.Module, spec: EnvSpec) -> None:
    """Raise ValueError unless the network returns values, and those of an observation do not depend on its batch."""
    seen = torch.rand(_TRIED, *spec.observation_shape, generator=torch.Generator().manual_seed(0))
    try:
        values = module(seen)
        before = copy.deepcopy(module.state_dict())
        alone = module(seen[:1])
    except Exception as error:  # it is not our code
        raise ValueError(f"Network {name} failed on observations {_text_of(seen)}: {error!r}") from error
    wanted = (_TRIED, spec.n_actions)
    if not isinstance(values, Tensor) or values.shape != wanted or values.dtype != torch.float32:
        got = _text_of(values) if isinstance(values, Tensor) else type(values).__name__
        raise ValueError(f"Network {name} must return values {wanted}, float32, for {_text_of(seen)}; got {got}.")
    if not torch.allclose(alone, values[:1], rtol=1e-3, atol=1e-4, equal_nan=True):
        raise ValueError(
            f"Network {name} returns different values for the same observation in another batch. "
            "Leave out dropout, batch normalisation and noise; nn.LayerNorm is fine."
        )
    if any(not torch.equal(value, before[key]) for key, value in module.state_dict().items()):
        raise ValueError(
            f"Network {name} changes its buffers when it is called, and the target network does not take them over. "
            "Leave out running averages and counters."
        )


def _text_of(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)}, {str(tensor.dtype).removeprefix('torch.')}"
