"""Comparison: the description of one distance. Cells go in; distances come out, NaN where one is missing.

Budget of comparing. Some comparisons take time in the product of two lengths: three million pairs of cells of 20,000
characters would take more than a day. What is compared of a cell follows from the whole table, so it is the same for
every engine.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdp._typing import Integers
from scdp.compare.amounts import ORDERS, known_regions, learn_order
from scdp.compare.cells import LATIN, STANDARD, STEPS, TRANSFORMS, distinct_texts, require_people
from scdp.compare.kinds import BUILT_IN, Kind, known_kinds
from scdp.compare.languages import NameGroups, read_groups
from scdp.compare.prepared import KEPT, LONGEST_CELL, Frequencies, Prepared, encode_cells, prepare_all
from scdp.errors import InputError
from scdp.table import Column, Records

OPTIONS = ("scale", "separator", "threshold", "order", "region", "nicknames")
# Options that `fit` learns where they are not given.
LEARNED = ("scale", "order")

# The scale of numbers is this percentile of the absolute differences between training records.
SCALE_PERCENTILE = 95
SCALE_SAMPLE = 1000
MOST_STEPS = 20
# After so many years a difference counts half, unless the user says otherwise.
HALF_LIFE = 5.0
# Distances of equal values are off by less than this.
ROUNDING = 1e-6


class ComparisonError(InputError):
    """A comparison's description is wrong; `key` is the setting at fault, by which a file's line is found."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True)
