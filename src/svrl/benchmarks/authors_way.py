"""DQN and SV-DQN trained the way the authors' program trains them: the baseline of our own training, for speed.

One environment, one action at a time, eager PyTorch, a replay memory in host RAM. Every fourth agent step:

    1. draw 32 transitions and copy them to the device;
    2. q' = target network at the next states, (32, A);
    3. SV-DQN: q' to the host, scaled to [-1, 1] by its smallest and largest entry, each entry observed with
       probability p = 0.9, the others filled in by Soft-Impute in NumPy, clipped, scaled back, and to the device again;
    4. y = sign(r) + discount * continues * max over actions of q';
    5. Huber loss, gradients clamped element by element in a loop over the parameters, Adam.

Network and environment are ours, so that neither decides the comparison. Where the rule leaves a choice the quick way
is taken: frames are stored once and drawn by one `take`, a batch crosses to the device as one uint8 array, the loss is
never read, and the largest singular value comes from LAPACK instead of a randomised decomposition.
"""

from __future__ import annotations

import copy
import time
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from svrl.agents.config import AgentConfig
from svrl.agents.exploration import epsilon_at
from svrl.agents.networks import QNetwork, build_network
from svrl.agents.replay import Batch, next_observations, observations
from svrl.agents.seeds import derived_seed, generator_for
from svrl.envs.catalogue import make_env
from svrl.envs.vector import EnvSpec, Step, VectorEnv, step

MAX_STEPS = 100
"""Most iterations of Soft-Impute."""
WARM_UP = 40
"""Agent steps with learning before the clock starts; libraries load and choose their kernels meanwhile."""
FIXED = ("agent", "optimiser", "learning_rate_left", "loss", "estimator", "observe_rise", "scale", "output", "value")
"""Settings that are as in the preset `authors`, whatever else is changed."""


class HostBatch(NamedTuple):
    """Transitions in host memory: the arrays of `Batch`, in its order.

    Attributes:
        windows: (B, stack + 1, *frame_shape), the frames of the state and the one after.
        actions: (B,), int64.
        rewards: (B,), float32, as the environment gave them.
        terminal: (B,), bool.
        life_lost: (B,), bool.
    """

    windows: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminal: np.ndarray
    life_lost: np.ndarray


def soft_impute(
    values: np.ndarray, missing: np.ndarray, *, ratio: float = 1 / 50, tolerance: float = 1e-3
) -> np.ndarray:
    """Fill the missing entries of values (m, n): one full SVD an iteration, as fancyimpute does it.

    Starts from zeros, shrinks by `ratio` of the largest singular value, and stops once the missing entries move by
    less than `tolerance` of their norm, or after 100 iterations. Observed entries are kept.
    """
    filled = np.where(missing, values.dtype.type(0), values)
    shrinkage = ratio * np.linalg.norm(filled, 2)
    for _ in range(MAX_STEPS):
        u, s, vt = np.linalg.svd(filled, full_matrices=False)
        rank = int((s > shrinkage).sum())
        shrunk = (u[:, :rank] * (s[:rank] - shrinkage)) @ vt[:rank]
        old, new = filled[missing], shrunk[missing]
        filled[missing] = new
        if np.linalg.norm(new - old) <= tolerance * np.linalg.norm(old):
            break
    return filled


def completed(q: np.ndarray, observed: np.ndarray, *, ratio: float = 1 / 50, tolerance: float = 1e-3) -> np.ndarray:
    """The target matrix (B, A) with everything outside the mask `observed` (B, A) estimated, in q's units."""
    low, high = q.min(), q.max()
    if low == high:
        return q  # scaling would divide by zero
    span = high - low
    filled = soft_impute(2 * (q - low) / span - 1, ~observed, ratio=ratio, tolerance=tolerance)
    return (np.clip(filled, -1, 1) + 1) / 2 * span + low


