"""From a model, or a simulator, to a policy with an error bar."""
