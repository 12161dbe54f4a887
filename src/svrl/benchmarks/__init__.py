"""Us and the peers, measured in the same run. Absolute times mean little; ratios are printed."""
