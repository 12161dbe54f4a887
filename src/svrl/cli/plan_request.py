"""What `svrl plan` was asked for: the options, checked, and the problem and the method they describe."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
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
NOISY_ITERATIONS = 90
MOST_THREADS = 1024
ESTIMATORS = ("soft-impute", "factor-als", "hard-impute", "usvt", "nuclear-norm", "row-mean")
VARIANTS = ("paper", "authors")
MOTORS = 3


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
            raise BadInputError(f"{self.method} plans from samples: give their --sample-noise, which may be 0.")
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
    from dataclasses import replace

    from svrl.mdp.catalogue import make_task

    switches: dict[str, Any] = {
        name: getattr(request, name)
        for name in ("variant", "reward_offset", "time_step")
        if getattr(request, name) is not None
    }
    if request.states is not None:
        switches["states"] = grid_shape(request.states, make_task(request.task).dimensions)
    if request.actions is not None:
        switches |= _actions(request.task, request.actions)
    task = make_task(request.task, **switches)
    if request.noise is None:
        return task
    # Noise goes where the task has it; a task without any gets it on every coordinate.
    nowhere = max(task.noise) == 0.0
    return replace(task, noise=tuple(request.noise if nowhere or level > 0.0 else 0.0 for level in task.noise))


def make_model(request: PlanRequest, device: torch.device, progress: Callable[[int, int], None]) -> Model:
    """The exact model of a request; `progress(done, of)` is told of tabulated pairs."""
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
    from svrl.planning.catalogue import make_method

    # Noise has no natural end: without a number value iteration would sample for hours.
    endless = request.method == "value-iteration" and request.sample_noise is not None and request.iterations is None
    return make_method(
        request.method,
        observe=request.observe,
        estimator=request.estimator,
        rank=request.rank,
        final_sweep=request.final_sweep,
        iterations=NOISY_ITERATIONS if endless else request.iterations,
    )


def grid_shape(text: str, dimensions: int) -> tuple[int, ...]:
    """Grid points of each axis from "50x40", or from one number, which is their product and a perfect power."""
    try:
        sizes = tuple(int(part) for part in text.lower().split("x"))
    except ValueError:
        raise BadInputError(f"--states must look like {_example(dimensions)} or be one number, got {text!r}.") from None
    least = 1 if dimensions == 1 else 2
    if len(sizes) == 1 and dimensions > 1 and sizes[0] >= least**dimensions:
        side = round(sizes[0] ** (1.0 / dimensions))
        if side**dimensions != sizes[0]:
            raise BadInputError(
                f"--states {text} is not the {_power(dimensions)} of a whole number. "
                f"Write the grid points of each axis, as in {_example(dimensions)}."
            )
        sizes = (side,) * dimensions
    if min(sizes) < least:
        raise BadInputError(f"--states needs at least {least} on every axis, got {text!r}.")
    if len(sizes) != dimensions:
        raise BadInputError(
            f"--states {text} has {len(sizes)} axes, and the task has {dimensions}, as in {_example(dimensions)}."
        )
    return sizes


def _actions(task: str, count: int) -> dict[str, int]:
    if task != "three-motor-pendulum":
        return {"actions": count}
    levels = round(count ** (1.0 / MOTORS))
    if levels**MOTORS != count:
        raise BadInputError(
            f"--actions of {task} is a cube, one factor for each motor; got {count}. "
            f"Near it are {levels**MOTORS} and {(levels + (1 if levels**MOTORS < count else -1)) ** MOTORS}."
        )
    return {"levels": levels}


def _example(dimensions: int) -> str:
    return "1000" if dimensions == 1 else "x".join(["10" if dimensions > 2 else "50"] * dimensions)


def _power(dimensions: int) -> str:
    return {2: "square", 3: "cube"}.get(dimensions, f"{dimensions}th power")


def _dashed(name: str) -> str:
    return name.replace("_", "-")
