"""Plan from noisy backups: what is lost with and without structure, from equal numbers of samples."""

import svrl

model = svrl.GridMDP(svrl.make_task("three-motor-pendulum", states=(30, 30), levels=6))
best, _ = svrl.solve_exactly(model)

for method in (svrl.AveragedValueIteration(), svrl.AveragedStructuredIteration()):
    found = svrl.plan(svrl.NoisyBackups(model, sigma=0.3), method)
    loss = svrl.policy_loss(best, svrl.evaluate_policy(model, found.policy))
    print(f"{found.name}: {found.sweep_equivalents:.0f} samples a pair, {loss.relative:.1%} of the value range lost")