class Comparison:
    """One distance (large = different) between records; make it with the functions of `scdp.compare`.

    Several columns are joined by a space. Cells that are one of `missing`, in capitals or not, have no value. `of`
    takes a part of the raw text, then come the `clean` steps. How rare a value is follows from `frequencies`, or from
    the records at hand. With `time`, a column of dates, what is more than half way from equal counts half as much for
    every `half_life` years that two records lie apart: an address of ten years ago says less.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    of: str | None = None
    clean: tuple[str, ...] = STANDARD
    scale: float | None = None
    separator: str | None = None
    threshold: float | None = None
    order: str | None = None
    missing: tuple[str, ...] = ()
    frequencies: Frequencies | None = None
    region: str | None = None
    nicknames: NameGroups | None = None
    time: str | None = None
    half_life: float | None = None

    def __post_init__(self) -> None:
        _check_columns(self.columns)
        _check_known(self.kind, known_kinds(), "comparison", "kind")
        if self.of is not None:
            _check_known(self.of, TRANSFORMS, "transform", "of")
        if len(self.clean) > MOST_STEPS:
            raise ComparisonError(f"clean has {len(self.clean):,} steps, more than {MOST_STEPS}", "clean")
        for step in self.clean:
            _check_known(step, STEPS, "cleaning step", "clean")
        self._check_options()
        self._check_time()
        self._check_libraries()

    def _check_options(self) -> None:
        for option in OPTIONS:
            if getattr(self, option) is not None and option not in self.allowed_options:
                allowed = ", ".join(self.allowed_options) or "none"
                raise ComparisonError(f"{self.kind} has no option {option!r} (its options: {allowed})", option)
        for option in ("scale", "threshold", "half_life"):
            value = getattr(self, option)
            if value is not None and not 0 < value < float("inf"):
                raise ComparisonError(f"{option} must be a positive number, not {value}", option)
        if self.separator == "":
            raise ComparisonError("separator must not be empty", "separator")
        if self.order is not None:
            _check_known(self.order, ORDERS, "order", "order")
        if not all(isinstance(text, str) and text.strip() for text in self.missing):
            raise ComparisonError(f"missing must be a list of texts, not {list(self.missing)!r}", "missing")
        if self.frequencies is not None and self.kind_details.value == "share":
            raise ComparisonError(f"{self.kind} has no use for frequencies; leave them out", "frequencies")

    def _check_time(self) -> None:
        if self.time is None and self.half_life is not None:
            raise ComparisonError("half_life is about time; name a column of dates by time", "half_life")
        if self.time is not None and (not isinstance(self.time, str) or not self.time or self.time in self.columns):
            raise ComparisonError(f"time must be the name of another column, not {self.time!r}", "time")

    def _check_libraries(self) -> None:
        """Refuse what needs a library that is missing, before any record is read."""
        if "latin" in self.clean:
            require_people("anyascii", LATIN)
        if self.region is not None:
            _check_known(self.region, known_regions(), "region", "region")

    @property
    def kind_details(self) -> Kind:
        return known_kinds()[self.kind]

    @property
    def allowed_options(self) -> tuple[str, ...]:
        """The options that this comparison may carry."""
        own = tuple(self.kind_details.options)
        return (*own, "separator") if self.of == "first_of_list" and "separator" not in own else own

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns that are compared, and that of times."""
        return self.columns if self.time is None else (*self.columns, self.time)

    @property
    def range(self) -> str:
        """The stated range of the distance."""
        return self.kind_details.range

    @property
    def needs_fit(self) -> bool:
        """Whether a scale, or the order of day and month, is still to be learned from training records."""
        options = self.kind_details.options
        return any(option in options and getattr(self, option) is None for option in LEARNED)

    def prepare(self, records: Records, frequencies: Frequencies | None = None) -> Prepared:
        """The distinct values and each record's place among them.

        Parameters
        ----------
        records
            What is to be compared.
        frequencies
            How many records have each value or token; without them, these records are counted.
        """
        (prepared,) = prepare_all([self], records)
        return replace(prepared, supplied=frequencies)

    def fit(self, records: Records) -> Comparison:
        """This comparison with its scale or order learned; refuses a field in which no record has a value."""
        prepared = self.prepare(records)
        if not prepared.vocabulary:
            wanted = {"number": "number", "names": "name"}.get(self.kind_details.value, "value")
            column = " + ".join(self.columns)
            raise InputError(
                f"{records.source}: column {column!r} has no {wanted} in any of {len(records)} records; "
                f"leave {self.name!r} out or choose another comparison"
            )
        if prepared.times is not None and not np.isfinite(prepared.times).any():
            raise InputError(
                f"{records.source}: column {self.time!r} has no date in any of {len(records)} records; "
                f"leave time out of {self.name!r} or name another column"
            )
        if not self.needs_fit:
            return self
        if "order" in self.kind_details.options:
            columns = [records.encoded(column) or records[column] for column in self.columns]
            found = distinct_texts(columns, self.missing)
            return replace(self, order=learn_order(found[1] if found else []))
        return replace(self, scale=learned_scale(prepared.numbers()))

    def block(
        self, values_a: Sequence[Any], values_b: Sequence[Any] | None = None, *, workers: int = -1
    ) -> NDArray[np.float32]:
        """Distances (n, m) between raw cells; without `values_b`, of `values_a` among themselves."""
        n = len(values_a)
        prepared = self._prepare_cells([*values_a, *([] if values_b is None else values_b)])
        rows = np.arange(n)
        return prepared.block(rows, None if values_b is None else np.arange(n, len(prepared)), workers)

    def pairs(
        self, values: Sequence[Any], left: ArrayLike, right: ArrayLike, *, workers: int = -1
    ) -> NDArray[np.float32]:
        """Distances (p,) between the raw cells values[left[p]] and values[right[p]]."""
        prepared = self._prepare_cells(values)
        return prepared.pairs(np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64), workers)

    def in_words(self, distance: float, n_with_it: int | None = None, years: float | None = None) -> str:
        """What a distance says of two cells, for people.

        Parameters
        ----------
        distance
            As this comparison gives it; NaN where a cell is missing.
        n_with_it
            How many records have the value that the two share, these two included.
        years
            How far apart in time the two records are, if that counts.

        Example
        -------
        >>> make_comparison("phone", "tel").in_words(0.0, 2)
        'the same phone, which no other record has'
        """
        if np.isnan(distance):
            return "missing"
        phrase = self.kind_details.in_words(distance if distance > ROUNDING else 0.0)
        if years is not None and distance > KEPT and years >= 1.0:
            return f"{phrase}, {years:.0f} years later" if years >= 1.5 else f"{phrase}, one year later"
        if n_with_it is None or distance > ROUNDING or self.kind_details.value == "share":
            return phrase
        # Some kinds call two values alike that are not equal, and have no words for equal ones.
        phrase = phrase if phrase.startswith("the same") else "the same value"
        n_others = max(n_with_it - 2, 0)
        others = {0: "no other record has", 1: "one other record has"}.get(n_others, f"{n_others:,} other records have")
        return f"{phrase}, which {others}"

    def _prepare_cells(self, cells: Sequence[Any]) -> Prepared:
        column: Column = np.empty(len(cells), dtype=object)
        column[:] = list(cells)
        return encode_cells(self, [column], lambda row: f"values, row {row + 1}")


