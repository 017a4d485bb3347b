"""Comparisons of records: each function describes one distance (large = different) on one or several columns.

A missing or empty value gives NaN, never a large distance. Every function takes `of=` (a part of the cell:
"first_of_list", "head", "abbreviation", "digits", "year"), `clean=` (steps, in order) and `name=`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

from scdp.compare.cleaning import STANDARD
from scdp.compare.comparison import Comparison, ComparisonError, make_comparison
from scdp.compare.kinds import known_kinds, register_kind
from scdp.compare.prepared import LONGEST_CELL, Prepared

__all__ = [
    "Comparison",
    "ComparisonError",
    "LONGEST_CELL",
    "Prepared",
    "STANDARD",
    "absolute",
    "count_difference",
    "edit",
    "edit_abbreviation",
    "edit_head",
    "exact",
    "jaro_winkler",
    "known_kinds",
    "longest_common_subsequence",
    "longest_common_substring",
    "make_comparison",
    "rare_words",
    "register",
    "shared_coauthors",
    "token_set",
]

Columns = str | Sequence[str]


class Common(TypedDict, total=False):
    """What every comparison takes."""

    of: str | None
    clean: Sequence[str] | None
    name: str | None
    separator: str | None


def edit(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Levenshtein distance divided by the longer length: [0, 1]."""
    return make_comparison("edit", column, **common)


def edit_head(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Edit distance between the last words: [0, 1]."""
    return make_comparison("edit_head", column, **common)


def edit_abbreviation(column: Columns, **common: Unpack[Common]) -> Comparison:
    """Edit distance between the abbreviations ("George W. Bush" is GWB, "IBM" stays IBM): [0, 1]."""
    return make_comparison("edit_abbreviation", column, **common)


def longest_common_substring(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - length of the longest common run of characters / longer length: [0, 1]."""
    return make_comparison("longest_common_substring", column, **common)


def longest_common_subsequence(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - length of the longest common subsequence / longer length: [0, 1]."""
    return make_comparison("longest_common_subsequence", column, **common)


def jaro_winkler(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - Jaro-Winkler similarity (prefix weight 0.1, boost above 0.7): [0, 1]."""
    return make_comparison("jaro_winkler", column, **common)


def token_set(column: Columns, **common: Unpack[Common]) -> Comparison:
    """1 - words in both / words in either (Jaccard): [0, 1]."""
    return make_comparison("token_set", column, **common)


def rare_words(column: Columns, **common: Unpack[Common]) -> Comparison:
    """As `token_set`, but a word counts by log(1 + texts / texts that have it) among the records at hand: [0, 1]."""
    return make_comparison("rare_words", column, **common)


def exact(column: Columns, **common: Unpack[Common]) -> Comparison:
    """0 if the cleaned values are the same, else 1."""
    return make_comparison("exact", column, **common)


def absolute(column: Columns, scale: float | None = None, **common: Unpack[Common]) -> Comparison:
    """|difference| / scale of the first number in each cell: [0, inf), not capped.

    Without a scale, `Spec.fit` learns one (the 95th percentile over pairs of training records) and keeps it.
    """
    return make_comparison("absolute", column, scale=scale, **common)


def count_difference(column: Columns, **common: Unpack[Common]) -> Comparison:
    """|difference| of how common the two values are, as shares of the records given: [0, 1]."""
    return make_comparison("count_difference", column, **common)


def shared_coauthors(column: Columns, threshold: float = 0.1, **common: Unpack[Common]) -> Comparison:
    """1 / (1 + names shared), names being shared when their edit distance is below the threshold: (0, 1].

    `separator` splits the list; without one it is read as a bibliography writes authors.
    """
    return make_comparison("shared_coauthors", column, threshold=threshold, **common)


def register(name: str, function: Callable[[str, str], float]) -> Callable[..., Comparison]:
    """Make your own comparison of two cleaned texts, and get its constructor; spec files know it by `name`.

    The function must be symmetric. It is called from Python for the pairs of distinct values: the slow path.
    """
    register_kind(name, function)

    def constructor(column: Columns, **common: Unpack[Common]) -> Comparison:
        return make_comparison(name, column, **common)

    return constructor
