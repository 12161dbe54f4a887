"""What `svrl plan` was asked for: the options, checked, and the problem and the method they describe."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from svrl.cli.answers import BadInputError, nearest

if TYPE_CHECKING:
    import torch

    from svrl.mdp.control_task import ControlTask
    from svrl.mdp.model import Model
    from svrl.planning.method import Method

# Written out so that help and completion need not import the catalogues, and torch with them.
CONTROL_TASKS = ("inverted-pendulum", "mountain-car", "double-integrator", "cart-pole", "three-motor-pendulum")
TASKS = ("toy", *CONTROL_TASKS)
METHODS = (
    "svp",
    "paper-svp",
    "averaged-svp",
    "cross",
    "value-iteration",
    "policy-iteration",
    "modified-policy-iteration",
    "async",
    "averaged",
    "sampled-max",
    "row-mean-update",
    "incumbent",
    "coarse",
)
NOISY = ("averaged-svp", "averaged", "incumbent", "value-iteration")
"""Methods that plan from samples; the first two from nothing else."""
MOST_THREADS = 1024
ESTIMATORS = ("soft-impute", "factor-als", "hard-impute", "usvt", "nuclear-norm", "row-mean")
VARIANTS = ("paper", "authors")


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """The options of one plan, None where the task or the method decides; the config of its run directory."""

    task: str
    method: str = "svp"
    estimator: str | None = None
    observe: float | None = None
    rank: int | None = None
    states: str | None = None
    actions: int | None = None
    variant: str | None = None
    reward_offset: float | None = None
    time_step: float | None = None
    noise: float | None = None
    sample_noise: float | None = None
    iterations: int | None = None
    final_sweep: bool | None = None
    compare: bool = False
    backup_cost: float | None = None
    starts: int = 1000
    seed: int = 0
    device: str = "cpu"
    threads: int | None = None

    def __post_init__(self) -> None:
        names = (
            ("task", self.task, TASKS),
            ("method", self.method, METHODS),
            ("estimator", self.estimator, ESTIMATORS),
            ("variant", self.variant, VARIANTS),
        )
        for what, got, known in names:
            if got is not None and got not in known:
                raise nearest(what, got, known)
        if self.observe is not None and not 0.0 < self.observe <= 1.0:
            raise BadInputError(f"--observe is a share of the pairs in (0, 1], got {self.observe}.")
        wholes = ("rank", "actions", "iterations", "starts", "threads")
        for name, least in (*((name, 1) for name in wholes), ("noise", 0), ("sample_noise", 0), ("backup_cost", 0)):
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise BadInputError(f"--{_dashed(name)} must be at least {least} and finite, got {value}.")
        if self.threads is not None and self.threads > MOST_THREADS:
            raise BadInputError(f"--threads must be at most {MOST_THREADS}, got {self.threads}.")
        if self.sample_noise is not None and self.method not in NOISY:
            raise BadInputError(
                f"{self.method} needs exact backups, so it has no --sample-noise; that belongs to {', '.join(NOISY)}."
            )
        if self.sample_noise is None and self.method in NOISY[:2]:
            raise BadInputError(f"{self.method} plans from samples. Give their noise, as in --sample-noise 0.3.")
        if self.rank is not None and self.estimator not in (None, "factor-als", "hard-impute"):
            raise BadInputError(f"{self.estimator} has no --rank; it belongs to factor-als and hard-impute.")
        if self.task == "toy":
            for name in ("variant", "reward_offset", "time_step", "noise"):
                if getattr(self, name) is not None:
                    raise BadInputError(f"toy has no --{_dashed(name)}; it belongs to the control tasks.")

    def config(self) -> dict[str, Any]:
        """All options, for config.json; sums depend on the number of threads, so that is written out."""
        import torch

        return {**asdict(self), "threads": self.threads or torch.get_num_threads()}

    def command(self) -> str:
        """The command line that asks for this, without --out."""
        words = ["svrl", "plan", self.task]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value == field.default:
                continue
            flag = f"--{_dashed(field.name)}"
            words += [flag, str(value)] if not isinstance(value, bool) else [flag if value else f"--no-{flag[2:]}"]
        return shlex.join(words)


def check_device(name: str) -> torch.device:
    """The device, or a sentence that says why there is none."""
    import torch

    try:
        device = torch.device(name)
    except RuntimeError:
        raise BadInputError(f"There is no device {name!r}. Use cpu, cuda or cuda:N.") from None
    if device.type not in ("cpu", "cuda"):
        raise BadInputError(f"There is no device {name!r}. Use cpu, cuda or cuda:N.")
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= found:
            raise BadInputError(missing_card(name, found))
    return device


def missing_card(name: str, found: int) -> str:
    """What to say where a card such as cuda:1 is asked for, and so many are found."""
    if found == 0:
        return f"{name} is not available: torch finds no CUDA device here. Use --device cpu."
    if found == 1:
        return f"{name} is not available: torch finds one CUDA device here. Use --device cuda."
    return f"{name} is not available: torch finds {found} CUDA devices here. Use --device cuda:0 to cuda:{found - 1}."


def make_control_task(request: PlanRequest) -> ControlTask:
    """The task of a request other than toy, on its grid and with its noise."""
    from svrl.mdp.task_options import task_with

    names = ("states", "actions", "noise", "variant", "reward_offset", "time_step")
    with _flags():
        return task_with(request.task, **{name: getattr(request, name) for name in names})


def make_model(request: PlanRequest, device: torch.device, progress: Callable[[int, int], None]) -> Model:
    """The exact model of a request; `progress(done, of)` is called with tabulated pairs."""
    if request.task == "toy":
        from svrl.mdp.toy import toy_mdp

        sizes: dict[str, int] = {} if request.actions is None else {"n_actions": request.actions}
        if request.states is not None:
            (sizes["n_states"],) = grid_shape(request.states, 1)
        return toy_mdp(request.seed, **sizes, device=device)  # type: ignore[arg-type]
    from svrl.mdp.grid import GridMDP

    return GridMDP(make_control_task(request), device=device, threads=request.threads, progress=progress)


def make_requested_method(request: PlanRequest) -> Method:
    """The method of a request."""
    from svrl.planning.catalogue import make_method, most_iterations

    return make_method(
        request.method,
        observe=request.observe,
        estimator=request.estimator,
        rank=request.rank,
        final_sweep=request.final_sweep,
        iterations=most_iterations(request.method, request.iterations, noisy=request.sample_noise is not None),
    )


def grid_shape(text: str, dimensions: int) -> tuple[int, ...]:
    """Grid points of each axis from what --states says."""
    from svrl.mdp.task_options import grid_shape as shape_of

    with _flags():
        return shape_of(text, dimensions)


@contextmanager
def _flags() -> Iterator[None]:
    """A sentence that begins with the name of an option, with its flag in place of it."""
    try:
        yield
    except ValueError as error:
        said = str(error)
        raise BadInputError(f"--{said}" if said.startswith(("states ", "actions ")) else said) from error


def _dashed(name: str) -> str:
    return name.replace("_", "-")
