"""Sampling: scores of pairs enter, draws of partitions leave."""
