"""Small made-up rows for the digests. They are made here, so that no change of the package changes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

NAMES = ("anna smith", "bernd maier", "carla jones", "david brown", "elena rossi", "frank novak", "greta lind")
STREETS = ("main street", "oak avenue", "mill lane", "harbour road", "castle hill", "park row")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Rows:
    """Rows of one kind (vectors, distances or records), their true clusters, and what is known of them."""

    kind: str
    values: Any
    clusters: np.ndarray
    known: np.ndarray
    groups: np.ndarray | None = None

    def with_groups(self) -> Rows:
        """The same in two groups; no known cluster reaches across."""
        return replace(self, groups=self.clusters % 2)

    def with_known(self) -> Rows:
        """The same with every third cluster known."""
        return replace(self, known=np.where(self.clusters % 3 == 0, self.clusters, -1))

    def with_none_known(self) -> Rows:
        return replace(self, known=np.full(len(self.clusters), -1))

    def with_all_known(self) -> Rows:
        return replace(self, known=self.clusters)


def make_vectors(seed: int = 1, n_clusters: int = 6, size: int = 4, missing: float = 0.05) -> Rows:
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_clusters), size)
    values = 2.5 * rng.normal(size=(n_clusters, 3))[clusters] + rng.normal(size=(len(clusters), 3))
    values[rng.random(values.shape) < missing] = np.nan
    return Rows("vectors", values, clusters, half_known(clusters))


def make_distances(seed: int = 1, n_clusters: int = 6, size: int = 4) -> Rows:
    rows = make_vectors(seed, n_clusters, size, missing=0.0)
    square = np.abs(rows.values[:, None, :] - rows.values[None, :, :])
    return replace(rows, kind="distances", values=square)


def make_table(seed: int = 1, n_clusters: int = 8, size: int = 3) -> Rows:
    """A table of people, with typing errors in names and streets, and years that are now and then missing."""
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n_clusters), size)
    people = [
        (NAMES[rng.integers(len(NAMES))] + LETTERS[rng.integers(26)], STREETS[rng.integers(len(STREETS))],
         int(rng.integers(1950, 2000)))
        for _ in range(n_clusters)
    ]  # fmt: skip
    name = [with_error(rng, people[c][0]) for c in clusters]
    street = [with_error(rng, people[c][1]) for c in clusters]
    year = [None if rng.random() < 0.1 else str(people[c][2] + int(rng.integers(0, 2))) for c in clusters]
    return Rows("records", {"name": name, "street": street, "year": year}, clusters, half_known(clusters))


def half_known(clusters: np.ndarray) -> np.ndarray:
    """The first half of the clusters is known."""
    return np.where(clusters < (clusters.max() + 1) // 2, clusters, -1)


def with_error(rng: np.random.Generator, text: str) -> str:
    """One letter replaced, in half of the texts."""
    if rng.random() < 0.5:
        return text
    place = int(rng.integers(len(text)))
    return text[:place] + LETTERS[rng.integers(26)] + text[place + 1 :]


MAKE = {"vectors": make_vectors, "distances": make_distances, "records": make_table}
