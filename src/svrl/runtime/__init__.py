"""What is written to disk, and how."""
