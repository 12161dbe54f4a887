"""One agent in training in a run directory: session, listeners, result, and its error against a planned Q*."""
