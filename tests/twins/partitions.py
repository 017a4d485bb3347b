"""All partitions of a few items, random draws of them, and expected losses from their definitions."""

from __future__ import annotations

import numpy as np

from scdp.posterior import canonical_labels


def all_partitions(n):
    rows = [[0]]
    for _ in range(n - 1):
        rows = [[*row, label] for row in rows for label in range(max(row) + 2)]
    return np.array(rows, np.int32)


PARTITIONS = {n: all_partitions(n) for n in range(1, 10)}


def plain_losses(candidates, draws, loss):
    """The expected loss of every candidate, from n x n indicators of being together."""
    together = candidates[:, :, None] == candidates[:, None, :]
    in_draws = draws[:, :, None] == draws[:, None, :]
    n = draws.shape[1]
    if loss == "binder":
        probability = in_draws.mean(axis=0)
        wrong = np.where(together, 1 - probability, probability)
        return wrong.sum(axis=(1, 2)) / max(1, n * (n - 1))
    # The sum of n_k log n_k over clusters is the sum over items of the log of their cluster's size.
    own, other = np.log(together.sum(axis=2)).mean(axis=1), np.log(in_draws.sum(axis=2)).mean()
    shared = np.mean([np.log((together & draw).sum(axis=2)).mean(axis=1) for draw in in_draws], axis=0)
    return own + other - 2 * shared


def random_posterior(rng, n):
    """Draws (draw, item) of three kinds: noise, a noisy truth, and uniform partitions."""
    n_draws = int(rng.choice([1, 2, 3, 5, 8, 20, 50]))
    kind = rng.integers(3)
    if kind == 0:
        raw = rng.integers(0, rng.integers(1, n + 1), (n_draws, n))
    elif kind == 1:
        noise = rng.random((n_draws, n)) < 0.3
        raw = np.where(noise, rng.integers(0, 5, (n_draws, n)), rng.integers(0, 3, n))
    else:
        raw = PARTITIONS[n][rng.integers(0, len(PARTITIONS[n]), n_draws)]
    return np.array([canonical_labels(row) for row in raw])


def priced_loss(labels, draws, loss, price):
    """The expected loss where a cluster costs its price in place of 1, less what is the same for all partitions."""
    n = len(labels)

    def add(sizes):
        return np.sum(sizes * np.log(sizes)) / n if loss == "vi" else np.sum(sizes * (sizes - 1.0)) / (n * (n - 1))

    shared = [add(np.unique(labels * n + draw, return_counts=True)[1]) for draw in draws]
    return price * add(np.unique(labels, return_counts=True)[1]) - 2.0 * np.mean(shared)
