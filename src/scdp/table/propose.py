"""Proposed comparisons: columns of records go in, comparisons that suit what they hold come out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import combinations

from scdp import compare
from scdp.compare import Comparison
from scdp.compare.prepared import cell_text
from scdp.compare.transforms import year
from scdp.table.records import Records

MOST = 0.9
LISTS = 0.3
MIXED_UP = 0.01
FEW_RECORDS = 20
CATEGORIES = 5
LONG_TEXT = 30
LONG_DATE = 24

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_DECIMAL = re.compile(r"[-+]?\d+\.\d+")
_WORD = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"[^\W\d_]+(?:[ '.-]+[^\W\d_]*){0,3}")
_CODE = re.compile(r"0\d+|\d{5,}")


def proposed_comparisons(records: Records, columns: Iterable[str]) -> list[Comparison]:
    """Comparisons for the given columns; one that is empty, constant or an identifier gets none."""
    found: list[Comparison] = []
    names: dict[str, list[str]] = {}
    for column in columns:
        texts = [text for cell in records[column] if (text := (cell_text(cell) or "").strip())]
        proposed = _for_column(column, texts)
        found += proposed
        if proposed and _share(texts, _is_name) > MOST:
            names[column] = texts
    return found + [compare.edit(pair, clean=(*compare.STANDARD, "sorted")) for pair in _mixed_up(names)]


def _mixed_up(names: dict[str, list[str]]) -> list[tuple[str, str]]:
    """Pairs of columns of names, such as first and last names, that some records have the wrong way round."""
    found: list[tuple[float, str, str]] = []
    for one, other in combinations(names, 2):
        first, second = (set(map(str.lower, names[column])) for column in (one, other))
        shared = sum(
            text.lower() in elsewhere
            for column, elsewhere in ((one, second), (other, first))
            for text in names[column]
        )
        found.append((shared / (len(names[one]) + len(names[other])), one, other))
    taken: set[str] = set()
    pairs: list[tuple[str, str]] = []
    for share, one, other in sorted(found, reverse=True):
        if share > MIXED_UP and not taken & {one, other}:
            taken |= {one, other}
            pairs.append((one, other))
    return pairs


def _for_column(column: str, texts: list[str]) -> list[Comparison]:
    distinct = set(texts)
    if len(distinct) < 2 or _is_identifier(texts, distinct):
        return []
    if _share(texts, _is_number) > MOST:
        return [compare.absolute(column)]
    if _share(texts, _is_date) > MOST:
        return [compare.absolute(column, of="year"), compare.edit(column)]
    if _share(texts, lambda text: ";" in text) > LISTS:
        return [compare.shared_coauthors(column, separator=";"), compare.token_set(column)]
    if len(distinct) <= CATEGORIES and len(texts) >= FEW_RECORDS:
        return [compare.exact(column)]
    if sum(map(len, texts)) / len(texts) > LONG_TEXT:
        return [compare.edit(column), compare.token_set(column), compare.rare_words(column)]
    return [compare.edit(column), compare.jaro_winkler(column)]


def _share(texts: list[str], holds: Callable[[str], bool]) -> float:
    return sum(map(holds, texts)) / len(texts)


def _is_identifier(texts: list[str], distinct: set[str]) -> bool:
    # All different, one word, with a digit: a key. Names and titles are all different too, but are many words
    # or have no digits; a measurement has a decimal point.
    all_different = len(distinct) == len(texts) >= FEW_RECORDS
    return all_different and _share(texts, _is_key) > MOST


def _is_key(text: str) -> bool:
    one_word = not any(map(str.isspace, text)) and any(map(str.isdigit, text))
    return one_word and not _DECIMAL.fullmatch(text) and not _is_date(text)


def _is_name(text: str) -> bool:
    return bool(_NAME.fullmatch(text))


def _is_number(text: str) -> bool:
    # Postcodes, telephone and account numbers are codes: the difference of two means nothing.
    return bool(_NUMBER.fullmatch(text)) and not _CODE.fullmatch(text)


def _is_date(text: str) -> bool:
    # At most one word beside the year, the month: "1234 Main Street" is no date.
    short = len(text) <= LONG_DATE and len(_WORD.findall(text)) <= 1
    return short and bool(year(text)) and not _DECIMAL.fullmatch(text)
