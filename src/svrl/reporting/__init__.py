"""What people read: tables in a terminal, and scalars for TensorBoard and W&B."""
