"""Figures that people would put in a paper: each function takes arrays or rows and returns a matplotlib figure."""
