"""Spark: the same pairs, components and clusters as on one machine, with the work spread over a cluster."""