class AuthorsUpdate:
    """One update from one batch in host memory; also of use alone, to time updates on prepared batches.

    Attributes:
        network, target: The two networks, on the device.
        config: All settings.
        updates: Updates so far.
    """

    def __init__(
        self,
        network: QNetwork,
        target: QNetwork,
        config: AgentConfig,
        *,
        device: str | torch.device,
        seed: int,
    ) -> None:
        """Move the networks to the device and make the target equal to the network; `seed` is that of the masks."""
        _check(config)
        self.config, self.device, self.updates = config, torch.device(device), 0
        self.network = network.to(self.device)
        self.target = target.to(self.device).requires_grad_(False)
        self.target.load_state_dict(self.network.state_dict())
        self._optimiser = torch.optim.Adam(
            self.network.parameters(), lr=config.learning_rate, eps=config.optimiser_epsilon
        )
        self._rng = np.random.default_rng(seed)

    def __call__(self, batch: HostBatch) -> Tensor:
        """Learn from a batch; its loss, a tensor on the device that nobody has waited for."""
        config = self.config
        moved = Batch(*(torch.from_numpy(part).to(self.device) for part in batch))
        rewards = moved.rewards.sign() if config.clip_rewards else moved.rewards
        stops = moved.terminal | moved.life_lost if config.life_loss_ends else moved.terminal
        with torch.no_grad():
            q = self.target(next_observations(moved))
            if config.structured:
                q = torch.from_numpy(self._structured(q.cpu().numpy())).to(self.device)
            targets = rewards + config.discount * (~stops).float() * q.max(1).values
        predicted = self.network(observations(moved)).gather(1, moved.actions[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(predicted, targets)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        if config.gradient_clamp > 0:
            for parameter in self.network.parameters():
                if parameter.grad is not None:
                    parameter.grad.clamp_(-config.gradient_clamp, config.gradient_clamp)
        self._optimiser.step()
        self.updates += 1
        if self.updates % config.target_every == 0:
            self.target.load_state_dict(self.network.state_dict())
        return loss.detach()

    def _structured(self, q: np.ndarray) -> np.ndarray:
        observed = self._rng.random(q.shape) < self.config.observe
        return completed(q, observed, ratio=self.config.ratio, tolerance=self.config.tolerance)


class FrameRing:
    """A replay memory in host RAM: a ring of slots, every frame stored once.

    The slot of a state holds its newest frame, and once the environment has answered, action, reward and flags. The
    last frame of an episode has a slot that is never drawn. A slot is drawn by trying until one can be.
    """

    def __init__(self, spec: EnvSpec, capacity: int, *, seed: int) -> None:
        """Room for `capacity` frames."""
        if capacity < spec.stack + 2:
            raise ValueError(f"A ring of stacks of {spec.stack} needs {spec.stack + 2} slots or more, got {capacity}.")
        self._stack, self._size = spec.stack, capacity
        self._frames = np.zeros((capacity, *spec.frame_shape), dtype=spec.dtype)
        self._age = np.zeros(capacity, dtype=np.int64)
        self._actions = np.zeros(capacity, dtype=np.int64)
        self._rewards = np.zeros(capacity, dtype=np.float32)
        self._terminal = np.zeros(capacity, dtype=bool)
        self._life_lost = np.zeros(capacity, dtype=bool)
        self._drawable = np.zeros(capacity, dtype=bool)
        self._written = 0
        self._rng = np.random.default_rng(seed)

    def begin(self, observation: np.ndarray) -> None:
        """Write the first state of an episode, (*observation_shape)."""
        self._write(observation, 1)

    def append(self, action: int, done: Step) -> None:
        """Write what the one environment answered to an action."""
        here = (self._written - 1) % self._size
        self._actions[here], self._rewards[here] = action, done.rewards[0]
        self._terminal[here], self._life_lost[here] = done.terminal[0], done.life_lost[0]
        self._drawable[here] = True
        self._write(done.final_observations[0], min(int(self._age[here]) + 1, self._stack))
        if done.ended[0]:
            self._write(done.observations[0], 1)

    def _write(self, observation: np.ndarray, age: int) -> None:
        slot = self._written % self._size
        self._frames[slot] = observation if self._stack == 1 else observation[-1]
        self._age[slot] = age
        # Older states whose stack reaches back to this slot are lost with it.
        self._drawable[(slot + np.arange(self._stack)) % self._size] = False
        self._written += 1

    def sample(self, count: int) -> HostBatch:
        """Transitions, each equally likely at each draw."""
        filled = min(self._written, self._size)
        slots = self._rng.integers(filled, size=count)
        while not (good := self._drawable[slots]).all():
            slots[~good] = self._rng.integers(filled, size=int((~good).sum()))
        back = np.arange(1 - self._stack, 2)
        windows = self._frames.take(slots[:, None] + back, axis=0, mode="wrap")
        before = -back >= self._age[slots, None]
        if before.any():
            windows[before] = 0
        return HostBatch(
            windows, self._actions[slots], self._rewards[slots], self._terminal[slots], self._life_lost[slots]
        )


def authors_config(*, structured: bool, learn_from: int) -> AgentConfig:
    """The preset `authors` with a short beginning: epsilon is at its final value once learning begins.

    There it stays for all but the first 30,000 of 15 million agent steps, so nearly every step asks the network.
    """
    return AgentConfig.of("authors", structured=structured, learn_from=learn_from, epsilon_steps=learn_from)


def authors_steps_per_second(
    env_name: str, *, structured: bool, device: str, steps: int, learn_from: int, seed: int
) -> float:
    """Agent steps a second of the whole loop, acting, remembering and learning included.

    Args:
        env_name: An environment of pictures, as "atari/frostbite".
        structured: SV-DQN instead of DQN.
        device: Of the networks.
        steps: Agent steps to time, after learning began.
        learn_from: Agent steps before the first update.
        seed: Of environment, network, exploration, memory and masks.
    """
    config = authors_config(structured=structured, learn_from=learn_from)
    env = make_env(env_name, 1, seed=derived_seed(seed, "environments"))
    try:
        network = build_network(env.spec, config, generator_for(seed, "network"))
        update = AuthorsUpdate(network, copy.deepcopy(network), config, device=device, seed=derived_seed(seed, "masks"))
        ring = FrameRing(env.spec, config.replay, seed=derived_seed(seed, "replay"))
        loop = AuthorsLoop(env, update, ring, np.random.default_rng(derived_seed(seed, "exploration")))
        loop.advance(learn_from + WARM_UP)
        _wait(update.device)
        began = time.perf_counter()
        loop.advance(steps)
        _wait(update.device)
        return steps / (time.perf_counter() - began)
    finally:
        env.close()


class AuthorsLoop:
    """The training loop of one environment."""

    def __init__(self, env: VectorEnv, update: AuthorsUpdate, ring: FrameRing, rng: np.random.Generator) -> None:
        self._env, self._update, self._ring, self._rng = env, update, ring, rng
        self._every = round(1 / update.config.updates_per_step)
        self._observation = env.reset()
        self._steps = 0
        ring.begin(self._observation[0])

    def advance(self, steps: int) -> None:
        """Play, remember, and learn every so many steps."""
        config = self._update.config
        for _ in range(steps):
            action = self._choose(epsilon_at(config, self._steps))
            done = step(self._env, np.array([action]))
            self._ring.append(action, done)
            self._observation = done.observations
            self._steps += 1
            if self._steps > config.learn_from and self._steps % self._every == 0:
                self._update(self._ring.sample(config.batch_size))

    @torch.no_grad()
    def _choose(self, epsilon: float) -> int:
        if self._rng.random() < epsilon:
            return int(self._rng.integers(self._env.spec.n_actions))
        state = torch.from_numpy(self._observation).to(self._update.device)
        return int(self._update.network(state).argmax(1).item())


def _check(config: AgentConfig) -> None:
    authors = AgentConfig.of("authors")
    for name in FIXED:
        got, want = getattr(config, name), getattr(authors, name)
        if got != want:
            raise ValueError(f"The authors' way has {name} {want}, got {got}. Leave it as in the preset authors.")


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
