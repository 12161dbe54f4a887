"""QuantEcon's DiscreteDP as a model, a model as a DiscreteDP, and a plan as its result.

A DiscreteDP holds rewards R, transitions Q and a discount beta in one of two forms:

    product      R (S, A) and Q (S, A, S), where R = -inf marks an action that a state does not have
    pairs        R (L,) and Q (L, S), dense or sparse, of the L pairs (s_indices, a_indices)

Both are read. Actions that a state does not have are filled in so that no optimal policy takes them; what ends an
episode becomes a state of its own (`svrl.integrations.model_table`). Where neither occurs, a round trip is exact.
"""

from __future__ import annotations

import numpy as np
import torch

from svrl.integrations.model_table import closed, mdp_from_pairs
from svrl.integrations.versions import require
from svrl.mdp.model import Model
from svrl.mdp.tabular import TabularMDP
from svrl.planning.certificate import certify_plan
from svrl.planning.plan import Plan

require("quantecon")
_threads = torch.get_num_threads()
from quantecon.markov.ddp import DiscreteDP, DPSolveResult  # noqa: E402

torch.set_num_threads(_threads)  # importing QuantEcon raises it, and small tensors are slower then


def mdp_from_ddp(ddp: DiscreteDP) -> TabularMDP:
    """The model of a DiscreteDP, of either form.

    Args:
        ddp: S states, A actions, and a discount beta in (0, 1).

    Returns:
        S states and A actions. Optimal values are those of the DiscreteDP. `describe()` says under
        "infeasible_pairs" how many pairs were filled in.

    Raises:
        ValueError: If beta is 0 or 1, or a row is wrong.
    """
    if not isinstance(ddp, DiscreteDP):
        raise ValueError(f"mdp_from_ddp needs a quantecon.markov.DiscreteDP, got {type(ddp).__name__}.")
    states, actions, rewards, transitions = ddp.s_indices, ddp.a_indices, ddp.R, ddp.Q
    if states is None:
        n_states, n_actions = rewards.shape
        states, actions = _all_pairs(n_states, n_actions)
        rewards, transitions = rewards.reshape(-1), transitions.reshape(-1, n_states)
    return mdp_from_pairs(
        states=states,
        actions=actions,
        transitions=transitions,
        rewards=rewards,
        gamma=float(ddp.beta),
        name="quantecon",
    )


def ddp_from_mdp(model: Model) -> DiscreteDP:
    """A model as a DiscreteDP of pairs: R (S * A,) and Q (S * A, S), sparse, row s * A + a.

    Args:
        model: S states and A actions; a `GridMDP` is written out as a table.

    Returns:
        With beta the model's discount. Where transitions end an episode it has S + 1 states, the last of them the
        end; the values of the others are the model's. Its `to_product_form()` gives R (S, A) and Q (S, A, S).
    """
    table = closed(model)
    rows = table.transitions
    return DiscreteDP(table.rewards.reshape(-1), rows, table.gamma, *_all_pairs(*table.rewards.shape))


def result_from_plan(found: Plan, problem: DiscreteDP | Model) -> DPSolveResult:
    """A plan as what DiscreteDP.solve returns.

    Args:
        found: A plan of S states and A actions.
        problem: What was planned on, as a DiscreteDP or as a model.

    Returns:
        v (S,), sigma (S,), num_iter, method and mc, the chain of the policy, as QuantEcon has them; epsilon, such
        that the policy is certainly epsilon-optimal, from one sweep over the DiscreteDP; q (S, A), or None if the
        plan kept values only; and outcome, the empty sentence if the plan converged. There is no max_iter. All have
        S + 1 states where the DiscreteDP has the end of an episode as one more state.

    Raises:
        ValueError: If the plan is of another size, or its policy takes an action that a state does not have.
    """
    ddp = problem if isinstance(problem, DiscreteDP) else ddp_from_mdp(problem)
    v, sigma, q = found.v.double().cpu().numpy(), found.policy.cpu().numpy(), _q(found)
    model = mdp_from_ddp(ddp)
    more = ddp.num_states - len(v)
    if more not in (0, 1) or (more == 1 and not _is_end(model, len(v))):
        raise ValueError(
            f"The plan has {len(v)} states and the DiscreteDP {ddp.num_states}. Give the one that was planned on."
        )
    v, sigma = np.pad(v, (0, more)), np.pad(sigma, (0, more))
    _check_feasible(ddp, sigma)
    bounds = certify_plan(model, torch.from_numpy(v), torch.from_numpy(sigma))
    return DPSolveResult(
        v=v,
        sigma=sigma,
        num_iter=found.iterations,
        mc=ddp.controlled_mc(sigma),
        method=found.name,
        epsilon=bounds.loss_bound,
        q=None if q is None else np.pad(q, ((0, more), (0, 0))),
        outcome=found.outcome,
    )


def _q(found: Plan) -> np.ndarray | None:
    q = found.factors[0] @ found.factors[1].mT if found.q is None and found.factors is not None else found.q
    return None if q is None else q.cpu().numpy()


def _all_pairs(n_states: int, n_actions: int) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(n_states), n_actions), np.tile(np.arange(n_actions), n_states)


def _is_end(model: TabularMDP, state: int) -> bool:
    """Whether a state is never left and pays nothing."""
    alone = torch.zeros(model.n_states, dtype=torch.float64)
    alone[state] = 1.0
    backups = model.backup_rows(alone, torch.tensor([state]))
    return bool((backups == model.gamma).all())


def _check_feasible(ddp: DiscreteDP, sigma: np.ndarray) -> None:
    every = np.arange(ddp.num_states)
    if ddp.s_indices is None:
        there = ~np.isneginf(ddp.R[every, sigma])
    else:
        width = int(max(sigma.max(), ddp.a_indices.max())) + 1
        listed = (ddp.s_indices * width + ddp.a_indices)[~np.isneginf(ddp.R)]
        there = np.isin(every * width + sigma, listed)
    if not there.all():
        state = int(np.argmin(there))
        raise ValueError(
            f"The plan takes action {sigma[state]} in state {state}, which does not have it. Plan to a smaller "
            "tolerance, or by policy iteration."
        )