def make_comparison(
    kind: str,
    columns: str | Iterable[str],
    of: str | None = None,
    clean: Iterable[str] | None = None,
    name: str | None = None,
    missing: Iterable[str] = (),
    frequencies: Mapping[str, int] | Frequencies | None = None,
    time: str | None = None,
    half_life: float | None = None,
    **options: Any,
) -> Comparison:
    """A comparison with its kind's defaults filled in.

    Parameters
    ----------
    kind : str
        A name of `known_kinds`, such as "edit".
    columns : str or sequence of str
        The column, or several that are read as one.
    of : str, optional
        The part of a cell that is compared, such as "head" or "year".
    clean : sequence of str, optional
        Cleaning steps, in order; those of the kind, unless given.
    name : str, optional
        "edit(title)" and so on, unless given.
    missing : sequence of str
        Texts that stand for a missing cell.
    frequencies : mapping of str to int, optional
        How many records have each value elsewhere, such as names in a country: rarity follows from these in place of
        the records at hand. A value that is not listed is as rare as the rarest that is.
    time : str, optional
        A column of dates: the farther apart two records are, the less does a difference count.
    half_life : float, optional
        After so many years it counts half; 5 unless given.
    **options
        Options of the kind, such as `scale`.

    Returns
    -------
    Comparison

    Example
    -------
    >>> make_comparison("edit", "title").name
    'edit(title)'
    """
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    _check_known(kind, known_kinds(), "comparison", "kind")
    details = known_kinds()[kind]
    standard = () if details.value in ("number", "parts") else STANDARD
    steps = tuple(clean) if clean is not None else standard
    joined = " + ".join(map(str, names))
    title = name or f"{kind}({joined})" if of is None or name else f"{kind}({of}({joined}))"
    if frequencies is not None and not isinstance(frequencies, Frequencies):
        try:
            frequencies = Frequencies.given(frequencies)
        except InputError as error:
            raise ComparisonError(str(error), "frequencies") from error
    if options.get("nicknames") is not None:
        try:
            options["nicknames"] = read_groups(options["nicknames"])
        except InputError as error:
            raise ComparisonError(str(error), "nicknames") from error
    if time is not None and half_life is None:
        half_life = HALF_LIFE
    settings: dict[str, Any] = {**details.options, **{k: v for k, v in options.items() if v is not None}}
    settings |= {"missing": tuple(missing), "frequencies": frequencies, "time": time, "half_life": half_life}
    return Comparison(title, kind, names, of, steps, **settings)


def learned_scale(numbers: NDArray[np.float64]) -> float:
    """The 95th percentile of the absolute differences; the largest if that is 0, and 1 if all are equal.

    Of more than 1000 numbers, 1000 evenly spaced order statistics stand in: no chance is involved.
    """
    ordered = np.sort(numbers)
    if len(ordered) > SCALE_SAMPLE:
        ordered = ordered[np.linspace(0, len(ordered) - 1, SCALE_SAMPLE).round().astype(int)]
    left, right = np.triu_indices(len(ordered), k=1)
    with np.errstate(over="ignore"):
        differences = np.minimum(ordered[right] - ordered[left], np.finfo(np.float64).max / 4)
    if not len(differences):
        return 1.0
    scale = float(np.percentile(differences, SCALE_PERCENTILE))
    return scale or float(differences.max()) or 1.0


def _check_columns(columns: tuple[str, ...]) -> None:
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise ComparisonError(f"column must be a name or a list of names, not {columns!r}", "column")
    if len(set(columns)) < len(columns):
        raise ComparisonError("column names a column twice", "column")


def _check_known(name: str, known: Iterable[str], what: str, key: str) -> None:
    names = list(known)
    if name in names:
        return
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "there are: " + ", ".join(names)
    raise ComparisonError(f"there is no {what} {name!r}; {hint}", key)


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
        return sum(rate * _products([lengths[name] for name in field.columns], most, n_pairs) for rate, field in rated)

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
