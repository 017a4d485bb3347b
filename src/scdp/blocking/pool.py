"""The pool: columns of records go in, rules that might suit what they hold come out, for learning to choose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from scdp.blocking.expressions import (
    Expression,
    digits,
    last_word,
    prefix,
    qgrams,
    soundex,
    text,
    tokens,
    year,
)
from scdp.blocking.rules import Overlap, Rule, equal, neighbourhood, overlap
from scdp.blocking.texts import TextColumns
from scdp.compare.transforms import year as year_of

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


def profile(columns: TextColumns, column: str) -> Profile | None:
    """The profile of a column, or None if it has fewer than two different texts."""
    _, texts = columns.encoded((column,))
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


def expressions_for(found: Profile) -> list[Expression]:
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


def proposed_rules(columns: TextColumns, names: Sequence[str]) -> list[Rule]:
    """Equality on one and on two expressions, sorted neighbourhoods and overlaps for the named columns."""
    profiles = [found for name in names if (found := profile(columns, name)) is not None]
    by_column = [expressions_for(found) for found in profiles]
    rules: list[Rule] = [equal(part) for parts in by_column for part in parts]
    rules += [equal(tokens(found.column)) for found in profiles if found.of_many_words > OFTEN]
    for first, second in combinations(by_column, 2):
        rules += [equal(a, b) for a in first for b in second]
    rules += _neighbourhoods(by_column)
    return rules + _overlaps(profiles)


def _neighbourhoods(by_column: Sequence[Sequence[Expression]]) -> list[Rule]:
    sortable = [part for parts in by_column for part in parts if part.part in ("text", "last_word", "digits")]
    return [neighbourhood(part, window=window) for part in sortable for window in WINDOWS]


def _overlaps(profiles: Sequence[Profile]) -> list[Overlap]:
    keys = [qgrams(found.column, 2 if found.is_number else 3) for found in profiles]
    keys += [tokens(found.column) for found in profiles if found.of_many_words > OFTEN]
    if len(profiles) > 1:
        names = tuple(found.column for found in profiles)
        keys += [tokens(*names), Expression("qgrams", names, 3)]
    return [overlap(key, rarity) for key in keys for rarity in RARITIES]
