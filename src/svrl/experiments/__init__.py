"""Studies that bring planning and deep reinforcement learning together."""
