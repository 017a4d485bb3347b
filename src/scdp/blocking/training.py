"""What a blocking is learned from: rules that might suit the columns, and a sample of records with its true pairs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp.blocking.candidates import encode_known_clusters
from scdp.blocking.estimates import Sample
from scdp.blocking.expressions import Expression, digits, last_word, prefix, qgrams, soundex, text, tokens, year
from scdp.blocking.keys import KeyMaker, TextColumns
from scdp.blocking.rules import Overlap, Rule, equal, neighbourhood, overlap
from scdp.compare.cells import year as year_of
from scdp.errors import InputError
from scdp.table.records import Records

SAMPLE = 2000
MOST = 0.8
OFTEN = 0.3
RARITIES = (0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 2.0)
WINDOWS = (3, 10)

_LETTER = re.compile(r"[^\W\d_]")
_DIGIT = re.compile(r"[0-9]")


@dataclass(frozen=True)
class Profile:
    """What a column's texts look like, as shares of them."""

    column: str
    with_letters: float
    with_digits: float
    with_years: float
    of_many_words: float
    length: float

    @property
    def is_number(self) -> bool:
        return self.with_digits > MOST and self.with_letters < OFTEN


def profile_column(columns: TextColumns, column: str) -> Profile | None:
    """The profile of a column, or None if it has fewer than two different texts."""
    _, texts = columns.encode((column,))
    if len(texts) < 2:
        return None
    seen = [texts[place] for place in np.linspace(0, len(texts) - 1, min(SAMPLE, len(texts))).astype(int)]

    def share(hits: Iterable[object]) -> float:
        return sum(map(bool, hits)) / len(seen)

    return Profile(
        column,
        share(map(_LETTER.search, seen)),
        share(map(_DIGIT.search, seen)),
        share(map(year_of, seen)),
        share(" " in value for value in seen),
        sum(map(len, seen)) / len(seen),
    )


def suggest_expressions(found: Profile) -> list[Expression]:
    """Expressions of one key a record that suit a column, the whole text first."""
    column = found.column
    parts = [text(column)]
    if found.is_number:
        parts += [digits(column, last=4), prefix(column, 3)] if found.length > 4 else [prefix(column, 2)]
        parts += [digits(column, last=7)] if found.length > 8 else []
        return parts + ([year(column)] if found.with_years > MOST else [])
    parts += [prefix(column, 1), prefix(column, 4), soundex(column)]
    parts += [last_word(column)] if found.of_many_words > OFTEN else []
    return parts + ([digits(column)] if found.with_digits > OFTEN else [])


def propose_rules(columns: TextColumns, names: Sequence[str]) -> list[Rule]:
    """Equality on one and on two expressions, sorted neighbourhoods and overlaps for the named columns."""
    profiles = [found for name in names if (found := profile_column(columns, name)) is not None]
    by_column = [suggest_expressions(found) for found in profiles]
    rules: list[Rule] = [equal(part) for parts in by_column for part in parts]
    rules += [equal(tokens(found.column)) for found in profiles if found.of_many_words > OFTEN]
    for first, second in combinations(by_column, 2):
        rules += [equal(a, b) for a in first for b in second]
    rules += _propose_neighbourhoods(by_column)
    return rules + _propose_overlaps(profiles)


def _propose_neighbourhoods(by_column: Sequence[Sequence[Expression]]) -> list[Rule]:
    sortable = [part for parts in by_column for part in parts if part.part in ("text", "last_word", "digits")]
    return [neighbourhood(part, window=window) for part in sortable for window in WINDOWS]


def _propose_overlaps(profiles: Sequence[Profile]) -> list[Overlap]:
    keys = [qgrams(found.column, 2 if found.is_number else 3) for found in profiles]
    keys += [tokens(found.column) for found in profiles if found.of_many_words > OFTEN]
    if len(profiles) > 1:
        names = tuple(found.column for found in profiles)
        keys += [tokens(*names), Expression("qgrams", names, 3)]
    return [overlap(key, rarity) for key in keys for rarity in RARITIES]


# Learning looks at no more records and labelled pairs than this; the counts are scaled up.
MOST_RECORDS = 30_000
MOST_PAIRS = 40_000


def draw_training_sample(
    records: Records, clusters: ArrayLike, n_records: int | None, max_block: int, window: int, rng: np.random.Generator
) -> Sample:
    """At most MOST_RECORDS records, labelled ones first, and at most MOST_PAIRS of their pairs."""
    codes = encode_known_clusters(clusters, len(records))
    rows = _sample_rows(codes, rng)
    codes = codes[rows]
    groups = _clusters_of_pairs(codes, rng)
    if not groups:
        raise InputError(f"{records.source}: no two records have the same known cluster; label some duplicates")
    entities = np.unique(np.where(codes < 0, -1 - np.arange(len(codes)), codes), return_inverse=True)[1]
    sizes = np.bincount(codes[codes >= 0])
    stands_for = max(len(records) if n_records is None else n_records, len(rows))
    true_pairs = float((sizes * (sizes - 1) // 2).sum())
    return Sample(
        KeyMaker(TextColumns(records.take(rows))),
        entities,
        *_list_pairs_within(groups),
        np.array([len(group) for group in groups]),
        stands_for,
        true_pairs * stands_for / float((codes >= 0).sum()),
        max_block,
        window,
    )


def _sample_rows(codes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    if len(codes) <= MOST_RECORDS:
        return np.arange(len(codes))
    # Whole clusters, in a random order, up to half of the sample; then records without a label.
    labelled = np.flatnonzero(codes >= 0)
    order = rng.permutation(int(codes.max(initial=-1)) + 1)
    labelled = labelled[np.argsort(order[codes[labelled]], kind="stable")]
    ranks = order[codes[labelled]]
    taken = labelled
    if len(labelled) > MOST_RECORDS // 2:
        taken = labelled[ranks < ranks[MOST_RECORDS // 2]]
    rest = np.setdiff1d(np.arange(len(codes)), taken)
    others = rng.choice(rest, MOST_RECORDS - len(taken), replace=False)
    return np.sort(np.concatenate([taken, others]))


def _clusters_of_pairs(codes: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The records of each labelled cluster of two or more, in a random order while the pairs are few enough."""
    order = np.argsort(codes, kind="stable")
    order = order[codes[order] >= 0]
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    chosen: list[NDArray[np.int64]] = []
    total = 0
    for place in rng.permutation(len(groups)):
        size = len(groups[place])
        total += size * (size - 1) // 2
        if total > MOST_PAIRS and chosen:
            break
        if size > 1:
            chosen.append(groups[place])
    return chosen


def _list_pairs_within(groups: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places = [np.triu_indices(len(group), k=1) for group in groups]
    left = [group[first] for group, (first, _) in zip(groups, places, strict=True)]
    right = [group[second] for group, (_, second) in zip(groups, places, strict=True)]
    return np.concatenate(left), np.concatenate(right)
