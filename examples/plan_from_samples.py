"""Plan from noisy backups: what is lost with and without structure, from equal numbers of samples."""

import svrl

model = svrl.GridMDP(svrl.make_task("three-motor-pendulum", states=(30, 30), levels=6))
best, _ = svrl.solve_exactly(model)

# Structure checks its choices with a few samples more, so it gets fewer iterations.
for method in (svrl.AveragedValueIteration(), svrl.AveragedStructuredIteration(max_iterations=84)):
    found = svrl.plan(svrl.NoisyBackups(model, sigma=0.3), method)
    loss = svrl.policy_loss(best, svrl.evaluate_policy(model, found.policy))
    print(f"{found.name}: {found.sweep_equivalents:.0f} samples a pair, {loss.relative:.1%} of the value range lost")
