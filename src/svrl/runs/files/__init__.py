"""The paper's grids as sweep files."""
