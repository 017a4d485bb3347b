"""How much work comparing is, foreseen from the lengths of cells; where it is too much, only the start of cells counts.

Some comparisons take time in the product of two lengths: three million pairs of cells of 20,000 characters would take
more than a day. What is compared of a cell follows from the whole table, so it is the same for every engine.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scdp._typing import Integers
from scdp.compare.kinds import BUILT_IN
from scdp.compare.prepared import LONGEST_CELL
from scdp.table.records import Column, Records

if TYPE_CHECKING:
    from scdp.compare.comparison import Comparison

# Seconds of one core for a pair, by the product of the two lengths; other kinds take time in the sum at most.
# Printed by `python -m benchmarks.comparisons_cost`.
RATES = {
    "edit": 5e-11,
    "edit_abbreviation": 2e-12,
    "code": 3e-11,
    "longest_common_subsequence": 4e-11,
    "longest_common_substring": 13e-11,
    "jaro_winkler": 1e-11,
    "soft_tokens": 10e-11,
    "contained_tokens": 13e-11,
    "shared_coauthors": 13e-11,
}
# Of a kind that the user has registered nothing is known.
OTHER_RATE = 13e-11
# Comparing may take so long on one core; below the shortest of these lengths nothing is left out.
MOST_SECONDS = 600.0
LENGTHS = (16_000, 8000, 4000, 2000, 1000, 500, 250)


class WorkWarning(UserWarning):
    """Comparing whole cells would take too long; only their start is compared."""


def bound_cells(records: Records, comparisons: Sequence[Comparison], n_pairs: int) -> Records:
    """Records whose cells are short enough for so many pairs to be compared in minutes; says so where it cuts.

    Parameters
    ----------
    records : Records
        All records that will be compared.
    comparisons : sequence of Comparison
        How they will be.
    n_pairs : int
        About how many pairs of them will be.

    Returns
    -------
    Records
        The same object where nothing is cut, as with all ordinary tables.
    """
    rated = [(rate, field) for field in comparisons if (rate := rate_of(field)) > 0.0]
    columns = dict.fromkeys(name for _, field in rated for name in field.columns)
    longest = max((_longest(records, name) for name in columns), default=0)
    # What is longer than can be compared is refused later, with its row.
    if not LENGTHS[-1] < longest <= LONGEST_CELL:
        return records
    lengths = {name: _distinct_lengths(records[name]) for name in columns}

    def seconds(most: int) -> float:
        return sum(
            rate * _products([lengths[name] for name in field.columns], most, n_pairs)
            for rate, field in rated
        )

    whole = seconds(LONGEST_CELL)
    if whole <= MOST_SECONDS:
        return records
    most = next((length for length in LENGTHS if seconds(length) <= MOST_SECONDS), LENGTHS[-1])
    warnings.warn(
        f"{records.source}: comparing cells of up to {longest:,} characters would take about {_duration(whole)}; "
        f"only the first {most:,} characters of each are compared",
        WorkWarning,
        stacklevel=2,
    )
    return _shorten(records, columns, most)


def rate_of(comparison: Comparison) -> float:
    """Seconds of a pair by the product of its lengths; 0 for kinds that are quick whatever the length."""
    return RATES.get(comparison.kind, 0.0 if comparison.kind in BUILT_IN else OTHER_RATE)


def _longest(records: Records, name: str) -> int:
    column = records.encoded(name)
    texts = records[name] if column is None else column.texts
    return max((len(text) for text in texts if type(text) is str), default=0)


def _distinct_lengths(column: Column) -> Integers:
    return np.array([len(cell) for cell in {cell for cell in column if type(cell) is str}], dtype=np.int64)


def _products(lengths: Sequence[Integers], most: int, n_pairs: int) -> float:
    """The products of the lengths of all pairs together: each pair of distinct values is compared once."""
    n_values = max(map(len, lengths))
    total = sum(float(np.minimum(each, most).sum()) for each in lengths)
    return min(n_pairs, n_values * (n_values - 1) // 2) * (total / max(n_values, 1)) ** 2


def _shorten(records: Records, names: Iterable[str], most: int) -> Records:
    columns = {name: records[name] for name in records.names}
    for name in names:
        cells = [cell[:most] if type(cell) is str else cell for cell in columns[name]]
        columns[name] = np.array([*cells, None], dtype=object)[:-1]
    return Records(columns, records.source, records.row_numbers)


def _duration(seconds: float) -> str:
    for length, name in ((86_400, "days"), (3600, "hours")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {name}"
    return f"{seconds / 60:.0f} minutes"
