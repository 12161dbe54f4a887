"""From a model to a certified policy: the inverted pendulum, planned exactly, by SVP, and by rows and columns."""

import torch

from svrl import (
    CrossValueIteration,
    GridMDP,
    ModifiedPolicyIteration,
    StructuredValueIteration,
    ValueIteration,
    certify_plan,
    evaluate_policy,
    make_task,
    plan,
    policy_loss,
    rollout,
    solve_exactly,
)

torch.set_num_threads(1)  # more of them gain nothing at this size
task = make_task("inverted-pendulum", states=(50, 50), actions=200)
model = GridMDP(task)
best, _ = solve_exactly(model, 1e-11)
print(f"{model.n_states} states x {model.n_actions} actions, V* from {best.min():.2f} to {best.max():.2f}")

for method in (
    ModifiedPolicyIteration(),
    StructuredValueIteration(p=0.2, tolerance=1e-4),
    CrossValueIteration(rank=12, tolerance=1e-4, final_sweep=True),
):
    found = plan(model, method, seed=0)
    values = evaluate_policy(model, found.policy, 1e-11)  # exact, by the chain of this one policy
    bound = certify_plan(model, found.v, found.policy).loss_bound
    worst = max(policy_loss(best, values).worst, 0)
    followed = rollout(task, found.greedy_policy(task, model), starts=200, generator=torch.Generator().manual_seed(0))
    print(
        f"\n{found.name}: {found.iterations} iterations, {found.sweep_equivalents:.1f} sweep-equivalents, "
        f"{'converged' if found.converged else found.outcome}\n"
        f"  certified loss at most {bound:.1e}, really {worst:.1e}\n"
        f"  200 steps with noise: return {followed.discounted_return:.3f}, angle {followed.metric['norm_rad']:.3f} rad"
    )

changed = GridMDP(make_task("inverted-pendulum", states=(50, 50), actions=200, time_step=0.31))
cold, warm = plan(changed, ValueIteration()), plan(changed, ValueIteration(), start=best)
print(
    f"\nanother time step, value iteration: {cold.iterations} sweeps from zero, {warm.iterations} from the old values"
)
