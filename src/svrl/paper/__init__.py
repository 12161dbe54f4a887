"""The paper as experiments, a folder each: settings (data), run, figure, claims.

`paper` is what they share.
"""
