"""One problem from QuantEcon, solved, given back as its result and as arrays, and kept in files."""

import numpy as np
from quantecon.markov import DiscreteDP

from svrl import PolicyIteration, TabularMDP, ValueIteration, plan
from svrl.integrations.model_table import closed, load_mdp, save_mdp
from svrl.integrations.plan_files import save_q
from svrl.integrations.quantecon import mdp_from_ddp, result_from_plan

# A store of up to 40 units: order a, sell what is asked for, pay for what lies there. Orders must fit in.
most, price, cost, storage = 40, 5.0, 2.0, 0.1
demand = np.append(0.08 * 0.92 ** np.arange(most), 0.92**most)
R = np.full((most + 1, most + 1), -np.inf)  # QuantEcon's mark of an action that a state does not have
Q = np.zeros((most + 1, most + 1, most + 1))
for stock in range(most + 1):
    for order in range(most + 1 - stock):
        sold = np.minimum(stock + order, np.arange(most + 1))
        R[stock, order] = price * (sold @ demand) - cost * order - storage * stock
        np.add.at(Q[stock, order], stock + order - sold, demand)
ddp = DiscreteDP(R, Q, 0.95)

# In: the pairs that do not exist are filled in such that no optimal policy takes them.
model = mdp_from_ddp(ddp)
found = plan(model, PolicyIteration())
print(f"{model.n_states} states, {model.n_actions} actions, {model.describe()['infeasible_pairs']} pairs filled in")

# Out: the plan as a result of QuantEcon, with an epsilon that is certain.
result = result_from_plan(found, ddp)
theirs = ddp.policy_iteration()
print(f"QuantEcon     largest difference of values {np.abs(result.v - theirs.v).max():.0e}, orders {result.sigma[:6]}")
print(f"              the policy is certainly {result.epsilon:.0e}-optimal")

# As arrays of SciPy and NumPy, and from them.
table = closed(model)
again = plan(TabularMDP(transitions=table.transitions, rewards=table.rewards, gamma=0.95), PolicyIteration())
print(f"SciPy         {table.transitions.shape} transitions: difference {float((again.v - found.v).abs().max()):.0e}")

# Files: the model bit for bit, and the Q of a rough plan with the error that is certain.
save_mdp(model, "store.npz")
same = bool((load_mdp("store.npz").backup(found.v) == model.backup(found.v)).all())
rough = plan(model, ValueIteration(tolerance=0.1))
save_q(rough, "store-q.npz", model=model)
read = np.load("store-q.npz")
print(f"files         the model answers as before: {same}")
print(f"              after {rough.iterations} sweeps no entry of Q {read['q'].shape} is further than ", end="")
print(f"{read['certified_error']:.2f} from Q*, and the policy loses at most {read['loss_bound']:.2f}")
