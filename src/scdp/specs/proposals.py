"""Proposed comparisons: columns of records go in, comparisons that suit what they hold come out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from scdp import compare
from scdp.compare import Comparison
from scdp.compare.prepared import cell_text
from scdp.compare.transforms import year
from scdp.records import Records

MOST = 0.9
LISTS = 0.3
FEW_RECORDS = 20
CATEGORIES = 5
LONG_TEXT = 30
LONG_DATE = 24

_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_DECIMAL = re.compile(r"[-+]?\d+\.\d+")
_WORD = re.compile(r"[^\W\d_]+")
_CODE = re.compile(r"0\d+|\d{5,}")


def proposed_comparisons(records: Records, columns: Iterable[str]) -> list[Comparison]:
    """Comparisons for the given columns; one that is empty, constant or an identifier gets none."""
    found: list[Comparison] = []
    for column in columns:
        texts = [text for cell in records[column] if (text := (cell_text(cell) or "").strip())]
        found += _for_column(column, texts)
    return found


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
        return [compare.edit(column), compare.token_set(column)]
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


def _is_number(text: str) -> bool:
    # Postcodes, telephone and account numbers are codes: the difference of two means nothing.
    return bool(_NUMBER.fullmatch(text)) and not _CODE.fullmatch(text)


def _is_date(text: str) -> bool:
    # At most one word beside the year, the month: "1234 Main Street" is no date.
    short = len(text) <= LONG_DATE and len(_WORD.findall(text)) <= 1
    return short and bool(year(text)) and not _DECIMAL.fullmatch(text)
