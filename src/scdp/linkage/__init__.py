"""The resolver's model: evidence of pairs, the law of a partition, learning it, and drawing from it.

Read `law.py` first (how a partition is drawn), then `evidence.py` (what a pair tells), `fit.py` (how both are learned
from labelled clusters) and `ensemble.py` (how what was learned is set to a table and drawn from).
"""
