"""One training is one cell: an agent is trained, its Q is studied, and both become rows."""
