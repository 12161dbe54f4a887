"""What people read: tables in a terminal, scalars for TensorBoard and W&B, the page on the paper."""
