"""A simulator of one's own: a shop that learns how much to order, from samples alone, with and without structure."""

import torch

from svrl import AveragedStructuredIteration, AveragedValueIteration, Axis, Simulator, plan

PRICE, COST, KEEPING, SHELF = 4.0, 2.0, 0.05, 100


def week(stock, order, generator):
    """One week: order in the morning, sell what is asked for, keep the rest. Shapes (N, 1) and (N, 1)."""
    on_shelf = (stock[:, 0] + order[:, 0]).clamp(max=SHELF)
    demand = torch.poisson(torch.full_like(on_shelf, 20.0), generator=generator)
    sold = torch.minimum(on_shelf, demand)
    return (on_shelf - sold)[:, None], PRICE * sold - COST * order[:, 0] - KEEPING * on_shelf


shop = Simulator(
    week,
    axes=(Axis(name="stock", low=0.0, high=float(SHELF), points=SHELF + 1),),
    actions=torch.arange(61.0),
    gamma=0.95,
    reward_range=(-COST * 60 - KEEPING * SHELF, PRICE * SHELF),
    name="shop",
)


def profit(policy, shops=10_000, weeks=200):
    """Mean discounted profit of a policy over many simulated shops that begin with empty shelves."""
    generator = torch.Generator().manual_seed(1)
    stock, total = torch.zeros(shops, 1, dtype=torch.float64), 0.0
    for t in range(weeks):
        order = policy[stock[:, 0].long()].double()[:, None]
        stock, earned = week(stock, order, generator)
        total += 0.95**t * float(earned.mean())
    return total


print(f"{shop.n_states} states x {shop.n_actions} actions")
# The second also samples the actions that it chooses, so it gets fewer iterations for as many samples.
for method in (AveragedValueIteration(), AveragedStructuredIteration(max_iterations=80)):
    plans = [plan(shop, method, seed=seed) for seed in range(3)]
    profits = ", ".join(f"{profit(found.policy):.1f}" for found in plans)
    promised = ", ".join(f"{found.v[0]:.0f}" for found in plans)
    print(f"{method.name}, {plans[0].sweep_equivalents:.0f} samples a pair: profit {profits}; promised {promised}")
up_to = torch.tensor([max(0, 27 - stock) for stock in range(SHELF + 1)])
print(f"always fill up to 27, which is optimal here: profit {profit(up_to):.1f}")
