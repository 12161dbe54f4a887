"""Training in a run directory: one agent (session), several in one process (population), the error against Q*."""
